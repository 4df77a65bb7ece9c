"""Challenge folders: how an edition is recognised, what lies where, the protocols, and the challenge's real lists."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from pipeline.datasets.listings import Listing
from pipeline.datasets.settings import DatasetSettings
from pipeline.datasets.vpc import importer, layout, protocols
from pipeline.errors import Fault
from pipeline.evaluation.discovery import systems

from .challenges import REAL

LIBRI = ("libri_dev_enrolls", "libri_dev_trials_f", "libri_dev_trials_m")
VECTORS = "exp/models/asv_eval/xvect_01709_1"


def made(root: Path, *folders: str) -> Path:
    for folder in folders:
        (root / folder).mkdir(parents=True)
    return root


# Layout --------------------------------------------------------------------------------------------------------------

EDITIONS = {
    "2024 by its model": (["data/libri_dev_enrolls", "exp/asv_orig"], "2024", "exp/asv_orig"),
    "LibriSpeech sets, which all editions have": (["data/libri_dev_enrolls"], "2024", ""),
    "2026 by a set": (["data/libri_dev_enrolls", "data/libri_dev_trials_mixed"], "2026", "libri_dev_trials_mixed"),
    "2026 by its model": (["data/libri_dev_enrolls", "exp/asv_ssl"], "2026", "exp/asv_ssl"),
    "2020 by its model": (
        ["baseline/data/vctk_dev_enrolls", f"baseline/{VECTORS}/xvect_train_clean_360"], "2020", "xvect_train_clean_360",
    ),
    "2022 by its model": (["baseline/data/vctk_dev_enrolls", f"baseline/{VECTORS}/plda"], "2022", "xvect_01709_1/plda"),
    "2022 by its training set": (["data/vctk_dev", "data/train-clean-360-asv"], "2022", "train-clean-360-asv"),
    "2020 by its name": (["Voice-Privacy-Challenge-2020/baseline/data/vctk_dev"], "2020", "Voice-Privacy-Challenge-2020"),
    "2020 or 2022": (["data/vctk_dev_enrolls"], "2022", ""),
    "attacker": (["B3/data/libri_dev_enrolls_B3"], "attacker", "SYSTEM/data"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITIONS)
def test_each_edition_is_recognised_by_what_lies_there(tmp_path: Path, name: str) -> None:
    folders, edition, mark = EDITIONS[name]
    root = made(tmp_path, *folders)
    root = root / "Voice-Privacy-Challenge-2020" if name.endswith("by its name") else root
    found = layout.read_layout(root)
    assert found is not None
    assert (found.edition, found.recognised, found.is_sure) == (edition, edition, bool(mark))
    assert mark in found.marks
    # What is asked for beats what is recognised, which is kept.
    asked = layout.read_layout(root, "2024")
    assert asked is not None and (asked.edition, asked.recognised) == ("2024", edition)


def test_one_folder_is_found_from_its_checkout_its_baseline_and_its_data(tmp_path: Path) -> None:
    root = made(tmp_path, "baseline/data/libri_dev_enrolls", "baseline/data/vctk_dev_trials_f_common_anon",
                "baseline/data/libri_dev_enrolls_anon", "baseline/exp/models/asv_eval", "espnet")  # fmt: skip
    found = {layout.read_layout(root / part) == layout.read_layout(root) for part in ("baseline", "baseline/data")}
    assert found == {True}
    one = layout.read_layout(root)
    assert one is not None
    assert (one.root, one.data, one.exp) == (root / "baseline", root / "baseline" / "data", root / "baseline" / "exp")
    assert list(one.sets) == ["libri_dev_enrolls"]
    assert {suffix: list(sets) for suffix, sets in one.copies.items()} == {
        "_anon": ["libri_dev_enrolls", "vctk_dev_trials_f_common"]
    }


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("libri_dev_trials_f", ("libri_dev_trials_f", "")),
        ("libri_dev_trials_f_mcadams", ("libri_dev_trials_f", "_mcadams")),
        ("vctk_dev_trials_f_all_anon", ("vctk_dev_trials_f_all", "_anon")),
        ("vctk_dev_trials_f_common", ("vctk_dev_trials_f_common", "")),
        ("train-clean-360_T8-5", ("train-clean-360", "_T8-5")),
        ("train-clean-360-asv", ("train-clean-360-asv", "")),
        ("libri_dev_asr_hires", ("", "")),
        ("libri_development", ("", "")),
        ("wav", ("", "")),
    ],
)
def test_names_of_copies_are_told_from_names_of_sets(folder: str, expected: tuple[str, str]) -> None:
    assert layout.split_name(folder) == expected


def test_nothing_original_is_taken_for_anonymised_speech(tmp_path: Path) -> None:
    """A folder above checkouts is not the Attacker Challenge's tree, and a set without suffix there is nobody's copy."""
    made(tmp_path, *(f"mine/data/{name}" for name in LIBRI), "mine/data/libri_dev_enrolls_mine")
    assert layout.read_layout(tmp_path) is None
    made(tmp_path, "B3/data/libri_dev_enrolls_B3", "originals/data/libri_dev_enrolls")
    found = layout.read_layout(tmp_path)
    assert found is not None and list(found.copies) == ["_B3"]
    assert found.sets == {"libri_dev_enrolls": tmp_path / "originals" / "data" / "libri_dev_enrolls"}


def test_folders_of_the_attackers_tree_that_no_set_is_called_like_are_named(tmp_path: Path) -> None:
    made(tmp_path, *(f"T25-1/data/{name}_T25-1" for name in LIBRI), "T25-1/data/checkpoints_T25-1")
    found = layout.read_layout(tmp_path)
    assert found is not None and list(found.copies["_T25-1"]) == list(LIBRI)
    assert found.limits == (
        "T25-1: the folder checkpoints_T25-1 is called like no set of the challenge, and is passed over",
    )


def suffixed(place: str, *suffixes: str, names: tuple[str, ...] = LIBRI) -> list[str]:
    return [f"{place}/{name}{suffix}" for suffix in suffixes for name in names]


def test_one_suffix_in_the_folders_of_two_systems_is_two_systems(tmp_path: Path) -> None:
    """Enrolment of one against trials of the other would look too private."""
    made(tmp_path, *suffixed("teamA/data", "_anon"), *suffixed("teamB/data", "_anon", names=LIBRI[:2]))
    found = layout.read_layout(tmp_path)
    assert found is not None
    assert {name: {place.parent.parent.name for place in sets.values()} for name, sets in found.copies.items()} == {
        "_teamA": {"teamA"}, "_teamB": {"teamB"},
    }  # fmt: skip
    assert list(found.copies["_teamB"]) == list(LIBRI[:2])
    offered = layout.list_copies(found)
    assert {label: (one.suffix, one.root) for label, one in offered.items()} == {
        team: ("_anon", tmp_path / team / "data") for team in ("teamA", "teamB")
    }
    assert found.limits == ("folders of several systems end in _anon, and each is evaluated by itself: _teamA, _teamB",)
    settings = DatasetSettings(name="vpc", root=str(tmp_path))
    faults: list[Fault] = []
    asked = {"a": {"name": "found", "suffix": "_teamA"}}
    assert list(systems(asked, settings, faults, [])) == ["teamA"] and not faults
    systems({"a": {"name": "found", "suffix": "_anon"}}, settings, faults, [])
    assert "no anonymised copy with the suffix _anon; there are _teamA, _teamB" in faults[0].what


def test_one_suffix_beside_the_originals_and_in_a_folder_of_its_own(tmp_path: Path) -> None:
    made(tmp_path, *suffixed("mine/data", "", "_B3"), *suffixed("mine/B3/data", "_B3", names=LIBRI[:2]))
    found = layout.read_layout(tmp_path / "mine")
    assert found is not None and {name: len(sets) for name, sets in found.copies.items()} == {"_mine": 3, "_B3": 2}


def test_another_suffix_in_the_folder_of_a_system_is_another_system(tmp_path: Path) -> None:
    others = ("libri_test_enrolls", "libri_test_trials_f")
    made(tmp_path, *suffixed("mine/data", "_v1"), *suffixed("mine/data", "_v2", names=others))
    found = layout.read_layout(tmp_path)
    assert found is not None
    assert {name: list(sets) for name, sets in found.copies.items()} == {"_v1": list(LIBRI), "_v2": list(others)}


def test_a_guess_at_a_name_is_said_above_the_results(tmp_path: Path) -> None:
    made(tmp_path, *suffixed("B4/data", "_B4", names=LIBRI[:2]), "B4/data/lirbi_dev_trial_m_B4",
         "B4/data/libri360_anon_B4", "B4/data/train-clean-360")  # fmt: skip
    found = layout.read_layout(tmp_path)
    assert found is not None and list(found.copies) == ["_B4"]
    assert found.notes == ("B4: the folder libri360_anon_B4 is taken for train-clean-360_B4",)
    # One folder without the suffix does not make the system vanish, and is nobody's.
    assert found.limits == (
        "B4: the folder lirbi_dev_trial_m_B4 is taken for libri_dev_trials_m_B4",
        "B4: the folder train-clean-360 is called like an original set, and is passed over",
    )
    assert found.copies["_B4"]["train-clean-360"].name == "libri360_anon_B4" and not found.sets


def test_a_checkout_beside_systems_is_passed_over_and_said(tmp_path: Path) -> None:
    made(tmp_path, *suffixed("mine/data", "", "_x"), *suffixed("B3/data", "_B3"))
    found = layout.read_layout(tmp_path)
    assert found is not None and list(found.copies) == ["_B3"]
    (said,) = found.limits
    assert (
        said.startswith("mine: holds original sets beside its copies") and f"dataset.root={tmp_path / 'mine'}" in said
    )


def test_a_folder_of_copies_within_a_checkout_leaves_the_edition(tmp_path: Path) -> None:
    made(tmp_path, *suffixed("data", ""), *suffixed("submission/data", "_sub"), f"{VECTORS}/plda", "data/vctk_dev")
    found = layout.read_layout(tmp_path)
    assert found is not None and (found.edition, list(found.copies)) == ("2022", ["_sub"])


@pytest.mark.parametrize("root", ["tree", "tree/B4", "tree/B4/data"])
def test_a_system_of_the_attackers_tree_by_its_own_folder(tmp_path: Path, root: str) -> None:
    made(tmp_path, *suffixed("originals/data", ""), *suffixed("tree/B4/data", "_B4"), "tree/B4/data/libri360_anon_B4")
    found = layout.read_layout(tmp_path / root, originals=tmp_path / "originals")
    assert found is not None and found.edition == "attacker" and list(found.sets) == sorted(LIBRI)
    assert found.copies["_B4"]["train-clean-360"].name == "libri360_anon_B4"


def test_copies_alone_are_of_the_edition_of_the_originals(tmp_path: Path) -> None:
    made(
        tmp_path,
        *suffixed("originals/data", ""),
        f"originals/{VECTORS}/xvect_train_clean_360",
        "originals/data/vctk_dev",
    )
    made(tmp_path, *suffixed("mine/data", "_anon"))
    found = layout.read_layout(tmp_path / "mine", originals=tmp_path / "originals")
    assert found is not None and (found.edition, found.is_sure) == ("2020", True)


def test_a_training_set_is_chosen_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, "data/libri_dev_enrolls", "data/train-clean-360")
    settings = DatasetSettings(name="vpc", root=str(tmp_path), train="train-clean-360")
    assert importer.find_training_folder(settings) == str(tmp_path / "data" / "train-clean-360")
    assert importer.find_training_folder(settings.model_copy(update={"train": "train-clean-100"})) == "train-clean-100"
    # Another folder of that name in the current directory is asked for as such.
    monkeypatch.chdir(made(tmp_path / "here", "train-clean-360"))
    assert importer.find_training_folder(settings) == str(tmp_path / "data" / "train-clean-360")
    assert (
        importer.find_training_folder(settings.model_copy(update={"train": "./train-clean-360"})) == "./train-clean-360"
    )


# Protocols -----------------------------------------------------------------------------------------------------------


def test_libri_lists_are_full_products_and_vctk_lists_have_15000_trials_a_sex() -> None:
    found = protocols.read_protocol("2022")
    enrolled = {
        "libri_dev_trials_f": 15,
        "libri_dev_trials_m": 14,
        "libri_test_trials_f": 16,
        "libri_test_trials_m": 13,
    }
    for name, models in enrolled.items():
        row = found[name]
        assert row.target + row.nontarget == models * row.utterances
    for name in ("vctk_dev_trials_f", "vctk_dev_trials_m", "vctk_test_trials_f", "vctk_test_trials_m"):
        assert found[name].target + found[name].nontarget == 15_000


PRINTED = {
    "libri_test_trials_f": 7.664, "libri_test_trials_m": 1.114, "vctk_test_trials_f": 4.887, "vctk_test_trials_m": 2.067,
    "vctk_test_trials_f_common": 2.890, "vctk_test_trials_m_common": 1.130,
}  # fmt: skip
"""Printed EERs of 2020 (original speech, in %): Kaldi's are whole numbers of target trials."""


