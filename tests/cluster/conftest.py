"""The Slurm of these tests: the one that answers, else one of our own."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import slurm


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    """A Slurm that takes jobs; tests are skipped, with the reason, where there is none and none can be started."""
    lacking = slurm.missing()
    if lacking:
        pytest.skip(f"no Slurm here: {', '.join(lacking)} not installed (Debian: apt-get install slurm-wlm munge)")
    if slurm.answers():
        yield
        return
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # not pytest's, which nobody else may enter
    try:
        conf = slurm.start(folder)
    except RuntimeError as error:
        slurm.stop(folder)
        pytest.skip(f"Slurm is installed and does not start: {error}")
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(conf)
    try:
        yield
    finally:
        slurm.stop(folder)
        shutil.rmtree(folder, ignore_errors=True)
        del os.environ["SLURM_CONF"]
        if before is not None:
            os.environ["SLURM_CONF"] = before
