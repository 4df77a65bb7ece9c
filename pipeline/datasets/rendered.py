"""The embedded data set: synthetic speakers rendered into wav files, with lists made as for data without lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline import audio
from pipeline.datasets import corpus, synthetic
from pipeline.datasets.corpus import Listed, Listing
from pipeline.datasets.settings import DatasetSettings

RATE = 16000
# Far beyond any number of evaluated speakers, so that the two groups stay disjoint whatever their sizes.
FIRST_TRAIN = 100_000


def write(settings: DatasetSettings, folder: Path) -> None:
    """Render all utterances to ``folder/SPEAKER/UTTERANCE.wav`` (16 kHz, 16 bit): the same bytes for the same settings."""
    for _, speaker, number, row in _rows(settings, folder):
        assert row.path is not None
        row.path.parent.mkdir(parents=True, exist_ok=True)
        made = synthetic.utterance(speaker, settings.seed, number, settings.seconds, RATE)
        audio.write(row.path, made.wave, RATE, "PCM_16")


def add(settings: DatasetSettings, folder: Path, listing: Listing) -> None:
    """List the rendered data set: ``synthetic_enrolls``, ``synthetic_trials_f``, ``synthetic_trials_m`` and, with the role
    train, ``synthetic_train``, whose speakers are others, unless ``settings.train`` names another training set.
    """
    rows = list(_rows(settings, folder))
    corpus.halved(
        listing, "synthetic", [row for index, _, _, row in rows if index < FIRST_TRAIN], settings.seed, str(folder)
    )
    if not settings.train:
        listing.utterances += [row for index, _, _, row in rows if index >= FIRST_TRAIN]
    corpus.select(listing, settings.sets, "dataset.sets")


def _rows(settings: DatasetSettings, folder: Path) -> Iterator[tuple[int, synthetic.Speaker, int, Listed]]:
    """(speaker index, speaker, utterance index, row) of all utterances, those to evaluate on first."""
    folder = folder.absolute()
    position = 0
    for index in [*range(settings.speakers), *range(FIRST_TRAIN, FIRST_TRAIN + settings.train_speakers)]:
        speaker = synthetic.speaker(settings.seed, index)
        for number in range(settings.utterances):
            name = f"{speaker.id}-{number:04d}"
            path = folder / speaker.id / f"{name}.wav"
            yield (
                index,
                speaker,
                number,
                Listed("synthetic_train", "train", name, speaker.id, speaker.sex, path, str(path), position),
            )
            position += index >= FIRST_TRAIN
