"""What a component is, and the records that pass between rooms. Whoever writes a plug-in reads this file alone.

A component is a class. It derives from one of the base classes below, which say everything that a component of its kind may
have, each with a default; what has no default is abstract. Its settings are a pydantic model named by ``Settings``. A module
of ours defines the class under the name of its base class, so ``name: ecapa`` among the extractors is
``pipeline.extractors.ecapa.Extractor``; another distribution names its class by an entry point::

    [project.entry-points."voice_privacy.extractors"]
    mine = "my_package.mine:Mine"

and adds an option file ``conf/extractor/mine.yaml`` that it gives with ``--config-dir``. ``voice-privacy check-plugin mine`` says
whether a component keeps its contract.

Conventions. A waveform is float32 [n] with full scale 1. A score is higher for more similar. A settings field is *numeric* (it
can change a number, so it enters keys and signatures) or *runtime* (it cannot). A source file whose numbers change raises its
``VERSION`` (at module level; in a plug-in an integer, or a name and a number as in ours: ``VERSION = "cosine 1"``): all that stands
on numbers of that file is computed anew, wherever the file lies.
Modules of components import nothing heavy at module level, because settings are checked before torch is loaded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Union, get_args, get_origin

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipeline import audio
from pipeline.errors import ModelMissing

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.engine.outcome import Outcome
    from pipeline.engine.progress import Progress
    from pipeline.engine.stop import Stop
    from pipeline.engine.task import Task
    from pipeline.engine.waves import Wave
    from pipeline.nets.waveforms import Waveforms


# ------------------------------------------------------------------------------------------------------------ settings


def numeric(default: Any = ..., **constraints: Any) -> Any:
    """A field that can change a number: it enters the keys of artefacts."""
    return Field(default, json_schema_extra={"role": "numeric"}, **constraints)


def runtime(default: Any = ..., **constraints: Any) -> Any:
    """A field that cannot change a number (device, batch budget, paths): it stays out of keys and goes into the record."""
    return Field(default, json_schema_extra={"role": "runtime"}, **constraints)


def _takes_text(annotation: Any) -> bool:
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return all(kind in (str, NoneType) or get_args(kind)[:1] == (str,) for kind in kinds)


class ComponentSettings(BaseModel):
    """Settings of a component or of a part of the configuration; each field is marked numeric or runtime."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _read_texts(cls, given: Any) -> Any:
        """Take a whole number where a text is wanted: ``dataset.label=2024`` can be written no other way. 1e3 or 2.10 would change."""
        if not isinstance(given, dict):
            return given
        texts = {name for name, declared in cls.model_fields.items() if _takes_text(declared.annotation)}
        return {name: str(value) if type(value) is int and name in texts else value for name, value in given.items()}

    def numeric(self) -> dict[str, Any]:
        """The numeric settings, fully resolved, as plain JSON values."""
        kept: dict[str, Any] = {}
        plain = self.model_dump(mode="json")
        for name, declared in type(self).model_fields.items():
            extra = declared.json_schema_extra
            role = extra.get("role") if isinstance(extra, dict) else None
            value = getattr(self, name)
            if role == "numeric":
                kept[name] = value.numeric() if isinstance(value, ComponentSettings) else plain[name]
            elif role != "runtime":
                raise TypeError(f"{type(self).__qualname__}.{name} is marked neither numeric nor runtime")
        return kept


# ----------------------------------------------------------------------------------------------------------- all kinds


@dataclass(frozen=True)
class Weights:
    """A folder of weights and the sha256 over the names and bytes of its files."""

    folder: Path
    digest: str


@dataclass(frozen=True)
class Download:
    """What ``fetch-models`` would bring.

    Attributes:
        source: where it comes from.
        bytes: that are downloaded; None where that is unknown.
        licence: of the weights; '' where it is unknown.
    """

    source: str
    bytes: int | None = None
    licence: str = ""

    def __str__(self) -> str:
        size = f"{(self.bytes or 0) / 1e9:.2f} GB" if (self.bytes or 0) >= 1e9 else f"{(self.bytes or 0) / 1e6:.1f} MB"
        size = "unknown size" if self.bytes is None else size
        return f"{self.source}, {size}, licence {self.licence or 'unknown'}"


class Component(ABC):
    """What components of all kinds have.

    Attributes:
        Settings: the model of its settings, with a field ``name``.
        libraries: distributions whose major.minor version changes its numbers; they enter keys.
    """

    Settings: ClassVar[type[ComponentSettings]]
    libraries: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def weights(cls, settings: Any, models: Path) -> Weights | None:
        """The weights that these settings ask for, on this machine; None where none are needed or the run makes them.

        Args:
            models: the folder of weights, ``paths.models``.

        Raises:
            ModelMissing: they are not here, or are not what their checksum says; with the command that mends it.
        """
        return None

    @classmethod
    def fetch(cls, settings: Any, models: Path) -> None:
        """Bring the weights to this machine, where :meth:`weights` raises: only the verb ``fetch-models`` calls this.

        Raises:
            ModelMissing: they cannot be had; the remedy says which files to put where by hand.
        """
        cls.weights(settings, models)

    @classmethod
    def download(cls, settings: Any) -> Download | None:
        """What :meth:`fetch` would download; None where it downloads nothing."""
        return None


# ---------------------------------------------------------------------------------------------------------- extractors

