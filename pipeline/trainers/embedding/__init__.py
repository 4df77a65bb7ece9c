"""Train a speaker embedding, an ECAPA-TDNN or x-vectors, with additive angular margin softmax (Deng et al. 2019, arXiv 1801.07698).

SpeechBrain's classes, from waveforms and the names of their speakers. The defaults are our recipe: every speaker is seen
equally often, in random crops, and the checkpoint is chosen on training speakers that are held out. ``train=vpc2024`` is the
recipe of the VoicePrivacy Challenge 2024 in the same settings.

The same data, settings, libraries and device give the same bytes on CPU, also after a kill at any step.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator

from pipeline import contracts
from pipeline.contracts import ComponentSettings, numeric
from pipeline.errors import ConfigError, DataError
from pipeline.nets import checkpoints as _checkpoints
from pipeline.nets.trainable import Trainable, trainable
from pipeline.nets.training import ahead, determinism, finite
from pipeline.nets.verification import better
from pipeline.nets.waveforms import RATE, Waveforms
from pipeline.seeds import digest
from pipeline.trainers.embedding import verification as _verification
from pipeline.trainers.embedding.crops import Crops

if TYPE_CHECKING:
    import torch

    from pipeline.trainers.embedding.learner import Learner

LOG = logging.getLogger(__name__)

SAMPLE_RATE = RATE
VERSION = "embedding 3"
WEIGHTS, RECORD = "embedding_model.safetensors", "training.json"

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
        noise_db: the lowest and the highest signal-to-noise ratio of noise that is added, half of it made of other training
            speakers' voices, half of it coloured; null adds none.
        noisy: part of the crops that noise is added to.
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
        compile: whether ``torch.compile`` fuses the network; it takes a C++ compiler, and rounds otherwise.
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
    noise_db: tuple[float, float] | None = numeric(None)
    noisy: float = numeric(0.5, ge=0, le=1)
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
    compile: bool = numeric(False)
    threads: int = numeric(1, ge=1)
    seed: int = numeric(0, ge=0)

    @field_validator("architecture")
    @classmethod
    def _known(cls, name: str | None) -> str | None:
        if name is not None:
            try:
                trainable(name)
            except ConfigError as error:
                raise ValueError(f"{error.what}; {error.remedy}") from error
        return name


@dataclass
class Standing:
    """How far a training is; plain values that go through JSON unchanged.

    Attributes:
        step: steps done.
        loss: of each step.
        verified: the step and the numbers of each verification.
        best: place of the best one, -1 before the first.
        micro_batch: crops that go through the network at once.
    """

    step: int = 0
    loss: list[float] = field(default_factory=list)
    verified: list[dict[str, Any]] = field(default_factory=list)
    best: int = -1
    micro_batch: int = 0

    def enough(self, settings: EmbeddingSettings) -> bool:
        """Whether patience has run out."""
        waited = len(self.verified) - 1 - self.best
        return settings.checkpoint == "best" and settings.patience is not None and waited >= settings.patience


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
        if n_speakers < _verification.FEWEST:
            filled["held_out"] = 0.0
        chosen = settings.model_copy(update=filled)
        assert chosen.batch is not None
        assert chosen.crop_seconds is not None
        filled |= dict.fromkeys(trainable(chosen.architecture or extractor).without)
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
        return (trainable(settings.architecture).__module__,)

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
            ConfigError: sizes that the network does not take; ``torch.compile`` does not work here.
            DataError: fewer than two speakers, or nothing to train on.
            StageFailed: the loss is not finite, with the ids of the batch; a part of two crops does not fit into memory.
        """
        from pipeline.trainers.embedding.learner import Learner

        speakers = speakers_of(settings, waveforms)
        assert settings.architecture is not None, "the settings are not resolved"
        if open_choices(settings):
            settings = cls.resolved(settings, settings.architecture, len(set(speakers)), waveforms.seconds)
        trained, held_out = _verification.split(settings, speakers)
        crops = Crops(settings, waveforms, speakers, trained)
        if len(crops.speakers) < 2:
            raise DataError(f"training takes two speakers at least, and there are {len(crops.speakers)}")
        steps = n_steps(settings, crops)
        excerpts = _verification.pieces(waveforms, held_out, speakers, crops.length, settings.seed)
        kept = _checkpoints.Kept(scratch, _identity(settings, waveforms, device))
        with determinism(settings.threads):
            learner = Learner(settings, crops.n_classes, device)
            standing, best = _resume(kept, learner)
            for step, batch in ahead(crops.batch, standing.step, standing.step if standing.enough(settings) else steps):
                utterances = [waveforms.ids[item] for item in batch.utterances]
                loss = finite(learner.gradients(step, batch), step, utterances)
                learner.update(step, steps)
                standing.step, standing.micro_batch = step + 1, learner.micro_batch
                standing.loss.append(loss)
                if progress is not None:
                    progress(step + 1, steps, loss)
                due = step + 1 == steps or (step + 1) % (settings.verify_every or steps) == 0
                if due and excerpts is not None:
                    best = _verify(learner, excerpts, standing) or best
                stop = stopping()
                if due or stop or kept.old():
                    _save(kept, learner, best, standing)
                if stop:
                    return False
                if standing.enough(settings):
                    break
            if settings.checkpoint == "best" and best is not None:
                learner.model.load_state_dict(best)
            _write(folder, settings, waveforms, speakers, crops, learner, excerpts, standing)
        return True


