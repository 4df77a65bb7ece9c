"""The PLDA back end: trained, and with the files of a Kaldi recipe."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import kaldiio
import numpy as np
import pytest
from kaldiio.matio import write_array, write_array_ascii
from pydantic import ValidationError
from scipy.stats import norm

from pipeline import metrics
from pipeline.backends import cosine, plda
from pipeline.backends._adaptation import AsNorm
from pipeline.backends.plda import Backend, PldaSettings
from pipeline.backends.plda.model import read_array
from pipeline.errors import DataError, ModelMissing

EMBEDDING = 40


def voices(speakers: int, each: int, seed: int, *, loud: bool) -> tuple[np.ndarray, list[str]]:
    """Float32 vectors [speakers * each, EMBEDDING] of speakers who differ in half of the directions.

    With ``loud``, vectors also differ in length, as embeddings do: no Gaussian then fits them before length normalisation.
    """
    axes = np.random.default_rng(0).normal(size=(20, EMBEDDING)) / np.sqrt(20)
    random = np.random.default_rng(seed)
    rows = np.repeat(random.normal(size=(speakers, 20)) @ axes, each, 0)
    rows += random.normal(size=rows.shape) * np.linspace(0.3, 3, EMBEDDING)
    if loud:
        rows *= random.gamma(4, 1 / 4, size=(len(rows), 1))
    return rows.astype(np.float32), [f"s{number}" for number in range(speakers) for _ in range(each)]


def test_fit_enrol_and_score(tmp_path: Path) -> None:
    vectors, speakers = voices(150, 8, 1, loud=True)
    settings = PldaSettings(lda=30)
    assert plda.Backend.weights(settings, tmp_path) is None
    record = plda.Backend.fit(settings, vectors, speakers, tmp_path, within_session=False)
    assert [path.name for path in tmp_path.iterdir()] == ["plda.safetensors"]
    assert json.loads(json.dumps(record)) == record
    assert record["lda"] == {"asked": 30, "used": 30, "dimension": EMBEDDING}
    assert (record["speakers"], record["vectors"], record["iterations"]) == (150, 1200, 10)
    assert len(record["log_likelihood"]) == 11 and record["within_session"] is False and record["mark"] == ""
    assert record["summary"].startswith("1200 vectors of 150 speakers, 40 to 30 dimensions, log-likelihood")

    backend = Backend(settings, tmp_path)
    held, names = voices(60, 8, 2, loud=True)
    given = np.arange(len(held)) % 8 < 3
    of_model = np.array([int(name[1:]) for name in names])
    models = backend.enrol(held[given], of_model[given], 60)
    assert models.counts.tolist() == [3] * 60
    found = backend.score(models, held[~given])
    assert found.shape == (60, 300) and found.dtype == np.float64
    target = np.arange(60)[:, None] == of_model[~given]
    plain = cosine.Backend(cosine.CosineSettings(), None)
    cosines = plain.score(plain.enrol(held[given], of_model[given], 60), held[~given])
    eer = metrics.eer(found[target], found[~target])
    assert eer < 0.5 * metrics.eer(cosines[target], cosines[~target])
    # Scores that are ratios cost little more than the same ones calibrated.
    assert metrics.cllr(found[target], found[~target]) < metrics.cllr_min(found[target], found[~target]) + 0.05


def test_ratios_are_calibrated_for_any_number_of_enrolment_utterances(tmp_path: Path) -> None:
    """Which they would not be if all models were scored as one utterance."""
    vectors, speakers = voices(400, 8, 3, loud=False)
    settings = PldaSettings(length_normalise=False, regularisation=0)
    plda.Backend.fit(settings, vectors, speakers, tmp_path, within_session=False)
    backend = Backend(settings, tmp_path)
    held, names = voices(200, 8, 4, loud=False)
    of_model = np.array([int(name[1:]) for name in names])
    given = np.arange(len(held)) % 8 < 5
    models = backend.enrol(held[given], of_model[given], 200)
    target = np.arange(200)[:, None] == of_model[~given]

    def cllr(count: int) -> float:
        told = plda.Enrolled(models.vectors, np.full(200, count))
        found = backend.score(told, held[~given])
        return metrics.cllr(found[target], found[~target])

    assert cllr(5) < min(cllr(1), cllr(50))
    found = backend.score(models, held[~given])
    assert metrics.cllr(found[target], found[~target]) == cllr(5)


def test_a_training_set_of_one_session_a_speaker_is_marked(tmp_path: Path) -> None:
    vectors, speakers = voices(6, 4, 5, loud=True)
    record = plda.Backend.fit(PldaSettings(), vectors, speakers, tmp_path, within_session=True)
    assert record["within_session"] is True and record["mark"] == "within-session PLDA, weak attacker"
    assert record["summary"].endswith("; within-session PLDA, weak attacker")
    assert "40 to 5 dimensions (200 asked)" in record["summary"]


def test_refusals_say_where(tmp_path: Path) -> None:
    vectors, speakers = voices(2, 4, 6, loud=True)
    with pytest.raises(DataError, match=r"it takes 3 or more\. Where: training of the back end plda\."):
        plda.Backend.fit(PldaSettings(), vectors, speakers, tmp_path, within_session=False)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ModelMissing, match="was given no parameters"):
        Backend(PldaSettings(), None)


def test_all_pairs_need_little_more_memory_than_their_scores(tmp_path: Path) -> None:
    vectors, speakers = voices(20, 5, 7, loud=True)
    plda.Backend.fit(PldaSettings(), vectors, speakers, tmp_path, within_session=False)
    backend = Backend(PldaSettings(), tmp_path)
    many = np.resize(vectors, (3000, EMBEDDING))
    models = backend.enrol(many, np.arange(3000) // 2, 1500)
    tracemalloc.start()
    try:
        found = backend.score(models, many)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.2 * found.nbytes


# Kaldi's files.

D, K = 12, 4


def as_text(array: np.ndarray) -> bytes:
    class Held(list[bytes]):
        write = list.append

    held = Held()
    write_array_ascii(held, array, ".17g")
    return b"".join(held)


def as_binary(array: np.ndarray) -> bytes:
    class Held(list[bytes]):
        write = list.append

    held = Held()
    write_array(held, array)
    return b"".join(held)


def text_plda(*arrays: np.ndarray) -> bytes:
    return b"<Plda> " + b"".join(as_text(array) for array in arrays) + b"</Plda> "


def binary_plda(*arrays: np.ndarray) -> bytes:
    return b"\0B<Plda> " + b"".join(as_binary(array)[2:] for array in arrays) + b"</Plda> "


Parts = dict[str, np.ndarray]


def parts(offset: bool = True) -> Parts:
    random = np.random.default_rng(8)
    return {
        "mean": random.normal(size=D),
        "lda": random.normal(size=(K, D + offset)),
        "centre": 0.1 * random.normal(size=K),
        "rotation": random.normal(size=(K, K)),
        "psi": np.array([7.5, 2.0, 0.25, 0.0]),
    }


def write(folder: Path, held: Parts, array: Callable[..., bytes], whole: Callable[..., bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "mean.vec").write_bytes(array(held["mean"]))
    (folder / "transform.mat").write_bytes(array(held["lda"]))
    (folder / "plda").write_bytes(whole(held["centre"], held["rotation"], held["psi"]))
    return folder


def kaldi_score(held: Parts, utterances: np.ndarray, trial: np.ndarray) -> float:
    """A trial as the recipe goes through it, in scalars: Ioffe (2006), between equations 4 and 5."""

    def into(vector: np.ndarray, n: int) -> np.ndarray:
        y = held["lda"][:, :D] @ (vector - held["mean"])
        if held["lda"].shape[1] > D:
            y = y + held["lda"][:, D]
        y = y / (np.linalg.norm(y) / np.sqrt(K))
        y = held["rotation"] @ y - held["rotation"] @ held["centre"]
        total = sum(y[i] ** 2 / (held["psi"][i] + 1 / n) for i in range(K))
        return np.asarray(y * np.sqrt(K / total))

    n = len(utterances)
    train, test = into(sum(utterances) / n, n), into(trial, 1)
    ratio = 0.0
    for u, x, psi in zip(train, test, held["psi"], strict=True):
        given = norm(n * psi / (n * psi + 1) * u, np.sqrt(1 + psi / (n * psi + 1)))
        ratio += given.logpdf(x) - norm(0, np.sqrt(1 + psi)).logpdf(x)
    return ratio


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("kind", ["text", "binary"])
def test_kaldi_files_score_as_the_recipe_does(tmp_path: Path, kind: str, offset: bool) -> None:
    held = parts(offset)
    ways = {"text": (as_text, text_plda), "binary": (as_binary, binary_plda)}
    settings = PldaSettings(source=str(write(tmp_path / "kaldi", held, *ways[kind])))
    found = plda.Backend.weights(settings, tmp_path)
    assert found is not None
    backend = Backend(settings, found.folder)
    random = np.random.default_rng(9)
    utterances, of_model = random.normal(size=(9, D)), np.array([0, 1, 1, 2, 2, 2, 2, 3, 0])
    trials = random.normal(size=(5, D))
    scores = backend.score(backend.enrol(utterances, of_model, 4), trials)
    for model in range(4):
        for column, trial in enumerate(trials):
            expected = kaldi_score(held, utterances[of_model == model], trial)
            assert scores[model, column] == pytest.approx(expected, abs=1e-10)


def test_kaldiio_reads_what_we_read(tmp_path: Path) -> None:
    """Binary float32 too, as Kaldi writes transform.mat."""
    vector = np.random.default_rng(10).normal(size=7).astype(np.float32)
    matrix = np.random.default_rng(11).normal(size=(3, 5)).astype(np.float32)
    kaldiio.save_mat(str(tmp_path / "vector"), vector)
    kaldiio.save_mat(str(tmp_path / "matrix"), matrix)
    for name, array in (("vector", vector), ("matrix", matrix)):
        found = read_array(tmp_path / name, array.ndim)
        assert found.dtype == np.float64 and (found == array).all()
        assert (kaldiio.load_mat(str(tmp_path / name)) == array).all()
    (tmp_path / "text").write_text(" [ 1 -2.5 3e-05 ]\n")
    assert read_array(tmp_path / "text", 1).tolist() == [1, -2.5, 3e-5]
    (tmp_path / "row").write_text(" [\n  1 2 3 ]\n")
    assert read_array(tmp_path / "row", 2).tolist() == [[1, 2, 3]]


def test_the_digest_is_of_the_contents(tmp_path: Path) -> None:
    held = parts()
    digests = []
    for name in ("one", "two"):
        found = plda.Backend.weights(
            PldaSettings(source=str(write(tmp_path / name, held, as_text, text_plda))), tmp_path
        )
        assert found is not None
        digests.append(found.digest)
    held["psi"][0] += 1
    found = plda.Backend.weights(PldaSettings(source=str(write(tmp_path / "two", held, as_text, text_plda))), tmp_path)
    assert found is not None
    assert digests[0] == digests[1] != found.digest
    assert "source" not in PldaSettings().numeric()


def test_absent_files_are_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "kaldi", parts(), as_text, text_plda)
    (folder / "plda").unlink()
    (folder / "mean.vec").unlink()
    with pytest.raises(ModelMissing, match=r"holds no mean\.vec and no plda"):
        plda.Backend.weights(PldaSettings(source=str(folder)), tmp_path)
    with pytest.raises(ModelMissing, match=r"transform\.mat"):
        plda.Backend.weights(PldaSettings(source=str(tmp_path / "nothing")), tmp_path)


def _changed(**arrays: np.ndarray) -> Callable[[Path], None]:
    return lambda folder: write(folder, parts() | arrays, as_binary, binary_plda) and None


def _bytes(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes())) and None


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut off": (_bytes("plda", lambda data: data[:-40]), "ends early"),
    "no end": (_bytes("plda", lambda data: data[:-8]), "</Plda> is missing"),
    "something behind": (_bytes("mean.vec", lambda data: data + b"x"), "something follows"),
    "a matrix for a vector": (_bytes("mean.vec", lambda _: as_binary(np.ones((2, D)))), "it has a matrix"),
    "a text matrix for a vector": (_bytes("mean.vec", lambda _: as_text(np.ones((2, D)))), "it has a matrix"),
    "not a PLDA": (_bytes("plda", lambda _: as_text(np.ones(K))), "<Plda> is missing"),
    "an archive": (_bytes("mean.vec", lambda _: b"global [ 1 2 ]\n"), "in brackets was expected"),
    "ragged": (_bytes("transform.mat", lambda _: b" [\n 1 2 \n 3 ]\n"), "differ in length"),
    "words": (_bytes("mean.vec", lambda _: b" [ one two ]\n"), "else than numbers"),
    "no text": (_bytes("mean.vec", lambda _: b"\x93NUMPY"), "in brackets was expected"),
    "empty": (_bytes("mean.vec", lambda _: b""), "in brackets was expected"),
    "nothing in it": (_bytes("mean.vec", lambda _: b" [ ]\n"), "empty vector"),
    "a size below zero": (_bytes("mean.vec", lambda _: b"\0BDV \4\xff\xff\xff\xff"), "damaged"),
    "a size of gigabytes": (_bytes("mean.vec", lambda _: b"\0BDV \4\xff\xff\xff\x7f"), "ends early"),
    "a size in one byte": (_bytes("mean.vec", lambda _: b"\0BDV \1\1"), "ends early"),
    "compressed": (_bytes("transform.mat", lambda _: b"\0BCM " + bytes(40)), "binary type"),
    "not finite": (_changed(mean=np.full(D, np.nan)), "not finite"),
    "wrong columns": (_changed(lda=np.ones((K, D + 2))), r"14 columns and mean\.vec 12 numbers"),
    "wrong rows": (_changed(lda=np.ones((K + 1, D))), "gives 5 dimensions, and plda takes 4"),
    "psi of another size": (_changed(psi=np.ones(K - 1)), "psi 3"),
    "negative psi": (_changed(psi=np.array([1, 1, 1, -0.1])), "negative"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_refused_with_the_reason(tmp_path: Path, case: str) -> None:
    folder = write(tmp_path / "kaldi", parts(), as_binary, binary_plda)
    change, reason = BROKEN[case]
    change(folder)
    with pytest.raises(DataError, match=reason) as caught:
        plda.Backend.weights(PldaSettings(source=str(folder)), tmp_path)
    assert str(folder) in str(caught.value) and "To mend it" in str(caught.value)


def test_vectors_of_another_dimension_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "kaldi", parts(), as_text, text_plda)
    backend = Backend(PldaSettings(source=str(folder)), folder)
    with pytest.raises(DataError, match="12-dimensional embeddings"):
        backend.enrol(np.ones((3, 192)), np.arange(3), 3)


# Kaldi's training.


def kaldi_estimate(groups: list[np.ndarray], iterations: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, transform and psi as Kaldi's PldaEstimator finds them from the vectors [n, k] of each speaker.

    Each speaker's mean m_s, less the mean of all m_s, has the posterior N(w, C) with C = (B^-1 + n W^-1)^-1 and w = C n W^-1 m_s.
    B becomes the mean of C + w w'; W the scatter about the means plus the sum of n (C + (m_s - w)(m_s - w)'), by all vectors.
    """
    k = groups[0].shape[1]
    means = [sum(group) / len(group) for group in groups]
    middle = sum(means) / len(means)
    scatter = np.zeros((k, k))
    for group, mean in zip(groups, means, strict=True):
        for row in group:
            scatter += np.outer(row - mean, row - mean)
    within, between = np.eye(k), np.eye(k)
    for _ in range(iterations):
        of_within, of_between = scatter.copy(), np.zeros((k, k))
        for group, mean in zip(groups, means, strict=True):
            n, m = len(group), mean - middle
            spread = np.linalg.inv(np.linalg.inv(between) + n * np.linalg.inv(within))
            w = spread @ (n * np.linalg.inv(within) @ m)
            of_between += spread + np.outer(w, w)
            of_within += n * (spread + np.outer(m - w, m - w))
        within, between = of_within / sum(len(group) for group in groups), of_between / len(groups)
    white = np.linalg.inv(np.linalg.cholesky(within))
    psi, axes = np.linalg.eigh(white @ between @ white.T)
    return middle, axes.T @ white, psi