Comparison = Literal["trials", "pairs", "ranks"]
"""What features are compared as: enrolment models with trials, all pairs of utterances, inputs with references."""


@dataclass(frozen=True)
class Preparation:
    """What is done to a decoded recording before an extractor hears it.

    Attributes:
        resampler: how it is brought to the extractor's rate.
        trim_zeros: whether samples at both ends that are exactly zero are dropped, at the recording's own rate. A recording of
            zeros alone is then empty.
    """

    resampler: audio.Resampler = audio.RESAMPLER
    trim_zeros: bool = False

    @property
    def library(self) -> str:
        """The distribution that resamples."""
        return "torchaudio" if self.resampler == "torchaudio_sinc" else "soxr"

    def trimmed(self, wave: np.ndarray) -> np.ndarray:
        """A recording without what is dropped, at its own rate."""
        return audio.trim_zeros(wave) if self.trim_zeros else wave

    def prepared(self, wave: np.ndarray, rate: int, target: int) -> np.ndarray:
        """A recording, float32 [n] at ``rate`` Hz, trimmed and then brought to ``target`` Hz."""
        return audio.resample(self.trimmed(wave), rate, target, self.resampler)


@dataclass(frozen=True)
class Feature:
    """A feature vector with its evidence.

    Attributes:
        vector: float32 [d]; zeros where nothing could be extracted.
        weight: how much evidence the vector stands on (voiced frames of an F0 histogram; 1 for an embedding, 0 if unusable).
        reason: '' or why the vector is unusable.
    """

    vector: np.ndarray
    weight: float = 1.0
    reason: str = ""


@dataclass(frozen=True)
class Vectors:
    """Feature vectors of named pieces of audio.

    Attributes:
        ids: [n] utterance ids (or segment ids).
        speakers: [n] speaker ids.
        vectors: float32 [n, d].
        weights: float64 [n], the evidence of each; 0 where unusable.
        reasons: [n], '' or why the vector is unusable.
    """

    ids: tuple[str, ...]
    speakers: tuple[str, ...]
    vectors: np.ndarray
    weights: np.ndarray
    reasons: tuple[str, ...]

    def usable(self) -> Vectors:
        """Only the rows that could be extracted."""
        kept = np.flatnonzero(self.weights > 0)
        return Vectors(
            tuple(self.ids[row] for row in kept),
            tuple(self.speakers[row] for row in kept),
            self.vectors[kept],
            self.weights[kept],
            tuple(self.reasons[row] for row in kept),
        )

    def unusable(self) -> list[tuple[str, str]]:
        """(id, reason) of the rows that could not be extracted."""
        return [(name, reason) for name, reason, weight in zip(self.ids, self.reasons, self.weights) if weight <= 0]


