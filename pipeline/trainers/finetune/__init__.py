"""Fine-tune an embedding network that came with weights, on the speech of the system that is attacked.

Additive angular margin softmax over the training speakers (Deng et al. 2019, arXiv 1801.07698), whose class weights begin as
the mean vectors that the network as it came gives of each. One in five speakers is held out (:mod:`pipeline.protocol.held_out`):
they are verified on before the first step and every few steps, and the weights with the best verification are kept. Those may be
the weights as they came; then fine-tuning brought nothing, and the record says so.

The same data, settings, weights, libraries and device give the same bytes on CPU, also after a kill at any step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator

from pipeline import contracts
from pipeline.contracts import ComponentSettings, Waveforms, numeric
from pipeline.errors import ConfigError, DataError
from pipeline.nets.checkpoints import Checkpoints
from pipeline.nets.trainable import Finetunable, find_finetunable
from pipeline.nets.training import Course, Standing, follow_course, list_libraries, repeatable, write_record
from pipeline.nets.verification import Verified, verify_pairs
from pipeline.protocol.held_out import EVERY
from pipeline.seeds import digest
from pipeline.trainers.finetune import pieces as _pieces

if TYPE_CHECKING:
    from pipeline.trainers.finetune.learner import Learner

VERSION = "finetune 1"

# What nulls become, by the layers that learn: chosen on the held-out speakers of 168 of LibriSpeech's train-clean-100 with 12 s
# each under three draws of B2r, where both take about 140 s of CPU time with CAM++. ``heard`` is the part of the speech that
# training hears at least, whatever the steps, and ``verified`` how often it is verified on.
_CHOICES: dict[str, dict[str, Any]] = {
    "last": {"learning_rate": 2e-3, "steps": 60, "heard": 1.0, "verified": 6},
    "all": {"learning_rate": 6e-4, "steps": 20, "heard": 1 / 3, "verified": 2},
}


class SpecAugmentSettings(ComponentSettings):
    """How much of a piece is hidden at most.

    Attributes:
        time: frames.
        bands: of the frequency axis.
    """

    time: int = numeric(30, ge=0)
    bands: int = numeric(10, ge=0)


class FinetuneSettings(ComponentSettings):
    """Settings of fine-tuning; all of them change the weights. Nulls follow from ``layers`` and the amount of speech.

    Attributes:
        architecture: the name of the extractor whose network it is; null is the one that is trained.
        layers: which learn: ``all``, or the ``last`` block and what follows it, for which what goes into that block is computed
            once a view and rounded to float16.
        learning_rate: the highest, of the network; null is 6e-4 for all layers and 2e-3 for the last block.
        head_learning_rate: the highest, of the class weights.
        steps: optimiser steps; null is 20 for all layers and 60 for the last block, or as many as it takes to hear a third of
            the speech of those trained on, or all of it, where that is more.
        batch: pieces a step.
        micro_batch: pieces that go through the network at once, their gradients added up to the batch's; null is 8 on a CPU,
            where more are slower, and 64 on a GPU. Out of memory halves it, and the record says so.
        piece_seconds: recordings are cut into uniform parts as close to this as can be, and the middle of each is heard; what
            is shorter is repeated.
        margin: additive angle in radians.
        scale: of the cosines before the softmax.
        weight_decay: of AdamW.
        warm_up: steps over which the learning rates rise, before they fall by half a cosine to zero.
        precision: of the layers that learn, in training; loss, optimiser and verification stay in float32.
        spec_augment: hides a stretch of at most so many frames (``time``) and one of so many ``bands`` of each view: anew in
            each step with ``layers: all``, once a view with ``last``. Null hides nothing.
        speeds: each speaker played at each of these speeds is a class of its own.
        share: part of the training utterances that is used.
        also: labels of other systems whose speech of the training speakers is trained on too. It is never verified on.
        verify_every: steps between verifications; null is half of the steps for all layers, and a sixth for the last block.
        patience: verifications without a better one after which training ends; null never ends it.
        threads: CPU threads. Sums are rounded by thread, so the number is fixed here and not taken from the machine.
        seed: of all that is random.
    """

    name: Literal["finetune"] = numeric("finetune")
    architecture: str | None = numeric(None)
    layers: Literal["last", "all"] = numeric("all")
    learning_rate: float | None = numeric(None, gt=0)
    head_learning_rate: float = numeric(1e-2, gt=0)
    steps: int | None = numeric(None, ge=1)
    batch: int = numeric(32, ge=2)
    micro_batch: int | None = numeric(None, ge=1)
    piece_seconds: float = numeric(3.0, ge=0.1)
    margin: float = numeric(0.2, ge=0, lt=1.5)
    scale: float = numeric(30.0, gt=0)
    weight_decay: float = numeric(1e-2, ge=0)
    warm_up: int = numeric(10, ge=0)
    precision: Literal["float32", "bfloat16"] = numeric("float32")
    spec_augment: SpecAugmentSettings | None = numeric(None)
    speeds: tuple[Annotated[float, Field(ge=0.5, le=2)], ...] = numeric((1.0,), min_length=1)
    share: float = numeric(1.0, gt=0, le=1)
    also: tuple[str, ...] = numeric(())
    verify_every: int | None = numeric(None, ge=1)
    patience: int | None = numeric(4, ge=1)
    threads: int = numeric(1, ge=1)
    seed: int = numeric(0, ge=0)

    @field_validator("architecture")
    @classmethod
    def _check_architecture(cls, name: str | None) -> str | None:
        if name is not None:
            try:
                find_finetunable(name)
            except ConfigError as error:
                raise ValueError(f"{error.what}; {error.remedy}") from error
        return name


class Trainer(contracts.Trainer):
    """Makes the weights that the extractor writes, and ``training.json``."""

    Settings = FinetuneSettings
    libraries = ("torch",)
    adapts = True
    holds_out = True

    @classmethod
    def trains(cls, extractor: type[contracts.Extractor]) -> bool:
        return issubclass(extractor, Finetunable)

    @classmethod
    def share(cls, settings: FinetuneSettings) -> float:
        return settings.share

    @classmethod
    def other_systems(cls, settings: FinetuneSettings) -> tuple[str, ...]:
        return settings.also

    @classmethod
    def resolved(cls, settings: FinetuneSettings, extractor: str, n_speakers: int, seconds: float) -> FinetuneSettings:
        chosen = _CHOICES[settings.layers]
        speech = chosen["heard"] * seconds * (1 - 1 / EVERY)
        steps = settings.steps or max(chosen["steps"], round(speech / (settings.batch * settings.piece_seconds)))
        choices = {
            "architecture": extractor,
            "learning_rate": chosen["learning_rate"],
            "steps": steps,
            "verify_every": max(1, steps // chosen["verified"]),
        }
        filled = {name: value for name, value in choices.items() if getattr(settings, name) is None}
        return settings.model_copy(update=filled)

    @classmethod
    def code(cls, settings: FinetuneSettings) -> tuple[str, ...]:
        """The module of the extractor whose network it is."""
        assert settings.architecture is not None, "the settings are not resolved"
        return (find_finetunable(settings.architecture).__module__,)

    @classmethod
    def cost(cls, settings: FinetuneSettings) -> float:
        assert settings.steps is not None, "the settings are not resolved"
        return float(settings.steps * settings.batch * settings.piece_seconds)

    @classmethod
    def train(
        cls,
        settings: FinetuneSettings,
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
            DataError: fewer than ten speakers, or nothing to verify on.
            StageFailed: the loss or the vectors are not finite, with the ids of the utterances; a piece does not fit into memory.
        """
        from pipeline.trainers.finetune.learner import Learner

        assert pretrained is not None, "fine-tuning begins with weights"
        assert settings.steps is not None
        speech = _Speech(settings, waveforms)
        with repeatable(settings.threads):
            learner = Learner(settings, pretrained, speech.pieces, speech.views, device)
            course = Course(
                learner,
                lambda step: speech.views.batch(step, settings.batch),
                speech.name_utterances,
                settings.steps,
                lambda step: _verify(learner, speech.held_out, step),
                settings.verify_every,
                verify_first=True,
                patience=settings.patience,
            )
            checkpoints = Checkpoints(scratch, _identify(settings, waveforms, learner, device))
            standing = follow_course(course, checkpoints, stopping, progress)
            if standing is None:
                return False
            _write(folder, settings, speech, learner, standing)
        return True


