"""The recipes on generated folders of each edition, by the commands of their READMEs: each published cell has a verdict, ours stand beside
those that are comparable, and what a recipe alone does is that."""

from __future__ import annotations

import functools
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import soundfile
import torch

from pipeline import metrics
from pipeline.cli.compose import compose
from pipeline.errors import ConfigError
from tests.challenge import Written, write
from tests.documents import ROOT
from tests.running import Command, Ended, finish

VERDICTS = {
    "reproduced", "within interval", "differs", "not run", "cannot follow from the printed inputs", "sources disagree",
}  # fmt: skip
TWO = "dataset.sets=[libri_test_trials_f,libri_test_trials_m]"
SMALL = ("dataset.protocol=reported", "runtime.device=cpu", "runtime.threads=1")
NO_MEANS = ("~averages.dev", "~averages.test", "bands=null")
TRAINED = ("train=small", "train.steps=20", TWO)
TEST_MEAN, DEV_MEAN = (f"libri_{part} (mean of f and m)" for part in ("test", "dev"))
ALL_FOUR = "libri (mean of dev and test)"
POOLED = "libri_test (pooled)"
TEST = {"libri_test_trials_f": (548, 11196), "libri_test_trials_m": (449, 9457)}
DEV = {"libri_dev_trials_f": (704, 14566), "libri_dev_trials_m": (644, 12796)}

FOLDERS: dict[str, dict[str, Any]] = {
    "vpc2020": {"edition": "2020", "scale": 0.001, "seconds": 0.3},
    "vpc2022": {"edition": "2022", "scale": 0.001, "seconds": 0.3},
    "vpc2024": {"edition": "2024", "scale": 0.03, "seconds": 0.5, "systems": ("mcadams", "sttts"), "scores": False},
    "vpac": {"edition": "attacker", "scale": 0.03, "seconds": 0.5, "systems": ("B4", "T8-5", "T25-1")},
    "srd2026": {
        "edition": "2024", "scale": 0.06, "seconds": 0.4, "systems": ["T10-2"], "training": (2, 1), "scores": False,
    },
    "bring_your_scores": {"edition": "2024", "scale": 0.08, "seconds": 0, "systems": ["B3"], "models": False},
}  # fmt: skip
"""What is written of an edition for each recipe: a fraction of the speakers, short utterances, few systems."""


@dataclass(frozen=True)
class Card:
    """What a scorecard must have.

    Attributes:
        cells: how many there are in the recipe's tables.
        systems: of ours that stand beside published ones.
        metrics: of which cells have a number of ours, among others.
    """

    cells: int
    systems: set[str]
    metrics: set[str]