def mean_of_units(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean of the length-normalised vectors, each by its weight: how embeddings of a speaker become one.

    Args:
        vectors: [n, d].
        weights: [n]; vectors of weight 0 do not count.

    Returns:
        float32 [d]; zeros where nothing counts.
    """
    vectors, weights = np.asarray(vectors, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    weights = np.where(lengths > 0, weights, 0.0)
    if weights.sum() == 0:
        return np.zeros(vectors.shape[1], dtype=np.float32)
    units = vectors / np.where(lengths > 0, lengths, 1.0)[:, None]
    return np.asarray(weights @ units / weights.sum(), dtype=np.float32)


class VectorSource(ABC):
    """Vectors that are told by the ids of utterances: what an extractor gives that hears no audio."""

    @abstractmethod
    def holds(self, name: str) -> bool:
        """Whether there are vectors of a system's speech; ``LABEL@2`` is the second run of the system LABEL."""

    @abstractmethod
    def select(self, name: str, wanted: pd.DataFrame, *, allow_partial: bool) -> Vectors:
        """The vectors of the wanted rows (``set, utterance, speaker``), in their order.

        Raises:
            DataError: vectors are missing; under ``allow_partial`` they are unusable rows with a reason instead.
        """


class Transcripts(ABC):
    """What is said in a data set. Tables are read when somebody asks."""

    @abstractmethod
    def evaluated(self, *, allow_partial: bool) -> Mapping[tuple[str, str], str]:
        """The transcripts of all utterances that are evaluated, by (set, utterance), as the tables have them.

        Raises:
            DataError: there are none at all; or utterances have none, with all of them: under ``allow_partial`` those are left
                out instead.
        """


class Extractor(Component):
    """Waveforms to feature vectors.

    An object is made once a process for each settings and weights, and hears many files. A vector depends on its own audio
    alone (a cosine distance of 1e-5 at most), not on what is heard beside it.

    Attributes:
        compared_as: what its vectors are for.
        similarity: how inputs are compared with references where a metric ranks: ``cosine`` or ``euclidean``.
        evidence_optional: whether audio of weight 0 is an observation (it tells an attacker nothing: a tie) and no loss.
        sample_rate: Hz that :meth:`extract` wants.
        hears: whether its vectors depend on the voice. If not, no back end is trained on them, and nothing is said of how strong
            an attack with them is.
    """

    compared_as: ClassVar[frozenset[Comparison]] = frozenset({"trials", "pairs", "ranks"})
    similarity: ClassVar[Literal["cosine", "euclidean"]] = "cosine"
    evidence_optional: ClassVar[bool] = False
    sample_rate: ClassVar[int] = 16_000
    hears: ClassVar[bool] = True

    def __init__(self, settings: Any, weights: Path | None, device: str, threads: int) -> None:
        """Load the network.

        Args:
            settings: checked settings.
            weights: the folder that :meth:`weights` found, or that a training of the run wrote.
            device: ``cpu`` or ``cuda[:N]``.
            threads: CPU threads to use at most.
        """
        self.settings, self.device, self.threads = settings, device, threads

    @abstractmethod
    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        """The features of waveforms, each float32 [n] at :attr:`sample_rate`, in order."""

    def segments(self, recordings: Sequence[tuple[np.ndarray, int]], count: int) -> list[Feature]:
        """The features of ``count`` uniform segments of joined recordings, given as (waveform, rate in Hz).

        Each recording is trimmed already, as :meth:`preparation` asks. By default the audio is cut, and files of another rate
        are brought to that of the first. An extractor may cut what it makes of the audio instead.
        """
        resampler = self.preparation(self.settings).resampler
        waves, rate = audio.uniform_segments(recordings, count, resampler)
        return self.extract([audio.resample(wave, rate, self.sample_rate, resampler) for wave in waves])

    @staticmethod
    def pool(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """One vector float32 [d] of several, [n, d], by their weights [n]: the reference of a speaker."""
        return mean_of_units(vectors, weights)

    @classmethod
    def frequencies(cls, settings: Any) -> tuple[float, ...] | None:
        """Which F0 in Hz each entry of a vector stands for, where vectors are histograms of F0; None for all others."""
        return None

    @classmethod
    def preparation(cls, settings: Any) -> Preparation:
        """What is done to a decoded recording before :meth:`extract` hears it; what its settings say of it is numeric."""
        return Preparation()

    @classmethod
    def resolved(cls, settings: Any, chosen: Training | None) -> Any:
        """The settings with every choice made that depends on the rest of the configuration.

        Args:
            chosen: the trainer of the group ``train``; None where there is none, or no speech to train on.
        """
        return settings

    @classmethod
    def training(cls, settings: Any, chosen: Training | None) -> Training | None:
        """What makes the weights in the run; None where they are not trained.

        Args:
            chosen: the trainer of the group ``train``; None where there is none.

        Raises:
            ConfigError: they are to be trained and nothing can; ``where`` is the field that asks for it.
        """
        return None

    @classmethod
    def adaptation(cls, settings: Any, chosen: Training | None) -> Training | None:
        """What makes weights on a system's anonymised speech; None if nothing can."""
        return None

    @classmethod
    def tables(
        cls, settings: Any, labels: Sequence[str], transcripts: Transcripts | None = None
    ) -> VectorSource | None:
        """Vectors that are read instead of extracted, for the systems with these labels; None for a real extractor.

        Args:
            labels: of the systems.
            transcripts: of the data set; None where there is no data set.

        Raises:
            DataError: with all faults of all files.
        """
        return None

    @classmethod
    def with_tables(cls, settings: Any, files: Mapping[str, Sequence[Path]]) -> Any:
        """The settings with the files of vectors that lie in a challenge's folder, by the label of the system."""
        return settings

    @classmethod
    def asks_for_found(cls, settings: Any) -> bool:
        """Whether its vectors are to be those that lie in a challenge's folder."""
        return False

    @classmethod
    def is_strong(cls, settings: Any) -> bool:
        """Whether it recognises unprotected speakers about as well as anything that can be had, so that a claim of privacy may
        stand on it."""
        return False

    @classmethod
    def takes_found(cls, settings: Any) -> bool:
        """Whether its weights are to be those that a challenge's own training left, where ``train=found`` asks for them."""
        return False

    @classmethod
    def found(cls, settings: Any, folder: Path, beside: Path) -> Any | None:
        """The settings with weights that a challenge's own training left in a folder, where ``train=found`` asks for them.

        Args:
            folder: of the checkpoint.
            beside: the folder of the model that the training began with, for what checkpoints share.

        Returns:
            None if weights of this kind are not there, or the settings name others by themselves.
        """
        return None

    @classmethod
    def trained_on(cls, settings: Any) -> Literal["original", "anonymised"]:
        """The speech that the extractor knows where the run does not train it."""
        return "original"

    @classmethod
    def training_data(cls, settings: Any) -> str:
        """What signatures say of the recordings that weights from elsewhere have learnt from; '' where that is known."""
        return ""


# ------------------------------------------------------------------------------------------------------------ trainers


@dataclass(frozen=True)
class Pretrained:
    """An extractor with the weights that a training begins with."""

    extractor: type[Extractor]
    settings: Any
    folder: Path


class Trainer(Component):
    """Makes the weights of an extractor from a training set.

    ``Settings`` have numeric fields alone; equal settings on equal speech give equal weights, and one training.

    Attributes:
        adapts: whether a training begins with weights that the extractor has, instead of from nothing.
        holds_out: whether it never learns from the speakers whom ``protocol.held_out`` holds out, so that attacks with what it
            makes can be judged on them.
    """

    adapts: ClassVar[bool] = False
    holds_out: ClassVar[bool] = False

    @classmethod
    def trains(cls, extractor: type[Extractor]) -> bool:
        """Whether it can make the weights of this extractor. By default none: an extractor may bring its own trainer."""
        return False

    @classmethod
    def resolved(cls, settings: Any, extractor: str, n_speakers: int, seconds: float) -> Any:
        """The settings without nulls that stand for a choice.

        Args:
            extractor: the name of the component whose weights are made.
            n_speakers: in the training set.
            seconds: of speech in the training set.
        """
        return settings

    @classmethod
    def share(cls, settings: Any) -> float:
        """Which part of the training utterances is used, 0 < share <= 1; each speaker keeps one at least."""
        return 1.0

    @classmethod
    def also(cls, settings: Any) -> tuple[str, ...]:
        """Labels of systems whose anonymised training sets help to train an attack on another one."""
        return ()

    @classmethod
    def code(cls, settings: Any) -> tuple[str, ...]:
        """Modules beside the trainer's own that make the weights, such as that of the network."""
        return ()

    @classmethod
    @abstractmethod
    def cost(cls, settings: Any) -> float:
        """Seconds of audio that are heard at most, for progress."""

    @classmethod
    @abstractmethod
    def train(
        cls,
        settings: Any,
        waveforms: Waveforms,
        folder: Path,
        *,
        device: str,
        pretrained: Pretrained | None = None,
        scratch: Path | None = None,
        stopping: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int, float], None] | None = None,
    ) -> bool:
        """Train, and write the weights and ``training.json`` (a record with a ``summary`` in a line) into a folder.

        Args:
            settings: resolved.
            waveforms: utterances at 16 kHz and whose they are.
            folder: an existing folder; the extractor takes it as its weights.
            device: ``cpu`` or ``cuda[:N]``.
            pretrained: what to begin with, where :attr:`adapts`.
            scratch: an existing folder for checkpoints, from which a later call goes on.
            stopping: asked after each step whether to end early.
            progress: called with steps done, steps in all and the loss.

        Returns:
            Whether it is done; else ``stopping`` said to end.
        """


