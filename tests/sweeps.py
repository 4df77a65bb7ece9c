"""What a sweep over another launcher must do, whether the jobs run in processes beside this one or on a cluster."""

from __future__ import annotations

from pathlib import Path

from pipeline.tables import results
from tests import toy


def sweep(launcher: str, root: Path, home: Path, *more: str) -> list[Path]:
    """A sweep over two systems; its run folders."""
    done = toy.run(
        "-m", f"hydra/launcher={launcher}", *more, f"dataset.root={root}", "extractor=[ge2e]", "metric=[asv]",
        "system=b2,b2r", cwd=home, check=True,
    )  # fmt: skip
    assert "run folders are in paths.root/runs" in done.stderr
    return sorted((home / "exp" / "runs").iterdir())


def check(runs: list[Path]) -> None:
    """Each job evaluated its own system, over one store."""
    assert len(runs) == 2
    systems = [set(results.read(run)["system"]) for run in runs]
    assert sorted(map(sorted, systems)) == [["b2", "original"], ["b2r", "original"]]
    rows = [results.read(run) for run in runs]
    original = [table[(table["system"] == "original") & table["value"].notna()]["value"].tolist() for table in rows]
    assert original[0] == original[1] != []


def check_failure(launcher: str, root: Path, home: Path, *more: str) -> None:
    """The status of a failed job is that of the sweep."""
    done = toy.run(
        "-m", f"hydra/launcher={launcher}", *more, f"dataset.root={root}", "extractor=[ge2e]", "system=b2",
        f"paths.models={home / 'none'}", cwd=home,
    )  # fmt: skip
    assert done.returncode == 4
    assert "fetch-models" in done.stderr
