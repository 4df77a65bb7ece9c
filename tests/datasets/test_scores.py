"""Folders of score files: which layouts are known, what each file is taken for, and what is refused, through the command line."""

from __future__ import annotations

import csv
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline import cli
from pipeline.datasets.scores import columns, discovery, score_files, score_table
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import DataError
from pipeline.faults import Faults

Command = Callable[..., tuple[int, str, str]]

SPEAKERS = {"f": ["11", "21", "31", "41"], "m": ["12", "22", "32", "42"]}


def utterances(sex: str) -> list[str]:
    """Three of each speaker, and of one who is not enrolled."""
    return [f"{speaker}-5-{number:04d}" for speaker in [*SPEAKERS[sex], f"9{sex}"] for number in range(3)]


def trials(sex: str) -> list[tuple[str, str]]:
    return [(model, name) for model in SPEAKERS[sex] for name in utterances(sex)]


def is_target(model: str, name: str) -> bool:
    return name.split("-")[0] == model


def lists(root: Path, corpus: str = "libri_test") -> None:
    """``data/SET/{trials,utt2spk}`` of both sexes."""
    for sex in "fm":
        folder = root / "data" / f"{corpus}_trials_{sex}"
        folder.mkdir(parents=True)
        rows = [f"{m} {u} {'target' if is_target(m, u) else 'nontarget'}" for m, u in trials(sex)]
        (folder / "trials").write_text("\n".join(rows) + "\n")
        (folder / "utt2spk").write_text("".join(f"{u} {u.split('-')[0]}\n" for u in utterances(sex)))


def scores(path: Path, sex: str, gain: float, seed: int = 0) -> Path:
    """Gaussian scores, in an order of their own."""
    random = np.random.default_rng([seed, ord(sex)])
    rows = [f"{m} {u} {random.normal() + gain * is_target(m, u):.6f}" for m, u in trials(sex)]
    random.shuffle(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows) + "\n")
    return path


def vpc2024(root: Path, suffix: str = "_mcadams", corpus: str = "libri_test") -> Path:
    """What VPC 2024's scripts leave: OO, OA and AA by both extractors."""
    lists(root, corpus)
    for sex in "fm":
        enrolled, tried = f"{corpus}_enrolls", f"{corpus}_trials_{sex}"
        pairs = [("", "", 4.0), ("", suffix, 1.0), (suffix, suffix, 1.5)]
        for one, other, gain in pairs:
            for model in ("asv_orig", f"asv_anon{suffix}"):
                seed = len(one) + 2 * len(other) + len(model)
                scores(root / "exp" / model / f"{enrolled}{one}-{tried}{other}" / "scores", sex, gain, seed)
    return root


def read(root: Path, **more: object) -> score_files.ScoreData:
    return score_files.read_score_sets(DatasetSettings.model_validate({"name": "scores", "root": str(root), **more}))


def attacks(found: score_files.ScoreData) -> set[tuple[str, str, str, str, str]]:
    return {(one.of.subset, one.of.condition, one.of.system, one.of.attacker, one.of.trained_on) for one in found.sets}


