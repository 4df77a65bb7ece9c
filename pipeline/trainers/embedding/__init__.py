"""Train a speaker embedding, an ECAPA-TDNN or x-vectors, with additive angular margin softmax (Deng et al. 2019, arXiv 1801.07698).

SpeechBrain's classes, from waveforms and the names of their speakers. The defaults are our recipe: every speaker is seen
equally often, in random crops, and the checkpoint is chosen on training speakers that are held out. ``train=vpc2024`` is the
recipe of the VoicePrivacy Challenge 2024 in the same settings.

The same data, settings, libraries and device give the same bytes on CPU, also after a kill at any step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator

from pipeline import contracts
from pipeline.contracts import ComponentSettings, Waveforms, numeric
from pipeline.errors import ConfigError, DataError
from pipeline.nets.checkpoints import Checkpoints
from pipeline.nets.trainable import Trainable, find_trainable
from pipeline.nets.training import Course, Standing, follow_course, list_libraries, repeatable, write_record
from pipeline.nets.waveforms import RATE
from pipeline.seeds import digest
from pipeline.trainers.embedding import crops as _crops
from pipeline.trainers.embedding.crops import Crops

if TYPE_CHECKING:
    from pipeline.trainers.embedding.learner import Learner

SAMPLE_RATE = RATE
VERSION = "embedding 3"
WEIGHTS = "embedding_model.safetensors"
_LIBRARIES = ("torch", "speechbrain", "numpy")

# What nulls become below and above 20 hours of speech. Small sizes: 168 speakers with 12 s each in about 4 minutes on a core;
# large ones: VPC 2024.
_MUCH_SPEECH = 20 * 3600.0
_SIZES: dict[bool, dict[str, Any]] = {
    False: {
        "channels": (128,) * 4,
        "aggregation": 384,
        "attention": 64,
        "embedding": 128,
        "batch": 32,
        "crop_seconds": 2.0,
        "speeds": (0.9, 1.0, 1.1),
    },
    True: {
        "channels": (512,) * 4,
        "aggregation": 1536,
        "attention": 128,
        "embedding": 192,
        "batch": 256,
        "crop_seconds": 3.0,
        "speeds": (1.0,),
    },
}
_LEAST_STEPS, _MICRO_BATCH = 300, 64


class EmbeddingSettings(ComponentSettings):
    """Settings of the embedding trainer; all of them change the weights. Nulls are filled in from the amount of speech.

    Attributes:
        architecture: the name of the extractor whose network is made; null is the one that is trained.
        speaker_from: who speaks: ``manifest``, or ``utterance``: the first field of the utterance id (``SPEAKER-...``), which
            is what VPC 2024 does, whatever its lists of speakers say.
        held_out: part of what ``held_out_by`` counts that is not trained on, to verify on.
        held_out_by: ``speaker``; or ``utterance`` (VPC 2024), so that those verified on are known.
        checkpoint: which weights are kept: ``best``, those with the lowest EER on what is held out (within half a standard
            error of each other the lower minimum Cllr, then the earlier); or ``last`` (VPC 2024). Without anything held out it is the last.
        items: what a round of training goes over: ``speakers`` (each equally often); or ``chunks`` (VPC 2024): the
            non-overlapping pieces of ``crop_seconds`` of all utterances. A chunk with a mean magnitude below 5e-4 is dropped,
            an utterance that is shorter than a chunk vanishes, and a chunk stands for a crop at a random place of its whole
            utterance.
        channels: of the first convolution and of the blocks or layers after it; multiples of 8 for ECAPA.
        aggregation: channels of the layer before the pooling.
        embedding: dimensions of the embedding.
        attention: channels of ECAPA's attention, and of squeeze and excitation.
        n_mels: log-mel bands.
        epochs: passes over the seconds of speech (``items: chunks``: over the chunks) where ``steps`` is null; it is null
            once it is settled by ``steps``.
        steps: optimiser steps; null is ``epochs`` of the seconds of speech over those of a batch, 300 at least.
        batch: crops a step.
        micro_batch: crops that go through the network at once, their gradients added up to the batch's. Batch normalisation
            takes its statistics over them. Null is the batch, 64 at most. Out of memory halves it, and the record says so.
        crop_seconds: length of a crop; shorter utterances are repeated.
        speeds: each speaker played at each of these speeds (pitch and formants move along) is a class of its own, so
            that few speakers become more. Null is 0.9, 1 and 1.1 below 20 hours of speech, and 1 above.
        optimiser: ``adamw``; or ``adam`` (VPC 2024), whose weight decay is a part of the gradient (L2).
        weight_decay: of the optimiser.
        schedule: of the learning rate: ``cosine``: a linear rise over ``warm_up`` of the steps, then half a cosine to zero; or
            ``triangular`` (VPC 2024): up and down between ``lowest_learning_rate`` and ``learning_rate`` in ``half_cycle``
            steps each, however many steps there are.
        learning_rate: the highest.
        warm_up: part of the steps over which the learning rate rises (``cosine``).
        lowest_learning_rate, half_cycle: of ``triangular``.
        margin: additive angle in radians.
        scale: of the cosines before the softmax.
        verify_every: steps between verifications; null is a tenth of the steps.
        patience: verifications without a better one after which training ends (``checkpoint: best``); null never ends it.
        precision: of the convolutions in training; loss, statistics and optimiser stay in float32.
        threads: CPU threads. Sums are rounded by thread, and training lets that grow, so the number is fixed here and not
            taken from the machine: the same settings give the same weights everywhere. One, because two that wait for each
            other at every small operation lose more than they gain as soon as anything else runs on the machine.
        seed: of all that is random.
    """

    name: Literal["embedding"] = numeric("embedding")
    architecture: str | None = numeric(None)
    speaker_from: Literal["manifest", "utterance"] = numeric("manifest")
    held_out: float = numeric(0.1, ge=0, lt=1)
    held_out_by: Literal["speaker", "utterance"] = numeric("speaker")
    checkpoint: Literal["best", "last"] = numeric("best")
    items: Literal["speakers", "chunks"] = numeric("speakers")
    channels: tuple[Annotated[int, Field(ge=1)], ...] | None = numeric(None, min_length=3)
    aggregation: int | None = numeric(None, ge=8)
    embedding: int | None = numeric(None, ge=2)
    attention: int | None = numeric(None, ge=1)
    n_mels: int = numeric(80, ge=8)
    epochs: float | None = numeric(18.0, gt=0)
    steps: int | None = numeric(None, ge=1)
    batch: int | None = numeric(None, ge=2)
    micro_batch: int | None = numeric(None, ge=2)
    crop_seconds: float | None = numeric(None, ge=0.1)
    speeds: tuple[Annotated[float, Field(ge=0.5, le=2)], ...] | None = numeric(None, min_length=1)
    optimiser: Literal["adamw", "adam"] = numeric("adamw")
    weight_decay: float = numeric(1e-4, ge=0)
    schedule: Literal["cosine", "triangular"] = numeric("cosine")
    learning_rate: float = numeric(2e-3, gt=0)
    warm_up: float = numeric(0.1, ge=0, lt=1)
    lowest_learning_rate: float = numeric(1e-8, ge=0)
    half_cycle: int = numeric(65_000, ge=1)
    margin: float = numeric(0.2, ge=0, lt=1.5)
    scale: float = numeric(30.0, gt=0)
    verify_every: int | None = numeric(None, ge=1)
    patience: int | None = numeric(5, ge=1)
    precision: Literal["float32", "bfloat16"] = numeric("float32")
    threads: int = numeric(1, ge=1)
    seed: int = numeric(0, ge=0)

    @field_validator("architecture")
    @classmethod
    def _check_architecture(cls, name: str | None) -> str | None:
        if name is not None:
            try:
                find_trainable(name)
            except ConfigError as error:
                raise ValueError(f"{error.what}; {error.remedy}") from error
        return name


class Trainer(contracts.Trainer):
    """Makes ``embedding_model.safetensors`` and ``training.json``."""

    Settings = EmbeddingSettings
    libraries = ("torch", "speechbrain")

    @classmethod
    def trains(cls, extractor: type[contracts.Extractor]) -> bool:
        return issubclass(extractor, Trainable)

    @classmethod
    def resolved(
        cls, settings: EmbeddingSettings, extractor: str, n_speakers: int, seconds: float
    ) -> EmbeddingSettings:
        """See the contract; with fewer than 20 speakers none is held out."""
        sizes = {"architecture": extractor, **_SIZES[seconds >= _MUCH_SPEECH]}
        filled: dict[str, Any] = {name: value for name, value in sizes.items() if getattr(settings, name) is None}
        if n_speakers < _crops.FEWEST:
            filled["held_out"] = 0.0
        chosen = settings.model_copy(update=filled)
        assert chosen.batch is not None
        assert chosen.crop_seconds is not None
        filled |= dict.fromkeys(find_trainable(chosen.architecture or extractor).without)
        if settings.micro_batch is None:
            filled["micro_batch"] = min(chosen.batch, _MICRO_BATCH)
        steps = settings.steps
        if steps is None:
            if settings.epochs is None:
                raise ConfigError("a training needs epochs or steps", where="train.epochs", remedy="set train.steps")
            steps = max(_LEAST_STEPS, round(settings.epochs * seconds / (chosen.batch * chosen.crop_seconds)))
        filled["steps"] = steps
        # Chunks are counted when the audio is there: their number of steps is the most that there can be.
        filled["epochs"] = settings.epochs if settings.items == "chunks" and settings.steps is None else None
        if settings.verify_every is None:
            filled["verify_every"] = max(1, steps // 10)
        return settings.model_copy(update=filled)

    @classmethod
    def code(cls, settings: Any) -> tuple[str, ...]:
        """The module of the extractor whose network is trained."""
        return (find_trainable(settings.architecture).__module__,)

    @classmethod
    def cost(cls, settings: EmbeddingSettings) -> float:
        assert settings.steps is not None
        assert settings.batch is not None
        assert settings.crop_seconds is not None
        return float(settings.steps * settings.batch * settings.crop_seconds)

    @classmethod
    def train(
        cls,
        settings: EmbeddingSettings,
        waveforms: Waveforms,
        folder: Path,
        *,
        device: str = "cpu",
        pretrained: contracts.Pretrained | None = None,
        scratch: Path | None = None,
        stopping: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int, float], None] | None = None,
    ) -> bool:
        """See the contract.

        Raises:
            ConfigError: sizes that the network does not take.
            DataError: fewer than two speakers, or nothing to train on.
            StageFailed: the loss is not finite, with the ids of the batch; a part of two crops does not fit into memory.
        """
        from pipeline.trainers.embedding.learner import Learner

        speakers = list_speakers(settings, waveforms)
        assert settings.architecture is not None, "the settings are not resolved"
        if open_choices(settings):
            settings = cls.resolved(settings, settings.architecture, len(set(speakers)), waveforms.seconds)
        trained, held_out = _crops.split(settings, speakers)
        crops = Crops(settings, waveforms, speakers, trained)
        if len(crops.speakers) < 2:
            raise DataError(f"training takes two speakers at least, and there are {len(crops.speakers)}")
        excerpts = _crops.cut_excerpts(waveforms, held_out, speakers, crops.length, settings.seed)
        checkpoints = Checkpoints(scratch, _identify(settings, waveforms, device))
        with repeatable(settings.threads):
            learner = Learner(settings, crops.n_classes, device)
            course = Course(
                learner,
                crops.batch,
                lambda batch: [waveforms.ids[item] for item in batch.utterances],
                count_steps(settings, crops),
                None if excerpts is None else lambda _: _crops.verify(excerpts, learner.embed),
                settings.verify_every,
                patience=settings.patience,
                keep_best=settings.checkpoint == "best",
            )
            standing = follow_course(course, checkpoints, stopping, progress)
            if standing is None:
                return False
            _write(folder, settings, waveforms, speakers, crops, learner, excerpts, standing)
        return True


def open_choices(settings: EmbeddingSettings) -> list[str]:
    """The nulls that stand for a choice. What has none is resolved already: once more, and the steps that were settled would
    take the place of epochs over chunks."""
    choices = [*_SIZES[False], "micro_batch", "steps", "verify_every"]
    without = find_trainable(settings.architecture).without if settings.architecture else frozenset()
    return [name for name, value in settings if name in choices and name not in without and value is None]


def list_speakers(settings: EmbeddingSettings, audio: Waveforms) -> list[str]:
    """The speaker of each utterance.

    Raises:
        DataError: what ids begin with makes one speaker of several.
    """
    if settings.speaker_from == "manifest":
        return list(audio.speakers)
    first = [name.split("-", 1)[0] for name in audio.ids]
    if len(set(first)) < len(set(audio.speakers)):
        raise DataError(
            f"{len(set(audio.speakers))} training speakers are {len(set(first))} by what their ids begin with, e.g. {first[0]}",
            cause="train=vpc2024 reads speakers from ids of LibriSpeech, SPEAKER-CHAPTER-NUMBER (train.speaker_from=utterance)",
            remedy="set train.speaker_from=manifest",
        )
    return first


def count_steps(settings: EmbeddingSettings, crops: Crops) -> int:
    """The steps of resolved settings; those of epochs over chunks end with the last epoch."""
    assert settings.steps is not None
    assert settings.batch is not None
    if settings.items == "chunks" and settings.epochs is not None:
        return min(settings.steps, max(1, round(settings.epochs * crops.n_items / settings.batch)))
    return settings.steps


def _identify(settings: EmbeddingSettings, audio: Waveforms, device: str) -> str:
    """Digest of all that the weights depend on: what a checkpoint must be of."""
    return digest(VERSION, settings.numeric(), audio.digest, device.split(":")[0], list_libraries(*_LIBRARIES))


def _write(
    folder: Path,
    settings: EmbeddingSettings,
    audio: Waveforms,
    speakers: Sequence[str],
    crops: Crops,
    learner: Learner,
    excerpts: _crops.Excerpts | None,
    standing: Standing,
) -> None:
    """The weights that the learner has now, and the record of how they came."""
    from safetensors.torch import save_file

    held_out = trained = None
    if excerpts is not None:
        step = standing.verified[standing.best if settings.checkpoint == "best" else -1]["step"]
        held_out = {**asdict(_crops.verify(excerpts, learner.embed)), "best_step": step}
        trained_on = _crops.cut_excerpts(
            audio, sorted(crops.label), speakers, crops.length, settings.seed, held_out["speakers"]
        )
        if trained_on is not None:
            trained = {**asdict(_crops.verify(trained_on, learner.embed)), "best_step": step}
    n_utterances = Counter(speakers)
    suspected = _crops.find_doubles(audio, speakers, crops.length, settings.seed, learner.embed)
    save_file(learner.weights(), folder / WEIGHTS)
    record = {
        "settings": settings.numeric(),
        "data_digest": audio.digest,
        "libraries": list_libraries(*_LIBRARIES),
        "device": learner.device.split(":")[0],
        "speakers": len(n_utterances),
        "utterances": len(audio),
        "seconds": round(audio.seconds, 2),
        "speakers_trained_on": len(crops.speakers),
        "utterances_trained_on": len(crops.label),
        "single_utterance_speakers": sum(n == 1 for n in n_utterances.values()),
        "repeated_up_to_a_crop": crops.n_repeated,
        "shorter_than_a_chunk": crops.n_vanished,
        "suspected_same_speaker": suspected,
        "parameters": sum(parameter.numel() for parameter in learner.model.parameters()),
        "micro_batch": standing.micro_batch,
        "steps": standing.step,
        "loss": [round(value, 6) for value in standing.loss],
        "verified": standing.verified,
        "held_out": held_out,
        "trained": trained,
        "summary": _summarise(standing, held_out, trained, len(suspected)),
    }
    write_record(folder, record)


def _summarise(
    standing: Standing, held_out: dict[str, Any] | None, trained: dict[str, Any] | None, suspected: int
) -> str:
    """The record in a line."""
    parts = [f"loss {standing.loss[0]:.2f} to {standing.loss[-1]:.2f} in {standing.step} steps"]
    for whom, numbers in (("held out", held_out), ("trained on", trained)):
        if numbers is not None:
            session = "same session, " if numbers["same_session"] else ""
            targets = f"{session}{numbers['n_target']} targets"
            parts.append(f"EER {100 * numbers['eer']:.1f} % on {numbers['speakers']} speakers {whom} ({targets})")
    if held_out is None:
        parts.append("nobody held out: the last checkpoint")
    else:
        parts.append(f"weights of step {held_out['best_step']}")
    if suspected:
        parts.append(f"{suspected} pairs of names may be one speaker")
    return ", ".join(parts)
