"""What a Kaldi recipe leaves: x-vectors in archives, and the PLDA that belongs to them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.challenge import tables, vectors
from tests.challenge.sets import Set

DIMENSION, LDA = 512, 200


def write(
    model: Path, checkout: Path, held: Sequence[Set], suffixes: Sequence[str], back_end: str, trained_on: str = ""
) -> None:
    """``final.raw``, ``xvect_SET[SUFFIX]/{xvector.scp,.done}``, and ``plda mean.vec transform.mat``.

    Args:
        model: the folder of the x-vector network.
        checkout: where the paths of xvector.scp start.
        held: the sets.
        suffixes: of the copies; '' for the originals.
        back_end: the folder in ``model`` that holds the back end; '' for ``model`` itself.
        trained_on: suffix of the copies that the network was trained on; '' for original speech.
    """
    for suffix in suffixes:
        for one in held:
            made = vectors.of(one.utterances, one.name, suffix, DIMENSION, LDA, trained_on)
            folder = model / f"xvect_{one.name}{suffix}"
            archive(folder, checkout, [row.id for row in one.utterances], made)
            (folder / ".done").touch()
    (model / "final.raw").write_bytes(b"\0B<Nnet3> ")  # nothing reads the network itself
    plda(model / back_end)


def archive(folder: Path, checkout: Path, ids: Sequence[str], made: np.ndarray) -> None:
    """``xvector.1.ark`` and the ``xvector.scp`` that says where in it each vector begins."""
    folder.mkdir(parents=True, exist_ok=True)
    place, parts, lines = 0, [], []
    name = (folder / "xvector.1.ark").relative_to(checkout)
    for id_, vector in zip(ids, made, strict=True):
        part = id_.encode() + b" " + b"\0B" + array(vector)
        lines.append(f"{id_} {name}:{place + len(id_) + 1}")
        parts.append(part)
        place += len(part)
    (folder / "xvector.1.ark").write_bytes(b"".join(parts))
    tables.lines(folder / "xvector.scp", lines)


def plda(folder: Path) -> None:
    """The back end with which the vectors were drawn, so that its ratios are right up to what length normalisation does."""
    mean, axes = vectors.mean_and_axes(DIMENSION, LDA)
    between = np.where(np.arange(LDA) < vectors.HELD, vectors.BETWEEN, 0.0)
    # vectors are brought to the length sqrt(LDA) first, which divides their variances by the mean of 1 + between
    scale = np.sqrt(np.mean(1 + between))
    folder.mkdir(parents=True, exist_ok=True)
    offset = np.zeros((LDA, 1))  # ivector-compute-lda writes one, and the mean is subtracted before
    (folder / "mean.vec").write_bytes(b"\0B" + array(mean.astype(np.float32)))
    (folder / "transform.mat").write_bytes(b"\0B" + array(np.hstack([axes.T, offset]).astype(np.float32)))
    parts = [np.zeros(LDA), scale * np.eye(LDA), between]
    (folder / "plda").write_bytes(b"\0B<Plda> " + b"".join(array(part) for part in parts) + b"</Plda> ")


def array(values: np.ndarray) -> bytes:
    """A vector or matrix, float32 or float64, as Kaldi writes it in binary, without the mark before it."""
    kind = {("f", 1): b"FV ", ("d", 1): b"DV ", ("f", 2): b"FM ", ("d", 2): b"DM "}[values.dtype.char, values.ndim]
    sizes = b"".join(b"\4" + struct.pack("<i", size) for size in values.shape)
    return kind + sizes + np.ascontiguousarray(values).tobytes()
