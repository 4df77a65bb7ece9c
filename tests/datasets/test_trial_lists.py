"""Lists of trials that come with data in other forms and under other names: used, or refused by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile

from pipeline.datasets import importers
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import DataError

from .conftest import RATE, Tiny, noise

NAMES = [f"{speaker}-{number}" for speaker in "abc" for number in range(3)]
PAIRS = [(a, b, a[0] == b[0]) for a, b in itertools.combinations(NAMES, 2)]
TARGETS = 3 * 3
"""Pairs of two of a speaker's three utterances."""


def alone(tiny: Tiny, table: str, form: str) -> Tiny:
    """One set with a list of utterance against utterance."""
    lines = [form.format(a=a, b=b, bit=int(same), word="target" if same else "nontarget") for a, b, same in PAIRS]
    tiny.tables = {"vox": tiny.basic(NAMES)}
    tiny.save()
    path = tiny.root / "vox" / table
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return tiny


@pytest.mark.parametrize(
    ("table", "form"),
    [
        ("trials", "{a} {b} {word}"),  # Kaldi's voxceleb
        ("trials", "{a} {b}"),
        ("trials", "{bit} {a} {b}"),
        ("trial_label", "{a}*{b} {bit}"),  # ESPnet
        ("trial.scp", "{a}*{b} wav/{a}.wav"),
        ("trials/vox1_O_cleaned.kaldi", "{a} {b} {word}"),  # WeSpeaker
        ("lists/trials.lst", "{a} {b} {bit}"),
    ],
)
def test_utterances_against_utterances_are_models_of_one_utterance(tiny: Tiny, table: str, form: str) -> None:
    corpus = importers.read_data_set(alone(tiny, table, form).settings())
    (made,) = corpus.trials.values()
    assert (made.name, made.enrolment_set) == ("vox_trials", "vox_enrolls")
    assert set(made.trials.itertuples(index=False, name=None)) == set(PAIRS)
    assert (made.n_target, made.n_nontarget) == (TARGETS, len(PAIRS) - TARGETS)
    assert {(model, model) for model, _, _ in PAIRS} == set(made.enrolment.itertuples(index=False, name=None))
    assert "no lists came" not in " ".join(corpus.limits)
    speakers = corpus.manifest.set_index(["set", "utterance"])["speaker"]
    assert all(speakers["vox_enrolls", a] == a[0] and speakers["vox_trials", b] == b[0] for a, b, _ in PAIRS)


def test_several_lists_of_a_set_are_several_trial_sets(tiny: Tiny) -> None:
    alone(tiny, "vox1_O.txt", "{bit} {a} {b}")
    (tiny.root / "vox" / "vox1_H.txt").write_text("1 a-0 a-1\n0 a-0 b-1\n")
    corpus = importers.read_data_set(tiny.settings())
    counts = {name: (one.n_target, one.n_nontarget) for name, one in corpus.trials.items()}
    assert counts == {"vox_trials_vox1_H": (1, 1), "vox_trials_vox1_O": (TARGETS, len(PAIRS) - TARGETS)}


def test_sets_beside_one_with_a_list_are_named(tiny: Tiny) -> None:
    alone(tiny, "trials", "{a} {b} {word}")
    tiny.tables["more"] = tiny.basic(["d-0", "d-1", "e-0", "e-1"])
    corpus = importers.read_data_set(tiny.save().settings())
    assert [*corpus.trials] == ["vox_trials"]
    assert "1 sets without lists of trials beside those are not evaluated: more" in corpus.limits


def test_a_wrong_label_of_a_list_of_utterances_is_found(tiny: Tiny, refused: Callable[..., DataError]) -> None:
    path = alone(tiny, "trials", "{a} {b} {word}").root / "vox" / "trials"
    path.write_text(path.read_text().replace("a-0 b-0 nontarget", "a-0 b-0 target"))
    (fault,) = refused(importers.read_data_set, tiny.settings()).faults
    assert fault.kind == "label" and "a-0 b-0 is labelled target" in fault.what


