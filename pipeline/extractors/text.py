"""A words-only baseline: what transcripts alone give away of who speaks, whatever a system does to the voice.

Speakers of read speech read a book each, so the words of two recordings already say something of whether one person reads both.
An attacker whom a system leaves with this EER and no lower has learnt nothing from the voice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from pipeline import contracts
from pipeline.contracts import ComponentSettings, Feature, Transcripts, Vectors, numeric
from pipeline.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

VERSION = "text 1"

Key = tuple[str, str]
"""(set, utterance)"""


class TextSettings(ComponentSettings):
    """Settings of the words-only baseline.

    Attributes:
        sublinear: a word that stands tf times in a transcript counts 1 + ln(tf) instead of tf, which tells speakers apart a
            little better: EER f/m 45.6/43.9 % on the challenge's libri_dev and 43.8/43.8 % on its libri_test, against 46.5/44.4
            and 44.4/45.2 % with plain counts.
    """

    name: Literal["text"] = numeric("text")
    sublinear: bool = numeric(True)


class Extractor(contracts.Extractor):
    """TF-IDF vectors of transcripts, of unit length; the weights of words are those of the evaluated utterances.

    It hears no audio. Vectors are as long as there are different words, so no back end is trained on them.
    """

    Settings = TextSettings
    compared_as = frozenset({"trials"})
    hears = False
    libraries = ("numpy",)

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        raise TypeError("words are read from transcripts by the ids of the utterances, not heard")

    @classmethod
    def tables(
        cls, settings: TextSettings, labels: Sequence[str], transcripts: Transcripts | None = None
    ) -> TextVectors:
        """The vectors of each system, which are the same for all."""
        return TextVectors(settings, labels, transcripts)


class TextVectors(contracts.VectorSource):
    """Vectors of transcripts. A second run of a system says the same words once more, and there is nothing to compare."""

    def __init__(self, settings: TextSettings, labels: Sequence[str], transcripts: Transcripts | None) -> None:
        self.settings, self.labels, self.transcripts = settings, frozenset(labels), transcripts
        self._words: dict[bool, tuple[Mapping[Key, list[str]], TfIdf]] = {}
        self._made: dict[tuple[tuple[Key, ...], bool], Vectors] = {}

    def has_system(self, name: str) -> bool:
        return name in self.labels

    def select(self, name: str, wanted: pd.DataFrame, *, allow_partial: bool) -> Vectors:
        """The vectors of the wanted rows; one object for all systems, because there are as many columns as words.

        Raises:
            DataError: evaluated utterances have no transcript.
        """
        keys = tuple(zip(wanted["set"].astype(str), wanted["utterance"].astype(str), strict=True))
        if (keys, allow_partial) not in self._made:
            speakers = tuple(wanted["speaker"].astype(str))
            self._made[keys, allow_partial] = self._vectors(keys, speakers, allow_partial)
        return self._made[keys, allow_partial]

    def _vectors(self, keys: Sequence[Key], speakers: tuple[str, ...], allow_partial: bool) -> Vectors:
        spoken, weights = self._evaluated(allow_partial)
        vectors = weights.vectors([spoken.get(key, []) for key in keys], sublinear=self.settings.sublinear)
        reasons = tuple("" if spoken.get(key) else ("no words" if key in spoken else "no transcript") for key in keys)
        usable = np.array([not reason for reason in reasons], dtype=np.float64)
        return Vectors(tuple(utterance for _, utterance in keys), speakers, vectors, usable, reasons)

    def _evaluated(self, allow_partial: bool) -> tuple[Mapping[Key, list[str]], TfIdf]:
        """The words of all evaluated utterances, and their weights; an utterance of several sets counts once."""
        if allow_partial not in self._words:
            if self.transcripts is None:
                raise DataError("there is no data set with transcripts", where="extractor text")
            spoken = {
                key: split_words(text)
                for key, text in self.transcripts.read_evaluated(allow_partial=allow_partial).items()
            }
            once = {utterance: text for (_, utterance), text in spoken.items()}
            self._words[allow_partial] = spoken, TfIdf.learn(once.values())
        return self._words[allow_partial]


def split_words(transcript: str) -> list[str]:
    """What stands between blanks, in capitals: tables of one corpus may differ in case."""
    return transcript.upper().split()


@dataclass(frozen=True, eq=False)
class TfIdf:
    """A vocabulary with its weights, as scikit-learn's TfidfVectorizer has them (Salton and Buckley 1988).

    Attributes:
        place: column of each word; columns are in alphabetical order.
        idf: float64 [d], ln((1 + n) / (1 + df)) + 1 of a word that stands in df of n texts.
    """

    place: dict[str, int]
    idf: np.ndarray

    @classmethod
    def learn(cls, texts: Iterable[Sequence[str]]) -> TfIdf:
        """The vocabulary of texts, each a sequence of words."""
        counts: Counter[str] = Counter()
        number = 0
        for text in texts:
            counts.update(set(text))
            number += 1
        vocabulary = sorted(counts)
        df = np.array([counts[word] for word in vocabulary], dtype=np.float64)
        return cls({word: place for place, word in enumerate(vocabulary)}, np.log((1 + number) / (1 + df)) + 1)

    def vectors(self, texts: Sequence[Sequence[str]], *, sublinear: bool = False) -> np.ndarray:
        """Texts as vectors of unit length, float32 [n, d]; zeros for a text without any word of the vocabulary."""
        vectors = np.zeros((len(texts), len(self.idf)), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            counts = Counter(word for word in text if word in self.place)
            if not counts:
                continue
            columns = [self.place[word] for word in counts]
            tf = np.array(list(counts.values()), dtype=np.float64)
            values = (1 + np.log(tf) if sublinear else tf) * self.idf[columns]
            row[columns] = values / np.linalg.norm(values)
        return vectors