@dataclass(frozen=True)
class Training:
    """A trainer with its settings.

    Attributes:
        label: what messages call what is trained.
    """

    trainer: type[Trainer]
    settings: Any
    label: str = ""


# --------------------------------------------------------------------------------------------------------- anonymisers


@dataclass(frozen=True)
class Utterance:
    """Which utterance a waveform is.

    Attributes:
        id: utterance id.
        speaker: speaker id.
        set: name of its set (enrolment and trial sets of one speaker differ).
        position: 0-based line of the set's wav.scp; only the challenge's own seeding looks at it.
    """

    id: str
    speaker: str
    set: str
    position: int = 0


@dataclass(frozen=True)
class Anonymised:
    """An anonymised waveform.

    Attributes:
        wave: float32 [n], as long as the original; with PCM_16 all samples are multiples of 1 / 32768.
        rate: Hz.
        subtype: how the file is to be written.
        parameters: what was drawn or measured for this utterance (alpha, gain, ``correlation`` of a program's with the original).
        passed: counts of frames in all and of what was passed through unchanged, and why.
    """

    wave: np.ndarray
    rate: int
    subtype: Literal["FLOAT", "PCM_16"] = "FLOAT"
    parameters: dict[str, float] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Copies:
    """Where the files of a system lie that was run elsewhere.

    Attributes:
        root: of the evaluation sets.
        suffix: which copies to take where several systems lie in one folder.
        second_root: the evaluation sets anonymised once more with other random numbers; '' if there are none.
        train_root: the anonymised training set; '' if it lies in ``root``.
        pattern: how the files are called, without their extension: text with ``{utterance}``.
        ignore_case: whether upper and lower case of their names are the same.
        follow_links: whether links may lead out of these folders.
        folders: of the evaluation sets by name, where ``root`` and ``suffix`` do not tell them.
    """

    root: str
    suffix: str | None
    second_root: str
    train_root: str
    pattern: str = "{utterance}"
    ignore_case: bool = False
    follow_links: bool = False
    folders: Mapping[str, str] = field(default_factory=dict)


class Anonymiser(Component):
    """A system: it protects speech. Several threads call :meth:`anonymise` of one object at once.

    Attributes:
        unchanged: whether its speech is the original speech. Every evaluation has one such system, and refers to it.
        on_device: whether :meth:`several` uses a GPU. Where the device is no CPU, it is called by one thread with about half
            an hour of speech at once.
    """

    unchanged: ClassVar[bool] = False
    on_device: ClassVar[bool] = False

    def __init__(self, settings: Any, weights: Path | None = None, device: str = "cpu") -> None:
        """Make it ready.

        Args:
            settings: checked settings.
            weights: the folder that :meth:`weights` found.
            device: ``cpu``, or ``cuda[:N]`` where :attr:`on_device`.
        """
        self.settings, self.device = settings, device

    @abstractmethod
    def anonymise(self, wave: np.ndarray, rate: int, utterance: Utterance) -> Anonymised:
        """One waveform, float32 [n] at ``rate`` Hz."""

    def several(self, waves: Sequence[tuple[np.ndarray, int, Utterance]]) -> list[Anonymised]:
        """Waveforms, each with its rate and utterance, of any mixture of lengths and rates; results in order."""
        return [self.anonymise(*one) for one in waves]

    @classmethod
    def takes_many(cls, settings: Any) -> bool:
        """Whether :meth:`several` is to be called on a CPU too, by one thread with about half an hour of speech at once."""
        return False

    @classmethod
    def level(cls, settings: Any) -> str:
        """How pseudo-voices are given: ``fixed``, ``speaker`` or ``utterance``; '' if that is not said."""
        return ""

    @classmethod
    def shown_level(cls, settings: Any) -> str:
        """The level as tables print it, with what enrolment and trials share."""
        return cls.level(settings) or "unknown"

    @classmethod
    def reads(cls, settings: Any) -> tuple[str, ...]:
        """Columns of the manifest that results depend on, beside set, speaker and utterance."""
        return ()

    @classmethod
    def rerun(cls, settings: Any, number: int) -> Any:
        """The settings of the same system under other random numbers, those of run ``number`` from 1; None where nothing is
        random. Run 0 is that of the settings as they are."""
        return None

    @classmethod
    def at_level(cls, settings: Any, level: str) -> Any:
        """The settings of the same system with a pseudo-voice for each ``speaker`` or ``utterance``; None if it has no choice."""
        return None

    @classmethod
    def copies(cls, settings: Any) -> Copies | None:
        """Where the files lie, for a system that was run elsewhere; it then anonymises nothing."""
        return None


