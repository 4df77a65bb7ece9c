"""What the sets hold (who speaks, what the utterances are called, which trials there are), and their tables on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np

from pipeline.seeds import digest, generator

SEED = 13
WORDS = (
    "THE OF AND A TO IN HE THAT WAS IT HIS HER WITH AS HAD FOR SHE NOT BUT AT ON BE MY HIM THEY HAVE ONE UPON SAID SO LITTLE MAN OLD "
    "TIME GREAT HOUSE DAY GOOD NIGHT HAND LONG WAY NEVER CAME WATER ROAD MORNING LIGHT WORLD HEART DOOR"
)
Trial = tuple[str, str, str]
"""Model, utterance, label."""


@dataclass(frozen=True)
class Utterance:
    """An utterance and its speaker; ``sex`` is f or m."""

    id: str
    speaker: str
    sex: str
    text: str = ""

    @property
    def words(self) -> str:
        """What is said, in capitals: the text of the lists, or eight words drawn by the id."""
        return self.text or _draw_words(self.id)


@cache
def _draw_words(id_: str) -> str:
    words = WORDS.split()
    return " ".join(words[byte % len(words)] for byte in bytes.fromhex(digest("words", id_))[:8])


@dataclass(frozen=True)
class Set:
    """A set of the data; ``trials`` is None where it has none.

    Attributes:
        name: as in the challenge, such as ``libri_dev_trials_f``.
        raw: the folder of the download that it is cut out of.
        enrols: whether it holds the table ``enrolls``.
    """

    name: str
    raw: str
    utterances: tuple[Utterance, ...]
    enrols: bool = False
    trials: tuple[Trial, ...] | None = None
    extra: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_target(self) -> np.ndarray:
        """[trials] of bool."""
        return np.array([trial[2] == "target" for trial in self.trials or ()])


# Counts of LibriSpeech subsets (PROTOCOLS, section 2). By sex: speakers with and without a model, utterances of the former in the trial set,
# utterances of all; then the enrolment utterances, and how many a speaker has at least and at most.
LIBRI = {
    "libri_dev": ({"f": (15, 5, 704, 1018), "m": (14, 6, 644, 960)}, 343, 5, 18),
    "libri_test": ({"f": (16, 4, 548, 734), "m": (13, 7, 449, 762)}, 438, 8, 25),
}
# Of VCTK, where 15 speakers of each sex are enrolled with 20 utterances. By sex: utterances with different sentences, target and nontarget
# trials among them; utterances of sentences 001 to 024, each of which is one target trial, and nontarget trials among those.
VCTK = {
    "vctk_dev": {"f": (5422, 1781, 13219, 344, 4810), "m": (5255, 2015, 12985, 351, 4911)},
    "vctk_test": {"f": (5328, 1944, 13056, 346, 4838), "m": (5420, 1742, 13258, 354, 4952)},
}
VCTK_SPEAKERS, VCTK_ENROLMENT, COMMON = 15, 20, 24


def deal(total: int, among: int, random: np.random.Generator, low: int = 1, high: int | None = None) -> list[int]:
    """``total`` things dealt to ``among`` people, each ``low`` to ``high`` of them, unevenly by about a fifth."""
    mean = total / among
    top = high if high is not None else max(low + 1, round(2 * mean))
    counts = np.clip(np.rint(mean * random.uniform(0.8, 1.2, among)).astype(int), low, top)
    while (missing := total - int(counts.sum())) != 0:
        able = np.flatnonzero(counts < top if missing > 0 else counts > low)
        counts[random.permutation(able)[: abs(missing)]] += np.sign(missing)
    return [int(count) for count in counts]


def fewer(count: int, scale: float, least: int = 1) -> int:
    """A count that is cut so that two of them multiply to ``scale``."""
    return count if scale == 1 else min(count, max(least, round(count * scale**0.5)))


def libri(name: str, scale: float) -> list[Set]:
    """Enrolment, trials_f and trials_m of a LibriSpeech subset with invented ids; trials are the full product."""
    (shapes, n_enrolment, least, most), random = LIBRI[name], generator(SEED, "libri ids", name)
    low, high = (100, 4500) if name == "libri_dev" else (4500, 9000)  # nobody is in both
    numbers: set[int] = set()
    enrolment: list[Utterance] = []
    trials: dict[str, list[Utterance]] = {"f": [], "m": []}
    models: dict[str, list[str]] = {"f": [], "m": []}
    counts = deal(n_enrolment, shapes["f"][0] + shapes["m"][0], random, least, most)
    for sex, (n_enrolled, n_others, n_target, n_utterances) in shapes.items():
        tried = deal(n_target, n_enrolled, random) + deal(n_utterances - n_target, n_others, random)
        enrolled = [counts.pop() for _ in range(n_enrolled)] + [0] * n_others
        places = [*range(fewer(n_enrolled, scale, 2)), *(n_enrolled + n for n in range(fewer(n_others, scale)))]
        for place in places:
            speaker = str(_draw_new(random, numbers, low, high))
            chapter = _draw_new(random, numbers, 100_000, 300_000)
            for n in range(0, 2 * fewer(enrolled[place], scale, 2), 2):
                enrolment.append(Utterance(f"{speaker}-{chapter}-{n:04d}", speaker, sex))
            if enrolled[place]:
                models[sex].append(speaker)
            for n in range(fewer(tried[place], scale, 3)):
                if n % 24 == 0:
                    chapter = _draw_new(random, numbers, 100_000, 300_000)
                trials[sex].append(Utterance(f"{speaker}-{chapter}-{n % 24:04d}", speaker, sex))
    return [
        Set(f"{name}_enrolls", name, _sort(enrolment), enrols=True),
        *(Set(f"{name}_trials_{sex}", name, _sort(trials[sex]), trials=product(models[sex], trials[sex])) for sex in "fm"),
    ]  # fmt: skip


def product(models: Sequence[str], utterances: Iterable[Utterance]) -> tuple[Trial, ...]:
    """Every model with every utterance."""
    rows = _sort(utterances)
    return tuple(
        (model, row.id, "target" if row.speaker == model else "nontarget") for model in sorted(models) for row in rows
    )


def vctk(name: str, scale: float) -> list[Set]:
    """Enrolment, trials of different and of common sentences, and both together, of a VCTK subset with invented ids."""
    random = generator(SEED, "vctk ids", name)
    numbers: set[int] = set()
    enrolment: list[Utterance] = []
    others: list[Set] = []
    for sex, (n_different, n_target, n_nontarget, n_common, n_common_nontarget) in VCTK[name].items():
        first = 225 if name == "vctk_dev" else 400
        speakers = sorted(f"p{_draw_new(random, numbers, first, first + 150)}" for _ in range(VCTK_SPEAKERS))
        speakers = speakers[: fewer(VCTK_SPEAKERS, scale, 3)]
        is_full = len(speakers) == VCTK_SPEAKERS
        total = n_different if is_full else len(speakers) * fewer(360, scale, 4)
        different: list[Utterance] = []
        common: list[Utterance] = []
        for speaker, count in zip(speakers, deal(total, len(speakers), random, 3, 400), strict=True):
            sentences = 27 + random.permutation(440)
            enrolled, tried = np.split(sentences, [fewer(VCTK_ENROLMENT, scale, 2)])
            enrolment += [_speak_vctk(speaker, sex, int(n)) for n in enrolled]
            different += [_speak_vctk(speaker, sex, int(n)) for n in tried[:count]]
            common += [_speak_vctk(speaker, sex, n + 1) for n in range(fewer(COMMON, scale, 3))]
        absent = VCTK_SPEAKERS * COMMON - n_common if is_full else 0
        common = [common[place] for place in sorted(random.permutation(len(common))[absent:])]
        listed = sample(speakers, different, random, (n_target, n_nontarget) if is_full else None)
        full = product(speakers, common)
        surplus = len(full) - n_common - n_common_nontarget if is_full else 0
        able = [place for place, trial in enumerate(full) if trial[2] == "nontarget"]
        dropped = {able[place] for place in random.permutation(len(able))[:surplus]}
        kept = tuple(trial for place, trial in enumerate(full) if place not in dropped)
        for ending, rows, trials in (
            ("", different, listed), ("_common", common, kept), ("_all", [*different, *common], listed + kept),
        ):  # fmt: skip
            others.append(Set(f"{name}_trials_{sex}{ending}", name, _sort(rows), trials=trials))
    return [Set(f"{name}_enrolls", name, _sort(enrolment), enrols=True), *others]


def sample(
    models: Sequence[str], utterances: Sequence[Utterance], random: np.random.Generator, counts: tuple[int, int] | None
) -> tuple[Trial, ...]:
    """Some targets and nontargets of the full product, so that every utterance is tried; a third of the product by default."""
    rows = [utterances[place] for place in random.permutation(len(utterances))]
    n_targets, n_nontargets = counts or (max(2, len(rows) // 3), max(4, len(rows) * (len(models) - 1) // 3))
    targets = {(row.speaker, row.id, "target") for row in rows[:n_targets]}
    strangers = [(model, row.id) for row in rows for model in models if model != row.speaker]
    # one stranger first for each utterance that is in no target trial
    each = len(models) - 1
    first = [strangers[place * each + int(random.integers(each))] for place in range(n_targets, len(rows))]
    others = sorted(set(strangers) - set(first))
    drawn = first + [others[place] for place in random.permutation(len(others))[: max(0, n_nontargets - len(first))]]
    return tuple(sorted([*targets, *((model, utterance, "nontarget") for model, utterance in drawn)]))


def training(speakers: int, utterances: int) -> Set:
    """A piece of train-clean-360, whose true size is 921 speakers and 104,014 utterances."""
    random, numbers = generator(SEED, "training ids"), set[int]()
    rows: list[Utterance] = []
    for place in range(speakers):
        speaker, chapter = str(_draw_new(random, numbers, 9000, 9999)), _draw_new(random, numbers, 100_000, 300_000)
        rows += [Utterance(f"{speaker}-{chapter}-{n:04d}", speaker, "fm"[place % 2]) for n in range(utterances)]
    return Set("train-clean-360", "train-clean-360", _sort(rows))


def iemocap(utterances: int) -> list[Set]:
    """IEMOCAP_dev and IEMOCAP_test: 10 speakers of 5 sessions, 4 classes, with a few utterances each."""
    sets = []
    for part in ("dev", "test"):
        rows = [
            Utterance(f"Ses0{session}{sex}_{part}0{n}_{sex}{n:03d}", f"Ses0{session}{sex}", sex.lower())
            for session in range(1, 6)
            for sex in "FM"
            for n in range(utterances)
        ]
        extra = {
            "utt2emo": [f"{row.id} {('ang', 'hap', 'neu', 'sad')[place % 4]}" for place, row in enumerate(rows)],
            "spk2fold": sorted({f"{row.speaker} {row.speaker[4]}" for row in rows}),
        }
        sets.append(Set(f"IEMOCAP_{part}", f"IEMOCAP_{part}", _sort(rows), extra=extra))
    return sets


def join(name: str, parts: Sequence[Set], has_trials: bool = True) -> Set:
    """Sets put together, with the trials of all or without."""
    rows = _sort({row.id: row for part in parts for row in part.utterances}.values())
    trials = tuple(trial for part in parts for trial in part.trials or ())
    return Set(name, parts[0].raw, rows, trials=trials if has_trials else None)


def mix(parts: Sequence[Set], raw: str) -> Set:
    """The f and m sets of a subset in one, every enrolled speaker tried with every utterance."""
    own = {part.name: part for part in parts if part.raw == raw}
    both = join(f"{raw}_trials_mixed", [own[f"{raw}_trials_f"], own[f"{raw}_trials_m"]])
    enrolled = sorted({row.speaker for row in own[f"{raw}_enrolls"].utterances})
    return replace(both, trials=product(enrolled, both.utterances))


def _draw_new(random: np.random.Generator, numbers: set[int], low: int, high: int) -> int:
    while (number := int(random.integers(low, high))) in numbers:
        pass
    numbers.add(number)
    return number


def _speak_vctk(speaker: str, sex: str, sentence: int) -> Utterance:
    return Utterance(f"{speaker}_{sentence:03d}_mic2", speaker, sex)


def _sort(rows: Iterable[Utterance]) -> tuple[Utterance, ...]:
    return tuple(sorted(rows, key=lambda row: row.id))


# The challenge's real lists, where somebody has them: six Kaldi folders without audio --------------------------------


def read_libri(folder: Path, name: str, scale: float) -> list[Set]:
    """Enrolment, trials_f and trials_m of a subset as the lists say, cut to fewer speakers and utterances by ``scale``.

    A cut keeps speakers with a model and speakers without one.
    """
    models = {row.speaker for row in _read_utterances(folder / f"{name}_enrolls")}
    sets = []
    for suffix in ("enrolls", "trials_f", "trials_m"):
        place = folder / f"{name}_{suffix}"
        rows = _cut(_read_utterances(place), models, scale)
        trials = None
        if suffix != "enrolls":
            ids, enrolled = {row.id for row in rows}, {row.speaker for row in rows} & models
            listed = [line.split() for line in (place / "trials").read_text().splitlines()]
            trials = tuple((model, id_, label) for model, id_, label in listed if id_ in ids and model in enrolled)
        sets.append(Set(place.name, name, tuple(rows), suffix == "enrolls", trials))
    return sets


def _cut(rows: list[Utterance], models: set[str], scale: float) -> list[Utterance]:
    if scale == 1:
        return rows
    by_speaker: dict[str, list[Utterance]] = {}
    for row in rows:
        by_speaker.setdefault(row.speaker, []).append(row)
    kept: list[str] = []
    for sex in "fm":
        for is_enrolled, least in ((True, 2), (False, 1)):
            able = sorted(s for s, own in by_speaker.items() if own[0].sex == sex and (s in models) == is_enrolled)
            kept += able[: fewer(len(able), scale, least)]
    return [row for speaker in sorted(kept) for row in by_speaker[speaker][: fewer(len(by_speaker[speaker]), scale, 3)]]


def _read_utterances(folder: Path) -> list[Utterance]:
    def table(name: str) -> dict[str, str]:
        parts = (line.partition(" ") for line in (folder / name).read_text().splitlines())
        return {key: value.strip() for key, _, value in parts}

    sexes, texts = table("spk2gender"), table("text")
    return [Utterance(id_, speaker, sexes[speaker], texts[id_]) for id_, speaker in table("utt2spk").items()]


# Tables --------------------------------------------------------------------------------------------------------------


def write_tables(folder: Path, part: Set, wavs: Mapping[str, str], seconds: Mapping[str, float]) -> None:
    """The plain tables of a set, sorted by id, as the challenges' scripts leave them.

    Args:
        folder: where to.
        part: the set.
        wavs: what wav.scp says, by id.
        seconds: of each utterance; utt2dur has a blank at the end of each line, as Kaldi writes it.
    """
    rows = part.utterances
    by_speaker: dict[str, list[str]] = {}
    for row in rows:
        by_speaker.setdefault(row.speaker, []).append(row.id)
    tables = {
        "wav.scp": [f"{row.id} {wavs[row.id]}" for row in rows],
        "utt2spk": [f"{row.id} {row.speaker}" for row in rows],
        "spk2utt": [f"{name} {' '.join(ids)}" for name, ids in sorted(by_speaker.items())],
        "spk2gender": sorted({f"{row.speaker} {row.sex}" for row in rows}),
        "text": [f"{row.id} {row.words}" for row in rows],
        "utt2dur": [f"{row.id} {seconds[row.id]:g} " for row in rows],
        **part.extra,
    }
    if part.enrols:
        tables["enrolls"] = [row.id for row in rows]
    if part.trials is not None:
        tables["trials"] = [" ".join(trial) for trial in part.trials]
    for name, lines in tables.items():
        write_lines(folder / name, lines)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
