"""Settings of the evaluation data: one schema for all kinds of data set."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import ValidationInfo, field_validator

from pipeline.contracts import ComponentSettings, numeric, runtime
from pipeline.names import normalise_name

_NO_ATTRIBUTES = {"utt", "spk", "gender", "sex", "dur"}

_READ_FOR: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("edition", "protocol", "originals"), ("vpc",)),
    **dict.fromkeys(("trials", "utt2spk", "labels", "distances", "as_is", "results", "pool"), ("scores",)),
    "sexes": ("folders", "librispeech"),
    "files": ("folders",),
    "attributes": ("kaldi", "vpc"),
    "train": ("kaldi", "librispeech", "folders", "vpc", "synthetic"),
}
"""The kinds of data set for which a setting is read."""


class DatasetSettings(ComponentSettings):
    """What to evaluate on.

    Attributes:
        name: the importer: ``kaldi`` (a folder of Kaldi sets), ``librispeech`` (a tree SPEAKER/CHAPTER/UTTERANCE.ext),
            ``folders`` (any tree with a folder a speaker, SPEAKER/**/FILE.ext), ``vpc`` (the folder of a VoicePrivacy challenge),
            ``scores`` (score files, without audio) or ``synthetic`` (rendered here).
        label: what the tables call the data set; by default the name of its folder.
        root: the folder of the data; synthetic data need none. It stays out of keys: the content of the audio enters them.
        edition: of a challenge's folder (``vpc``): by default the one that is recognised by what lies there. Sets of another edition
            are then deviations. VoicePrivacy 2020 and 2022 have the same sets.
        protocol: what becomes of deviations of a challenge's folder from the sets and counts of its edition (``vpc``): ``strict``
            refuses them, with the name of each set; ``reported`` says them above the results.
        originals: where the original sets of the Attacker Challenge are, which its tree does not hold (``vpc``): a checkout of
            VoicePrivacy 2024, or its ``data``.
        train: a folder with training speech, for extractors that are trained in the run: a Kaldi set (or a folder that holds
            one) or a tree with a folder a speaker; for ``vpc`` also the name of a set in it, ``train-clean-360``. None of its speakers may be evaluated. Synthetic data then do without
            training speakers of their own. It stays out of keys like ``root``.
        audio_root: where relative paths of a ``wav.scp`` start; by default the first of root, its parent and the current
            folder under which all relative paths exist. For ``train`` it is tried first.
        longest_hours: longer files are refused, in anonymised and training speech too: a file is held in memory whole (an
            hour at 16 kHz takes 230 MB), and a damaged header may promise any length.
        follow_links: whether links may lead out of the data (root, audio_root, train); what they lead to is read if it is a
            regular file. Give it where the links are your own.
        sexes: a table of the sex of speakers for ``folders`` and ``librispeech``: lines SPEAKER f|m, CSV with a header, or the one
            that the corpus brings; by default one that is called as LibriSpeech, VCTK or VoxCeleb call it, in the root or its parent.
        files: which files of a tree of ``folders`` are evaluated, by name with wildcards: ``*_mic2.flac``.
        attributes: names of what else is known of speakers or utterances than their sex, for metrics that tell how much of a
            disclosure it is: ``accent`` reads ``spk2accent`` or ``utt2accent`` of the Kaldi sets that are evaluated.
        sets: names of the trial sets to evaluate, e.g. ``[libri_dev_trials_f]``; by default all that are found.
        trials: of ``scores``, the folder with lists of trials, SET/trials; by default ``data`` beside the scores.
        utt2spk: of ``scores``, a table of the speakers of ids; by default ``utt2spk`` beside each list of trials.
        labels: of ``scores``, which trials are targets: ``auto`` by the list of trials, or by a column of the file where there is no
            list; ``column`` by a column of the file; ``ids`` where the id of an utterance begins with its model's (MODEL, MODEL-…).
        distances: whether lower scores mean more similar, or patterns of the score files of which that is so, from the root on.
        as_is: keep scores that order the classes the wrong way round beyond chance, instead of refusing them.
        results: of ``scores``, the name of the folder ``results-…`` to read; by default the newest.
        pool: evaluate the scores of the sets of both sexes together too.
        seed: of the halving into enrolment and trial where a data set has no lists, of the SRD halves, and of synthetic
            speakers.
        speakers: synthetic speakers to evaluate.
        train_speakers: further synthetic speakers to train on, disjoint from those.
        utterances: utterances of each synthetic speaker.
        seconds: length of a synthetic utterance.
    """

    name: Literal["kaldi", "librispeech", "folders", "vpc", "synthetic", "scores"] = numeric()
    label: str = runtime("")
    root: str = runtime("")
    edition: Literal["auto", "2020", "2022", "2024", "2026", "attacker"] = runtime("auto")
    protocol: Literal["strict", "reported"] = runtime("strict")
    originals: str | None = runtime(None)
    train: str = runtime("")
    audio_root: str | None = runtime(None)
    longest_hours: float = runtime(4.0, gt=0)
    follow_links: bool = runtime(False)
    sexes: str | None = runtime(None)
    files: str = runtime("*", min_length=1)
    attributes: list[str] = numeric([])
    sets: list[str] | None = numeric(None)
    trials: str | None = runtime(None)
    utt2spk: str | None = runtime(None)
    labels: Literal["auto", "column", "ids"] = numeric("auto")
    distances: bool | list[str] = numeric(False)
    as_is: bool = runtime(False)
    results: str | None = runtime(None)
    pool: bool = numeric(False)
    seed: int = numeric(0, ge=0)
    speakers: int = numeric(12, ge=2)
    train_speakers: int = numeric(32, ge=0)
    utterances: int = numeric(20, ge=2)
    seconds: float = numeric(3.0, gt=0, le=60)

    @field_validator("sets")
    @classmethod
    def _in_one_form(cls, sets: list[str] | None) -> list[str] | None:
        if sets is not None and not sets:
            raise ValueError(
                "an empty list leaves nothing to evaluate: name trial sets, or leave it out to take every set"
            )
        return None if sets is None else [normalise_name(name) for name in sets]

    @field_validator("edition", mode="before")
    @classmethod
    def _is_a_year(cls, edition: object) -> object:
        return str(edition) if isinstance(edition, int) else edition

    @field_validator("attributes")
    @classmethod
    def _name_tables(cls, names: list[str]) -> list[str]:
        wrong = [name for name in names if not re.fullmatch(r"\w+", name) or name in _NO_ATTRIBUTES]
        if wrong or len(set(names)) < len(names):
            raise ValueError(
                f"each names a table once, as accent names spk2accent or utt2accent, and the sex is known without: not {names}"
            )
        return names

    @field_validator(*_READ_FOR)
    @classmethod
    def _is_read(cls, value: Any, info: ValidationInfo) -> Any:
        kinds = _READ_FOR[str(info.field_name)]
        if value != cls.model_fields[str(info.field_name)].default and info.data.get("name") not in kinds:
            raise ValueError(f"is read for {' and '.join(f'dataset={kind}' for kind in kinds)}")
        return value

    @property
    def is_given(self) -> bool:
        """Whether it is score files, without audio."""
        return self.name == "scores"

    @property
    def is_rendered(self) -> bool:
        """Whether the audio is made here."""
        return self.name == "synthetic"

    @property
    def has_training_speech(self) -> bool:
        """Whether there is speech to train on."""
        return bool(self.train) or (self.is_rendered and self.train_speakers > 0)