class _Speech:
    """The speech of a fine-tuning: pieces, those trained on, and the trials among those held out."""

    def __init__(self, settings: FinetuneSettings, audio: Waveforms) -> None:
        trained, held_out = _pieces.split_utterances(audio)
        self.settings, self.audio = settings, audio
        self.pieces = _pieces.cut_pieces(audio, [*trained, *held_out], settings.piece_seconds)
        out = set(held_out)
        is_out = [item in out for item in self.pieces.items.tolist()]
        self.trained = [piece for piece, apart in enumerate(is_out) if not apart]
        self.views = _pieces.Views(
            self.pieces, self.trained, settings.speeds, settings.spec_augment is not None, settings.seed
        )
        among = [piece for piece, apart in enumerate(is_out) if apart]
        trials = _pieces.draw_trials(self.pieces, among, settings.seed)
        if trials is None:
            raise DataError(
                "the held-out training speakers have no two pieces to compare of one speaker, or none of two",
                cause=f"{len(among)} pieces of about {settings.piece_seconds:g} s of theirs are not silent",
                remedy="train on longer recordings or more of them, or set train.piece_seconds lower",
            )
        self.held_out = trials

    def draw_trained_on(self) -> _pieces.Trials | None:
        """Trials among as many of the speakers who were trained on."""
        among = [
            piece
            for piece in self.trained
            if self.audio.own[self.pieces.items[piece]] and self.audio.draws[self.pieces.items[piece]] == 0
        ]
        return _pieces.draw_trials(self.pieces, among, self.settings.seed, self.held_out.speakers)

    def name_utterances(self, batch: tuple[Sequence[_pieces.View], Any]) -> list[str]:
        """The utterances of a step."""
        return [self.audio.ids[self.pieces.items[view.piece]] for view in batch[0]]


