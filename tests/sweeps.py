"""What a sweep over another launcher must do, whether the jobs run in processes beside this one or on a cluster."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pipeline.tables import results
from tests import toy

QUICK = ("recipe=kaldi", "extractor=[ge2e]", "attacker=[ignorant]", "metric=[asv]", "diagnostics=false")


def start(launcher: str, home: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """A sweep with this launcher; the overrides say over what."""
    return toy.run("-m", f"hydra/launcher={launcher}", *more, cwd=home)


def sweep(launcher: str, root: Path, home: Path, *more: str) -> list[Path]:
    """A sweep over two systems; its run folders."""
    done = toy.run(
        "-m", f"hydra/launcher={launcher}", *more, f"dataset.root={root}", "extractor=[ge2e]", "metric=[asv]",
        "system=b2,b2r", cwd=home, check=True,
    )  # fmt: skip
    assert "run folders are in paths.root/runs" in done.stderr
    assert "job 0 (system=b2): done" in done.stderr and "job 1 (system=b2r): done" in done.stderr
    return sorted((home / "exp" / "runs").iterdir())


def check(runs: list[Path]) -> None:
    """Each job evaluated its own system, over one store."""
    assert len(runs) == 2
    systems = [set(results.read(run)["system"]) for run in runs]
    assert sorted(map(sorted, systems)) == [["b2", "original"], ["b2r", "original"]]
    rows = [results.read(run) for run in runs]
    original = [table[(table["system"] == "original") & table["value"].notna()]["value"].tolist() for table in rows]
    assert original[0] == original[1] != []


def check_failures(launcher: str, root: Path, home: Path, *more: str) -> None:
    """One job finds no data, another no model, a third leaves an utterance out: the status is the highest, and all are told."""
    broken = root.with_name("broken")
    toy.corpus(broken)
    (broken / "wav" / f"{next(iter(wavs(broken)))}.wav").unlink()
    done = start(
        launcher, home, *more, *QUICK, "system=original", f"dataset.root={root.with_name('gone')},{broken}",
        "allow_partial=true",
    )  # fmt: skip
    assert done.returncode == 6, done.stderr
    first, second = (
        f"job {number} (dataset.root={place})" for number, place in ((0, root.with_name("gone")), (1, broken))
    )
    assert f"{first}: error: " in done.stderr and f"{second}: error: " in done.stderr
    assert f"{first}: exit 3, " in done.stderr and f"{second}: exit 6, " in done.stderr
    assert "bug" not in done.stderr and "Traceback" not in done.stderr


def wavs(root: Path) -> list[str]:
    """Utterances that are tried."""
    return [line.split()[0] for line in (root / "toy_trials_f" / "wav.scp").read_text().splitlines()]