CARDS = {
    "vpc2020": Card(2844, {"original", "anon"}, {"eer", "cllr", "cllr_min", "d_sys", "d_ece", "l_w", "tag", "deid", "g_vd"}),
    "vpc2022": Card(3680, {"original", "anon"}, {"eer", "cllr", "cllr_min", "d_sys", "d_ece", "l_w", "tag", "g_vd"}),
    "vpc2024": Card(224, {"original", "mcadams", "sttts"}, {"eer"}),
    "vpac": Card(133, {"B4", "T8-5", "T25-1"}, {"eer"}),
    "srd2026": Card(100, {"original", "T10-2"}, {"idr"}),
    "bring_your_scores": Card(63, {"B3"}, {"eer"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Written]:
    """The folder of a recipe, which is written once."""

    @functools.cache
    def written(recipe: str) -> Written:
        return write(folder=tmp_path_factory.mktemp(recipe) / "DIR", **FOLDERS[recipe])

    return written


def commands(recipe: str, part: str = "") -> list[str]:
    """The commands of a recipe's README that have a part."""
    text = (ROOT / "recipes" / recipe / "README.md").read_text(encoding="utf-8")
    return [line for line in re.findall(r"^ {4}voice-privacy (.*)$", text, re.MULTILINE) if part in line]


def words(recipe: str, root: Path, part: str = "") -> list[str]:
    """The arguments of the first such command, with the folder for DIR."""
    line = commands(recipe, part)[0].replace("VPC2024", str(root / "original")).replace("=DIR", f"={root}")
    return [*shlex.split(line), *(() if recipe == "bring_your_scores" else SMALL)]


def without_intervals(*labels: str) -> list[str]:
    return [f"metric.{label}.{field}" for label in labels for field in ("interval=none", "replicates=0")]


def select(rows: pd.DataFrame, **identity: str) -> pd.DataFrame:
    for column, value in identity.items():
        rows = rows[rows[column] == value]
    return rows


def check_card(recipe: str, ended: Ended) -> pd.DataFrame:
    """The lines of the scorecard that have a number of ours; all lines have a verdict."""
    golden, card = CARDS[recipe], ended.scorecard
    assert len(card) == golden.cells and set(card["verdict"]) <= VERDICTS
    assert "several rows stand" not in ended.out + ended.err
    ours = card[card["our_system"] != ""]
    assert set(ours["our_system"]) == golden.systems and set(ours["metric"]) >= golden.metrics
    return ours


# Editions of Kaldi ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_2020_has_all_metrics_and_definitions_of_its_papers(folder: Callable, command: Command) -> None:
    ended = command(*words("vpc2020", folder("vpc2020").root), "scorecard.systems.B2=anon", status=0)
    rows = ended.rows
    assert rows["subset"].nunique() == 12 and set(rows["system"]) == {"original", "anon"}
    assert set(rows["attacker"]) == {"unprotected", "ignorant", "lazy_informed", ""}
    assert set(select(rows, metric="eer")["variant"]) == {"kaldi", "rocch"}
    assert set(select(rows, metric="deid")["variant"]) == {"", "noe2020", "noe2020, half"}
    assert "trial_lists" in set(select(rows, metric="g_d_ece")["variant"])
    ours = check_card("vpc2020", ended)
    assert ours["source"].str.contains("2020").any()
    ours = ours[(ours["our_system"] == "anon") & ours["metric"].isin(["deid", "g_vd"])]
    values = rows.drop_duplicates(["subset", "metric", "variant"]).set_index(["subset", "metric", "variant"])["value"]
    for cell in ours.to_dict("records"):
        plain = values[cell["subset"], cell["metric"], ""]
        assert float(cell["ours"]) == pytest.approx(plain * (100 if cell["metric"] == "deid" else 1), abs=1e-9)


@pytest.mark.slow
def test_2022_has_weighted_averages_and_conditions(folder: Callable, command: Command) -> None:
    ended = command(*words("vpc2022", folder("vpc2022").root), "scorecard.systems.mcadams=anon", status=0)
    weights = {"libri_test_trials_f": 0.25, "libri_test_trials_m": 0.25, "vctk_test_trials_f": 0.2, "vctk_test_trials_m": 0.2,
               "vctk_test_trials_f_common": 0.05, "vctk_test_trials_m_common": 0.05}  # fmt: skip
    for metric, variant, attacker in (("eer", "kaldi", "semi_informed"), ("g_vd", "noe2020, half", "")):
        values = select(ended.rows, metric=metric, variant=variant, attacker=attacker).set_index("subset")["value"]
        expected = sum(weight * values[name] for name, weight in weights.items())
        assert np.isclose(values["test (weighted average)"], expected, atol=1e-12)
    assert "Minimum-EER condition met on test (weighted average): anon " in ended.out
    assert "Least EER of condition 1: 15 %, 2: 20 %, 3: 25 %, 4: 30 %" in (ended.folder / "summary.txt").read_text()
    ours = check_card("vpc2022", ended)
    averaged = ours[ours["subset"].str.contains("weighted") & (ours["our_system"] == "anon")]
    assert set(zip(averaged["metric"], averaged["variant"])) == {("eer", "kaldi"), ("g_vd", "noe2020, half")}


@pytest.mark.slow
def test_the_semi_informed_attacker_of_2022_has_the_model_that_was_trained_on_anonymised_speech(
    folder: Callable, command: Command
) -> None:
    """Its numbers are those of a run with that model's vectors and PLDA alone; the others' are of the downloaded one."""
    first = words("vpc2022", folder("vpc2022").root)
    quick = ("metric=[asv]", "~metric.half", "derived=[]", "metric.asv.replicates=0", *NO_MEANS, TWO)
    alone = ("extractor.precomputed.trained_on=anonymised", "attacker=[semi_informed]")
    identity = ["subset", "attacker", "metric", "variant"]
    both = command(*first, *quick, status=0).rows.set_index(identity).sort_index()
    models = dict(zip(both.index.get_level_values("attacker"), both["trained_on"], strict=True))
    assert models["semi_informed"] == "anonymised (the challenge's model)" and models["lazy_informed"] == "original"
    own = command(*first, *quick, *alone, status=0).rows.set_index(identity).sort_index()
    for subset in TEST:
        for metric, variant in (("eer", "kaldi"), ("cllr", ""), ("cllr_min", "")):
            key = (subset, "semi_informed", metric, variant)
            assert both.loc[key, "value"] == own.loc[key, "value"]
    lazy, semi = (
        both.loc[("libri_test_trials_f", attacker, "cllr", ""), "value"]
        for attacker in models
        if "informed" in attacker
    )
    assert lazy != semi  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "more", "systems"),
    [("vpc2020", [], {"b2_vpc2020", "b2r"}), ("vpc2022", NO_MEANS, {"b2_vpc2022"})],
)
def test_everything_trained_here(
    recipe: str, more: list[str], systems: set[str], folder: Callable, command: Command
) -> None:
    ended = command(*words(recipe, folder(recipe).root, "train=default"), *TRAINED, *more, status=0)
    assert set(ended.rows["system"]) == {"original", "anon", *systems}
    assert recipe != "vpc2020" or systems <= set(ended.scorecard["our_system"])


