"""Copies and models of a challenge's folder, used by name through the command line."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

import pipeline
from pipeline import cli
from pipeline.errors import ConfigError
from pipeline.tables import results
from tests import challenge_folder

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = challenge_folder.original(tmp_path / "vpc")
    for suffix in ("_mcadams", "_T8-5"):
        challenge_folder.anonymise(made, suffix)
    return made


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command line in this process; exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        status = cli.run([*arguments, *_common(tmp_path)])
        out, err = capfd.readouterr()
        return status, out, err

    return call


def _common(folder: Path) -> list[str]:
    return [
        f"paths.root={folder / 'exp'}",
        "dataset=vpc",
        f"dataset.root={folder / 'vpc'}",
        "dataset.protocol=reported",
    ]


QUICK = ("extractor=[f0]", "metric=[srd]", "metric.srd.replicates=0")


def levels(folder: Path) -> dict[str, str]:
    """The level of each system, as the last run's results have it."""
    rows = results.read(max((folder / "exp" / "runs").iterdir()))
    return dict(zip(rows["system"], rows["system_level"]))


def test_all_copies_are_systems_and_their_fields_can_be_set(root: Path, command: Command, tmp_path: Path) -> None:
    status, _, err = command(*QUICK, "system=found", "system.T8-5.level=speaker")
    assert status == 0, err
    assert levels(tmp_path) == {"original": "none", "T8-5": "speaker", "mcadams": "utterance"}


def test_some_copies_beside_other_systems_in_the_order_of_the_list(root: Path, tmp_path: Path) -> None:
    from pipeline.cli.compose import compose

    asked, _ = compose([*_common(tmp_path), "system=[original,b2,found:_T8-5]"])
    assert list(asked.systems) == ["original", "b2", "T8-5"]
    alone, _ = compose([*_common(tmp_path), "system=found:mcadams", "system.mcadams.level=fixed"])
    assert list(alone.systems) == ["original", "mcadams"]
    assert alone.systems["mcadams"].settings.level == "fixed"
    shared, _ = compose([*_common(tmp_path), "system=[found,b2]", "system.found.level=speaker"])
    assert [one.settings.level for label, one in shared.systems.items() if label not in ("original", "b2")] == [
        "speaker",
        "speaker",
    ]


def test_a_copy_found_is_the_external_system_that_it_stands_for(root: Path, tmp_path: Path) -> None:
    """The same numeric settings, hence the same keys and signatures as a folder that is named by hand."""
    from pipeline.cli.compose import compose

    by_hand = f"+system.mcadams={{name: external, root: '{root}/data', suffix: _mcadams, level: utterance}}"
    named, _ = compose([*_common(tmp_path), "system=[original]", by_hand])
    found, _ = compose([*_common(tmp_path), "system=found:_mcadams"])
    assert found.numeric() == named.numeric()


def test_within_python(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    planned = pipeline.plan(*_common(tmp_path), *QUICK, "system=found")
    assert {one.label.split()[3] for one, _ in planned.tasks if one.name == "measure"} >= {
        "original",
        "T8-5",
        "mcadams",
    }


def test_a_sweep_over_copies(root: Path, command: Command) -> None:
    status, out, err = command("plan", "-m", *QUICK, "system=found:_mcadams,found:_T8-5")
    assert status == 0, err
    assert out.count("measure: 0 reused, 2 to compute") == 2


def test_a_suffix_that_is_not_there_names_those_that_are(root: Path, command: Command) -> None:
    status, _, err = command("prepare", "system=[original,found:_nope]")
    assert status == 2
    assert "no anonymised copy with the suffix _nope; there are _T8-5, _mcadams" in err and f"{root}/data" in err
    remedy = err.partition("write ")[2].partition(" (")[0]
    assert command("prepare", *shlex.split(remedy))[0] == 0


def test_without_copies_it_is_said_where_they_were_looked_for(tmp_path: Path, command: Command) -> None:
    challenge_folder.original(tmp_path / "vpc")
    status, _, err = command("prepare", "system=found", "system.mcadams.level=speaker")
    assert status == 2
    assert f"there are no anonymised copies: looked for folders SET_SUFFIX in {tmp_path}/vpc/data" in err
    assert "libri_dev_enrolls" in err and err.count("  - ") == 1


def test_another_data_set_has_none(root: Path, command: Command) -> None:
    status = cli.run(["prepare", "dataset=kaldi", f"dataset.root={root}/data", "system=found"])
    assert status == 2
    with pytest.raises(ConfigError, match="fault") as caught:
        pipeline.plan("dataset=kaldi", f"dataset.root={root}/data", "system=[original,found:_mcadams]")
    (fault,) = caught.value.faults
    assert fault.where == "system.mcadams" and "dataset=kaldi: set dataset=vpc" in fault.what


def test_an_interrupted_anonymisation_is_refused_by_set_and_system(root: Path, command: Command) -> None:
    copied = sorted((root / "data" / "libri_dev_trials_f_T8-5" / "wav").iterdir())
    for path in copied[::2]:
        path.unlink()
    status, _, err = command("prepare", "system=found")
    assert status == 3
    assert err.count("  - system T8-5: ") == len(copied[::2]) and "of libri_dev_trials_f: no file" in err
    assert "system mcadams: " not in err.partition("error:")[2]


def test_a_set_without_a_copy_is_refused(root: Path, command: Command) -> None:
    (root / "data" / "libri_dev_trials_m_T8-5").rename(root / "data" / "elsewhere")
    status, _, err = command("prepare", "system=found")
    assert status == 3 and "there is no folder libri_dev_trials_m_T8-5 for the set libri_dev_trials_m" in err
