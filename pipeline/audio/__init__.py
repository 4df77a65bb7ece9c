"""Audio files and sampling rates: the one place where sound is decoded, mixed, resampled and written.

A waveform is a float32 array [n] with full scale 1. Several channels are mixed to their mean.
"""

from pipeline.audio.decoding import Changed, load
from pipeline.audio.opening import BLOCK, EXTENSIONS, HIGHEST_RATE, LOWEST_RATE, MOST_CHANNELS, regular
from pipeline.audio.rates import RESAMPLER, Resampler, resample, segment_borders, uniform_segments
from pipeline.audio.silence import DIGITAL_SILENCE_MS, without_zeros_at_ends, zeros_at_ends
from pipeline.audio.surveying import CANCELLED, CLIPPED_RUN, CUT_DB, NOTHING_DB, Survey, TooLong, survey, too_long
from pipeline.audio.writing import Subtype, write

__all__ = [
    "BLOCK", "CANCELLED", "CLIPPED_RUN", "CUT_DB", "DIGITAL_SILENCE_MS", "EXTENSIONS", "HIGHEST_RATE", "LOWEST_RATE", "MOST_CHANNELS",
    "NOTHING_DB", "RESAMPLER", "Changed", "Resampler", "Subtype", "Survey", "TooLong", "load", "regular", "resample", "segment_borders",
    "survey", "too_long", "uniform_segments", "without_zeros_at_ends", "write", "zeros_at_ends",
]  # fmt: skip