def test_systems_without_vectors_are_refused_with_the_command_that_trains(folder: Callable, command: Command) -> None:
    root = folder("vpc2020").root
    refused = command("plan", *words("vpc2020", root), TWO, "system=[original,found,b2_vpc2020,b2r]", status=2)
    assert "no vectors of b2_vpc2020, b2r are there" in refused.err
    remedy = refused.err.partition("an extractor of the run needs none: ")[2].splitlines()[0]
    (trained,) = commands("vpc2020", "train=default")
    assert remedy in trained
    command("plan", *words("vpc2020", root, "train=default"), TWO, status=0)


def test_without_the_model_on_anonymised_speech_it_is_refused_and_the_remedy_runs(
    folder: Callable, command: Command, tmp_path: Path
) -> None:
    root = folder("vpc2022").root
    named = f"backend.plda.source={root}/baseline/exp/models/asv_eval/xvect_01709_1"
    assert "go with vectors that know original speech" in command("plan", *words("vpc2022", root), named, status=2).err
    copy = shutil.copytree(root, tmp_path / "DIR", symlinks=True)
    shutil.rmtree(copy / "baseline/exp/models/user_asv_eval_anon")
    refused = command("plan", *words("vpc2022", copy), TWO, *NO_MEANS, status=2)
    assert "user_asv_eval_anon" in refused.err and "'attacker=[ignorant,lazy_informed]'" in refused.err
    command("plan", *words("vpc2022", copy, "'attacker=[ignorant,lazy_informed]'"), status=0)


# 2024 ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_2024(folder: Callable, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Without figures and intervals, which take most of the time at this size; the slow test has the whole command."""
    bare = ("diagnostics=false", "metric=[asv]", "metric.asv.interval=none")
    return finish(tmp_path_factory.mktemp("2024"), *words("vpc2024", folder("vpc2024").root), *bare)


def test_every_copy_of_2024_is_attacked_with_the_models_found_and_ours_stand_for_b2_and_b3(of_2024: Ended) -> None:
    eer = select(of_2024.rows, metric="eer", variant="speechbrain")
    mean = select(eer, subset=TEST_MEAN)
    attacks = [("OP", "ignorant"), ("PP", "lazy_informed"), ("PP", "semi_informed")]
    assert set(zip(mean["system"], mean["condition"], mean["attacker"])) == {
        ("original", "OO", "unprotected"), *((system, *attack) for system in ("mcadams", "sttts") for attack in attacks),
    }  # fmt: skip
    semi = select(eer, attacker="semi_informed")
    assert set(semi["trained_on"]) == {"anonymised (the challenge's checkpoint)"}
    assert semi["model_digest"].nunique() == 2, "each copy has the model that was trained on it"
    log = (of_2024.folder / "run.log").read_text()
    assert "exp/asv_orig/CKPT+10" in log and "exp/asv_anon_sttts/CKPT+10" in log
    ours = check_card("vpc2024", of_2024)
    assert (ours["system"] == ours["our_system"]).all() and len(ours) == 7 * 4 + 2 * 4
    absent = select(of_2024.scorecard, metric="eer", system="nac")
    assert set(zip(absent["verdict"], absent["note"])) == {("not run", "no such system")}
    assert set(of_2024.scorecard["tolerance"]) == {"", "0"}
    bands, values = of_2024.run.bands, semi.set_index(["system", "subset"])["value"]
    assert set(zip(bands["system"], bands["subset"])) == {(system, TEST_MEAN) for system in ("mcadams", "sttts")}
    for system in ("mcadams", "sttts"):
        assert values[system, TEST_MEAN] == pytest.approx(sum(values[system, name] for name in TEST) / 2)


