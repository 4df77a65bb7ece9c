"""SRD beside the paper's protocol: pools of sets, references of the input's sex, chapters held apart; against ranks by loops."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path

import kaldiio
import numpy as np
import pandas as pd
import pytest
import soundfile

from tests import toy
from tests.running import Command, Ended, runner

SPEAKERS = {"f": ["11", "12", "13"], "m": ["21", "22", "23"]}
ONE_CHAPTER = {"13", "23"}
RATE = 16000
CHAPTERS = "chapters apart, srd_chapter"


def chapter(name: str) -> str:
    return name.split("-")[1]


def corpus(root: Path) -> Path:
    """Sets ``libri_*`` with the ids of LibriSpeech: a chapter enrolled, two others tried; speakers with one are not enrolled."""
    random = np.random.default_rng(0)
    sets: dict[str, list[toy.Row]] = defaultdict(list)
    for sex, speakers in SPEAKERS.items():
        for speaker in speakers:
            chapters = ["7"] if speaker in ONE_CHAPTER else ["7", "8", "9"]
            for name in chapters:
                part = "libri_enrolls" if name == "7" and len(chapters) > 1 else f"libri_trials_{sex}"
                ids = [f"{speaker}-{name}-{number:04d}" for number in range(3)]
                sets[part] += [(id_, speaker, sex, f"{part}/{id_}.wav") for id_ in ids]
    for part, rows in sets.items():
        is_enrolment = part == "libri_enrolls"
        enrolled = sorted({speaker for _, speaker, sex, _ in sets["libri_enrolls"] if sex == part[-1]})
        toy.write_set(root / part, rows, None if is_enrolment else enrolled, is_enrolment)
        for _, _, _, path in rows:
            soundfile.write(root / str(path), random.uniform(-0.1, 0.1, RATE // 4), RATE)
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
def vectors(tmp_path: Path) -> dict[str, np.ndarray]:
    return drawn(corpus(tmp_path / "data"), tmp_path / "original")


@pytest.fixture
def run(
    vectors: dict[str, np.ndarray], tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Rank the vectors in this process."""
    monkeypatch.chdir(tmp_path)
    return runner(
        capfd, monkeypatch, "recipe=kaldi", "dataset.root=data", "system=[original]", "extractor=[precomputed]", "attacker=[ignorant]",
        f"+extractor.precomputed.vectors={{original: {tmp_path / 'original'}}}", "runtime.device=cpu",
    )  # fmt: skip


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


def empirical(ended: Ended) -> pd.DataFrame:
    """The rows of IdR by counting."""
    return ended.rows.query("metric == 'idr' and estimator == 'empirical'")


@pytest.mark.slow
def test_beside_the_papers_protocol_stand_ranks_within_a_sex_and_with_chapters_apart(
    run: Command, vectors: dict[str, np.ndarray]
) -> None:
    """Each with its own rows, and the speakers that cannot be held apart are named above the numbers."""
    metrics = ("srd", "srd_sex", "srd_chapter")
    ended = run(f"metric=[{','.join(metrics)}]", *(f"metric.{name}.unit=utterance" for name in metrics), status=0)
    idr = empirical(ended).set_index(["subset", "variant"])
    several = [speaker for speaker in EVERYBODY if speaker not in ONE_CHAPTER]
    expected = {
        ("pooled", ""): (EVERYBODY, "utterance"),
        ("pooled, f", "srd_sex"): (SPEAKERS["f"], "utterance"),
        ("pooled, m", "srd_sex"): (SPEAKERS["m"], "utterance"),
        ("pooled", CHAPTERS): (several, "chapter"),
    }
    assert set(idr.index) == set(expected)
    for key, (speakers, apart) in expected.items():
        assert idr.loc[key, "value"] == pytest.approx(share_of_first(vectors, speakers, apart), abs=1e-12), key
        assert idr.loc[key, "n_speakers"] == len(speakers)
        assert idr.loc[key, "n_used"] == idr.loc[key, "n_expected"]
    assert idr["signature"].nunique() == 3  # the two sexes are one definition
    left_out = "srd_chapter of pooled stands on 4 speakers: 2 have a single chapter and are left out: 13, 23"
    assert left_out in ended.out + ended.err
    assert 0 < idr["value"].min() < 1


@pytest.mark.slow
def test_sets_are_pooled_by_name(run: Command, vectors: dict[str, np.ndarray]) -> None:
    pools = "metric.srd.pools={women: [libri_trials_f], both: [libri_trials_f, libri_trials_m]}"
    idr = empirical(run("metric=[srd]", "metric.srd.unit=utterance", pools, status=0)).set_index("subset")
    assert set(idr.index) == {"women", "both"}
    for pool, speakers in (("both", EVERYBODY), ("women", SPEAKERS["f"])):
        assert idr.loc[pool, "value"] == pytest.approx(share_of_first(vectors, speakers, "utterance"), abs=1e-12)


@pytest.mark.slow
def test_a_pool_of_a_set_that_is_not_there_and_sexes_that_are_not_known_are_refused_and_mended(
    run: Command, tmp_path: Path
) -> None:
    refused = run("metric=[srd]", "metric.srd.pools={women: [libri_trial_f]}", status=2)
    assert "names libri_trial_f, which is not evaluated" in refused.err and "metric.srd.pools=null" in refused.err
    run("plan", "metric=[srd]", "metric.srd.unit=utterance", "metric.srd.pools=null", status=0)
    for table in (tmp_path / "data").glob("*/spk2gender"):
        table.unlink()
    refused = run("metric=[srd_sex]", "metric.srd_sex.unit=utterance", status=2)
    assert "ranks within a sex, and the sex of" in refused.err and "metric.srd_sex.within=all" in refused.err
    run("plan", "metric=[srd_sex]", "metric.srd_sex.unit=utterance", "metric.srd_sex.within=all", status=0)


@pytest.mark.slow
def test_where_no_reference_can_be_used_there_is_no_value_and_the_reason(run: Command) -> None:
    """Noise has no F0. The other features keep their numbers, and the run ends as one that lacks something."""
    bare = ("metric.srd.unit=utterance", "metric.srd.interval=none", "metric.srd.replicates=0")
    ended = run("metric=[srd]", *bare, "extractor=[precomputed,f0]", status=3)
    assert "measure srd pooled original f0 original euclidean: srd cannot be computed" in ended.out + ended.err
    of_f0, others = (ended.rows.query(f"extractor {sign} 'f0'") for sign in ("==", "!="))
    assert sorted(of_f0["metric"]) == ["idr", "max_d", "mean_d", "rank_spread"]
    assert of_f0["value"].isna().all() and set(of_f0["status"]) == {"incomplete"}
    assert of_f0["reason"].str.contains("0 speakers have a reference that can be used").all()
    assert others["value"].notna().all() and set(others["status"]) == {"ok"}