@pytest.fixture
def prepare(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """``prepare dataset=scores`` of the folder ``data``: exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        status = cli.run(["prepare", "dataset=scores", "dataset.root=given", *arguments, "paths.root=exp"])
        out, err = capfd.readouterr()
        assert "Traceback" not in err and "bug of the pipeline" not in err
        return status, out, err

    return call


def override(err: str) -> str:
    """The first override of the data set in a message, as a shell reads it."""
    found = re.search(r"'dataset\.[^']*'|dataset\.\w+=[^\s,;)]+", err)
    assert found is not None, err
    (word,) = shlex.split(found[0])
    return word


# Names ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("libri_test_enrolls-libri_test_trials_f", ("libri_test_enrolls", "", "libri_test_trials_f", "")),
        ("libri_dev_enrolls-libri_dev_trials_m_B3", ("libri_dev_enrolls", "", "libri_dev_trials_m", "_B3")),
        (
            "libri_test_enrolls_T10-2-libri_test_trials_f_T10-2",
            ("libri_test_enrolls", "_T10-2", "libri_test_trials_f", "_T10-2"),
        ),
        (
            "ASV-vctk_dev_enrolls_anon-vctk_dev_trials_f_common_anon",
            ("vctk_dev_enrolls", "_anon", "vctk_dev_trials_f_common", "_anon"),
        ),
        ("libri_test_enrolls-libri_test_trials_mixed", ("libri_test_enrolls", "", "libri_test_trials_mixed", "")),
        ("libri_test_enrolls_a-libri_test_trials_f_b", None),
        ("libri_test_enrolls-libri_dev_trials_f", None),
        ("cosine_out", None),
    ],
)
def test_the_name_of_a_folder_of_scores(folder: str, expected: tuple[str, ...] | None) -> None:
    found = discovery.parse_folder_name(folder)
    assert (None if found is None else (found.enrolment, found.enrolled, found.trials, found.tried)) == expected


# Layouts -------------------------------------------------------------------------------------------------------------


def test_vpc_2024(tmp_path: Path) -> None:
    root = vpc2024(tmp_path)
    found = read(root)
    assert attacks(found) == {
        (f"libri_test_trials_{sex}", *rest)
        for sex in "fm"
        for rest in [
            ("OO", "original", "unprotected", "original"),
            ("OP", "mcadams", "ignorant", "original"),
            ("PP", "mcadams", "lazy_informed", "original"),
            ("PP", "mcadams", "semi_informed", "anonymised"),
        ]
    }
    assert {(one.of.extractor, one.of.backend, one.of.gives_llrs) for one in found.sets} == {("ecapa", "cosine", False)}
    (left,) = [note for note in found.notes if "left out" in note]
    assert left.startswith("4 score files") and "asv_anon_mcadams/libri_test_enrolls-libri_test_trials_f" in left
    # Whatever folder above the files is given, the same is found.
    for below in ("exp", "exp/asv_orig"):
        part = read(root / below)
        whole = {one.digest for one in found.sets if below == "exp" or one.of.trained_on == "original"}
        assert {one.digest for one in part.sets} == whole


OF_ORIGINAL = {
    ("OO", "original", "unprotected", "original"), ("OP", "anon", "ignorant", "original"), ("PP", "anon", "lazy_informed", "original"),
}  # fmt: skip
OF_ANONYMISED = {("PP", "anon", "semi_informed", "anonymised")}


def kaldi(results: Path, gain: float, prefix: str = "ASV-") -> None:
    """Scores as the recipes of 2020 and 2022 leave them."""
    for sex in "fm":
        for one, other in (("", ""), ("", "_anon"), ("_anon", "_anon")):
            place = results / f"{prefix}libri_test_enrolls{one}-libri_test_trials_{sex}{other}"
            scores(place / "scores", sex, gain - len(other) / 5)


def without_set(found: score_files.ScoreData) -> set[tuple[str, ...]]:
    return {one[1:] for one in attacks(found)}


def test_vpc_2020(tmp_path: Path) -> None:
    lists(tmp_path)
    kaldi(tmp_path / "exp" / "results-2020-05-01-10-00-00", 3)
    found = read(tmp_path)
    assert without_set(found) == OF_ORIGINAL
    assert {(one.of.extractor, one.of.backend, one.of.gives_llrs) for one in found.sets} == {("xvector", "plda", True)}
    assert not any("semi_informed" in limit for limit in found.limits)


def test_vpc_2022_writes_the_scores_of_two_models(tmp_path: Path) -> None:
    """``results-DATE.orig`` are of the downloaded model, ``results-DATE`` of the one that was trained on anonymised speech."""
    lists(tmp_path)
    for name, gain in (("results-2022-05-01-10-00-00", 2.0), ("results-2022-05-01-10-00-00.orig", 3.0)):
        kaldi(tmp_path / "exp" / name, gain)
    found = read(tmp_path)
    assert without_set(found) == OF_ORIGINAL | OF_ANONYMISED
    assert {
        one.of.path.parent.parent.name.endswith(".orig") for one in found.sets if one.of.attacker != "semi_informed"
    } == {True}
    assert {one.of.path.parent.parent.suffix for one in found.sets if one.of.attacker == "semi_informed"} == {""}
    assert any(
        "4 score files are left out" in note and "anonymised enrolment and trials alone" in note for note in found.notes
    )
    assert without_set(read(tmp_path, results="results-2022-05-01-10-00-00.orig")) == OF_ORIGINAL


@pytest.mark.parametrize("made", ["prefix", "paper", "published", "model"])
def test_names_that_say_that_the_extractor_knows_anonymised_speech(tmp_path: Path, made: str) -> None:
    lists(tmp_path)
    folder = "results.anon_mcadams" if made == "published" else "results-2022-05-01"
    kaldi(tmp_path / "exp" / folder, 2, {"prefix": "ASV_anon-", "paper": "ASV_eval^anon-"}.get(made, "ASV-"))
    if made == "model":
        (tmp_path / "exp" / "models" / "user_asv_eval_anon").mkdir(parents=True)
    found = read(tmp_path)
    assert without_set(found) == OF_ANONYMISED
    assert not any("nothing in the names" in limit for limit in found.limits)


def test_names_that_do_not_say_what_the_extractor_knows(tmp_path: Path) -> None:
    """Told above the results; renamed as it says, the files are what they are."""
    lists(tmp_path)
    results = tmp_path / "exp" / "results-2022-05-01"
    kaldi(results, 2)
    found = read(tmp_path)
    assert without_set(found) == OF_ORIGINAL
    (said,) = [limit for limit in found.limits if "nothing in the names below results-2022-05-01" in limit]
    assert "2 score files of anonymised enrolment count as lazy_informed" in said and "from ASV-… to ASV_anon-…" in said
    for folder in results.glob("ASV-*_anon-*"):
        folder.rename(folder.with_name(folder.name.replace("ASV-", "ASV_anon-")))
    found = read(tmp_path)
    assert ("PP", "anon", "semi_informed", "anonymised") in without_set(found)
    assert ("PP", "anon", "lazy_informed", "original") not in without_set(found)
    assert not any("nothing in the names" in limit for limit in found.limits)


def test_the_newest_of_several_results_is_taken_and_said(tmp_path: Path) -> None:
    lists(tmp_path)
    for day, gain in (("02", 3.0), ("11", 2.0), ("09", 1.0)):
        name = "ASV-libri_test_enrolls-libri_test_trials_f"
        scores(tmp_path / "exp" / f"results-2020-05-{day}" / name / "scores", "f", gain, int(day))
    found = read(tmp_path)
    (newest,) = found.sets
    assert newest.of.path.parent.parent.name == "results-2020-05-11"
    assert any("results-2020-05-11" in limit and "results-2020-05-09" in limit for limit in found.limits)
    (other,) = read(tmp_path, results="results-2020-05-02").sets
    assert other.of.path.parent.parent.name == "results-2020-05-02" and other.digest != newest.digest


def test_results_without_a_date_are_refused(tmp_path: Path, prepare: Command) -> None:
    root = tmp_path / "given"
    lists(root)
    for name in ("results-mine", "results-theirs"):
        scores(root / "exp" / name / "ASV-libri_test_enrolls-libri_test_trials_f" / "scores", "f", 2)
    status, out, err = prepare()
    assert (status, out) == (3, "") and "results-mine, results-theirs" in err
    assert override(err) == "dataset.results=NAME"
    status, out, _ = prepare("dataset.results=results-mine")
    assert status == 0 and out.splitlines() == ["libri_test_trials_f  trials  12 target  48 non-target"]
    assert prepare("dataset.results=results-nobody")[0] == 3


def test_a_folder_for_each_system(tmp_path: Path) -> None:
    for system in ("B3", "T10-2"):
        vpc2024(tmp_path / system, f"_{system}")
    # The same scores of original speech lie in both.
    found = read(tmp_path)
    assert {one.of.system for one in found.sets} == {"original", "B3", "T10-2"}
    # Of the original speech, four sets of scores: the copies are counted once.
    assert sum(one.of.system == "original" for one in found.sets) == 2
    path = tmp_path / "B3" / "exp" / "asv_orig" / "libri_test_enrolls-libri_test_trials_f" / "scores"
    scores(path, "f", 1.0, 99)
    with pytest.raises(DataError, match="1 fault") as raised:
        read(tmp_path)
    assert str(path) in str(raised.value) and f"{tmp_path}/T10-2/" in str(raised.value)


def test_score_folders_behind_links_are_read_once(tmp_path: Path) -> None:
    root, aside = vpc2024(tmp_path / "mine"), tmp_path / "scratch"
    expected = sorted(one.digest for one in read(root).sets)
    shutil.move(root / "exp" / "asv_anon_mcadams", aside)
    (root / "exp" / "asv_anon_mcadams").symlink_to(aside)
    # Circles, and other ways to the same folder.
    (aside / "back").symlink_to(root / "exp")
    (root / "above").symlink_to(tmp_path)
    (root / "exp" / "latest").symlink_to(aside)
    (root / "gone").symlink_to(tmp_path / "nowhere")
    assert sorted(one.digest for one in read(root).sets) == expected


def vpc2026(root: Path, *models: str) -> dict[str, str]:
    """The extractor of each attacker, of a mixed set."""
    for model in models:
        for suffix in ("", "_B3") if "anon" not in model else ("_B3",):
            folder = root / "exp" / model / f"libri_test_enrolls{suffix}-libri_test_trials_mixed{suffix}"
            scores(folder / "scores", "f", 2.0)
    return {one.attacker: one.extractor for one in discovery.find_score_files(root).files}


def test_one_extractor_of_2026_has_one_name(tmp_path: Path) -> None:
    both = {"unprotected": "asv_ssl", "lazy_informed": "asv_ssl", "semi_informed": "asv_ssl"}
    assert vpc2026(tmp_path / "a", "asv_ssl", "asv_anon_B3") == both
    assert vpc2026(tmp_path / "b", "asv_anon_B3") == {"semi_informed": "asv_ssl"}
    assert vpc2026(tmp_path / "c", "asv_ssl", "asv_orig", "asv_anon_B3").keys() == {"unprotected", "lazy_informed"}
    with pytest.raises(DataError, match="asv_anon_B3 does not say which") as raised:
        read(tmp_path / "c")
    assert "scores.csv" in str(raised.value)


def test_settings_that_match_no_file_are_refused(tmp_path: Path, prepare: Command) -> None:
    """A misspelt pattern left distances as they were: an error rate of 53 % printed as 47 %."""
    vpc2024(tmp_path / "given")
    status, _, err = prepare("dataset.distances=[exp/*/*mcadam/scores,exp/asv_orgi/*]")
    assert status == 3 and "2 faults" in err and "no score file is called exp/asv_orgi/*; there are exp/asv_anon" in err


def test_of_a_raw_vctk_download_the_second_microphone_counts(tmp_path: Path) -> None:
    raw = tmp_path / "vctk_dev"
    raw.mkdir()
    for name in ("trials_f", "trials_f_mic2", "trials_f_common"):
        (raw / name).touch()
    assert score_files._find_list("vctk_dev_trials_f", [tmp_path]) == raw / "trials_f_mic2"
    assert score_files._find_list("vctk_dev_trials_f_common", [tmp_path]) == raw / "trials_f_common"


@pytest.mark.parametrize(
    ("attacker", "knows"),
    [("", "original"), ("ignorant", "original"), ("lazy_informed", "original"), ("semi_informed", "anonymised"), ("dast", "given")],
)  # fmt: skip
def test_what_an_extractor_knows_is_not_made_up(tmp_path: Path, attacker: str, knows: str) -> None:
    condition, system = {"": ("OO", ""), "ignorant": ("OP", "x")}.get(attacker, ("PP", "x"))
    table = tmp_path / "scores.csv"
    table.write_text(f"file,subset,condition,system,attacker\na,s,{condition},{system},{attacker}\n")
    (one,) = discovery.read_score_list(table, Faults()).files
    assert one.trained_on == knows


def test_a_table_that_pandas_wrote_with_its_index(tmp_path: Path) -> None:
    """``to_csv`` without ``index=False``: a first column without a name, in ``scores.csv`` and in score files."""
    table = pd.DataFrame({"file": ["a", "b"], "subset": ["s", "t"]})
    table.to_csv(tmp_path / "scores.csv")
    faults = Faults()
    assert [one.subset for one in discovery.read_score_list(tmp_path / "scores.csv", faults).files] == [
        "s",
        "t",
    ] and not faults.found
    written = pd.DataFrame({"model": ["m1", "m2"], "utterance": ["u1", "u2"], "score": [0.5, -1.5]}, index=[5, 9])
    for sign, quoting in ((",", csv.QUOTE_MINIMAL), (",", csv.QUOTE_ALL), ("\t", csv.QUOTE_MINIMAL)):
        written.to_csv(tmp_path / "scores.txt", sep=sign, quoting=quoting)
        made = score_table.read_table(tmp_path / "scores.txt", columns.SCORES)
        assert [ids.to_pylist() for ids in made.ids("enroll_id", "trial_id")] == [["m1", "m2"], ["u1", "u2"]]
        assert made.score.tolist() == [0.5, -1.5]
    written.rename(columns=str.upper).to_csv(tmp_path / "scores.txt", index=False)
    assert score_table.read_table(tmp_path / "scores.txt", columns.SCORES).score.tolist() == [0.5, -1.5]


def test_a_table_names_files_of_any_layout(tmp_path: Path) -> None:
    lists(tmp_path)
    scores(tmp_path / "a.txt", "f", 4.0)
    scores(tmp_path / "mine" / "b.txt", "f", 1.0)
    (tmp_path / "scores.csv").write_text(
        "file,subset,condition,system,attacker,extractor,backend,llr\n"
        "a.txt,libri_test_trials_f,OO,,,resnet,,\n"
        "mine/b.txt,libri_test_trials_f,AA,mine,semi_informed,resnet,lda,yes\n"
    )
    found = read(tmp_path)
    assert attacks(found) == {
        ("libri_test_trials_f", "OO", "original", "unprotected", "original"),
        ("libri_test_trials_f", "PP", "mine", "semi_informed", "anonymised"),
    }
    assert {(one.of.extractor, one.of.backend, one.of.gives_llrs) for one in found.sets} == {
        ("resnet", "given", False), ("resnet", "lda", True),
    }  # fmt: skip
    assert read(tmp_path / "scores.csv").sets[0].digest == found.sets[0].digest


TABLES = {
    "no subset": ("file,system\na.txt,x\n", "missing subset"),
    "unknown column": ("file,subset,sytem\na.txt,s,x\n", "unknown sytem"),
    "condition": ("file,subset,condition,system,attacker\na.txt,s,XX,x,y\n", "'XX' is none of OO, OP, PP"),
    "nobody": ("file,subset,condition\na.txt,s,PP\n", "attacker, system: nothing is said"),
    "contradiction": ("file,subset,condition,system,attacker\na.txt,s,PP,x,ignorant\n", "is one of OP, not PP"),
    "short line": ("file,subset,system\na.txt,s\n", "another number of fields"),
    "llr": ("file,subset,llr\na.txt,s,maybe\n", "'maybe' is neither yes nor no"),
    "original protected": (
        "file,subset,attacker,system\na.txt,s,ignorant,original\n",
        "'original' cannot be one of OP",
    ),
    "empty": ("file,subset\n", "it names no file"),
    "no file": ("file,subset\nnone.txt,s\n", "there is no such file"),
}


@pytest.mark.parametrize("name", TABLES)
def test_each_fault_of_a_table(tmp_path: Path, prepare: Command, name: str) -> None:
    text, said = TABLES[name]
    scores(tmp_path / "given" / "a.txt", "f", 1.0)
    (tmp_path / "given" / "scores.csv").write_text(text)
    status, out, err = prepare()
    assert (status, out) == (3, "") and said in err and "To mend it:" in err


# Labels and speakers -------------------------------------------------------------------------------------------------


def test_without_a_list_there_is_a_choice_to_make(tmp_path: Path, prepare: Command) -> None:
    root = vpc2024(tmp_path / "given")
    shutil.move(root / "data", tmp_path / "elsewhere")
    status, _, err = prepare()
    assert status == 3 and "libri_test_trials_f: no list of trials" in err and "libri_test_trials_m" in err
    expected = "libri_test_trials_f  trials  12 target  48 non-target"
    for mend in ("dataset.trials=elsewhere", "dataset.labels=ids"):
        assert mend.split("=")[0] in err
        status, out, err_again = prepare(mend)
        assert status == 0 and expected in out.splitlines(), err_again
    by_ids, by_list = read(root, labels="ids"), read(root, trials=str(tmp_path / "elsewhere"))
    assert [one.digest for one in by_ids.sets] == [one.digest for one in by_list.sets]
    assert any("dataset.labels=ids" in limit for limit in by_ids.limits)


def by_ids(root: Path, models: Sequence[str], utterances: Sequence[str]) -> score_files.ScoreData:
    """A file of all pairs, each scored by whether the utterance begins with the model."""
    folder = root / "exp" / "asv_orig" / "my_test_enrolls-my_test_trials_f"
    folder.mkdir(parents=True)
    lines = [f"{m} {u} {u.startswith(m) + 0.01 * k}\n" for m in models for k, u in enumerate(utterances)]
    (folder / "scores").write_text("".join(lines))
    return read(root, labels="ids")


@pytest.mark.parametrize(
    ("models", "form"),
    [
        (("F-01", "F-02", "M-01"), "{}-00{}"),
        (("p225", "p2251", "p226"), "{}_{}"),
        (("id10270", "id10271", "id10272"), "{}/video/0000{}.wav"),
        (("S0001-01", "S0001-02", "S0001-03"), "{}.{}"),
    ],
)
def test_targets_by_ids_begin_with_the_whole_id_of_the_model(
    tmp_path: Path, models: tuple[str, ...], form: str
) -> None:
    utterances = {form.format(model, number): model for model in models for number in range(3)}
    found = by_ids(tmp_path, models, [*utterances])
    (one,) = found.sets
    targets = {(row.model, row.utterance) for row in one.table.itertuples() if row.target}
    assert targets == {(model, name) for name, model in utterances.items()}
    assert {(row.utterance, row.speaker) for row in one.table.itertuples()} == {*utterances.items()}
    assert ("begin alike" in " ".join(found.limits)) == (models[0][:3] in ("F-0", "S00"))


def test_an_utterance_of_nobody_enrolled_has_as_many_parts_for_a_speaker(tmp_path: Path) -> None:
    (one,) = by_ids(tmp_path, ["F-01", "F-02"], ["F-01-1", "F-01-2", "F-02-1", "M-07-1", "M-07-2"]).sets
    spoken = dict(zip(one.table["utterance"], one.table["speaker"]))
    assert spoken["M-07-1"] == spoken["M-07-2"] == "M-07" and one.table["target"].sum() == 3


@pytest.mark.parametrize(
    ("models", "utterances", "said"),
    [
        (
            ["F-1", "F-1-2"],
            ["F-1-2-001", "F-1-001"],
            "1 utterances begin with several models: F-1-2-001 with F-1 and F-1-2",
        ),
        (["a-0", "b-0"], ["a-1", "b-1"], "no utterance's id begins with a model's, e.g. model a-0, utterance a-1"),
        (["a-0", "b-0"], ["a-0", "b-0"], "no utterance's id begins with a model's"),
    ],
)
def test_ids_that_do_not_say_whose_they_are_are_refused(
    tmp_path: Path, models: list[str], utterances: list[str], said: str
) -> None:
    with pytest.raises(DataError) as caught:
        by_ids(tmp_path, models, utterances)
    assert said in str(caught.value) and "dataset.trials=DIR" in caught.value.remedy


def test_raw_sets_have_the_lists_inside(tmp_path: Path) -> None:
    root = vpc2024(tmp_path)
    expected = [one.digest for one in read(root).sets]
    raw = root / "data" / "libri_test"
    raw.mkdir()
    speakers = ""
    for sex in "fm":
        own = root / "data" / f"libri_test_trials_{sex}"
        shutil.move(own / "trials", raw / f"trials_{sex}")
        speakers += (own / "utt2spk").read_text()
        shutil.rmtree(own)
    (raw / "utt2spk").write_text(speakers)
    assert [one.digest for one in read(root).sets] == expected


def test_labels_in_the_file(tmp_path: Path) -> None:
    root = vpc2024(tmp_path)
    expected = [one.table["target"].tolist() for one in read(root).sets]
    shutil.rmtree(root / "data")
    for path in root.glob("exp/*/*/scores"):
        lines = [line.split() for line in path.read_text().splitlines()]
        path.write_text("".join(f"{m} {u} {x} {int(is_target(m, u))}\n" for m, u, x in lines))
    found = read(root)
    assert [one.table["target"].tolist() for one in found.sets] == expected
    # Whose the trials without a target are, nobody says: no interval stands on them.
    assert all("not known" in one.no_speakers for one in found.sets)
    assert any("no intervals" in limit for limit in found.limits)
    (root / "speakers").write_text("".join(f"{u} {u.split('-')[0]}\n" for sex in "fm" for u in utterances(sex)))
    assert not any(one.no_speakers for one in read(root, utt2spk=str(root / "speakers")).sets)


# Faults of files -----------------------------------------------------------------------------------------------------


def test_all_faults_of_all_files_at_once_with_file_and_set(tmp_path: Path, prepare: Command) -> None:
    root = vpc2024(tmp_path / "given")
    orig = root / "exp" / "asv_orig"
    places = {
        "1 trials have no score": orig / "libri_test_enrolls-libri_test_trials_f" / "scores",
        "1 scores stand more than once": orig / "libri_test_enrolls-libri_test_trials_m" / "scores",
        "1 of 60 scores are NaN": orig / "libri_test_enrolls-libri_test_trials_f_mcadams" / "scores",
        "'much' is not a number": orig / "libri_test_enrolls-libri_test_trials_m_mcadams" / "scores",
    }
    whole = {said: path.read_text().splitlines(keepends=True) for said, path in places.items()}
    edits: dict[str, Callable[[list[str]], list[str]]] = {
        "1 trials have no score": lambda lines: lines[1:],
        "1 scores stand more than once": lambda lines: [*lines, lines[0]],
        "1 of 60 scores are NaN": lambda lines: [f"{lines[0].rsplit(' ', 1)[0]} nan\n", *lines[1:]],
        "'much' is not a number": lambda lines: [*lines[1:], f"{lines[0].rsplit(' ', 1)[0]} much\n"],
    }
    for said, path in places.items():
        path.write_text("".join(edits[said](whole[said])))
    status, out, err = prepare()
    assert (status, out) == (3, "") and "4 faults" in err
    for said, path in places.items():
        sex = "f" if "trials_f" in str(path) else "m"
        (line,) = [line for line in err.splitlines() if said in line]
        assert str(path) in line and f"set libri_test_trials_{sex}" in line


def test_scores_that_nothing_asks_for_are_said(tmp_path: Path) -> None:
    root = vpc2024(tmp_path)
    expected = [one.digest for one in read(root).sets]
    path = root / "exp" / "asv_orig" / "libri_test_enrolls-libri_test_trials_f" / "scores"
    path.write_text(path.read_text() + "11 99-5-0000 0.5\n")
    found = read(root)
    assert [one.digest for one in found.sets] == expected
    assert any("1 scores that nothing asks for: (11, 99-5-0000)" in note and str(path) in note for note in found.notes)


def test_labels_that_contradict_the_speakers_are_refused(tmp_path: Path, prepare: Command) -> None:
    root = vpc2024(tmp_path / "given")
    path = root / "data" / "libri_test_trials_f" / "trials"
    path.write_text(path.read_text().replace("11 11-5-0000 target", "11 11-5-0000 nontarget"))
    status, _, err = prepare()
    assert status == 3 and "the labels of 1 trials contradict the speakers: (11, 11-5-0000)" in err
    assert "set libri_test_trials_f" in err and "set libri_test_trials_m" not in err


def test_folders_of_unknown_names_are_named(tmp_path: Path, prepare: Command) -> None:
    scores(tmp_path / "given" / "exp" / "asv_orig" / "first_try" / "scores", "f", 1)
    scores(tmp_path / "given" / "exp" / "mine" / "libri_test_enrolls-libri_test_trials_f" / "scores", "f", 1)
    status, _, err = prepare()
    assert status == 3 and "2 faults" in err and "scores.csv" in err
    assert "first_try is not called" in err and "mine does not say which attacker" in err


def test_an_empty_folder_and_no_folder(tmp_path: Path, prepare: Command) -> None:
    assert prepare()[0] == 3
    (tmp_path / "given").mkdir()
    status, _, err = prepare()
    assert status == 3 and "no file is called scores" in err and "recipes/bring_your_scores/README.md" in err


def test_sets_are_chosen_by_name(tmp_path: Path, prepare: Command) -> None:
    vpc2024(tmp_path / "given")
    status, out, _ = prepare("dataset.sets=[libri_test_trials_m]")
    assert status == 0 and out.splitlines() == ["libri_test_trials_m  trials  12 target  48 non-target"]
    status, _, err = prepare("dataset.sets=[libri_dev_trials_m]")
    assert status == 3 and "there is no set libri_dev_trials_m" in err


def test_sets_of_both_sexes_are_pooled(tmp_path: Path) -> None:
    root = vpc2024(tmp_path / "given")
    shutil.rmtree(root / "exp" / "asv_orig" / "libri_test_enrolls-libri_test_trials_m_mcadams")
    found = read(root, pool=True)
    pooled = [one for one in found.sets if "pooled" in one.of.subset]
    assert {one.of.attacker for one in pooled} == {"unprotected", "lazy_informed", "semi_informed"}
    assert any("is not pooled" in note and "mcadams" in note for note in found.notes)
    for one in pooled:
        parts = [other for other in found.sets if other.of.attack[1:] == one.of.attack[1:] and other is not one]
        assert sorted(one.table["score"]) == sorted(x for part in parts for x in part.table["score"])
    assert found.trials["libri_test (pooled)"].n_target == 24


def test_settings_of_score_files_are_refused_elsewhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["validate", "dataset=kaldi", f"dataset.root={tmp_path}", "dataset.pool=true"]) == 2
    assert "is read for dataset=scores" in capfd.readouterr().err


def test_a_checkout_is_no_name_of_a_system(tmp_path: Path) -> None:
    lists(tmp_path / "baseline")
    kaldi(tmp_path / "baseline" / "exp" / "results-2020-05-01", 3)
    assert {one.of.system for one in read(tmp_path).sets} == {"original", "anon"}
