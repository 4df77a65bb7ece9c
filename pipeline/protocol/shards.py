"""Shards of a manifest: the units in which audio is anonymised and features are extracted.

Rows are ordered by (duration band, audio digest, set, utterance) and cut where the band changes and after each digest whose
last byte is 0, which happens once in 256 digests on average. A border depends on the file at it alone: neither the size nor the order of the
corpus nor the number of workers moves it, and a new file touches one shard.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pandas as pd


def duration_band(samples: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Duration band of each utterance: floor(log2(seconds)), so utterances of a band differ by less than a factor of two.

    ``frexp`` gives it exactly, where a logarithm could round across a border.
    """
    exponent: np.ndarray = np.frexp(np.asarray(samples, float) / np.asarray(rates, float))[1]
    return exponent - 1


def split_shards(manifest: pd.DataFrame) -> list[pd.DataFrame]:
    """The manifest's rows as shards, in order; together they are the manifest, and equal digests stay together.

    Row labels are renumbered from 0 in each shard.
    """
    bands = duration_band(manifest["samples"].to_numpy(), manifest["sample_rate"].to_numpy())
    digests = manifest["sha256"].to_numpy(object)
    places = _order_rows(manifest, bands, digests)
    order, bands, digests = manifest.iloc[places], bands[places], digests[places]
    last = np.array([digest.endswith("00") for digest in digests.tolist()], bool)
    # The last of a run of equal digests.
    last[:-1] &= digests[1:] != digests[:-1]
    # A small corpus may have no such digest at all; bands cut it too, and keep each shard's padding and memory even.
    last[:-1] |= bands[1:] != bands[:-1]
    borders = [0, *(np.flatnonzero(last) + 1).tolist()]
    if borders[-1] < len(order):
        borders.append(len(order))
    return [order.iloc[start:stop].reset_index(drop=True) for start, stop in pairwise(borders)]


def _order_rows(manifest: pd.DataFrame, bands: np.ndarray, digests: np.ndarray) -> np.ndarray:
    """The places of the rows in the order of (band, digest, set, utterance)."""
    if len(set(digests)) < len(digests):
        keys = manifest[["sha256", "set", "utterance"]].assign(band=bands, place=np.arange(len(manifest)))
        return keys.sort_values(["band", "sha256", "set", "utterance"], kind="stable")["place"].to_numpy()
    return np.lexsort((digests.astype(bytes), bands))


def group_runs(sizes: Iterable[float], limit: float) -> list[slice]:
    """Cuts a row of files in their order into runs of ``limit`` at most together, or of one larger file."""
    runs: list[slice] = []
    total = 0.0
    for place, size in enumerate(sizes):
        if runs and total + size <= limit:
            runs[-1] = slice(runs[-1].start, place + 1)
            total += size
        else:
            runs.append(slice(place, place + 1))
            total = size
    return runs
