"""A PLDA model, its likelihood ratios, and its files: our own, and ``mean.vec``, ``transform.mat`` and ``plda`` of Kaldi.

A vector x of speaker s is m + y_s + e with y_s ~ N(0, B) and e ~ N(0, W) (Ioffe 2006; Brümmer and de Villiers 2010).
A linear map T with T W T' = I and T B T' = diag(psi) makes all dimensions independent; models are kept and scored in
that form, which is also Kaldi's. For a mean u of n enrolment vectors and a trial vector x, both mapped, the ratio is

    log N(x; a u, v) - log N(x; 0, 1 + psi),  a = n psi / (n psi + 1),  v = 1 + psi / (n psi + 1),  summed over dimensions.

Sums are made on one thread of the BLAS: the same vectors give the same numbers whatever the number of cores.

A PLDA of Kaldi is mean, transform and psi between ``<Plda>`` and ``</Plda>``.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import scipy.sparse
from threadpoolctl import threadpool_limits

from pipeline.backends._adaptation import read_tensors, write_tensors
from pipeline.errors import DataError
from pipeline.files import read_regular
from pipeline.tables import kaldi

VERSION = "plda model 2"
FILE = "plda.safetensors"


@dataclass(frozen=True)
class Plda:
    """All that lies between an embedding [d] and its place in the space of the PLDA [k]; float64.

    Attributes:
        centre: [d], subtracted from embeddings.
        lda: [k, d], what projects them.
        offset: [k], added to projections (zero unless a Kaldi transform has it).
        mean: [k], subtracted after length normalisation.
        transform: [k, k], makes the covariance within speakers I and that between them ``psi``.
        psi: [k], variances between speakers, from the largest.
    """

    centre: np.ndarray
    lda: np.ndarray
    offset: np.ndarray
    mean: np.ndarray
    transform: np.ndarray
    psi: np.ndarray

    def map_vectors(self, vectors: np.ndarray, counts: np.ndarray | int, *, length_normalise: bool) -> np.ndarray:
        """Embeddings [n, d], each the mean of ``counts`` [n] utterances, in the space of the PLDA: [n, k].

        With ``length_normalise`` they are brought to length sqrt(k) before the PLDA, and then scaled to the length that
        the PLDA expects of a mean of so many vectors (Kaldi's ivector-normalize-length, and --normalize-length of
        ivector-plda-scoring).

        Raises:
            DataError: the embeddings have another dimension than the model.
        """
        if vectors.ndim != 2 or vectors.shape[1] != len(self.centre):
            raise DataError(
                f"the PLDA is one of {len(self.centre)}-dimensional embeddings, and these have shape {vectors.shape}",
                cause="a PLDA that was trained on embeddings of another extractor",
                remedy="use the extractor that the PLDA was trained on, or source=trained",
            )
        with threadpool_limits(1, user_api="blas"):
            rows = (np.asarray(vectors, dtype=np.float64) - self.centre) @ self.lda.T + self.offset
            if length_normalise:
                rows = normalise_lengths(rows)
            rows = (rows - self.mean) @ self.transform.T
        if length_normalise:
            expected = self.psi + 1 / np.broadcast_to(np.asarray(counts, dtype=np.float64), len(rows))[:, None]
            rows *= scale_factors((rows**2 / expected).sum(1), len(self.psi))
        return np.asarray(rows)

    def write(self, folder: Path) -> None:
        """Write ``plda.safetensors``."""
        write_tensors(folder / FILE, {field.name: getattr(self, field.name) for field in fields(self)})


def read_model(folder: Path) -> Plda:
    """The model of ``plda.safetensors`` in a folder.

    Raises:
        DataError: no such file, or one that holds something else.
    """
    arrays = read_tensors(folder / FILE, "a trained PLDA")
    names = {field.name for field in fields(Plda)}
    if arrays.keys() != names:
        raise DataError(
            f"a trained PLDA holds {', '.join(sorted(arrays))} instead of {', '.join(sorted(names))}",
            where=str(folder / FILE),
        )
    return Plda(**arrays)


def normalise_lengths(rows: np.ndarray) -> np.ndarray:
    """Rows [n, k] brought to length sqrt(k); a row of zeros stays as it is."""
    return np.asarray(rows * scale_factors((rows**2).sum(1), rows.shape[1]))


def scale_factors(squares: np.ndarray, length: int) -> np.ndarray:
    """[n, 1], what scales squared lengths [n] to ``wanted``; 1 for those that are 0."""
    return np.asarray(np.sqrt(np.divide(length, squares, out=np.ones_like(squares), where=squares > 0))[:, None])


def average_groups(vectors: np.ndarray, group: np.ndarray, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Means float64 [n_groups, d] of the vectors [n, d] of each group, and how many each has, int64 [n_groups]."""
    counts = np.bincount(group, minlength=n_groups)
    member = scipy.sparse.csr_array((np.ones(len(group)), (group, np.arange(len(group)))), shape=(n_groups, len(group)))
    return np.asarray(member @ np.asarray(vectors, dtype=np.float64)) / counts[:, None], counts