@pytest.mark.parametrize("name", PRINTED)
def test_target_counts_are_those_that_the_printed_eers_are_steps_of(name: str) -> None:
    targets = protocols.read_protocol("2020")[name].target
    assert f"{100 * round(PRINTED[name] / 100 * targets) / targets:.3f}" == f"{PRINTED[name]:.3f}"


def test_unions_are_the_sums_of_their_parts_and_every_row_says_where_it_comes_from() -> None:
    for edition in ("2020", "2022"):
        found = protocols.read_protocol(edition)
        for name, row in found.items():
            if row.role == "union":
                base = name.removesuffix("_all")
                one, other = (found[f"{base}{tail}"] for tail in (("_f", "_m") if base.endswith("trials") and "libri" in base
                              else ("_f_all", "_m_all") if base.endswith("trials") else ("", "_common")))  # fmt: skip
                assert (row.utterances, row.target, row.nontarget) == (
                    one.utterances + other.utterances, one.target + other.target, one.nontarget + other.nontarget,
                ), name  # fmt: skip
    for path in REAL.glob("*.csv"):
        with path.open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        assert all(row["licence"] and row["source"] and row["set"] in layout.SET_NAMES for row in rows), path.name
        assert len({(row["edition"], row["set"]) for row in rows}) == len(rows)
    assert set(protocols.TITLES) == set(layout.EDITIONS)
    assert all(protocols.read_protocol(edition) for edition in layout.EDITIONS)


