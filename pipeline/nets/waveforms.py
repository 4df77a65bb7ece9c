"""Speech to train on as one file: decoded once, resampled to 16 kHz, read in pieces without opening a file a crop.

``audio.i16`` holds the samples of all utterances one after the other, ``rows.parquet`` who says what where. A sample is an
int16 times the scale of its utterance: 1 / 32768 where nothing lies beyond full scale, so that 16-bit audio at 16 kHz comes
back exactly as it was, and the peak / 32767 elsewhere. Two bytes a sample are 115 MB an hour.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline import audio, contracts
from pipeline.contracts import Preparation
from pipeline.errors import DataError
from pipeline.seeds import digest

RATE = 16_000
SAMPLES, ROWS = "audio.i16", "rows.parquet"


@dataclass(frozen=True, eq=False)
class Waveforms:
    """Utterances at 16 kHz, as :class:`pipeline.contracts.Waveforms` says."""

    ids: tuple[str, ...]
    speakers: tuple[str, ...]
    lengths: np.ndarray
    digest: str
    sexes: tuple[str, ...]
    recordings: tuple[str, ...]
    draws: np.ndarray
    own: np.ndarray
    _starts: np.ndarray
    _scales: np.ndarray
    _samples: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def piece(self, item: int, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Samples ``start`` to ``stop`` (the end by default) of an utterance, float32."""
        first = int(self._starts[item])
        last = first + (int(self.lengths[item]) if stop is None else stop)
        samples: np.ndarray = self._samples[first + start : last].astype(np.float32) * self._scales[item]
        return samples

    @property
    def seconds(self) -> float:
        """Length of all utterances together."""
        return float(self.lengths.sum()) / RATE


def pack_waveforms(
    waves: Sequence[np.ndarray], speakers: Sequence[str], ids: Sequence[str] | None = None, **more: Sequence[Any]
) -> Waveforms:
    """Waveforms in memory, each float [n] at 16 kHz; ``more`` are sexes, recordings, draws and own.

    Raises:
        DataError: one has no samples, or some that are not finite.
    """
    names = tuple(ids) if ids is not None else tuple(str(number) for number in range(len(waves)))
    packed = [_pack(wave, name) for wave, name in zip(waves, names, strict=True)]
    samples = np.concatenate([wave for wave, _ in packed]) if packed else np.zeros(0, np.int16)
    table = _table(names, speakers, **more)
    table["samples"] = np.array([len(wave) for wave, _ in packed], np.int64)
    table["scale"] = np.array([scale for _, scale in packed], np.float32)
    return _assemble(samples, table, hashlib.sha256(samples.tobytes()).hexdigest())


def write(
    folder: Path,
    rows: pd.DataFrame,
    threads: int,
    progress: Callable[[float], None],
    preparation: Preparation = Preparation(),  # noqa: B008 (a frozen value)
) -> None:
    """Decode the files of a manifest's rows into two files of a folder, in order of speaker and digest of the audio.

    Args:
        rows: columns utterance, speaker, sex, sha256, path; and ``recording``, ``draw`` and ``own`` where they are not each
            utterance itself, 0 and true.
        progress: called with seconds of audio done.
        preparation: what is done to a recording first. One of zeros alone stays as it is: trainers know what is silent.
    """
    rows = rows.sort_values(["speaker", "sha256", "utterance"], kind="stable")
    lengths: list[int] = []
    scales: list[np.float32] = []

    def decode(row: tuple[str, str, str]) -> tuple[np.ndarray, np.float32]:
        wave, rate = audio.load(Path(row[1]), row[2])
        prepared = preparation.prepare(wave, rate, RATE)
        return _pack(prepared if len(prepared) else audio.resample(wave, rate, RATE), row[0])

    listed = list(zip(*(rows[name].astype(str) for name in ("utterance", "path", "sha256"))))
    with (folder / SAMPLES).open("wb") as stream, ThreadPoolExecutor(threads) as pool:
        for first in range(0, len(listed), 4 * threads):
            for packed, scale in pool.map(decode, listed[first : first + 4 * threads]):
                stream.write(packed.astype("<i2").tobytes())
                lengths.append(len(packed))
                scales.append(scale)
                progress(len(packed) / RATE)
    plural = {"sex": "sexes", "recording": "recordings", "draw": "draws", "own": "own"}
    more: dict[str, Any] = {plural[name]: rows[name] for name in plural if name in rows}
    table = _table(list(rows["utterance"]), list(rows["speaker"]), **more)
    table["sha256"] = rows["sha256"].astype(str).to_numpy()
    table["samples"] = np.array(lengths, np.int64)
    table["scale"] = np.array(scales, np.float32)
    table.to_parquet(folder / ROWS, index=False)