def llr(psi: np.ndarray, enrolled: np.ndarray, counts: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Natural-log likelihood ratios of all pairs, float64 [m, n]; one matrix product makes them.

    Args:
        psi: [k] variances between speakers, where those within are 1.
        enrolled, counts: [m, k] mean of each model's vectors, mapped, and [m] of how many, >= 1.
        trials: [n, k] vectors, mapped.
    """
    kinds, kind = np.unique(counts, return_inverse=True)
    number = kinds.astype(np.float64)[:, None]
    left = 1 + number * psi
    shrunk, variance, total = number * psi / left, 1 + psi / left, 1 + psi
    # -2 LLR is log(v / t) + (x - a u)^2 / v - x^2 / t; what depends on x alone does so by the count of the model.
    of_model = 0.5 * (np.log(total) - np.log(variance)).sum(1)[kind] - 0.5 * (
        (shrunk**2 / variance)[kind] * enrolled**2
    ).sum(1)
    with threadpool_limits(1, user_api="blas"):
        of_trial = -0.5 * trials**2 @ (1 / variance - 1 / total).T
        # Both parts ride in the product as columns of their own, so that no second matrix of all pairs is needed.
        enrolled = np.hstack([enrolled * (shrunk / variance)[kind], of_model[:, None], np.eye(len(kinds))[kind]])
        trials = np.hstack([trials, np.ones((len(trials), 1)), of_trial])
        return np.asarray(enrolled @ trials.T)


# --- Kaldi's files ---

MEAN, TRANSFORM, PLDA = KALDI_FILES = ("mean.vec", "transform.mat", "plda")
LARGEST = 1 << 30
"""Bytes of such a file: a PLDA of 8,000 dimensions as text."""


def read_kaldi_model(folder: Path) -> Plda:
    """The PLDA of a folder with ``mean.vec``, ``transform.mat`` and ``plda``.

    ``transform.mat`` is [k, d], or [k, d + 1] with an offset as its last column.

    Raises:
        DataError: a file is absent or malformed, or their dimensions do not fit together.
    """
    mean, transform = read_array(folder / MEAN, 1), read_array(folder / TRANSFORM, 2)
    centre, rotation, psi = _read_arrays(folder / PLDA, [1, 2, 1], (b"<Plda>", b"</Plda>"))
    d, k = len(mean), len(psi)
    faults = []
    if transform.shape[1] not in (d, d + 1):
        faults.append(f"{TRANSFORM} has {transform.shape[1]} columns and {MEAN} {d} numbers: {d} or {d + 1} would fit")
    if len(transform) != k:
        faults.append(f"{TRANSFORM} gives {len(transform)} dimensions, and {PLDA} takes {k}")
    if len(centre) != k or rotation.shape != (k, k):
        faults.append(f"in {PLDA}, the mean has {len(centre)} dimensions, the transform {rotation.shape}, and psi {k}")
    if (psi < 0).any():
        faults.append(f"in {PLDA}, variances between speakers (psi) are negative")
    if faults:
        raise DataError(
            f"Kaldi's files do not fit together: {'; '.join(faults)}",
            where=str(folder),
            cause="files of different recipes or extractors in one folder",
            remedy=f"take {', '.join(KALDI_FILES)} from one training folder",
        )
    offset = transform[:, d] if transform.shape[1] == d + 1 else np.zeros(k)
    return Plda(mean, np.ascontiguousarray(transform[:, :d]), offset.copy(), centre, rotation, psi)


def read_array(path: Path, dimensions: int) -> np.ndarray:
    """A vector (``dimensions`` 1) or matrix (2) as float64.

    Raises:
        DataError: the file is absent, malformed, empty, of another kind, or holds numbers that are not finite.
    """
    return _read_arrays(path, [dimensions])[0]


def _read_arrays(path: Path, kinds: list[int], tokens: tuple[bytes, ...] = ()) -> list[np.ndarray]:
    """Vectors (1) and matrices (2) between two tokens, if there are any."""
    try:
        data = read_regular(path, LARGEST)
        binary = data.startswith(b"\0B")
        stream = io.BytesIO(data)
        stream.seek(2 * binary)
        arrays: list[np.ndarray] = []
        for token in tokens[:1]:
            _read_token(stream, token)
        for kind in kinds:
            array = kaldi.read_array(stream, len(data), binary).astype(np.float64)
            if array.size == 0 or not np.isfinite(array).all():
                raise kaldi.Malformed("it holds an empty vector or matrix, or numbers that are not finite")
            if kind == 1 and array.ndim == 2 and len(array) > 1:
                raise kaldi.Malformed("a vector was expected, and it has a matrix")
            arrays.append(array.ravel() if kind == 1 else np.atleast_2d(array))
        for token in tokens[1:]:
            _read_token(stream, token)
        if stream.read().strip():
            raise kaldi.Malformed("something follows after its end")
        return arrays
    except OSError as error:
        raise DataError(
            f"a file of Kaldi's cannot be read: {error.strerror or error}",
            where=str(path),
            cause="a path that means another file, or one that may not be read",
            remedy=f"name a folder that holds {', '.join(KALDI_FILES)} as plain files",
        ) from error
    except kaldi.Malformed as error:
        contents = "a PLDA" if tokens else {1: "a vector", 2: "a matrix"}[kinds[0]]
        raise DataError(
            f"this is no file of Kaldi's that holds {contents}: {error}",
            where=str(path),
            cause="another file, one that was cut off, or an archive of several",
            remedy="write it anew with ivector-copy-plda, copy-matrix or copy-vector, with --binary=false",
        ) from None


def _read_token(stream: io.BytesIO, token: bytes) -> None:
    kaldi.skip_blanks(stream)
    if stream.read(len(token) + 1).rstrip() != token:
        raise kaldi.Malformed(f"{token.decode()} is missing")