@pytest.mark.parametrize(
    ("table", "lines", "said"),
    [
        ("trials", ["a b-0 nontarget", "a a-0 target"], "of which the models are speakers, e.g. a"),
        ("trials_f_mic2", ["x1 b-0 nontarget"], "of which the models are ids that it lacks, e.g. x1"),
        ("enroll.lst", ["a-0 wav/a-0.wav"], "a list of enrolment that is called enroll.lst, not enrolls"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused_by_name(
    tiny: Tiny, refused: Callable[..., DataError], table: str, lines: list[str], said: str
) -> None:
    tiny.tables = {"vox": tiny.basic(NAMES) | {table: lines}}
    (fault,) = refused(importers.read_data_set, tiny.save().settings()).faults
    assert fault.kind == "unread-list" and said in fault.what


def test_enrolls_without_trials_tries_what_is_not_enrolled(tiny: Tiny) -> None:
    tiny.tables = {"vox": tiny.basic(NAMES) | {"enrolls": ["a-0", "b-0", "b-1"]}}
    corpus = importers.read_data_set(tiny.save().settings())
    (made,) = corpus.trials.values()
    expected = {
        (model, name, model == name[0]) for model in "ab" for name in NAMES if name not in ("a-0", "b-0", "b-1")
    }
    assert set(made.trials.itertuples(index=False, name=None)) == expected
    assert "the trials of vox_trials were made here" in corpus.limits[0]


def test_the_only_list_of_a_trial_set_is_used_under_any_name(tiny: Tiny, refused: Callable[..., DataError]) -> None:
    right = importers.read_data_set(tiny.save().settings()).trials["t_trials_f"].digest
    folder = tiny.root / "t_trials_f"
    (folder / "trials").rename(folder / "trial_label")
    assert importers.read_data_set(tiny.settings()).trials["t_trials_f"].digest == right
    (folder / "trials.2.txt").write_text((folder / "trial_label").read_text())
    (fault,) = refused(importers.read_data_set, tiny.settings()).faults
    assert fault.kind == "unread-list" and "which of them is meant" in fault.what


def test_cnceleb_as_kaldi_prepares_it_needs_other_names(tiny: Tiny, refused: Callable[..., DataError]) -> None:
    """egs/cnceleb: sets eval_enroll and eval_test, and the list in a folder of the latter."""
    right = importers.read_data_set(tiny.save().settings()).trials["t_trials_f"]
    for old, new in (("t_enrolls", "eval_enroll"), ("t_trials_f", "eval_test")):
        (tiny.root / old).rename(tiny.root / new)
    lines = (tiny.root / "eval_test" / "trials").read_text()
    (tiny.root / "eval_test" / "trials").unlink()
    (tiny.root / "eval_test" / "trials").mkdir()
    (tiny.root / "eval_test" / "trials" / "trials.lst").write_text(lines)
    (fault,) = refused(importers.read_data_set, tiny.settings()).faults
    assert fault.kind == "names"
    for old, new in (("eval_enroll", "eval_enrolls"), ("eval_test", "eval_trials")):
        (tiny.root / old).rename(tiny.root / new)
    (made,) = importers.read_data_set(tiny.settings()).trials.values()
    assert made.trials.equals(right.trials) and made.enrolment.equals(right.enrolment)


# Trees ---------------------------------------------------------------------------------------------------------------


def voxceleb(root: Path) -> list[tuple[str, str, bool]]:
    """SPEAKER/VIDEO/NUMBER.wav, and all pairs of files by their paths."""
    places = [f"id1027{speaker}/v{video}/0000{video}.wav" for speaker in range(3) for video in range(3)]
    for place in places:
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(root / place, noise(place), RATE)
    return [(a, b, a[:7] == b[:7]) for a, b in itertools.combinations(places, 2)]


@pytest.mark.parametrize("place", ["wav/veri_test2.txt", "veri_test2.txt", "wav/lists/veri_test2.txt"])
def test_the_list_of_voxceleb_is_used_where_it_lies(tmp_path: Path, place: str) -> None:
    pairs = voxceleb(tmp_path / "vox1" / "wav")
    path = tmp_path / "vox1" / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{int(same)} {a} {b}\n" for a, b, same in pairs))
    (tmp_path / "vox1" / "vox1_test_md5.txt").write_text("0123456789abcdef vox1.zip\n")
    corpus = importers.read_data_set(DatasetSettings(name="folders", root=str(tmp_path / "vox1" / "wav")))
    (made,) = corpus.trials.values()

    def called(path: str) -> str:
        """The files of two videos share a name, so all are called by their folders too."""
        return path.removesuffix(".wav").replace("/", "-")

    assert set(made.trials.itertuples(index=False, name=None)) == {(called(a), called(b), same) for a, b, same in pairs}
    assert "no lists came" not in " ".join(corpus.limits) and made.name == "wav_trials"


def test_a_list_of_other_files_is_named(tmp_path: Path, refused: Callable[..., DataError]) -> None:
    root = tmp_path / "vox1" / "wav"
    pairs = voxceleb(root)
    settings = DatasetSettings(name="folders", root=str(root))
    lines = "".join(f"{int(same)} {a} {b}\n" for a, b, same in pairs)
    (tmp_path / "vox1" / "list_test_all2.txt").write_text(lines + "0 id10270/v0/00000.wav id19999/v0/00000.wav\n")
    (fault,) = refused(importers.read_data_set, settings).faults
    assert (
        fault.kind == "unread-list"
        and "list_test_all2.txt names 1 files that are not there, e.g. id19999" in fault.what
    )
    (tmp_path / "vox1" / "veri_test2.txt").write_text(
        "1 id10270/v0/00000.wav id10270/v1/00001.wav\n0 id10270/v0/00000.wav id10271/v1/00001.wav\n"
    )
    corpus = importers.read_data_set(settings)
    assert [*corpus.trials] == ["wav_trials"] and corpus.trials["wav_trials"].expected == 2
    limits = " ".join(corpus.limits)
    assert "lists of trials that are not evaluated: the list list_test_all2.txt" in limits
    assert "6 of 9 recordings of wav stand in no list" in limits


def test_lists_of_other_data_above_a_tree_change_nothing(tmp_path: Path) -> None:
    root = tmp_path / "vox1" / "wav"
    voxceleb(root)
    plain = importers.read_data_set(DatasetSettings(name="folders", root=str(root)))
    (root.parent / "trials.txt").write_text("1 other/a.wav other/b.wav\n")
    other = importers.read_data_set(DatasetSettings(name="folders", root=str(root)))
    assert {k: v.digest for k, v in other.trials.items()} == {k: v.digest for k, v in plain.trials.items()}
    assert "no lists came" in other.limits[0]


def test_cnceleb_as_it_is_handed_out_is_refused_by_name(tmp_path: Path, refused: Callable[..., DataError]) -> None:
    root = tmp_path / "CN-Celeb" / "eval"
    files = [f"enroll/id0080{k}-enroll.wav" for k in range(2)]
    files += [f"test/id0080{k}-singing-01-00{n}.wav" for k in range(2) for n in range(2)]
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(root / name, noise(name), RATE)
    (root / "lists").mkdir()
    trials = [f"id0080{m}-enroll {name} {int(name[11] == str(m))}\n" for m in range(2) for name in files[2:]]
    (root / "lists" / "trials.lst").write_text("".join(trials))
    (root / "lists" / "enroll.lst").write_text("".join(f"{Path(name).stem} {name}\n" for name in files[:2]))
    (fault,) = refused(importers.read_data_set, DatasetSettings(name="folders", root=str(root))).faults
    assert (
        fault.kind == "no-speaker-folder" and "the folders are no speakers" in fault.what and "trials.lst" in fault.what
    )


def test_a_file_that_is_not_there_is_not_taken_for_another_of_its_name(
    tmp_path: Path, refused: Callable[..., DataError]
) -> None:
    root = tmp_path / "tree"
    for speaker, number in itertools.product("ab", range(2)):
        (root / speaker).mkdir(parents=True, exist_ok=True)
        soundfile.write(root / speaker / f"{speaker}{number}.wav", noise(f"{speaker}{number}"), RATE)
    (root / "trials.txt").write_text("1 a/a0.wav a/a1.wav\n0 a/a0.wav c/b0.wav\n0 a/a0.wav b/b1.wav\n")
    (fault,) = refused(importers.read_data_set, DatasetSettings(name="folders", root=str(root))).faults
    assert fault.kind == "unread-list" and "names 1 files that are not there, e.g. c/b0.wav" in fault.what
    (root / "trials.txt").write_text("1 corpus/a/a0.wav corpus/a/a1.wav\n0 a0 b0\n0 a/a0.wav b/b1.wav\n")
    (made,) = importers.read_data_set(DatasetSettings(name="folders", root=str(root))).trials.values()
    assert {*made.trials.itertuples(index=False, name=None)} == {
        ("a0", "a1", True),
        ("a0", "b0", False),
        ("a0", "b1", False),
    }


# Speakers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "SPEAKERS.txt",
            ";ID  |SEX| SUBSET |MINUTES| NAME\n84   | F | dev-clean | 8.02 | A\n174  | M | dev-clean | 8.04 | B\n251 | M | x | 1 | C\n422 | F | x | 1 | D\n",
        ),
        (
            "speakers.tsv",
            "READER\tGENDER\tSUBSET\tNAME\n84\tF\tdev-clean\tA\n174\tM\tdev-clean\tB\n251\tM\tx\tC\n422\tF\tx\tD\n",
        ),
        ("Speaker-Info.TXT", "ID  AGE  GENDER  ACCENTS\n84  23  F  x\n174  22  M  y\n251  22  M  y\n422  22  F  y\n"),
    ],
)
@pytest.mark.parametrize("name_of_importer", ["librispeech", "folders"])
def test_tables_of_speakers_are_found_in_capitals_or_not(
    tmp_path: Path, name: str, text: str, name_of_importer: str
) -> None:
    root = tmp_path / "LibriTTS" / "dev-clean"
    for speaker, number in itertools.product(("84", "174", "251", "422"), range(2)):
        path = root / speaker / f"12{number}" / f"{speaker}_12{number}_000000_000000.wav"
        path.parent.mkdir(parents=True)
        soundfile.write(path, noise(path.stem), RATE)
    settings = DatasetSettings(name=name_of_importer, root=str(root))
    (note,) = [note for note in importers.read_data_set(settings).notes if "the sex of speakers is unknown" in note]
    assert "dataset.sexes=" in note
    (root.parent / name).write_text(text)
    sexes = importers.read_data_set(settings).manifest
    assert dict(zip(sexes["speaker"], sexes["sex"])) == {"84": "f", "174": "m", "251": "m", "422": "f"}
