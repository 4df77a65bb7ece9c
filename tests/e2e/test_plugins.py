"""A distribution that brings one component of each kind, installed from its wheel beside ours: each is a file or folder and an
option file, and nothing of the project knows of it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from tests import toy

PLUGIN = Path(__file__).resolve().parents[1] / "plugin"
TOYS = {
    "extractors": "band_energies",
    "anonymisers": "mirror",
    "backends": "nearness",
    "families": "gap",
    "executors": "counting",
}
CHOSEN = [
    "system=[original,mirror]",
    "extractor=[band_energies]",
    "backend=[nearness]",
    "metric=[asv,gap,vsm]",
    "executor=counting",
]


@pytest.fixture(scope="module")
def python(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of the environment with our wheel, with that of the toys beside it."""
    out = tmp_path_factory.mktemp("toys")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, PLUGIN],
        check=True,
        capture_output=True,
        text=True,
    )
    (made,) = out.glob("*.whl")
    (site,) = installed.parent.parent.glob("lib/python*/site-packages")
    with zipfile.ZipFile(made) as archive:
        archive.extractall(site)
    return installed


def run(python: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VOICE_PRIVACY_MODELS")
    }
    return subprocess.run(
        [python, "-m", "pipeline", *arguments], cwd=home, env=environment, capture_output=True, text=True, timeout=1800
    )


@pytest.mark.slow
def test_one_component_of_each_kind_runs_to_rows_in_a_report(python: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    toy.corpus(data)
    given = ["recipe=kaldi", f"dataset.root={data}", "paths.models=models", "attacker=[ignorant]", *CHOSEN]
    given.append("--config-dir=" + str(PLUGIN / "conf"))

    for missing, others in (("extractor=[band_energies]", ["system=[original]"]), ("system=[original,mirror]", [])):
        refused = run(python, tmp_path, *given)
        assert refused.returncode == 4, refused.stderr
        assert f"fetch-models '{missing}'" in refused.stderr
        assert not list(tmp_path.glob("exp/store/anonymise")), "what is missing is said before any compute"
        fetched = run(python, tmp_path, "fetch-models", *given[:-1], *others, given[-1])
        assert fetched.returncode == 0, fetched.stderr
    assert "band_energies: " in fetched.stdout and "system mirror: " in fetched.stdout

    done = run(python, tmp_path, *given)
    assert done.returncode == 0, done.stderr
    page = Path(done.stdout.splitlines()[-1])
    rows = pd.read_parquet(page.parent / "results.parquet")
    gaps = rows[rows["metric"] == "mean_gap"].set_index(["subset", "system"])
    assert set(gaps.index) == {(f"toy_trials_{sex}", system) for sex in "fm" for system in ("original", "mirror")}
    assert (gaps["direction"] == "lower is more private").all()
    assert set(rows["extractor"]) == {"band_energies"}
    assert {"eer", "deid", "mean_gap"} <= set(rows["metric"])
    # By hand, from the stored scores.
    for row in gaps.reset_index().to_dict("records"):
        scores = scores_of(page.parent, row["subset"], row["system"])
        target = scores["target"].to_numpy(bool)
        assert row["value"] == scores["score"][target].mean() - scores["score"][~target].mean()
    text = page.read_text(encoding="utf-8")
    assert "How far the mean target score lies above the mean non-target score" in text
    assert 'id="figure-gap' in text
    assert "G_mean" in toy.summary(done.stdout)
    counted = [int(line) for line in (tmp_path / "counted.txt").read_text().split()]
    assert sum(counted) == int(done.stdout.splitlines()[-2].split()[3]), "the executor that was named ran the tasks"

    again = run(python, tmp_path, *given)
    assert again.stdout.splitlines()[-2].endswith(" 0 computed")


def scores_of(run_folder: Path, subset: str, system: str) -> pd.DataFrame:
    listed = pd.read_parquet(run_folder / "artefacts.parquet")
    chosen = listed[(listed["subset"] == subset) & (listed["system"] == system) & (listed["reads"] == "trials")]
    (path,) = set(chosen["path"])
    return pd.read_parquet(run_folder.parents[1] / "store" / path / "scores.parquet")


@pytest.mark.parametrize(("kind", "name"), TOYS.items())
def test_each_keeps_its_contract(python: Path, tmp_path: Path, kind: str, name: str) -> None:
    checked = run(python, tmp_path, "check-plugin", name, "--models", "models")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert kind in checked.stdout and name in checked.stdout


def test_a_raised_version_of_a_plug_in_moves_its_keys(python: Path, tmp_path: Path) -> None:
    """Files of a plug-in that only its component imports are followed too."""
    script = (
        "from pipeline.engine import code\n"
        "print(code.collect_versions(['voice_privacy_toys.band_energies']))\n"
        "print(sorted(code.follow_imports('voice_privacy_toys.band_energies')))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    versions, followed = done.stdout.splitlines()
    assert "'voice_privacy_toys.band_energies': 3" in versions
    assert "'voice_privacy_toys.band_energies.bands'" in followed
