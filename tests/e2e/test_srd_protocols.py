"""SRD beside the paper's protocol: pools of sets, references of the input's sex, chapters held apart; against ranks by loops."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import kaldiio
import numpy as np
import pandas as pd
import pytest
import soundfile

from pipeline import cli
from pipeline.tables import results

SPEAKERS = {"f": ["11", "12", "13"], "m": ["21", "22", "23"]}
ONE_CHAPTER = {"13", "23"}
RATE = 16000
CHAPTERS = "chapters apart, srd_chapter"


def chapter(name: str) -> str:
    return name.split("-")[1]


def corpus(root: Path) -> Path:
    """Sets ``libri_*`` with the ids of LibriSpeech: a chapter enrolled, two others tried; speakers with one are not enrolled."""
    random = np.random.default_rng(0)
    sets: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for sex, speakers in SPEAKERS.items():
        for speaker in speakers:
            chapters = ["7"] if speaker in ONE_CHAPTER else ["7", "8", "9"]
            for one in chapters:
                role = "libri_enrolls" if one == "7" and len(chapters) > 1 else f"libri_trials_{sex}"
                sets[role] += [(f"{speaker}-{one}-{number:04d}", speaker, sex) for number in range(3)]
    for name, rows in sets.items():
        folder = root / name
        folder.mkdir(parents=True)
        for utterance, _, _ in rows:
            soundfile.write(folder / f"{utterance}.wav", random.uniform(-0.1, 0.1, RATE // 4), RATE)
        tables = {
            "wav.scp": [f"{utterance} {name}/{utterance}.wav" for utterance, _, _ in rows],
            "utt2spk": [f"{utterance} {speaker}" for utterance, speaker, _ in rows],
            "spk2gender": sorted({f"{speaker} {sex}" for _, speaker, sex in rows}),
        }
        if name == "libri_enrolls":
            tables["enrolls"] = [utterance for utterance, _, _ in rows]
        else:
            enrolled = sorted({speaker for _, speaker, sex in sets["libri_enrolls"] if sex == name[-1]})
            tables["trials"] = [
                f"{model} {utterance} {'target' if speaker == model else 'nontarget'}"
                for model in enrolled
                for utterance, speaker, _ in rows
            ]
        for table, lines in tables.items():
            (folder / table).write_text("".join(f"{line}\n" for line in lines))
    return root


def drawn(root: Path, place: Path) -> dict[str, np.ndarray]:
    """Vectors in which a speaker is found more often than by chance, and not always."""
    random = np.random.default_rng(3)
    voices = {speaker: random.standard_normal(4) for several in SPEAKERS.values() for speaker in several}
    names = sorted(path.stem for path in root.glob("*/*.wav"))
    made = {name: (voices[name[:2]] + 1.2 * random.standard_normal(4)).astype(np.float32) for name in names}
    place.mkdir()
    with kaldiio.WriteHelper(f"ark,scp:{place / 'xvector.ark'},{place / 'xvector.scp'}") as writer:
        for name, vector in made.items():
            writer(name, vector)
    return made


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Rank vectors in this process; the vectors, the rows of the results, and what was printed."""
    monkeypatch.chdir(tmp_path)
    root = corpus(tmp_path / "data")
    vectors = drawn(root, tmp_path / "original")

    def once(*more: str, status: int = 0) -> tuple[dict[str, np.ndarray], pd.DataFrame, str]:
        found = cli.run([
            "recipe=kaldi", f"dataset.root={root}", "system=[original]", "extractor=[precomputed]", "attacker=[ignorant]",
            f"+extractor.precomputed.vectors={{original: {tmp_path / 'original'}}}", "runtime.device=cpu", *more,
        ])  # fmt: skip
        out, err = capfd.readouterr()
        assert found == status, err
        return vectors, results.read(Path(out.splitlines()[-1]).parent) if out else pd.DataFrame(), out + err

    return once


def ordered(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: hashlib.sha256(f'[0,"{name}"]'.encode()).hexdigest())