def test_scores_are_those_of_the_challenges_own_steps(folder: Callable, of_2024: Ended) -> None:
    """Peak division, trimming of exact zeros, one file at a time, plain means, cosine: done here with SpeechBrain alone."""
    from speechbrain.lobes.features import Fbank
    from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN
    from speechbrain.processing.features import InputNormalization

    root = folder("vpc2024").root
    checkpoint = root / "exp" / "asv_anon_mcadams" / "CKPT+10" / "embedding_model.ckpt"
    network = ECAPA_TDNN(80, channels=[16, 16, 16, 16, 48], lin_neurons=192, attention_channels=16, se_channels=16)
    network.load_state_dict(torch.load(checkpoint, weights_only=True))
    network.eval()
    fbank, mean = Fbank(n_mels=80), InputNormalization(norm_type="sentence", std_norm=False)

    def vector(path: Path) -> np.ndarray:
        wave, rate = soundfile.read(path, dtype="float32")
        assert rate == 16000
        wave = np.trim_zeros(wave / np.abs(wave).max())
        with torch.no_grad():
            features = mean(fbank(torch.from_numpy(wave)[None]), torch.ones(1))
            return np.asarray(network(features)[0, 0])

    data, name = root / "data", "libri_test_trials_f"
    enrolled: dict[str, list[np.ndarray]] = {}
    speakers = dict(line.split() for line in (data / "libri_test_enrolls" / "utt2spk").read_text().splitlines())
    for utterance in (data / "libri_test_enrolls" / "enrolls").read_text().split():
        wav = data / "libri_test_enrolls_mcadams" / "wav" / f"{utterance}.wav"
        enrolled.setdefault(speakers[utterance], []).append(vector(wav))
    models = {speaker: np.mean(vectors, axis=0) for speaker, vectors in enrolled.items()}
    trials = [line.split() for line in (data / name / "trials").read_text().splitlines()]
    tried = {row[1]: vector(data / f"{name}_mcadams" / "wav" / f"{row[1]}.wav") for row in trials}
    expected = {
        (model, utterance): float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
        for model, utterance, _ in trials
        for a, b in [(models[model], tried[utterance])]
    }
    table = of_2024.run.scores(subset=name, system="mcadams", attacker="semi_informed")
    scores = dict(zip(zip(table["model"], table["utterance"]), table["score"]))
    assert scores.keys() == expected.keys() and len(scores) > 50
    assert max(abs(scores[pair] - expected[pair]) for pair in expected) < 1e-5
    labels = {(model, utterance): label == "target" for model, utterance, label in trials}
    classes = [np.array([expected[pair] for pair in expected if labels[pair] is kind]) for kind in (True, False)]
    identity = {"variant": "speechbrain", "attacker": "semi_informed", "system": "mcadams", "subset": name}
    (value,) = select(of_2024.rows, metric="eer", **identity)["value"]
    assert value == pytest.approx(metrics.eer(*classes, variant="speechbrain"), abs=1e-9)


@pytest.mark.slow
def test_the_whole_shape_of_2024(tmp_path: Path, lists: Path, command: Command) -> None:
    """Six sets, 21,650 test trials: the counts of the challenge's own lists, in every row."""
    write("2024", tmp_path / "full", lists=lists, scores=False)
    eer = select(command(*shlex.split(commands("vpc2024")[0].replace("DIR", "full")), status=0).rows, metric="eer")
    eer = select(eer, variant="speechbrain")
    sums = {DEV_MEAN: tuple(map(sum, zip(*DEV.values()))), TEST_MEAN: tuple(map(sum, zip(*TEST.values())))}
    assert sum(sums[TEST_MEAN]) == 21650
    counted = Counter(zip(eer["subset"], eer["n_target"], eer["n_nontarget"]))
    assert counted == {(name, *counts): 4 for name, counts in (TEST | DEV | sums).items()}
    assert (eer["n_used"] == eer["n_expected"]).all()