@pytest.mark.parametrize("iterations", [1, 10])
def test_training_from_kaldis_start_gives_kaldis_ratios(iterations: int, tmp_path: Path) -> None:
    random = np.random.default_rng(12)
    counts = random.integers(1, 9, size=50)
    own = random.normal(size=(50, D)) @ random.normal(size=(D, D)) * 0.5
    rows = np.repeat(own, counts, 0) + random.normal(size=(counts.sum(), D)) @ random.normal(size=(D, D)) * 0.4
    owner = np.repeat(np.arange(50), counts)
    settings = PldaSettings(lda=K, iterations=iterations, regularisation=0, start="kaldi")
    record = plda.Backend.fit(settings, rows, [f"s{one:02d}" for one in owner], tmp_path, within_session=False)
    assert record["start"] == "kaldi"
    backend = Backend(settings, tmp_path)
    projected = (rows - rows.mean(0)) @ backend.model.lda.T
    projected *= np.sqrt(K) / np.linalg.norm(projected, axis=1, keepdims=True)
    middle, rotation, psi = kaldi_estimate([projected[owner == one] for one in range(50)], iterations)
    held = {"mean": rows.mean(0), "lda": backend.model.lda, "centre": middle, "rotation": rotation, "psi": psi}
    enrolled, of_model = random.normal(size=(9, D)), np.array([0, 1, 1, 2, 2, 2, 2, 3, 0])
    trials = random.normal(size=(6, D))
    found = backend.score(backend.enrol(enrolled, of_model, 4), trials)
    expected = [[kaldi_score(held, enrolled[of_model == model], trial) for trial in trials] for model in range(4)]
    assert np.abs(found - np.array(expected)).max() < 1e-9

    plda.Backend.fit(
        settings.model_copy(update={"start": "moments"}), rows, [f"s{one:02d}" for one in owner], tmp_path,
        within_session=False,
    )  # fmt: skip
    moments = Backend(settings, tmp_path)
    assert np.abs(moments.score(moments.enrol(enrolled, of_model, 4), trials) - found).max() > 1e-3