def read(folder: Path) -> Waveforms:
    """The waveforms of a folder; samples stay on disk until they are asked for."""
    rows = pd.read_parquet(folder / ROWS)
    samples = np.memmap(folder / SAMPLES, dtype="<i2", mode="r") if rows["samples"].sum() else np.zeros(0, np.int16)
    return _assemble(samples, rows, list(rows["sha256"]))


def _table(
    ids: Sequence[str],
    speakers: Sequence[str],
    sexes: Sequence[str] | None = None,
    recordings: Sequence[str] | None = None,
    draws: Sequence[int] | None = None,
    own: Sequence[bool] | None = None,
) -> pd.DataFrame:
    """Who says what, without the audio."""
    n = len(ids)
    return pd.DataFrame(
        {
            "utterance": np.array(ids, dtype=object).astype(str),
            "speaker": np.array(speakers, dtype=object).astype(str),
            "sex": np.array(["u"] * n if sexes is None else sexes, dtype=object).astype(str),
            "recording": np.array(ids if recordings is None else recordings, dtype=object).astype(str),
            "draw": np.array([0] * n if draws is None else draws, dtype=np.int64),
            "own": np.array([True] * n if own is None else own, dtype=bool),
        }
    )


def _pack(wave: np.ndarray, name: str) -> tuple[np.ndarray, np.float32]:
    if len(wave) == 0 or not np.isfinite(wave).all():
        raise DataError("an utterance to train on has no samples, or some that are not finite", where=name)
    peak = float(np.abs(wave).max())
    scale = np.float32(1 / 32768 if peak <= 32767 / 32768 else peak / 32767)
    return np.rint(np.asarray(wave, np.float64) / float(scale)).clip(-32768, 32767).astype(np.int16), scale


def _assemble(samples: np.ndarray, table: pd.DataFrame, samples_content: object) -> Waveforms:
    counted = table["samples"].to_numpy(np.int64)
    starts = np.concatenate([[0], np.cumsum(counted)])[:-1].astype(np.int64)
    texts = [tuple(str(text) for text in table[name]) for name in ("utterance", "speaker", "sex", "recording")]
    draws, own = table["draw"].to_numpy(np.int64), table["own"].to_numpy(bool)
    content = digest(texts, draws.tolist(), own.tolist(), samples_content)
    ids, speakers, sexes, recordings = texts
    scales = table["scale"].to_numpy(np.float32)
    return Waveforms(ids, speakers, counted, content, sexes, recordings, draws, own, starts, scales, samples)


def cut_middle(utterances: contracts.Waveforms, item: int, start: int, stop: int, length: int) -> np.ndarray:
    """``length`` samples from the middle of samples ``start`` to ``stop`` of an utterance, float32; what is shorter is
    repeated."""
    skipped = max(0, stop - start - length) // 2
    return np.resize(utterances.piece(item, start + skipped, min(stop, start + skipped + length)), length)


def play_at_speed(wave: np.ndarray, speed: float, length: int) -> np.ndarray:
    """A waveform of about ``length * speed`` samples, played at this speed: ``length`` samples."""
    if speed == 1:
        return wave
    return np.resize(audio.resample(wave, round(1000 * speed), 1000), length)