# ----------------------------------------------------------------------------------------------------------- back ends


Enrolment = Literal["mean_of_embeddings", "mean_of_scores", "max_of_scores"]
"""How several enrolment recordings of a speaker become one score of a trial."""


@dataclass(frozen=True, eq=False)
class Choice:
    """What a back end chooses by while it is fitted: the run's held-out speakers, whom no network of the run has learnt from.

    Attributes:
        held: bool [n], whether each of the vectors that are given to :meth:`Backend.fit` is one of a held-out speaker, of
            whichever draw of the anonymiser's random numbers.
        rows: int [k], rows among those vectors that are compared, all of the first draw.
        first, second: int [p], the two sides of each pair, as places in ``rows``; each pair comes once.
        target: bool [p], whether both are of one speaker.
        speakers: speakers that are compared.
        alone: whether the back end is to learn from the other speakers alone, as for a check on the held-out ones. If not, it
            chooses on the held-out speakers, after learning from the others, and then learns from all.
    """

    held: np.ndarray
    rows: np.ndarray
    first: np.ndarray
    second: np.ndarray
    target: np.ndarray
    speakers: int
    alone: bool = False

    @property
    def n_target(self) -> int:
        return int(self.target.sum())

    @property
    def n_nontarget(self) -> int:
        return len(self.target) - self.n_target

    @property
    def learnt(self) -> np.ndarray:
        """bool [n], the vectors to learn from in the end."""
        return ~self.held if self.alone else np.ones(len(self.held), dtype=bool)


class Backend(Component):
    """Vectors to scores.

    Attributes:
        weak_within_session: what marks rows whose parameters were fitted within sessions, from pieces of one recording.
    """

    weak_within_session: ClassVar[str] = ""

    def __init__(self, settings: Any, folder: Path | None = None) -> None:
        """Read the parameters that :meth:`fit` wrote or :meth:`weights` found; None where there are none."""
        self.settings = settings

    @abstractmethod
    def enrol(self, vectors: np.ndarray, model: np.ndarray, n_models: int) -> Any:
        """Enrolment models of vectors [n, d]; ``model`` [n] is the number of the model that each belongs to."""

    @abstractmethod
    def score(self, models: Any, vectors: np.ndarray) -> np.ndarray:
        """Scores of all pairs, float64 [n_models, n_vectors]; higher means more similar."""

    def adapt(self, vectors: np.ndarray, model: np.ndarray, draws: int) -> Backend:
        """The back end as it is after hearing all enrolment vectors [n, d], with the index of the model of each [n]; ``draws`` says how
        many times the enrolment was protected, each time under other random numbers."""
        return self

    @classmethod
    def variants(cls, settings: Any) -> Mapping[str, Any]:
        """The settings of each attack that its parameters serve, by what is added to the label; each is scored by itself."""
        return {"": settings}

    @classmethod
    def centres_on_enrolment(cls, settings: Any) -> bool:
        """Whether vectors are centred on the enrolment: on the speech under attack, not on the training speech."""
        return False

    @classmethod
    def gives_llrs(cls, settings: Any) -> bool:
        """Whether scores are natural-log likelihood ratios."""
        return False

    @classmethod
    def is_fitted(cls, settings: Any) -> bool:
        """Whether :meth:`fit` makes parameters in the run where :meth:`weights` finds none."""
        return False

    @classmethod
    def asks_for_found(cls, settings: Any) -> bool:
        """Whether its parameters are to be those that lie in a challenge's folder."""
        return False

    @classmethod
    def with_parameters(cls, settings: Any, folder: Path) -> Any:
        """The settings with the folder of parameters that was found."""
        return settings

    @classmethod
    def with_speakers(cls, settings: Any, count: int) -> Any:
        """The settings with which it can be fitted to so many speakers, fewer than it will be: some are held out to choose by."""
        return settings

    @classmethod
    def check_speakers(cls, settings: Any, count: int) -> None:
        """Refuse a training set of so few speakers that it cannot be fitted: a plan asks before anything is extracted.

        Raises:
            DataError: with the reason; ``<label>`` in its remedy stands for the back end's.
        """

    @classmethod
    def enrolment(cls, settings: Any) -> Enrolment:
        """How several enrolment recordings become one score: :meth:`enrol` joins them, or the score stage joins their scores."""
        return "mean_of_embeddings"

    @classmethod
    def piece_seconds(cls, settings: Any) -> float:
        """Length of the pieces into which training recordings are cut where there is one a speaker."""
        return 3.0

    @classmethod
    def fit(
        cls,
        settings: Any,
        vectors: np.ndarray,
        speakers: Sequence[str],
        folder: Path,
        *,
        within_session: bool,
        choice: Choice | None = None,
    ) -> dict[str, Any]:
        """Train on vectors [n, d] of speakers [n], write the parameters into the folder, and return the record.

        The record is plain JSON values, with a ``summary`` in a line; ``within_session`` is for the record. What is chosen, is
        chosen by ``choice``, and learnt is from the vectors that it says; None leaves it to the back end whom it holds out.

        Raises:
            DataError: the data cannot support it, with the reason.
        """
        raise ModelMissing(f"the back end {settings.name} cannot be trained")


