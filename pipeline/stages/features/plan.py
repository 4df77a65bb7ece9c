"""What is extracted from which speech, and the vectors of utterances as inputs of tasks."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from pipeline.engine.task import Derived, Input, Name, Output, Ref, Resources, Task, Value
from pipeline.protocol.cuts import Cut, Pieces, Segments, Whole
from pipeline.protocol.halves import Halves
from pipeline.stages.features import compute
from pipeline.stages.features.compute import ExtractorSpec
from pipeline.stages.graph import ExtractorKey, Graph, SpeechKey
from pipeline.stages.selections import SelectAudio, SelectPieces, SelectSegments, SelectVectors
from pipeline.stages.settings import Machine
from pipeline.stages.speech.plan import SpeechSet
from pipeline.stages.training.plan import LoadedExtractor
from pipeline.tables import vectors
from pipeline.tables.manifest import NAMED, Wanted

LIBRARIES = ("soundfile", "soxr", "numpy")

Need = tuple[SpeechSet, LoadedExtractor]
"""That the features of an extractor are needed from a speech."""


@dataclass(frozen=True, eq=False)
class Spoken:
    """The input half of a speaker: which utterances, how many segments they are cut into, and seconds of audio."""

    speaker: str
    wanted: Wanted
    count: int
    seconds: float


def spoken(halves: Halves, manifest: pd.DataFrame) -> list[Spoken]:
    """The input halves of all speakers, in order; the manifest has their sampling rates."""
    pieces = halves.pieces
    lengths = (pieces["stop"] - pieces["start"]) / manifest["sample_rate"][pieces["row"]].to_numpy()
    seconds = lengths.groupby(pieces["speaker"]).sum()
    counts = halves.inputs["speaker"].value_counts()
    recordings = pieces[NAMED].drop_duplicates(["speaker", "set", "utterance"])
    return [
        Spoken(str(speaker), Wanted.of(own), int(counts[speaker]), float(seconds[speaker]))
        for speaker, own in recordings.groupby("speaker", sort=True)
    ]


@dataclass
class Features:
    """The extract tasks of a plan, which the graph gets, and where each feature is.

    Attributes:
        complete: artefacts of whole recordings of the evaluated speech, by the label of the system.
        trims: whether an extractor drops digital silence before it takes the vectors that back ends compare, by its label.
    """

    machine: Machine
    graph: Graph
    complete: dict[str, tuple[Ref, ...]] = field(default_factory=dict)
    trims: dict[str, bool] = field(default_factory=dict)
    _refs: dict[tuple[SpeechKey, ExtractorKey, Cut], tuple[Ref, ...]] = field(default_factory=dict)
    _vectors: dict[tuple[SpeechKey, ExtractorKey, Wanted], Input] = field(default_factory=dict)
    _selects: dict[tuple[SpeechKey, Wanted], SelectVectors] = field(default_factory=dict)
    _together: dict[tuple[ExtractorKey, ...], tuple[Mapping[Name, ExtractorSpec], Mapping[Name, Output]]] = field(
        default_factory=dict
    )

    def extract(self, needs: Sequence[Need], cut: Cut = Whole()) -> None:  # noqa: B008 (a frozen value)
        """One task a shard of a speech, over all extractors that are needed of it; what is there already is left alone.

        Extractors that another system has trained have tasks of their own: a system that fails must not take this speech with it.
        """
        wanted: dict[tuple[SpeechKey, str], tuple[SpeechSet, dict[ExtractorKey, LoadedExtractor]]] = {}
        for speech, extractor in needs:
            if extractor.tables is None and (speech.key, extractor.key, cut) not in self._refs:
                origin = "" if extractor.system == speech.system else extractor.system
                wanted.setdefault((speech.key, origin), (speech, {}))[1][extractor.key] = extractor
        for (_, origin), (speech, extractors) in wanted.items():
            label = f"{speech.label}, as learnt from {origin}," if origin else speech.label
            tasks = [
                self._task(f"{label} {number}/{len(speech.audio)}", audio, extractors, cut, seconds)
                for number, (audio, seconds) in enumerate(zip(speech.audio, speech.seconds), 1)
            ]
            for key in extractors:
                self._refs[speech.key, key, cut] = tuple(task.ref(key) for task in tasks)
            if cut == Whole() and speech.key == SpeechKey(speech.system):
                # One extractor's artefacts count the silence of a system as well as any other's.
                self.complete.setdefault(speech.system, self._refs[speech.key, next(iter(extractors)), cut])
                for extractor in extractors.values():
                    if extractor.is_scored:
                        preparation = extractor.component.preparation(extractor.chosen.settings)
                        self.trims[extractor.name] = preparation.trim_zeros

    def vectors(self, speech: SpeechSet, extractor: LoadedExtractor, wanted: Wanted) -> Input:
        """The vectors of utterances, as this speech has them."""
        key = (speech.key, extractor.key, wanted)
        if key not in self._vectors:
            self._vectors[key] = self._select(speech, extractor, wanted)
        return self._vectors[key]

    def pieces(self, speech: SpeechSet, extractor: LoadedExtractor, seconds: float) -> Input:
        """The vectors of all pieces of a training set."""
        select = SelectPieces(speech.listing, len(speech.manifests), speech.wanted)
        refs = self._refs[speech.key, extractor.key, Pieces(seconds)]
        return Derived((*speech.manifests, *refs), select)

    def segments(
        self, speech: SpeechSet, extractors: Sequence[LoadedExtractor], halves: Sequence[Spoken]
    ) -> dict[ExtractorKey, Input]:
        """The vectors of the joined input half of each speaker, cut into uniform segments, by extractor."""
        if not extractors:
            return {}
        by_key = {extractor.key: extractor for extractor in extractors}
        refs: dict[ExtractorKey, list[Ref]] = {key: [] for key in by_key}
        for half in halves:
            select = SelectAudio(speech.listing, len(speech.manifests), half.wanted)
            audio = Derived(speech.manifests, select, select.content())
            label = f"segments of {speech.label} {half.speaker}"
            task = self._task(label, audio, by_key, Segments(half.count), half.seconds)
            for key in by_key:
                refs[key].append(task.ref(key))
        speakers = tuple(half.speaker for half in halves)
        return {key: Derived(tuple(artefacts), SelectSegments(speakers)) for key, artefacts in refs.items()}

    def _task(
        self, name: str, audio: Input, extractors: dict[ExtractorKey, LoadedExtractor], cut: Cut, seconds: float
    ) -> Task:
        # How the stage builds extractors, and what it makes of them: one value for all tasks that have the same.
        keys = tuple(extractors)
        if keys not in self._together:
            specs: dict[Name, ExtractorSpec] = {key: extractor.spec() for key, extractor in extractors.items()}
            self._together[keys] = specs, {key: _output(extractor) for key, extractor in extractors.items()}
        shared, outputs = self._together[keys]
        machine = self.machine.device, self.machine.threads
        return self.graph.add(
            Task(
                name="extract",
                label=f"extract {name}",
                settings=cut.numeric(),
                inputs={"audio": audio},
                outputs=outputs,
                function=functools.partial(compute.extract_features, shared, cut, *machine),
                libraries=LIBRARIES,
                resources=Resources(seconds, device=True),
            )
        )

    def _select(self, speech: SpeechSet, extractor: LoadedExtractor, wanted: Wanted) -> Value | Derived:
        if extractor.tables is not None:
            label = speech.key.file_label
            table = extractor.tables.select(label, wanted.table, allow_partial=extractor.allow_partial)
            return Value(vectors.content(table), table)
        # One value for all extractors: its digest is worked out once.
        if (speech.key, wanted) not in self._selects:
            self._selects[speech.key, wanted] = SelectVectors(speech.listing, len(speech.manifests), wanted)
        refs = self._refs[speech.key, extractor.key, Whole()]
        return Derived((*speech.manifests, *refs), self._selects[speech.key, wanted])


def _output(extractor: LoadedExtractor) -> Output:
    """The output of an extractor; how recordings are brought to its rate is another library's where its settings say so."""
    output = extractor.output()
    if extractor.component.preparation(extractor.chosen.settings).resampler != "torchaudio_sinc":
        return output
    return dataclasses.replace(output, libraries=(*output.libraries, "torchaudio"))
