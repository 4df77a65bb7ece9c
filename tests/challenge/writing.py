"""The one function that writes a folder of any edition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.challenge import of_2020, of_2024, of_attackers
from tests.challenge.common import Wanted, Written

_WRITERS: dict[str, tuple[Callable[[Wanted], Written], tuple[str, ...]]] = {
    "2020": (of_2020.write_2020, ("anon",)),
    "2022": (of_2020.write_2022, ("anon",)),
    "2024": (of_2024.write, ("mcadams",)),
    "2026": (of_2024.write_2026, ("mcadams",)),
    "attacker": (of_attackers.write, of_attackers.SYSTEMS),
    "raw2020": (of_attackers.write_raw_2020, ()),
    "raw2024": (of_attackers.write_raw_2024, ()),
}
EDITIONS = tuple(_WRITERS)


def write(
    edition: str,
    folder: Path,
    lists: Path | None = None,
    scale: float = 1.0,
    systems: Sequence[str] | None = None,
    seconds: float = 1.0,
    training: tuple[int, int] = (12, 4),
    models: bool = True,
    scores: bool = True,
) -> Written:
    """A complete folder of an edition.

    Args:
        edition: one of EDITIONS. ``raw2020`` and ``raw2024`` are the downloads before the recipes cut sets out of them.
        folder: the checkout; made if it is absent.
        lists: a folder of the real LibriSpeech lists (``libri_dev_enrolls`` ...); ids are invented without it.
        scale: below 1, fewer speakers and fewer utterances of each, and the counts are no longer the protocol's.
        systems: anonymised copies, by suffix without its underscore; None for what the edition usually has.
        seconds: of an utterance, give or take 30 %; 0 leaves the audio out.
        training: speakers of train-clean-360 and utterances of each; the challenge has 921 and 104,014 in all.
        models: whether trained models and vectors are written, where the edition leaves some.
        scores: whether score files are written, where the edition leaves some.
    """
    writer, usual = _WRITERS[edition]
    chosen = tuple(usual if systems is None else systems)
    return writer(Wanted(folder, lists, scale, chosen, seconds, training, models, scores))
