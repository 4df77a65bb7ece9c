"""A sweep whose jobs run in processes of their own, beside each other over one store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import sweeps, toy


@pytest.fixture(autouse=True)
def _weights(models: Path) -> None:
    if not (models / "ge2e" / "pretrained.pt").is_file():
        pytest.skip("the offline weights are not here: make install")


@pytest.mark.slow
def test_jobs_beside_each_other_share_a_store(tmp_path: Path) -> None:
    sweeps.check(sweeps.sweep("submitit_local", toy.corpus(tmp_path / "toy"), tmp_path))


@pytest.mark.slow
def test_the_status_of_a_sweep_is_the_highest_of_its_jobs(tmp_path: Path) -> None:
    sweeps.check_failures("submitit_local", toy.corpus(tmp_path / "toy"), tmp_path)
