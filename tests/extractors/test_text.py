"""The words-only baseline: TF-IDF against scikit-learn, which rows it gives, and what happens to utterances without words."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from pipeline.contracts import Transcripts
from pipeline.errors import DataError
from pipeline.extractors import text
from pipeline.extractors.text import TfIdf, split_words
from pipeline.tables import vectors

SAID = [
    "THE CAT SAT ON THE MAT THE END",
    "A cat can look at a king",
    "DON'T LOOK A GIFT HORSE IN THE MOUTH",
    "i i i",
    "NOTHING ELSE",
]


def reference(sublinear: bool) -> TfidfVectorizer:
    return TfidfVectorizer(
        tokenizer=str.split, token_pattern=None, lowercase=False, preprocessor=str.upper, sublinear_tf=sublinear
    )


@pytest.mark.parametrize("sublinear", [False, True])
def test_vectors_are_those_of_scikit_learn(sublinear: bool) -> None:
    expected = reference(sublinear).fit(SAID)
    model = TfIdf.learn([split_words(said) for said in SAID])
    assert list(model.place) == list(expected.get_feature_names_out())
    np.testing.assert_allclose(model.idf, expected.idf_, rtol=1e-12)
    new = [*SAID, "A HORSE A HORSE MY KINGDOM FOR A HORSE", "UNHEARD OF"]
    made = model.vectors([split_words(said) for said in new], sublinear=sublinear)
    np.testing.assert_allclose(made, expected.transform(new).toarray(), atol=1e-7)
    assert made.dtype == np.float32 and not made[-1].any()


class Given(Transcripts):
    """Transcripts that are at hand; counts how often they are read."""

    def __init__(self, said: Mapping[tuple[str, str], str]) -> None:
        self.said, self.asked = said, 0

    def read_evaluated(self, *, allow_partial: bool) -> Mapping[tuple[str, str], str]:
        self.asked += 1
        return self.said


def rows(*names: str, in_set: str = "t") -> pd.DataFrame:
    return pd.DataFrame([(in_set, name, f"of {name}") for name in names], columns=["set", "utterance", "speaker"])


def test_rows_come_in_their_order_and_an_utterance_of_two_sets_weighs_once() -> None:
    said = {("t", f"u{number}"): line for number, line in enumerate(SAID)} | {("again", "u0"): SAID[0]}
    given = Given(said)
    source = text.Extractor.tables(text.TextSettings(), ["original", "b2"], given)
    found = source.select("original", rows("u3", "u0"), allow_partial=False)
    assert found.ids == ("u3", "u0") and found.speakers == ("of u3", "of u0") and found.weights.tolist() == [1, 1]
    expected = reference(True).fit(SAID).transform([SAID[3], SAID[0]]).toarray()
    np.testing.assert_allclose(found.vectors, expected, atol=1e-7)
    assert source.select("b2", rows("u3", "u0"), allow_partial=False) is found, "words are those of every system"
    assert (
        source.select("b2", rows("u0", in_set="again"), allow_partial=False).vectors[0].tolist()
        == found.vectors[1].tolist()
    )
    assert given.asked == 1


def test_their_content_follows_the_words_of_all_evaluated_utterances() -> None:
    def content(*lines: str) -> str:
        said = {("t", f"u{number}"): line for number, line in enumerate(lines)}
        source = text.Extractor.tables(text.TextSettings(), ["original"], Given(said))
        return vectors.content(source.select("original", rows("u0"), allow_partial=False))

    assert content(*SAID) == content(*(line.upper() for line in SAID))
    assert content(*SAID) != content(*SAID[:-1], "SOMETHING ELSE"), "the vocabulary is another one"


def test_an_utterance_without_words_is_unusable() -> None:
    source = text.Extractor.tables(text.TextSettings(), ["original"], Given({("t", "a"): "WORDS", ("t", "b"): ""}))
    found = source.select("original", rows("a", "b", "c"), allow_partial=True)
    assert found.reasons == ("", "no words", "no transcript") and found.weights.tolist() == [1, 0, 0]
    assert not found.vectors[1:].any()


def test_a_second_run_says_nothing_new() -> None:
    source = text.Extractor.tables(text.TextSettings(), ["b2r"], Given({}))
    assert source.has_system("b2r") and not source.has_system("b2r@2") and not source.has_system("b2")


def test_without_a_data_set_there_are_no_words() -> None:
    source = text.Extractor.tables(text.TextSettings(), ["original"])
    with pytest.raises(DataError, match="no data set with transcripts"):
        source.select("original", rows("a"), allow_partial=False)


def test_it_hears_nothing() -> None:
    with pytest.raises(TypeError, match="not heard"):
        text.Extractor(text.TextSettings(), None, "cpu", 1).extract([np.zeros(9, np.float32)])
