"""Settings of the evaluation data: one schema for all kinds of data set."""

from __future__ import annotations

from typing import Literal

from pipeline.contracts import ComponentSettings, numeric, runtime


class DatasetSettings(ComponentSettings):
    """What to evaluate on.

    Attributes:
        name: the importer: ``kaldi`` (a folder of Kaldi sets), ``librispeech`` (a tree SPEAKER/CHAPTER/UTTERANCE.ext) or
            ``synthetic`` (rendered here).
        label: what the tables call the data set; by default the name of its folder.
        root: the folder of the data; synthetic data need none. It stays out of keys: the content of the audio enters them.
        train: a folder with training speech, for extractors that are trained in the run: a Kaldi set (or a folder that holds
            one) or a tree SPEAKER/CHAPTER/UTTERANCE.ext. None of its speakers may be evaluated. Synthetic data then do without
            training speakers of their own. It stays out of keys like ``root``.
        audio_root: where relative paths of a ``wav.scp`` start; by default the first of root, its parent and the current
            folder under which all relative paths exist. For ``train`` it is tried first.
        longest_hours: longer files are refused, in anonymised and training speech too: a file is held in memory whole (an
            hour at 16 kHz takes 230 MB), and a damaged header may promise any length.
        sets: names of the trial sets to evaluate, e.g. ``[libri_dev_trials_f]``; by default all that are found.
        seed: of the halving into enrolment and trial where a data set has no lists, of the SRD halves, and of synthetic
            speakers.
        speakers: synthetic speakers to evaluate.
        train_speakers: further synthetic speakers to train on, disjoint from those.
        utterances: utterances of each synthetic speaker.
        seconds: length of a synthetic utterance.
    """

    name: Literal["kaldi", "librispeech", "synthetic"] = numeric()
    label: str = runtime("")
    root: str = runtime("")
    train: str = runtime("")
    audio_root: str | None = runtime(None)
    longest_hours: float = runtime(4.0, gt=0)
    sets: list[str] | None = numeric(None)
    seed: int = numeric(0, ge=0)
    speakers: int = numeric(12, ge=2)
    train_speakers: int = numeric(32, ge=0)
    utterances: int = numeric(20, ge=2)
    seconds: float = numeric(3.0, gt=0, le=60)

    @property
    def is_rendered(self) -> bool:
        """Whether the audio is made here."""
        return self.name == "synthetic"

    @property
    def has_training_speech(self) -> bool:
        """Whether there is speech to train on."""
        return bool(self.train) or (self.is_rendered and self.train_speakers > 0)