def halves(names: list[str], apart: str) -> tuple[list[str], list[str]]:
    """The reference and the input half by the rule in words."""
    if apart == "utterance":
        return ordered(names)[: len(names) // 2], ordered(names)[len(names) // 2 :]
    chapters = ordered(sorted({chapter(name) for name in names}))
    sizes = [sum(chapter(name) in chapters[:n] for name in names) for n in range(1, len(chapters))]
    first = chapters[: int(np.argmin([abs(2 * size - len(names)) for size in sizes])) + 1]
    return (
        [name for name in ordered(names) if chapter(name) in first],
        [name for name in ordered(names) if chapter(name) not in first],
    )


def share_of_first(vectors: dict[str, np.ndarray], speakers: list[str], apart: str) -> float:
    """How often the own reference is the most similar, speakers weighed equally."""
    parts = {s: halves([name for name in vectors if name.startswith(s)], apart) for s in speakers}
    unit = {name: vector / np.linalg.norm(vector) for name, vector in vectors.items()}
    references = {s: np.mean([unit[name] for name in known], axis=0) for s, (known, _) in parts.items()}
    shares = []
    for speaker, (_, inputs) in parts.items():
        found = []
        for name in inputs:
            similar = {s: unit[name] @ made / np.linalg.norm(made) for s, made in references.items()}
            found.append(max(similar, key=lambda s: similar[s]) == speaker)
        shares.append(np.mean(found))
    return float(np.mean(shares))


EVERYBODY = SPEAKERS["f"] + SPEAKERS["m"]


@pytest.mark.slow
def test_beside_the_papers_protocol_stand_ranks_within_a_sex_and_with_chapters_apart(run: Callable) -> None:
    """Each with its own rows, and the speakers that cannot be held apart are named above the numbers."""
    vectors, rows, said = run(
        "metric=[srd,srd_sex,srd_chapter]", *(f"metric.{name}.unit=utterance" for name in ("srd", "srd_sex", "srd_chapter"))
    )  # fmt: skip
    idr = rows[(rows["metric"] == "idr") & (rows["estimator"] == "empirical")].set_index(["subset", "variant"])
    assert set(idr.index) == {("pooled", ""), ("pooled, f", "srd_sex"), ("pooled, m", "srd_sex"), ("pooled", CHAPTERS)}
    several = [speaker for speaker in EVERYBODY if speaker not in ONE_CHAPTER]
    expected = {
        ("pooled", ""): (EVERYBODY, "utterance"),
        ("pooled, f", "srd_sex"): (SPEAKERS["f"], "utterance"),
        ("pooled, m", "srd_sex"): (SPEAKERS["m"], "utterance"),
        ("pooled", CHAPTERS): (several, "chapter"),
    }
    for key, (speakers, apart) in expected.items():
        assert idr.loc[key, "value"] == pytest.approx(share_of_first(vectors, speakers, apart), abs=1e-12), key
        assert idr.loc[key, "n_speakers"] == len(speakers)
        assert idr.loc[key, "n_used"] == idr.loc[key, "n_expected"]
    assert idr["signature"].nunique() == 3  # the two sexes are one definition
    assert "srd_chapter of pooled stands on 4 speakers: 2 have a single chapter and are left out: 13, 23" in said
    assert 0 < idr["value"].min() < 1


@pytest.mark.slow
def test_sets_are_pooled_by_name(run: Callable) -> None:
    pools = "metric.srd.pools={women: [libri_trials_f], both: [libri_trials_f, libri_trials_m]}"
    vectors, rows, _ = run("metric=[srd]", "metric.srd.unit=utterance", pools)
    idr = rows[(rows["metric"] == "idr") & (rows["estimator"] == "empirical")].set_index("subset")
    assert set(idr.index) == {"women", "both"}
    assert idr.loc["both", "value"] == pytest.approx(share_of_first(vectors, EVERYBODY, "utterance"), abs=1e-12)
    assert idr.loc["women", "value"] == pytest.approx(share_of_first(vectors, SPEAKERS["f"], "utterance"), abs=1e-12)


@pytest.mark.slow
def test_a_pool_of_a_set_that_is_not_there_is_refused_and_mended(run: Callable) -> None:
    _, _, said = run("metric=[srd]", "metric.srd.pools={women: [libri_trial_f]}", status=2)
    assert "names libri_trial_f, which is not evaluated" in said and "metric.srd.pools=null" in said
    run("metric=[srd]", "metric.srd.unit=utterance", "metric.srd.pools=null")


@pytest.mark.slow
def test_within_a_sex_needs_the_sexes(run: Callable, tmp_path: Path) -> None:
    for table in (tmp_path / "data").glob("*/spk2gender"):
        table.unlink()
    _, _, said = run("metric=[srd_sex]", "metric.srd_sex.unit=utterance", status=2)
    assert "ranks within a sex, and the sex of" in said and "metric.srd_sex.within=all" in said
    run("metric=[srd_sex]", "metric.srd_sex.unit=utterance", "metric.srd_sex.within=all")


@pytest.mark.slow
def test_where_no_reference_can_be_used_there_is_no_value_and_the_reason(run: Callable) -> None:
    """Noise has no F0. The other features keep their numbers, and the run ends as one that lacks something."""
    given = ("metric=[srd]", "metric.srd.unit=utterance", "metric.srd.interval=none", "metric.srd.replicates=0",
             "extractor=[precomputed,f0]")  # fmt: skip
    _, rows, said = run(*given, status=3)
    assert (
        "measure srd pooled original f0 original euclidean: srd cannot be computed: 0 speakers have a reference" in said
    )
    of_f0, others = rows[rows["extractor"] == "f0"], rows[rows["extractor"] != "f0"]
    assert sorted(of_f0["metric"]) == ["idr", "max_d", "mean_d", "rank_spread"]
    assert of_f0["value"].isna().all() and set(of_f0["status"]) == {"incomplete"}
    assert of_f0["reason"].str.contains("0 speakers have a reference that can be used, and two are needed").all()
    assert others["value"].notna().all() and set(others["status"]) == {"ok"}