# The real lists ------------------------------------------------------------------------------------------------------


NAMES = [f"libri_{part}_{tail}" for part in ("dev", "test") for tail in ("enrolls", "trials_f", "trials_m")]


@pytest.fixture
def real(lists: Path, tmp_path: Path) -> Path:
    """A checkout with the real lists; the audio is nowhere, for lists alone are counted here."""
    for name in NAMES:
        shutil.copytree(lists / name, tmp_path / "data" / name)
        ids = [line.split()[0] for line in (lists / name / "utt2spk").read_text().splitlines()]
        (tmp_path / "data" / name / "wav.scp").write_text("".join(f"{one} /nowhere/{one}.wav\n" for one in ids))
    return tmp_path


SLOW = [pytest.param(edition, marks=pytest.mark.slow) for edition in ("2020", "2022", "attacker")]


@pytest.mark.parametrize("edition", ["2024", *SLOW])
def test_the_real_lists_are_what_the_protocols_say(real: Path, edition: str) -> None:
    """Of 2020 and 2022 those without their VCTK sets."""
    listing = Listing()
    tried = [name for name in NAMES if "trials" in name]
    sets = tried if edition in ("2020", "2022") else None
    importer.add_data_set(DatasetSettings(name="vpc", root=str(real), edition=edition, sets=sets), real, listing)
    assert {fault.kind for fault in listing.faults.found} == {"missing-audio"} and listing.limits == []
    assert [one.name for one in listing.lists] == tried


@pytest.mark.slow
def test_one_trial_less_than_in_the_real_lists_is_told(real: Path) -> None:
    trials = real / "data" / "libri_test_trials_f" / "trials"
    first, *others = trials.read_text().splitlines(keepends=True)
    trials.write_text("".join(others))
    listing = Listing()
    importer.add_data_set(DatasetSettings(name="vpc", root=str(real)), real, listing)
    (fault,) = listing.faults.found
    counts = (
        "547 target trials instead of 548"
        if first.split()[2] == "target"
        else "11195 non-target trials instead of 11196"
    )
    assert (fault.kind, fault.what) == ("protocol", f"libri_test_trials_f has {counts}")
