"""The Slurm of these tests: the one that answers, else one of our own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.cluster import slurm


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Slurm that takes jobs; tests are skipped, with the reason, where there is none and none can be started."""
    lacking = slurm.missing()
    if lacking:
        pytest.skip(f"no Slurm here: {', '.join(lacking)} not installed (Debian: apt-get install slurm-wlm munge)")
    if slurm.answers():
        yield
        return
    folder = tmp_path_factory.mktemp("slurm")
    try:
        conf = slurm.start(folder)
    except RuntimeError as error:
        pytest.skip(f"Slurm is installed and does not start: {error}")
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(conf)
    try:
        yield
    finally:
        slurm.stop(folder)
        del os.environ["SLURM_CONF"]
        if before is not None:
            os.environ["SLURM_CONF"] = before