# AS-norm and enrolment.


def test_as_norm_of_ratios_is_that_of_loops(tmp_path: Path) -> None:
    vectors, speakers = voices(20, 5, 13, loud=True)
    settings = PldaSettings(lda=6, as_norm=AsNorm(top=7), regularisation=0.1)
    record = plda.Backend.fit(settings, vectors, speakers, tmp_path, within_session=False)
    assert record["cohort"] == 20 and "AS-norm by the 7 highest of a cohort of 20 speakers" in record["summary"]
    plain = Backend(settings.model_copy(update={"as_norm": None}), tmp_path)
    enrolled, trials = voices(2, 3, 14, loud=True)[0], voices(4, 1, 15, loud=True)[0]
    of_model = np.array([0, 0, 0, 1, 1, 2])
    backend = Backend(settings, tmp_path)
    found = backend.score(backend.enrol(enrolled, of_model, 3), trials)

    cohort = [
        np.mean([row for row, name in zip(vectors.astype(float), speakers) if name == one], axis=0)
        for one in sorted(set(speakers))
    ]

    def ratio(model: np.ndarray, trial: np.ndarray) -> float:
        enrol = plain.enrol(np.atleast_2d(model), np.zeros(len(np.atleast_2d(model)), dtype=int), 1)
        return float(plain.score(enrol, trial[None])[0, 0])

    def z(score: float, others: list[float]) -> float:
        highest = sorted(others)[-7:]
        return float((score - np.mean(highest)) / np.std(highest))

    of_trials = [[ratio(one, trial) for one in cohort] for trial in trials]
    for model in range(3):
        own = enrolled[of_model == model]
        of_model_scores = [ratio(own, one) for one in cohort]
        for column, trial in enumerate(trials):
            score = ratio(own, trial)
            expected = (z(score, of_model_scores) + z(score, of_trials[column])) / 2
            assert found[model, column] == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_only_ratios_as_they_are_are_ratios() -> None:
    for settings, llrs in (
        (PldaSettings(), True),
        (PldaSettings(as_norm=AsNorm()), False),
        (PldaSettings(enrolment="mean_of_scores"), False),
        (PldaSettings(enrolment="max_of_scores"), False),
    ):
        assert Backend.gives_llrs(settings) is llrs
        assert Backend.enrolment(settings) == settings.enrolment
        assert Backend.is_fitted(settings)


def test_a_folder_has_no_cohort_and_a_cohort_may_be_too_small(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r"source=/somewhere hold none: set as_norm=null, or source=trained"):
        PldaSettings(source="/somewhere", as_norm=AsNorm())
    assert not Backend.is_fitted(PldaSettings(source="/somewhere"))
    vectors, speakers = voices(12, 4, 16, loud=True)
    for top, count, reason in (
        (50, 48, "cohort of 12 training speakers is smaller"),
        (5, 32, "10 training speakers or"),
    ):
        with pytest.raises(DataError, match=reason):
            plda.Backend.fit(
                PldaSettings(as_norm=AsNorm(top=top)), vectors[:count], speakers[:count], tmp_path, within_session=False
            )
    assert not list(tmp_path.iterdir())
    plda.Backend.fit(PldaSettings(), vectors, speakers, tmp_path, within_session=False)
    with pytest.raises(DataError, match="cohort of a PLDA cannot be read"):
        Backend(PldaSettings(as_norm=AsNorm(top=5)), tmp_path)
