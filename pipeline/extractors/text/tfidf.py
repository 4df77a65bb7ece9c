"""TF-IDF vectors of word sequences (Salton and Buckley 1988), weighted and scaled as scikit-learn's TfidfVectorizer does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

VERSION = "text tfidf 1"


def words(transcript: str) -> list[str]:
    """What stands between blanks, in capitals: tables of one corpus may differ in case."""
    return transcript.upper().split()


@dataclass(frozen=True, eq=False)
class TfIdf:
    """A vocabulary with its weights.

    Attributes:
        place: column of each word; columns are in alphabetical order.
        idf: float64 [d], ln((1 + n) / (1 + df)) + 1 of a word that stands in df of n texts.
    """

    place: dict[str, int]
    idf: np.ndarray

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]]) -> TfIdf:
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
        """Texts as vectors of unit length, float32 [n, d]; zeros for a text without any word of the vocabulary.

        Args:
            texts: sequences of words; words that are not in the vocabulary do not count.
            sublinear: a word that stands tf times counts 1 + ln(tf) instead of tf.
        """
        made = np.zeros((len(texts), len(self.idf)), dtype=np.float32)
        for row, text in zip(made, texts, strict=True):
            counts = Counter(word for word in text if word in self.place)
            if not counts:
                continue
            columns = [self.place[word] for word in counts]
            tf = np.array(list(counts.values()), dtype=np.float64)
            values = (1 + np.log(tf) if sublinear else tf) * self.idf[columns]
            row[columns] = values / np.linalg.norm(values)
        return made
