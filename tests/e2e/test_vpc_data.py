"""A challenge's folder through the command line: each edition as it lies, and each deviation with the name of its set."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import cli
from pipeline.datasets.vpc import protocols
from tests.datasets import challenges
from tests.datasets.challenges import Challenge

Prepare = Callable[..., tuple[int, str, str]]
LIBRI_TRIALS = [f"libri_{part}_trials_{sex}" for part in ("dev", "test") for sex in "fm"]


@pytest.fixture
def prepare(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Prepare:
    """``prepare dataset=vpc`` in this process, held against the tiny protocols; exit status, standard output and error."""
    monkeypatch.chdir(tmp_path)
    counts = challenges.protocols(tmp_path / "protocols")
    monkeypatch.setattr(protocols, "protocols_folder", lambda: counts)

    def call(root: Path, *arguments: str) -> tuple[int, str, str]:
        given = ["prepare", "dataset=vpc", f"dataset.root={root}", *arguments, f"paths.root={tmp_path / 'exp'}"]
        status = cli.run(given)
        out, err = capfd.readouterr()
        return status, out, err

    return call


@pytest.fixture
def vpc2024(tmp_path: Path) -> Challenge:
    made = Challenge(tmp_path / "mine")
    (made.root / "exp" / "asv_orig").mkdir(parents=True)
    return made


def evaluated(out: str) -> list[str]:
    return sorted(re.findall(r"^(\S+)  trials  \d+ target", out, re.MULTILINE))


# What is there -------------------------------------------------------------------------------------------------------


def test_2024_by_its_checkout_its_data_and_its_copies(vpc2024: Challenge, prepare: Prepare) -> None:
    vpc2024.save().copy("_mcadams")
    for root in (vpc2024.root, vpc2024.data):
        status, out, err = prepare(root)
        assert status == 0, err
        assert evaluated(out) == LIBRI_TRIALS
        assert "libri_dev_trials_f  trials  4 target  8 non-target" in out
        assert "VoicePrivacy 2024, recognised by exp/asv_orig" in err
        assert "_mcadams (6 sets)" in err and "system=found" in err


def test_2022_cuts_raw_downloads_as_the_recipes_do(tmp_path: Path, prepare: Prepare) -> None:
    halves = ("libri_dev", "libri_test", "vctk_dev", "vctk_test")
    Challenge(tmp_path / "ready" / "baseline", halves).save()
    status, out, err = prepare(tmp_path / "ready")
    assert status == 0, err
    assert "dataset.edition=2020 if it is that" in err
    raw = Challenge(tmp_path / "raw" / "baseline", halves)
    for half in halves:
        raw.raw(half)
    raw.save()
    status, cut, err = prepare(tmp_path / "raw", "dataset.edition=2020")
    assert status == 0, err
    assert "VoicePrivacy 2020, as dataset.edition=2020 says" in err
    assert sorted(cut.splitlines()) == sorted(out.splitlines()) and len(evaluated(cut)) == 12
    assert "vctk_dev_trials_f_common  trial  3 speakers  3 utterances" in cut


def test_of_vctk_downloads_the_second_microphone_counts(tmp_path: Path, prepare: Prepare) -> None:
    made = Challenge(tmp_path / "mine", ("vctk_dev",))
    made.raw("vctk_dev")
    made.tables["vctk_dev"]["trials_f_mic1"] = made.tables["vctk_dev"]["trials_f_mic2"][:2]
    made.tables["vctk_dev"]["enrolls_mic1"] = made.tables["vctk_dev"]["enrolls_mic2"][:1]
    made.save()
    names = [f"vctk_dev_trials_{tail}" for tail in ("f", "f_common", "m", "m_common")]
    status, out, err = prepare(made.root, f"dataset.sets=[{','.join(names)}]")
    assert status == 0, err
    assert evaluated(out) == names and "vctk_dev_enrolls  enrolment  4 speakers  8 utterances" in out


def test_what_is_no_part_of_the_evaluation_is_recognised_and_left_alone(vpc2024: Challenge, prepare: Prepare) -> None:
    f, m = (vpc2024.tables[f"libri_dev_trials_{sex}"] for sex in "fm")
    joined = {table: [*f[table], *m[table]] for table in f}
    vpc2024.tables |= {
        "libri_dev_asr": joined,
        "libri_dev_trials_all": joined,
        "IEMOCAP_dev": vpc2024.basic(["ddfx-0"]),
    }
    vpc2024.tables["train-clean-360"] = vpc2024.basic(["ttfy-0", "ttfy-1", "ttmy-0", "ttmy-1"])
    vpc2024.save()
    status, out, err = prepare(vpc2024.root)
    assert status == 0, err
    assert evaluated(out) == LIBRI_TRIALS and "libri_dev_asr" not in out
    assert "not evaluated beside the sets that they are unions or parts of: libri_dev_trials_all" in err
    assert "words and emotions: IEMOCAP_dev, libri_dev_asr" in err
    (remedy,) = re.findall(r"dataset\.train=\S+", err)
    status, out, err = prepare(vpc2024.root, remedy)
    assert status == 0, err
    assert "train-clean-360  train  2 speakers  4 utterances" in out
    status, out, err = prepare(vpc2024.root, "dataset.sets=[libri_dev_trials_all]")
    assert status == 0, err
    assert "libri_dev_trials_all  trials  8 target  16 non-target" in out


def test_2026_evaluates_mixed_sets_and_their_parts_on_request(tmp_path: Path, prepare: Prepare) -> None:
    made = Challenge(tmp_path / "mine", mixed=True).save()
    status, out, err = prepare(made.root)
    assert status == 0, err
    assert evaluated(out) == ["libri_dev_trials_mixed", "libri_test_trials_mixed"]
    assert "VoicePrivacy 2026 (track 1), recognised by the set libri_dev_trials_mixed" in err
    status, out, err = prepare(made.root, f"dataset.sets=[{','.join(LIBRI_TRIALS)}]", "dataset.edition=2024")
    assert status == 0, err
    assert evaluated(out) == LIBRI_TRIALS


def test_the_attackers_tree_asks_for_the_originals(vpc2024: Challenge, prepare: Prepare, tmp_path: Path) -> None:
    vpc2024.save()
    tree = tmp_path / "attackers"
    for system in ("B3", "B4", "T25-1"):
        vpc2024.copy(f"_{system}", tree / system / "data", tables=system != "B4")
    (tree / "T25-1" / "data" / "libri_dev_trials_m_T25-1").rename(tree / "T25-1" / "data" / "lirbi_dev_trial_m_T25-1")
    (tree / "B4" / "data" / "libri360_anon_B4" / "wav").mkdir(parents=True)
    status, out, err = prepare(tree)
    assert (status, out) == (3, "")
    assert "SET_B3, SET_B4, SET_T25-1 and no original set" in err and "dataset.originals=DIR" in err
    status, out, err = prepare(tree, f"dataset.originals={vpc2024.root}")
    assert status == 0, err
    assert evaluated(out) == LIBRI_TRIALS
    assert "_B3 (6 sets), _B4 (7 sets), _T25-1 (6 sets)" in err
    assert "libri360_anon_B4 is taken for train-clean-360_B4" in err
    assert "lirbi_dev_trial_m_T25-1 is taken for libri_dev_trials_m_T25-1" in err


def test_a_folder_too_high_is_refused_with_the_one_to_give(vpc2024: Challenge, prepare: Prepare) -> None:
    vpc2024.save()
    status, _, err = prepare(vpc2024.root.parent)
    assert status == 3
    (root,) = re.findall(r"dataset\.root=(\S+/mine)", err)
    assert prepare(Path(root))[0] == 0


def test_fields_of_a_challenge_are_refused_for_other_data(vpc2024: Challenge, prepare: Prepare) -> None:
    vpc2024.save()
    status, _, err = prepare(vpc2024.data, "dataset=kaldi", "dataset.edition=2024")
    assert status == 2 and "dataset=vpc" in err


# What deviates -------------------------------------------------------------------------------------------------------


def without_a_set(made: Challenge) -> None:
    del made.tables["libri_test_trials_m"]


def with_half_of_the_trials(made: Challenge) -> None:
    tables = made.tables["libri_dev_trials_f"]
    tables["trials"] = tables["trials"][::2]


def without_an_utterance(made: Challenge) -> None:
    tables = made.tables["libri_dev_trials_f"]
    for table in tables:
        tables[table] = [line for line in tables[table] if "ldfc-t1" not in line]


def with_half_of_the_enrolment(made: Challenge) -> None:
    tables = made.tables["libri_dev_enrolls"]
    tables["enrolls"] = tables["enrolls"][::2]


def with_a_set_of_2022(made: Challenge) -> None:
    made.tables["libri_dev_trials_mixed"] = made.tables["libri_dev_trials_f"]


DEVIATIONS = {
    "a missing set": (without_a_set, (), "the set libri_test_trials_m of VoicePrivacy 2024 is missing"),
    "a wrong count of trials": (
        with_half_of_the_trials, (), "libri_dev_trials_f has 2 target trials instead of 4, 4 non-target trials instead of 8",
    ),
    "a wrong count of utterances": (
        without_an_utterance, (), "libri_dev_trials_f has 5 utterances instead of 6, 6 non-target trials instead of 8",
    ),
    "a list of enrolment that was cut down": (
        with_half_of_the_enrolment, (), "the list of libri_dev_enrolls enrols 4 of 8 utterances",
    ),
    "a set of another edition": (
        with_a_set_of_2022, ("dataset.edition=2024",), "VoicePrivacy 2024 has no set libri_dev_trials_mixed (of 2026)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEVIATIONS)
def test_each_deviation_is_refused_and_with_reported_said_above_the_results(
    vpc2024: Challenge, prepare: Prepare, name: str
) -> None:
    change, arguments, said = DEVIATIONS[name]
    change(vpc2024)
    vpc2024.save()
    status, out, err = prepare(vpc2024.root, *arguments)
    assert (status, out) == (3, "")
    assert said in err and "dataset.protocol=reported" in err
    status, out, err = prepare(vpc2024.root, *arguments, "dataset.protocol=reported")
    assert status == 0 and "libri_dev_trials_f" in evaluated(out)
    assert f"deviates from the protocol: {said}" in err
    if name == "a missing set":
        status, out, err = prepare(vpc2024.root, f"dataset.sets=[{','.join(LIBRI_TRIALS[:3])}]")
        assert status == 0 and "deviates" not in err


@pytest.mark.parametrize("protocol", ["strict", "reported"])
def test_enrolment_alone_is_nothing_to_evaluate(vpc2024: Challenge, prepare: Prepare, protocol: str) -> None:
    for name in [name for name in vpc2024.tables if "trials" in name]:
        del vpc2024.tables[name]
    status, out, err = prepare(vpc2024.save().root, f"dataset.protocol={protocol}")
    assert (status, out) == (3, "")
    assert "no set of trials is there; there are libri_dev_enrolls, libri_test_enrolls" in err


def test_all_deviations_at_once(vpc2024: Challenge, prepare: Prepare) -> None:
    without_a_set(vpc2024)
    with_half_of_the_trials(vpc2024)
    status, _, err = prepare(vpc2024.save().root)
    assert status == 3
    assert DEVIATIONS["a missing set"][2] in err and DEVIATIONS["a wrong count of trials"][2] in err


def test_another_edition_than_was_asked_for(vpc2024: Challenge, prepare: Prepare) -> None:
    vpc2024.save()
    status, _, err = prepare(vpc2024.root, "dataset.edition=2022")
    assert status == 3
    assert (
        "exp/asv_orig is a mark of VoicePrivacy 2024" in err and "the set vctk_dev_enrolls of VoicePrivacy 2022" in err
    )
    (remedy,) = set(re.findall(r"dataset\.edition=2024", err))
    assert prepare(vpc2024.root, remedy)[0] == 0


def test_sets_of_another_edition_are_refused_with_those_to_choose(tmp_path: Path, prepare: Prepare) -> None:
    made = Challenge(tmp_path / "mine", ("libri_dev", "libri_test", "vctk_dev")).save()
    status, _, err = prepare(made.root, "dataset.edition=2024")
    assert status == 3 and "has no set vctk_dev_enrolls (of 2020, 2022), vctk_dev_trials_f" in err
    (remedy,) = re.findall(r"'(dataset\.sets=\[libri\S+\])'", err)
    assert evaluated(prepare(made.root, "dataset.edition=2024", remedy)[1]) == LIBRI_TRIALS


def test_a_trial_set_without_its_list_is_refused_and_none_is_made_up(vpc2024: Challenge, prepare: Prepare) -> None:
    del vpc2024.tables["libri_dev_trials_m"]["trials"]
    vpc2024.save()
    for arguments in ((), ("dataset.protocol=reported",)):
        status, _, err = prepare(vpc2024.root, *arguments)
        assert status == 3 and "the trial set libri_dev_trials_m has no list of trials" in err


def test_sets_of_the_sexes_exchanged_are_refused(vpc2024: Challenge, prepare: Prepare) -> None:
    f, m = "libri_test_trials_f", "libri_test_trials_m"
    vpc2024.save()
    for one, other in ((f, "aside"), (m, f), ("aside", m)):
        (vpc2024.data / one).rename(vpc2024.data / other)
    status, out, err = prepare(vpc2024.root, "dataset.protocol=reported")
    assert (status, out) == (3, "") and f"3 of 3 speakers of {f} are not of its sex, f: another set" in err
    for one, other in ((f, "aside"), (m, f), ("aside", m)):
        (vpc2024.data / one).rename(vpc2024.data / other)
    one = vpc2024.data / f / "spk2gender"
    assert "ltfc f" in one.read_text()
    one.write_text(one.read_text().replace("ltfc f", "ltfc m"))
    status, _, err = prepare(vpc2024.root, "dataset.protocol=reported")
    assert status == 0 and f"deviates from the protocol: 1 of 3 speakers of {f} are not of its sex, f" in err


def test_a_dev_set_in_place_of_the_test_set_is_refused(vpc2024: Challenge, prepare: Prepare) -> None:
    vpc2024.tables["libri_test_trials_f"] = vpc2024.tables["libri_dev_trials_f"]
    status, _, err = prepare(vpc2024.save().root, "dataset.protocol=reported")
    assert status == 3 and "is not enrolled in libri_test_enrolls" in err and "add trials of the class" not in err


def test_an_interrupted_anonymisation_names_its_sets(vpc2024: Challenge, prepare: Prepare, tmp_path: Path) -> None:
    files = vpc2024.save().copy("_mine", tmp_path / "theirs")
    lost = files[len(files) // 2 :]
    for path in lost:
        path.unlink()
    system = f"+system.mine={{name: external, root: {tmp_path / 'theirs'}}}"
    status, _, err = prepare(vpc2024.root, system)
    assert status == 3
    for folder in {path.parent.parent for path in lost}:
        (line,) = [line for line in err.splitlines() if line.startswith("  - ") and folder.name in line]
        gone = [path for path in lost if folder in path.parents]
        if any((folder / "wav").iterdir()):
            assert all(f"'{path.stem}'" in line for path in gone[:5])
        else:
            assert re.search(r"no file of \d+ utterances is in .*, and wav.scp leads to none", line)


def faulty_as_2026(made: Challenge, half: str) -> None:
    """No trial across sexes, same-speaker pairs labelled nontarget, and those beside the sound lines of the same pairs."""
    sound = [line for sex in "fm" for line in made.tables[f"{half}_trials_{sex}"]["trials"]]
    added = [line.replace(" target", " nontarget") for line in sound]
    made.tables[f"{half}_trials_mixed"]["trials"] = [*added, *sound, *added[:5]]


@pytest.mark.slow
def test_the_faulty_list_of_2026_is_told_whole(tmp_path: Path, prepare: Prepare) -> None:
    made = Challenge(tmp_path / "mine", mixed=True)
    faulty_as_2026(made, "libri_dev")
    made.save()
    status, out, err = prepare(made.root)
    assert (status, out) == (3, "")
    assert "lines of the list of libri_dev_trials_mixed repeat a pair, e.g. " in err
    assert "same-speaker pairs are labelled nontarget in the list of libri_dev_trials_mixed" in err
    assert "the list of libri_dev_trials_mixed has no trial across sexes" in err
    assert "libri_test_trials_mixed" not in err
    assert sum("libri_dev_trials_mixed" in line for line in err.splitlines()) == 3, "one line a fault"
