"""Audio files and sampling rates: the one place where sound is decoded, mixed, resampled and written.

A waveform is a float32 array [n] with full scale 1. Several channels are mixed to their mean.
"""

from pipeline.audio.decoding import (
    BLOCK,
    EXTENSIONS,
    HIGHEST_RATE,
    LOWEST_RATE,
    MOST_CHANNELS,
    Changed,
    load,
    open_regular,
)
from pipeline.audio.rates import RESAMPLER, Resampler, cut_uniformly, resample, uniform_segments
from pipeline.audio.surveying import (
    CANCELLED,
    CLIPPED_RUN,
    CUT_DB,
    DIGITAL_SILENCE_MS,
    NOTHING_DB,
    Survey,
    TooLong,
    count_zeros_at_ends,
    explain_too_long,
    survey,
    trim_zeros,
)
from pipeline.audio.writing import Subtype, write

__all__ = [
    "BLOCK",
    "CANCELLED",
    "CLIPPED_RUN",
    "CUT_DB",
    "DIGITAL_SILENCE_MS",
    "EXTENSIONS",
    "HIGHEST_RATE",
    "LOWEST_RATE",
    "MOST_CHANNELS",
    "NOTHING_DB",
    "RESAMPLER",
    "Changed",
    "Resampler",
    "Subtype",
    "Survey",
    "TooLong",
    "count_zeros_at_ends",
    "cut_uniformly",
    "explain_too_long",
    "load",
    "open_regular",
    "resample",
    "survey",
    "trim_zeros",
    "uniform_segments",
    "write",
]  # fmt: skip