# The Attacker Challenge ----------------------------------------------------------------------------------------------


def our_lines(ended: Ended) -> list[list[str]]:
    """The cells of our lines in the scorecard's tables, of each table in turn."""
    lines = (ended.folder / "scorecard.md").read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ours: ")]


@pytest.mark.slow
def test_the_systems_stand_in_the_table_under_an_attacker_trained_in_the_run(
    folder: Callable, command: Command
) -> None:
    """A tiny ECAPA of two steps in place of the recipe's attacker; its line is that of the challenge's own."""
    tiny = ("train=small", "train.steps=2", "train.batch=4", "metric.asv.interval=none", "diagnostics=false")
    ended = command(*words("vpac", folder("vpac").root), "extractor=[ecapa]", "backend=[cosine]", *tiny, status=0)
    attacked = select(ended.rows, metric="eer", variant="speechbrain", attacker="semi_informed")
    values = attacked.set_index(["system", "subset"])["value"]
    systems = CARDS["vpac"].systems
    assert set(attacked["system"]) == systems
    for system in systems:
        assert values[system, ALL_FOUR] == pytest.approx(sum(values[system, name] for name in TEST | DEV) / 4)
    log = (ended.folder / "run.log").read_text()
    assert "libri360_anon_B4 is taken for train-clean-360_B4" in log
    assert "libri_dev_trails_f_T25-1 is taken for libri_dev_trials_f_T25-1" in log
    assert set(check_card("vpac", ended)["extractor"]) == {"ecapa"}
    assert set(select(ended.scorecard, extractor="A.20")["ours"]) == {""}
    assert set(select(ended.scorecard, extractor="ecapa", system="B3")["our_system"]) == {""}, "it is not there"
    lines = our_lines(ended)
    assert [line[0] for line in lines] == ["ours: ecapa (anonymised (utterance)), cosine"] * 3, "test, dev, their mean"
    heads = ("B3", "B4", "B5", "T8-5", "T10-2", "T12-5", "T25-1", "mean")
    shown = {head: cell for head, cell in zip(heads, lines[2][1:]) if cell.strip(" |") != "–"}
    assert shown == {system: f"{100 * values[system, ALL_FOUR]:.1f}" for system in systems}


@pytest.mark.slow
def test_the_attackers_recipes_own_attack(folder: Callable, command: Command, models: Path) -> None:
    """CAM++ as it comes and fine-tuned, with each back end; the cohort is what twelve training speakers give."""
    if not list(models.glob("*campplus*")):
        pytest.skip("the weights of CAM++ are not here: make install")
    few = ("system=[original,found:T8-5]", "train.steps=2", "backend.wccn.as_norm.top=10", "diagnostics=false")
    ended = command(*words("vpac", folder("vpac").root), *few, status=0)
    learnt = "anonymised (utterance)"
    ways = ((learnt, "cosine"), (learnt, "wccn"), (f"original; back end {learnt}", "wccn"))
    assert {line[0] for line in our_lines(ended)} == {f"ours: campplus ({on}), {backend}" for on, backend in ways}
    assert set(ended.scorecard["our_system"]) == {""}, "no published attacker is this one"


# SRD -----------------------------------------------------------------------------------------------------------------


