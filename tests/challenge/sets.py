"""What the sets hold: who speaks, what the utterances are called, which trials there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from pipeline.seeds import digest, generator

SEED = 13
WORDS = [
    "THE",
    "OF",
    "AND",
    "A",
    "TO",
    "IN",
    "HE",
    "THAT",
    "WAS",
    "IT",
    "HIS",
    "HER",
    "WITH",
    "AS",
    "HAD",
    "FOR",
    "SHE",
    "NOT",
    "BUT",
    "AT",
    "ON",
    "BE",
    "MY",
    "HIM",
    "THEY",
    "HAVE",
    "ONE",
    "UPON",
    "SAID",
    "SO",
    "LITTLE",
    "MAN",
    "OLD",
    "TIME",
    "GREAT",
    "HOUSE",
    "DAY",
    "GOOD",
    "NIGHT",
    "HAND",
    "LONG",
    "WAY",
    "NEVER",
    "CAME",
    "WATER",
    "ROAD",
    "MORNING",
    "LIGHT",
    "WORLD",
    "HEART",
    "DOOR",
]


@dataclass(frozen=True)
class Utterance:
    """An utterance and its speaker; ``sex`` is f or m."""

    id: str
    speaker: str
    sex: str
    text: str = ""

    @property
    def words(self) -> str:
        """What is said, in capitals: the given text, or eight words drawn by the id."""
        return self.text or _drawn_words(self.id)


@cache
def _drawn_words(id_: str) -> str:
    drawn = bytes.fromhex(digest("words", id_))[:8]
    return " ".join(WORDS[byte % len(WORDS)] for byte in drawn)


Trial = tuple[str, str, str]  # model, utterance, label


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


@dataclass(frozen=True)
class Shape:
    """Counts of a LibriSpeech subset of one sex (PROTOCOLS, section 2).

    Attributes:
        enrolled, others: speakers with and without a model.
        target: utterances of the enrolled speakers in the trial set.
        utterances: of all speakers of the trial set.
    """

    enrolled: int
    others: int
    target: int
    utterances: int


@dataclass(frozen=True)
class Shares:
    """A subset of LibriSpeech: both sexes and the enrolment utterances, of which a speaker has ``low`` to ``high``."""

    f: Shape
    m: Shape
    enrolment: int
    low: int
    high: int


LIBRI = {
    "libri_dev": Shares(Shape(15, 5, 704, 1018), Shape(14, 6, 644, 960), 343, 5, 18),
    "libri_test": Shares(Shape(16, 4, 548, 734), Shape(13, 7, 449, 762), 438, 8, 25),
}


@dataclass(frozen=True)
class Vctk:
    """Counts of one sex of a VCTK subset: 15 speakers, all enrolled with 20 utterances.

    Attributes:
        utterances: of the trials with different sentences.
        target, nontarget: trials among them.
        common: utterances of sentences 001 to 024, each of which is one target trial.
        common_nontarget: nontarget trials among those.
    """

    utterances: int
    target: int
    nontarget: int
    common: int
    common_nontarget: int


VCTK = {
    "vctk_dev": {"f": Vctk(5422, 1781, 13219, 344, 4810), "m": Vctk(5255, 2015, 12985, 351, 4911)},
    "vctk_test": {"f": Vctk(5328, 1944, 13056, 346, 4838), "m": Vctk(5420, 1742, 13258, 354, 4952)},
}
VCTK_SPEAKERS, VCTK_ENROLMENT, COMMON = 15, 20, 24


def shared(total: int, among: int, random: np.random.Generator, low: int = 1, high: int | None = None) -> list[int]:
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
    shares, random = LIBRI[name], generator(SEED, "libri ids", name)
    low, high = (100, 4500) if name == "libri_dev" else (4500, 9000)  # nobody is in both
    used: set[int] = set()
    enrolment: list[Utterance] = []
    trials: dict[str, list[Utterance]] = {"f": [], "m": []}
    models: dict[str, list[str]] = {"f": [], "m": []}
    counts = shared(shares.enrolment, shares.f.enrolled + shares.m.enrolled, random, shares.low, shares.high)
    for sex, shape in (("f", shares.f), ("m", shares.m)):
        tried = shared(shape.target, shape.enrolled, random) + shared(
            shape.utterances - shape.target, shape.others, random
        )
        given = [counts.pop() for _ in range(shape.enrolled)] + [0] * shape.others
        kept = [*range(fewer(shape.enrolled, scale, 2))]
        kept += [shape.enrolled + number for number in range(fewer(shape.others, scale))]
        for place in kept:
            speaker = str(_unused(random, used, low, high))
            chapter = _unused(random, used, 100_000, 300_000)
            enrolled = fewer(given[place], scale, 2)
            enrolment += [Utterance(f"{speaker}-{chapter}-{n:04d}", speaker, sex) for n in range(0, 2 * enrolled, 2)]
            if given[place]:
                models[sex].append(speaker)
            for n in range(fewer(tried[place], scale, 3)):
                if n % 24 == 0:
                    chapter = _unused(random, used, 100_000, 300_000)
                trials[sex].append(Utterance(f"{speaker}-{chapter}-{n % 24:04d}", speaker, sex))
    made = [Set(f"{name}_enrolls", name, _sorted(enrolment), enrols=True)]
    return made + [
        Set(f"{name}_trials_{sex}", name, _sorted(trials[sex]), trials=product(models[sex], trials[sex]))
        for sex in "fm"
    ]


def product(models: Sequence[str], utterances: Iterable[Utterance]) -> tuple[Trial, ...]:
    """Every model with every utterance."""
    rows = _sorted(utterances)
    return tuple(
        (model, row.id, "target" if row.speaker == model else "nontarget") for model in sorted(models) for row in rows
    )


def vctk(name: str, scale: float) -> list[Set]:
    """Enrolment, trials of different and of common sentences, and both together, of a VCTK subset with invented ids."""
    random = generator(SEED, "vctk ids", name)
    used: set[int] = set()
    enrolment: list[Utterance] = []
    others: list[Set] = []
    for sex in "fm":
        shape = VCTK[name][sex]
        first = 225 if name == "vctk_dev" else 400
        speakers = [f"p{_unused(random, used, first, first + 150)}" for _ in range(VCTK_SPEAKERS)]
        speakers = sorted(speakers)[: fewer(VCTK_SPEAKERS, scale, 3)]
        whole = len(speakers) == VCTK_SPEAKERS
        total = shape.utterances if whole else len(speakers) * fewer(360, scale, 4)
        different: list[Utterance] = []
        common: list[Utterance] = []
        absent = VCTK_SPEAKERS * COMMON - shape.common if whole else 0
        for speaker, count in zip(speakers, shared(total, len(speakers), random, 3, 400), strict=True):
            sentences = 27 + random.permutation(440)
            given, rest = np.split(sentences, [fewer(VCTK_ENROLMENT, scale, 2)])
            enrolment += [_vctk(speaker, sex, int(n)) for n in given]
            different += [_vctk(speaker, sex, int(n)) for n in rest[:count]]
            common += [_vctk(speaker, sex, n + 1) for n in range(fewer(COMMON, scale, 3))]
        common = [common[place] for place in sorted(random.permutation(len(common))[absent:])]
        few = fewer(1, scale) if whole else 0
        listed = sampled(speakers, different, random, (shape.target, shape.nontarget) if few else None)
        full = product(speakers, common)
        dropped = len(full) - shape.common - shape.common_nontarget if whole else 0
        kept = _without(full, dropped, random)
        both = _sorted([*different, *common])
        others += [
            Set(f"{name}_trials_{sex}", name, _sorted(different), trials=listed),
            Set(f"{name}_trials_{sex}_common", name, _sorted(common), trials=kept),
            Set(f"{name}_trials_{sex}_all", name, both, trials=listed + kept),
        ]
    return [Set(f"{name}_enrolls", name, _sorted(enrolment), enrols=True), *others]


def sampled(
    models: Sequence[str], utterances: Sequence[Utterance], random: np.random.Generator, counts: tuple[int, int] | None
) -> tuple[Trial, ...]:
    """Some targets and nontargets of the full product, so that every utterance is tried; a third of the product by default."""
    rows = [utterances[place] for place in random.permutation(len(utterances))]
    targets, nontargets = counts or (max(2, len(rows) // 3), max(4, len(rows) * (len(models) - 1) // 3))
    chosen = {(row.speaker, row.id) for row in rows[:targets]}
    strangers = [(model, row.id) for row in rows for model in models if model != row.speaker]
    # one stranger first for each utterance that is in no target trial
    each = len(models) - 1
    first = [strangers[place * each + int(random.integers(each))] for place in range(targets, len(rows))]
    rest = sorted(set(strangers) - set(first))
    more = max(0, nontargets - len(first))
    drawn = first + [rest[place] for place in random.permutation(len(rest))[:more]]
    made = [(model, utterance, "target") for model, utterance in chosen]
    return tuple(sorted(made + [(model, utterance, "nontarget") for model, utterance in drawn]))


def _without(trials: tuple[Trial, ...], count: int, random: np.random.Generator) -> tuple[Trial, ...]:
    """All but some nontarget trials."""
    able = [place for place, trial in enumerate(trials) if trial[2] == "nontarget"]
    gone = {able[place] for place in random.permutation(len(able))[:count]}
    return tuple(trial for place, trial in enumerate(trials) if place not in gone)


def training(speakers: int, utterances: int) -> Set:
    """A piece of train-clean-360, whose true size is 921 speakers and 104,014 utterances."""
    random, used = generator(SEED, "training ids"), set[int]()
    rows: list[Utterance] = []
    for number in range(speakers):
        speaker, chapter = str(_unused(random, used, 9000, 9999)), _unused(random, used, 100_000, 300_000)
        rows += [Utterance(f"{speaker}-{chapter}-{n:04d}", speaker, "fm"[number % 2]) for n in range(utterances)]
    return Set("train-clean-360", "train-clean-360", _sorted(rows))


def iemocap(utterances: int) -> list[Set]:
    """IEMOCAP_dev and IEMOCAP_test: 10 speakers of 5 sessions, 4 classes, with a few utterances each."""
    made = []
    for part in ("dev", "test"):
        rows = [
            Utterance(f"Ses0{session}{sex}_{part}0{n}_{sex}{n:03d}", f"Ses0{session}{sex}", sex.lower())
            for session in range(1, 6)
            for sex in "FM"
            for n in range(utterances)
        ]
        classes = ("ang", "hap", "neu", "sad")
        extra = {
            "utt2emo": [f"{row.id} {classes[place % 4]}" for place, row in enumerate(rows)],
            "spk2fold": sorted({f"{row.speaker} {row.speaker[4]}" for row in rows}),
        }
        made.append(Set(f"IEMOCAP_{part}", f"IEMOCAP_{part}", _sorted(rows), extra=extra))
    return made


def joined(name: str, parts: Sequence[Set]) -> Set:
    """Sets put together, with the trials of all."""
    rows = _sorted({row.id: row for part in parts for row in part.utterances}.values())
    trials = [trial for part in parts for trial in part.trials or ()]
    return Set(name, parts[0].raw, rows, trials=tuple(trials))


def without_trials(whole: Set, name: str) -> Set:
    return replace(whole, name=name, trials=None)


def _unused(random: np.random.Generator, used: set[int], low: int, high: int) -> int:
    while (number := int(random.integers(low, high))) in used:
        pass
    used.add(number)
    return number


def _vctk(speaker: str, sex: str, sentence: int) -> Utterance:
    return Utterance(f"{speaker}_{sentence:03d}_mic2", speaker, sex)


def _sorted(rows: Iterable[Utterance]) -> tuple[Utterance, ...]:
    return tuple(sorted(rows, key=lambda row: row.id))
