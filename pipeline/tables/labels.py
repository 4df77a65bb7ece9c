"""What tools write for targets and non-targets, in lists of trials and in files of scores."""

from __future__ import annotations

from collections.abc import Iterable

PAIRS = (
    *((yes, no) for yes in ("target", "tgt", "tar") for no in ("nontarget", "non-target", "non_target", "nontgt", "non")),
    *((yes, no) for yes in ("target", "tgt", "tar", "client", "genuine", "true") for no in ("impostor", "imposter", "imp")),
    *(("same", "different"), ("same", "diff"), ("true", "false"), ("positive", "negative"), ("mated", "nonmated")),
    *(("mated", "non-mated"), ("1", "0"), ("1.0", "0.0"), ("1", "-1")),
)  # fmt: skip
"""Words for targets and non-targets, in lower case; the two of one file are a pair."""


def pair(found: Iterable[str]) -> tuple[str, str] | None:
    """The pair of words for target and non-target of which the labels found are; None if there is no such pair."""
    held = {label.lower() for label in found}
    return next((pair for pair in PAIRS if held <= set(pair)), None)