def check_ranks(ended: Ended, systems: list[str], features: list[str]) -> pd.DataFrame:
    """The ranks by the paper's protocol; what was evaluated, and nothing else, is in both tables."""
    card = ended.scorecard
    assert Counter(card["table"]) == {"Table 1": 68, "Table 2 (beta-binomial)": 32}
    evaluated = card["system"].isin(["original", *systems])
    assert set(card.loc[~evaluated, "verdict"]) <= {"not run", "sources disagree"}
    assert set(card.loc[evaluated, "verdict"]) <= VERDICTS - {"not run"}
    ranks = select(ended.rows, metric="idr", estimator="empirical")
    assert set(ranks["system"]) == {"original", *systems}
    assert set(ranks["subset"]) == {POOLED, f"{POOLED}, f", f"{POOLED}, m"}
    ranks = select(ranks, subset=POOLED, variant="")
    for system in systems:
        rows = select(ranks, system=system)
        ways = sorted(zip(rows["extractor"], rows["trained_on"].str.partition(" (")[0]))
        assert ways == sorted([*((name, "original") for name in features), ("ecapa", "anonymised")])
    assert set(ranks["input_unit"]) == {"segment"} and (ranks["n_used"] == 20 * ranks["n_speakers"]).all()
    return ranks


@pytest.mark.slow
def test_the_papers_rows_are_taken_and_no_others(folder: Callable, command: Command) -> None:
    written = folder("srd2026")
    bare = without_intervals("asv", "srd", "srd_sex", "srd_chapter")
    ended = command(*words("srd2026", written.root), *bare, "extractor=[ecapa]", "diagnostics=false", status=0)
    check_card("srd2026", ended)
    ranks = check_ranks(ended, ["T10-2"], ["ecapa"])
    chapters: dict[str, set[str]] = {}
    for name in ("libri_test_enrolls", "libri_test_trials_f", "libri_test_trials_m"):
        for row in written.sets[name].utterances:
            chapters.setdefault(row.speaker, set()).add(row.id.split("-")[1])
    assert set(ranks["n_speakers"]) == {len(chapters)}
    single = [speaker for speaker, own in chapters.items() if len(own) == 1]
    assert single and f"{len(single)} have a single chapter and are left out" in ended.out + ended.err
    # A printed cell stands beside the value of the paper's protocol, and of no other.
    printed = select(ended.scorecard, table="Table 1", metric="idr", system="original")
    (value,) = select(ranks, system="original", extractor="ecapa")["value"]
    assert float(printed["ours"].iloc[0]) == pytest.approx(100 * value)


@pytest.mark.slow
def test_the_command_of_srd_as_it_stands_with_all_systems(tmp_path: Path, command: Command) -> None:
    """Phones are trained, and the systems of the paper lie beside the sets."""
    systems = ["B3", "B4", "B5", "T8-5", "T10-2", "T12-5", "T25-1"]
    write("2024", tmp_path / "all", None, 0.1, systems, 0.8)
    ended = command(*words("srd2026", tmp_path / "all"), "diagnostics=false", status=0)
    check_ranks(ended, systems, ["ecapa", "f0", "phones"])
    card = ended.scorecard
    assert not card["verdict"].eq("not run").any() and select(card, metric="eer")["ours"].ne("").all()
    assert set(select(card, verdict="sources disagree")["metric"]) <= {"eer"}


def test_other_components_replace_those_that_the_recipe_sets_fields_of() -> None:
    given = ["recipe=srd2026", "train=none", "attacker=[lazy_informed]", "system=[original]", "extractor=[f0]", "metric=[srd]"]  # fmt: skip
    evaluation, values = compose(given)
    assert list(evaluation.extractors) == list(values["extractor"]) == ["f0"]
    assert list(values["metric"]) == ["srd"] and list(values["metric"]["srd"]["pools"]) == [POOLED]
    with pytest.raises(ConfigError) as caught:
        compose([*given, "extractor.ecapa.trim_zeros=false"])
    assert "no extractor of this label is chosen" in caught.value.faults[0].what


# Scores --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_printed_cells_stand_beside_pooled_scores_and_means(folder: Callable, command: Command) -> None:
    bare = without_intervals("asv", "zebra")
    ended = command(*words("bring_your_scores", folder("bring_your_scores").root), *bare, status=0)
    ours = check_card("bring_your_scores", ended).set_index("subset")["ours"].astype(float)
    values = select(ended.rows, attacker="semi_informed", variant="speechbrain").set_index("subset")["value"]
    test, dev = (np.mean([values[name] for name in sets]) for sets in (TEST, DEV))
    expected = {POOLED: values[POOLED], DEV_MEAN: dev, TEST_MEAN: test, ALL_FOUR: (test + dev) / 2}
    assert set(ours.index) == set(expected)
    for subset, value in ours.items():
        assert value == pytest.approx(100 * expected[subset]), subset