def _identify(settings: FinetuneSettings, audio: Waveforms, learner: Learner, device: str) -> str:
    """Digest of all that the weights depend on: what a checkpoint must be of."""
    pretrained = (learner.digest, learner.pretrained.settings.numeric())
    return digest(
        VERSION, settings.numeric(), audio.digest, pretrained, device.split(":")[0], list_libraries("torch", "numpy")
    )


def _verify(learner: Learner, trials: _pieces.Trials, step: int) -> Verified:
    from pipeline.trainers.finetune.learner import check_vectors

    views = [_pieces.View(piece) for piece in trials.pieces.tolist()]
    vectors = check_vectors(learner.embed(views), views, learner.pieces, step)
    return verify_pairs(vectors, trials.first, trials.second, trials.target, trials.speakers, trials.same_session)


def _write(folder: Path, settings: FinetuneSettings, speech: _Speech, learner: Learner, standing: Standing) -> None:
    """The weights that the learner has now, and the record of how they came."""
    audio = speech.audio
    before, best = standing.verified[0], standing.verified[standing.best]
    held_out = {**best, "best_step": best["step"], "same_sex": speech.held_out.same_sex}
    trials = speech.draw_trained_on()
    trained = None if trials is None else asdict(_verify(learner, trials, standing.step))
    size, fit = learner.measure_cache(_pieces.View(int(speech.held_out.pieces[0])))
    record = {
        "settings": settings.numeric(),
        "data_digest": audio.digest,
        "pretrained": {"settings": learner.pretrained.settings.numeric(), "digest": learner.digest},
        "libraries": list_libraries("torch", "numpy"),
        "device": learner.device.split(":")[0],
        "speakers": len(set(audio.speakers)),
        "utterances": len(audio),
        "seconds": round(audio.seconds, 2),
        "speakers_trained_on": len(speech.views.speakers),
        "pieces_trained_on": len(speech.trained),
        "views": len(speech.views),
        "draws": sorted({int(draw) for draw in audio.draws[audio.own]}),
        "pieces_of_other_systems": sum(not audio.own[speech.pieces.items[piece]] for piece in speech.trained),
        "silent_pieces": speech.pieces.n_unusable,
        "cache": {"bytes_a_view": size, "views_that_fit": fit} if size else None,
        "suspected_same_speaker": [],
        "parameters": sum(parameter.numel() for parameter in learner.model.parameters()),
        "parameters_that_learn": sum(parameter.numel() for parameter in learner.learnt),
        "micro_batch": standing.micro_batch,
        "steps": standing.step,
        "loss": [round(value, 6) for value in standing.loss],
        "verified": standing.verified,
        "held_out": held_out,
        "held_out_before": {name: value for name, value in before.items() if name != "step"},
        "brought": standing.best > 0,
        "trained": trained,
        "summary": _summarise(standing, held_out, trained),
    }
    learner.extractor.write(learner.model.cpu(), folder)
    write_record(folder, record)


def _summarise(standing: Standing, held_out: dict[str, Any], trained: dict[str, Any] | None) -> str:
    """The record in a line."""
    session = "same session, " if held_out["same_session"] else ""
    before, after = (100 * numbers["eer"] for numbers in (standing.verified[0], held_out))
    whom = f"{held_out['speakers']} speakers held out ({session}{held_out['n_target']} targets)"
    if standing.best == 0:
        return (
            f"EER {before:.1f} % on {whom} with the weights as they came, and no better in {standing.step} steps: "
            "fine-tuning brought nothing"
        )
    learnt = f"loss {standing.loss[0]:.2f} to {standing.loss[-1]:.2f} in {standing.step} steps"
    trained_on = "" if trained is None else f", {100 * trained['eer']:.1f} % on {trained['speakers']} trained on"
    return f"{learnt}, EER {before:.1f} to {after:.1f} % on {whom}{trained_on}, weights of step {held_out['best_step']}"