def open_choices(settings: EmbeddingSettings) -> list[str]:
    """The nulls that stand for a choice. What has none is resolved already: once more, and the steps that were settled would
    take the place of epochs over chunks."""
    choices = [*_SIZES[False], "micro_batch", "steps", "verify_every"]
    without = trainable(settings.architecture).without if settings.architecture else frozenset()
    return [name for name, value in settings if name in choices and name not in without and value is None]


def _resume(kept: _checkpoints.Kept, learner: Learner) -> tuple[Standing, dict[str, torch.Tensor] | None]:
    """Put a learner where the checkpoint was: how far that is, and the best weights so far."""
    found = kept.load()
    if found is None:
        return Standing(), None
    tensors, progress = found
    standing = Standing(**progress)
    learner.restore(tensors)
    learner.micro_batch = standing.micro_batch
    LOG.info("going on from the checkpoint at step %d", standing.step)
    return standing, _checkpoints.part("best", tensors) or None


def _save(kept: _checkpoints.Kept, learner: Learner, best: dict[str, torch.Tensor] | None, standing: Standing) -> None:
    kept.save({**learner.tensors(), **_checkpoints.under("best", best or {})}, asdict(standing))


def speakers_of(settings: EmbeddingSettings, audio: Waveforms) -> list[str]:
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


def n_steps(settings: EmbeddingSettings, crops: Crops) -> int:
    """The steps of resolved settings; those of epochs over chunks end with the last epoch."""
    assert settings.steps is not None
    assert settings.batch is not None
    if settings.items == "chunks" and settings.epochs is not None:
        return min(settings.steps, max(1, round(settings.epochs * crops.n_items / settings.batch)))
    return settings.steps


def _identity(settings: EmbeddingSettings, audio: Waveforms, device: str) -> str:
    """Digest of all that the weights depend on: what a checkpoint must be of."""
    return digest(VERSION, settings.numeric(), audio.digest, device.split(":")[0], _libraries())


def _libraries() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("torch", "speechbrain", "numpy")}


def _verify(learner: Learner, excerpts: _verification.Pieces, standing: Standing) -> dict[str, torch.Tensor] | None:
    """Verify on what is held out; the weights if they are the best so far."""
    found = _verification.verified(excerpts, learner.embed)
    standing.verified.append({"step": standing.step, "eer": found.eer, "cllr_min": found.cllr_min})
    if standing.best >= 0 and not better(found, standing.verified[standing.best]):
        return None
    standing.best = len(standing.verified) - 1
    return learner.weights()


def _write(
    folder: Path,
    settings: EmbeddingSettings,
    audio: Waveforms,
    speakers: Sequence[str],
    crops: Crops,
    learner: Learner,
    excerpts: _verification.Pieces | None,
    standing: Standing,
) -> None:
    """The weights that the learner has now, and the record of how they came."""
    from safetensors.torch import save_file

    held_out = trained = None
    if excerpts is not None:
        kept = standing.verified[standing.best if settings.checkpoint == "best" else -1]["step"]
        held_out = _verified(excerpts, learner, kept)
        known = _verification.pieces(
            audio, sorted(crops.label), speakers, crops.length, settings.seed, held_out["speakers"]
        )
        trained = _verified(known, learner, kept) if known is not None else None
    n_utterances = Counter(speakers)
    suspected = _verification.suspected(audio, speakers, crops.length, settings.seed, learner.embed)
    save_file(learner.weights(), folder / WEIGHTS)
    record = {
        "settings": settings.numeric(),
        "data_digest": audio.digest,
        "libraries": _libraries(),
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
        "summary": _summary(standing, held_out, trained, len(suspected)),
    }
    text = json.dumps(record, indent=2, sort_keys=True) + "\n"
    (folder / RECORD).write_text(text, encoding="utf-8")


def _verified(excerpts: _verification.Pieces, learner: Learner, step: int) -> dict[str, Any]:
    found = asdict(_verification.verified(excerpts, learner.embed))
    return {**found, "best_step": step}


def _summary(
    standing: Standing, held_out: dict[str, Any] | None, trained: dict[str, Any] | None, suspected: int
) -> str:
    """The record in a line."""
    parts = [f"loss {standing.loss[0]:.2f} to {standing.loss[-1]:.2f} in {standing.step} steps"]
    for which, found in (("held out", held_out), ("trained on", trained)):
        if found is not None:
            session = "same session, " if found["same_session"] else ""
            parts.append(
                f"EER {100 * found['eer']:.1f} % on {found['speakers']} speakers {which} ({session}{found['n_target']} targets)"
            )
    if held_out is None:
        parts.append("nobody held out: the last checkpoint")
    else:
        parts.append(f"weights of step {held_out['best_step']}")
    if suspected:
        parts.append(f"{suspected} pairs of names may be one speaker")
    return ", ".join(parts)