# ----------------------------------------------------------------------------------------------------- metric families

Reads = Literal["trials", "trial_runs", "pairs", "pair_runs", "ranks"]


@dataclass(frozen=True)
class Attribute:
    """A property of speakers or utterances, such as sex or accent.

    Attributes:
        speakers: its value for each enrolled speaker, of the enrolment utterances.
        utterances: its value for each trial utterance.
        why: why it cannot be used, or ''.
    """

    speakers: Mapping[str, str]
    utterances: Mapping[str, str]
    why: str = ""


@dataclass(frozen=True, eq=False)
class Trials:
    """Scores of enrolment models against trial utterances.

    Attributes:
        scores: float64 [n]; higher means more similar.
        target: bool [n].
        models: str [n], the speaker that each trial claims (the speaker of the enrolment model).
        speakers: str [n], the speaker of each trial utterance.
        are_llrs: whether the scores are natural-log likelihood ratios.
        n_expected: trials in the list.
        utterances: str [n], the id of each trial utterance; None where ids are not known.
        candidates: the same attack with the trials that the list lacks, for a family with ``MetricFamily.searches``: every
            enrolled speaker against every utterance of theirs; None where the list has them all, or they cannot be had.
        development: the same attack on the trial set that ``MetricFamily.development`` names, of other speakers.
        attributes: what is known of speakers and utterances, by name (``sex``, ...), for a family with ``MetricFamily.searches``.
    """

    scores: np.ndarray
    target: np.ndarray
    models: np.ndarray
    speakers: np.ndarray
    are_llrs: bool
    n_expected: int
    utterances: np.ndarray | None = None
    candidates: Trials | None = None
    development: Trials | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Scores of all utterances of a set against all, original (O) and protected (P).

    Attributes:
        oo, op, pp: float64 [n, n]; in ``op`` rows are original and columns protected; the same utterance has the same place.
        speakers: str [n].
        n_expected: utterances in the set.
    """

    oo: np.ndarray
    op: np.ndarray
    pp: np.ndarray
    speakers: np.ndarray
    n_expected: int


@dataclass(frozen=True, eq=False)
class ProtectedPairs:
    """Scores of all utterances of a set against all, protected speech alone: as an attacker sees it who has adapted to the system.

    Attributes:
        pp: float64 [n, n].
        speakers: str [n].
        n_expected: utterances in the set.
    """

    pp: np.ndarray
    speakers: np.ndarray
    n_expected: int


@dataclass(frozen=True, eq=False)
class TrialRuns:
    """The same trials under two runs of a random system, which differ in its seed alone.

    Attributes:
        first: scores of run f0, on which the attacker calibrates.
        second: scores of run f1, under attack; trials, models and speakers are those of ``first``, in the same order.
    """

    first: Trials
    second: Trials


@dataclass(frozen=True, eq=False)
class PairRuns:
    """Scores of all utterances of a set against all, under two runs of a random system.

    Attributes:
        pp: float64 [n, n], the first run.
        p0p1: float64 [n, n], rows the first run and columns the second; the same utterance has the same place.
        speakers: str [n].
        n_expected: utterances in the set.
    """

    pp: np.ndarray
    p0p1: np.ndarray
    speakers: np.ndarray
    n_expected: int


@dataclass(frozen=True, eq=False)
class Ranks:
    """Similarity of inputs to one reference a speaker.

    Attributes:
        similarity: float64 [inputs, N]; higher means more similar.
        true: int [inputs], column of the input's own speaker.
        speakers: [N] speakers of the references.
        n_expected: inputs that there should be.
        without_evidence: inputs that hold nothing to compare (no voiced frame): all references are equally similar to them.
    """

    similarity: np.ndarray
    true: np.ndarray
    speakers: tuple[str, ...]
    n_expected: int
    without_evidence: int = 0


@dataclass(frozen=True)
class Row:
    """One number or label of a family. Its unit and direction stand in the family's :class:`Metric`; what it is about is added
    where results are gathered.

    Attributes:
        metric: its name, a key of :attr:`MetricFamily.metrics`.
        value: NaN where there is none: then there is a label, or the reason.
        variant: which of several definitions of the metric (``rocch`` of the EER); '' where there is one.
        estimator: how it is estimated, where there are several ways (``empirical``, ``beta_binomial``).
        input_unit: what one input is, where that can be chosen (``segment``, ``utterance``).
        label: a word instead of a number, or beside it.
        low, high: 95 % interval, over speakers.
        null_low, null_high: null band, the middle 95 % of what a system shows that gives nothing away.
        ceiling: the largest value that so much data can show.
        reason: why there is no value.
        note: what whoever reads the value has to know.
        n_expected: units (trials, utterances, inputs) that there should be.
        n_used: units that the value stands on.
        condition: OO, OP or PP where the family knows better than its place in the plan.
    """

    metric: str
    value: float = float("nan")
    variant: str = ""
    estimator: str = ""
    input_unit: str = ""
    label: str = ""
    low: float = float("nan")
    high: float = float("nan")
    null_low: float = float("nan")
    null_high: float = float("nan")
    ceiling: float = float("nan")
    reason: str = ""
    note: str = ""
    n_expected: int | None = None
    n_used: int | None = None
    n_speakers: int | None = None
    n_target: int | None = None
    n_nontarget: int | None = None
    condition: str = ""


@dataclass(frozen=True)
class Measured:
    """Rows for the results, and tables for the figures by name (``ece_profile``, ``similarity``, ``zoo``, ``ranks``, ...)."""

    rows: list[Row]
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Metric:
    """What results, report, glossary and documents say of a metric.

    Attributes:
        symbol: its name as text, with ``_`` before a subscript.
        title: its long name.
        sentence: what it says, in a sentence for people.
        unit: ``fraction`` (shown in %), ``bit``, ``log10``, ``dB``, ``nat``, ``tag`` or ''.
        direction: ``higher`` or ``lower`` is more private; '' if it is no measure of privacy.
        bounds: the lowest and the highest value that it can take; infinite where there is no limit.
        source: where it is defined.
        summary: whether the compact tables show it; else it stands with the details.
        caution: what nobody may read the number without, in a sentence; it stands below each table that shows the metric.
    """

    symbol: str
    title: str
    sentence: str
    unit: str = ""
    direction: Literal["higher", "lower", ""] = ""
    bounds: tuple[float, float] = (float("-inf"), float("inf"))
    source: str = ""
    summary: bool = True
    caution: str = ""

    @property
    def private(self) -> str:
        """The direction as results say it: ``higher is more private``, ``lower is more private`` or ''."""
        return f"{self.direction} is more private" if self.direction else ""


FIGURE_IDENTITY = ("subset", "system", "condition", "attacker", "extractor", "backend")
"""What a table for a figure can be told apart by; these columns are added where results are gathered."""


@dataclass(frozen=True)
class Plot:
    """One figure: SVG text, alt text with its main numbers, caption in plain words, and the very data that it shows."""

    kind: str
    title: str
    caption: str
    alt: str
    svg: str
    data: pd.DataFrame


@dataclass(frozen=True)
class FigureTable:
    """A table that a family writes for a figure. A run without it has a report without the figure.

    Attributes:
        name: of the table in :attr:`Measured.tables`, and of ``figures/NAME.parquet``.
        columns: that it has beside its identity.
        section: heading in the report; what comes before a colon stands in the list of contents. Equal headings are one section.
        draw: ``module:function`` that draws it: takes the table, with a column ``series``, and the names of the series in order;
            gives a list of :class:`Plot`. A text, so that numbers do not depend on the code of plots. '' if
            nothing draws it.
        identity: what tells its parts apart: some of :data:`FIGURE_IDENTITY`, ``system`` among them.
    """

    name: str
    columns: tuple[str, ...]
    section: str = ""
    draw: str = ""
    identity: tuple[str, ...] = FIGURE_IDENTITY


@dataclass(frozen=True)
class RowFigure:
    """A figure that is drawn from the rows of results, without a table of its own.

    Attributes:
        section: heading in the report, as of :class:`FigureTable`.
        draw: ``module:function``, as of :class:`FigureTable`: takes all rows, with a column ``series``, in place of a table;
            gives no plot where the rows lack what it shows.
    """

    section: str
    draw: str


@dataclass(frozen=True)
class RankInputs:
    """What is ranked: how a family that reads :class:`Ranks` halves the speech of a speaker and what an input is.

    Attributes:
        seed: of the halving into reference and input.
        unit: an input is a uniform ``segment`` of the joined input half, or an ``utterance`` of it.
        seconds: length of a segment, about; None for 20 segments a speaker.
        apart: what the halves have not in common: an ``utterance``, or a ``chapter`` of a book.
        within: references are all speakers of a pool (``all``) or those of the input's ``sex``.
        pools: trial sets that are pooled, with their enrolment sets, by the name of the pool; None for all sets as one.
    """

    seed: int = 0
    unit: Literal["segment", "utterance"] = "segment"
    seconds: float | None = None
    apart: Literal["utterance", "chapter"] = "utterance"
    within: Literal["all", "sex"] = "all"
    pools: Mapping[str, Sequence[str]] | None = None


class MetricFamily(Component):
    """Some metrics that are computed together from one kind of scores.

    Attributes:
        reads: the kind: :class:`Trials`, :class:`TrialRuns`, :class:`Pairs`, :class:`PairRuns` or :class:`Ranks`.
        title: heading of its compact table; families with equal titles share one.
        metrics: its metrics by name, in the order of tables. A name means one metric, whichever family computes it.
        figures: tables that it writes for figures.
        row_figures: figures that need no more than rows.
        references: papers, for the report's list of sources.
        of_protected: of a family that reads :class:`Pairs`, the metrics that :meth:`measure_protected` gives; () for none.
        ways: variants and estimators by which it computes one number several times, the one to be read first at the front; a
            report folds the others below it.
        searches: whether it reads :class:`Trials` and looks for the speaker among all candidates: then it is given the trials
            that the list lacks (``Trials.candidates``), and what is known of speakers (``Trials.attributes``).
    """

    reads: ClassVar[Reads]
    title: ClassVar[str]
    metrics: ClassVar[Mapping[str, Metric]]
    searches: ClassVar[bool] = False
    figures: ClassVar[tuple[FigureTable, ...]] = ()
    row_figures: ClassVar[tuple[RowFigure, ...]] = ()
    references: ClassVar[tuple[str, ...]] = ()
    of_protected: ClassVar[tuple[str, ...]] = ()
    ways: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def inputs(cls, settings: Any) -> RankInputs:
        """What is ranked, where the family reads :class:`Ranks`."""
        return RankInputs()

    @classmethod
    def development(cls, settings: Any) -> Mapping[str, str]:
        """By trial set, the one of other speakers from which the family learns what it needs for it (``Trials.development``)."""
        return {}

    @classmethod
    def definition(cls, settings: Any) -> tuple[str, ...]:
        """By which definition its metrics are, in words that rows have in ``variant``: none where it is the usual one.

        Rows that :meth:`measure` itself names need none.
        """
        return ()

    @classmethod
    @abstractmethod
    def measure(cls, settings: Any, data: Any) -> Measured:
        """Rows and figure tables of scores.

        Raises:
            MetricError: a metric is not defined on these scores.
        """

    @classmethod
    def measure_protected(cls, settings: Any, data: ProtectedPairs) -> Measured:
        """Rows of the metrics :attr:`of_protected`, and figure tables, of protected speech alone; none where it names none. That the two
        agree is held by ``check-plugin``.

        Raises:
            MetricError: a metric is not defined on these scores.
        """
        return Measured([])

    @classmethod
    def record(cls, row: Row) -> dict[str, Any]:
        """A row as results have it: with the unit and the direction that the family declares of its metric."""
        declared = cls.metrics.get(row.metric)
        return {
            **asdict(row),
            "unit": declared.unit if declared else "",
            "direction": declared.private if declared else "",
        }


# ----------------------------------------------------------------------------------------------------------- executors


class Executor(Component):
    """Runs tasks: each is found in the store or computed, and committed before anything that stands on it begins.

    Args:
        settings: of this executor.
        device: that the tasks were planned for: ``cpu``, ``cuda`` or ``cuda:N``.
    """

    def __init__(self, settings: Any, device: str = "cpu") -> None:
        self.settings, self.device = settings, device

    def threads(self, cores: int) -> int:
        """How many threads each process that performs tasks has, where all of them together may use so many cores, and the user
        asked for no number."""
        return cores

    def at_once(self) -> int:
        """How many tasks are performed at once on this machine, for estimates."""
        return 1

    @abstractmethod
    def execute(
        self, tasks: Sequence[Task], stop: Stop, outcome: Outcome, progress: Progress, fail_fast: bool = False
    ) -> None:
        """Run tasks, given sources first, and add what they made to the outcome.

        A failed task does not end the run: what does not stand on it is still computed, then all failures are reported.

        Args:
            tasks: the graph.
            stop: looked at between tasks.
            outcome: what is made already, and the store where artefacts are found and put; it is added to.
            progress: told of tasks that begin, end and fail.
            fail_fast: after the first failure nothing more is begun.

        Raises:
            Stopped: a signal arrived; what is finished stays.
            PipelineError: one or more tasks failed; the status is that of all of them, or 5 where they have several.
        """


class Sender(Executor):
    """Has others do the work, later and on other machines, and does not wait for them. What is missing of an evaluation is shared out
    and sent; what has to be there before anything can be planned, it executes in its own process.

    Attributes:
        retries: how often what was lost is sent again although nothing was finished in the round before.
    """

    retries: int = 0

    @abstractmethod
    def require(self) -> None:
        """That it can send from here; asked before anything is computed.

        Raises:
            ConfigError: it cannot.
        """

    @abstractmethod
    def shared_out(
        self, tasks: Sequence[Task], device: str, seconds: Callable[[Task], float], alone: bool = False
    ) -> list[Wave]:
        """What its jobs are.

        Args:
            tasks: those that are missing, sources first.
            device: ``cpu``, or anything else where tasks that can use an accelerator are to have one.
            seconds: how long a task will take, as far as it can be told.
            alone: each task is to have a job of its own.

        Raises:
            ConfigError: no job may have what a task needs.
        """

    @abstractmethod
    def send(
        self,
        name: str,
        shared: Sequence[Wave],
        calls: Sequence[Sequence[Callable[[], Any]]],
        others: Sequence[Sequence[str]],
        last: Callable[[], Any],
        folder: Path,
    ) -> list[list[str]]:
        """Send it all, or nothing.

        Args:
            name: of the jobs, for those who look at the queue.
            shared: what :meth:`shared_out` gave.
            calls: by wave, what each job does: small things that pickle and hold no work.
            others: by wave, jobs of other runs that have to end before; then those that have to end before the last one.
            last: what is done when all jobs have ended, however they did.
            folder: for what it writes, and what jobs print.

        Returns:
            The ids of the jobs of each wave, then that of the last one.

        Raises:
            ConfigError: they are not taken.
        """

    @abstractmethod
    def cancelling(self, sent: Sequence[str]) -> str:
        """The command that ends these jobs."""

    @abstractmethod
    def states(self, sent: Sequence[str]) -> dict[str, tuple[bool, str]]:
        """Whether each of these jobs goes on, and its state in words; without those of which nothing is known."""
