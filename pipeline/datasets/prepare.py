"""Prepare: the data set and the audio of external systems, read and checked before any compute.

Somebody's anonymised audio is what ``SET_suffix/wav.scp`` names, ``SET_suffix/wav/UTTERANCE.wav`` or any ``**/UTTERANCE.ext``,
checked against the manifest. The table of a copy comes first: VoicePrivacy 2020 and 2022 leave the audio of some baselines
elsewhere. It is read as that of an original set is, with its segments, and its commands are parsed and not run. A table that was
copied from the original set and names the original recordings is none of the copy's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.contracts import Transcripts
from pipeline.datasets import external_copy, importers, kaldi_tables, resemblance
from pipeline.datasets import probe as probing
from pipeline.datasets.audio_cache import NO_CACHE, AudioCache
from pipeline.datasets.corpus import Corpus, Dropped, report_lacking_classes
from pipeline.datasets.external_copy import Copy, Cutting, Gaps, Row, list_files
from pipeline.datasets.resemblance import Doubt, IdenticalAudio
from pipeline.datasets.scores import score_files
from pipeline.datasets.scores.score_files import ScoreSet
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import DataError, Fault
from pipeline.faults import Faults
from pipeline.names import join_few
from pipeline.protocol import trials
from pipeline.protocol.trials import TrialSet
from pipeline.tables import manifest as manifests


@dataclass(frozen=True, eq=False)
class CheckedCopy:
    """An anonymised copy of a data set.

    Attributes:
        manifest: the rows of the original's manifest, with path, rate, samples and digest of the anonymised files.
        dropped: utterances without a sound file (``allow_partial``).
        notes: what was noticed: files that are not used.
        same: which of the files hold one sound where the originals do not, and what else is no anonymised speech.
        sounds: digest of what is heard in a file, by the digest of its bytes.
        limits: what a reader of the numbers must know first: where files were read from, how they differ from the originals.
    """

    manifest: pd.DataFrame
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    same: IdenticalAudio = field(default_factory=IdenticalAudio)
    sounds: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[str, ...] = ()

    def doubted(self, doubts: Iterable[Doubt]) -> CheckedCopy:
        """The same copy, with further doubts."""
        return replace(self, same=replace(self.same, doubts=(*self.same.doubts, *doubts)))


def read_copy(
    copy: Copy,
    manifest: pd.DataFrame,
    allow_partial: bool = False,
    threads: int = 1,
    cache: AudioCache = NO_CACHE,
    sounds: Mapping[str, str] = {},
    everyone: pd.DataFrame | None = None,
    recordings: Path | None = None,
) -> CheckedCopy:
    """Find and check the anonymised file of each row of a manifest.

    A set's files are those that ``wav.scp`` names in ``root/SET`` followed by a suffix, the same for all sets, else those of its ids
    (or of what the pattern makes of them) anywhere below that folder, or anywhere under ``root`` if no set has one.

    Args:
        copy: where it lies.
        manifest: what has to be there.
        allow_partial: leave out utterances whose file is missing or has a fault.
        sounds: digests of what is heard in the originals, by the digest of the file.
        everyone: the originals that a file may hold by mistake; by default those of the manifest.
        recordings: where segments and what lies in archives are written as files.

    Raises:
        DataError: with all faults.
    """
    faults = Faults(copy.kinds(), "the anonymised audio has")
    gaps = Gaps(allow_partial, faults)
    files = list_files(copy, manifest, gaps, Cutting(recordings, threads, cache))
    folder, probed = files.folder, cache.probes((path for _, path in files.chosen), threads)
    rows: list[Row] = []
    originals: list[Row] = []
    for row, path in files.chosen:
        probe = probed[path]
        if probe.kind:
            gaps.add(row, probe.problem, probe.kind, path)
            continue
        measures = {"sample_rate": probe.sample_rate, "samples": probe.samples, "sha256": probe.sha256}
        rows.append({**row, "path": str(path), **measures})
        originals.append(row)
    if not rows and not faults.found:
        faults.add("empty", "no utterance is left", folder)
    mine = {probe.sha256: probe.sound for probe in probed.values()}
    beside = resemblance.compare_with_originals(originals, rows, sounds, mine, threads, cache.folder)
    for kind, what in beside.faults():
        faults.add(kind, what, folder)
    faults.stop(folder)
    same = resemblance.find_identical(originals, rows, sounds, mine)
    notes = []
    if files.unused:
        notes.append(
            f"{len(files.unused)} audio files under {folder} belong to no utterance of the data set and are not used, "
            f"e.g. {files.unused[0].relative_to(folder)}"
        )
    limits = (*files.limits, *beside.lengths(), *probing.describe_probes(probed))
    checked = CheckedCopy(manifests.frame(rows), tuple(sorted(gaps.dropped)), tuple(notes), same, mine, limits)
    others = originals if everyone is None else everyone.to_dict("records")
    return checked.doubted(
        (*beside.doubts(copy.training), *resemblance.doubt_taken(others, originals, rows, sounds, mine))
    )


@dataclass(frozen=True)
class TrainingGaps:
    """What lacks of training speech.

    Attributes:
        untrainable: by label of system, why no attacker can train on its speech: nobody has anonymised the training set with it.
        untrained: utterances of the training set that are dropped because the set itself lacks their sound.
    """

    untrainable: Mapping[str, str] = field(default_factory=dict)
    untrained: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Prepared:
    """A checked data set.

    Attributes:
        name: what the tables call it.
        manifest: rows of all sets (:mod:`pipeline.tables.manifest`).
        trials: trial sets by name.
        external: manifests of external systems, their second runs and training sets by key.
        dropped: utterances left out of all systems under ``allow_partial``.
        notes: what was noticed.
        limits: what a reader of the numbers must know first.
        transcripts: what is said.
        same: the copies whose recordings hold one sound where the originals hold several, by what messages call them.
        training_gaps: what lacks of training speech.
        score_sets: scores that came instead of audio.
        attributes: what else is known of speakers and utterances (``dataset.attributes``): by name, values by (set, utterance).
    """

    name: str
    manifest: pd.DataFrame
    trials: Mapping[str, TrialSet]
    external: Mapping[Hashable, pd.DataFrame]
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]
    limits: tuple[str, ...] = ()
    transcripts: Transcripts = field(default_factory=lambda: kaldi_tables.TranscriptTables({}))
    same: Mapping[str, IdenticalAudio] = field(default_factory=dict)
    training_gaps: TrainingGaps = field(default_factory=TrainingGaps)
    score_sets: tuple[ScoreSet, ...] = ()
    attributes: Mapping[str, Mapping[tuple[str, str], str]] = field(default_factory=dict)

    @property
    def size(self) -> str:
        """How much it is, in words."""
        if self.score_sets:
            return f"{sum(len(score_set.table) for score_set in self.score_sets)} scores"
        return f"{len(self.manifest)} utterances"


def prepare_data(
    settings: DatasetSettings,
    rendered: Path | None,
    copies: Mapping[Any, external_copy.Copy],
    allow_partial: bool,
    threads: int,
    cache: AudioCache,
    training_alone: bool = False,
    recordings: Path | None = None,
) -> Prepared:
    """Read the data set, then the audio of each external system.

    Args:
        rendered: the folder of a rendered synthetic data set.
        copies: where the audio of external systems is, by key.
        allow_partial: leave out single files with faults, named, instead of refusing.
        threads: files are hashed and decoded in so many threads.
        cache: what is known of audio files.
        training_alone: of the data set, read the training set ``settings.train`` alone.
        recordings: where segments and what lies in archives are written as files, of copies too.

    Raises:
        DataError: with all faults of the data set, or with all faults of all external systems.
    """
    if settings.is_given:
        return _prepare_scores(settings)
    corpus = importers.read_data_set(settings, rendered, allow_partial, threads, training_alone, cache, recordings)
    checked, untrainable = _read_copies(corpus, copies, allow_partial, threads, cache, recordings)
    _compare_runs(copies, checked)
    dropped = _merge_dropped(corpus, checked)
    evaluated = [checked_copy for key, checked_copy in checked.items() if not copies[key].training]
    gone = {(line.set, line.utterance) for checked_copy in evaluated for line in checked_copy.dropped}
    sets = {name: trials.drop_utterances(trial_set, gone) for name, trial_set in corpus.trials.items()}
    lacking = Faults()
    report_lacking_classes(sets.values(), {}, lacking)
    lacking.stop(settings.root or "dataset")
    notes = [*corpus.notes, *_label_lines(checked, lambda copy: copy.notes)]
    if gone:
        notes.append(f"{len(gone)} utterances are left out of all systems, because a system lacks them")
    limits = (
        *_label_lines(checked, lambda copy: copy.same.limits),
        *corpus.limits,
        *_describe_dropped(dropped, corpus, sets),
        *_label_lines(checked, lambda copy: copy.limits),
    )
    files = {key: file for key, file in corpus.transcripts.items() if key not in gone}
    trained_on = set(corpus.manifest.loc[corpus.manifest["role"] == "train", "set"])
    return Prepared(
        _name_data_set(settings),
        _drop_rows(corpus.manifest, gone),
        sets,
        {key: _drop_rows(checked_copy.manifest, gone) for key, checked_copy in checked.items()},
        dropped,
        tuple(notes),
        limits,
        kaldi_tables.TranscriptTables(files, settings.root),
        {str(key): checked_copy.same for key, checked_copy in checked.items() if checked_copy.same.is_doubtful},
        TrainingGaps(untrainable, tuple(line.utterance for line in corpus.dropped if line.set in trained_on)),
        attributes=corpus.attributes,
    )


def _label_lines(checked: Mapping[Hashable, CheckedCopy], read: Callable[[CheckedCopy], Iterable[str]]) -> list[str]:
    return [f"system {key}: {line}" for key, copy in checked.items() for line in read(copy)]


def _read_copies(
    corpus: Corpus,
    copies: Mapping[Any, external_copy.Copy],
    allow_partial: bool,
    threads: int,
    cache: AudioCache,
    recordings: Path | None,
) -> tuple[dict[Hashable, CheckedCopy], dict[str, str]]:
    """The copies by key, and by label of system why there is none of the training set.

    Raises:
        DataError: with the faults of all copies.
    """
    checked: dict[Hashable, CheckedCopy] = {}
    errors: dict[Hashable, DataError] = {}
    untrainable: dict[str, str] = {}
    for key, copy in copies.items():
        wanted = corpus.manifest[(corpus.manifest["role"] == "train") == copy.training]
        if copy.training and not copy.is_named and not external_copy.has_any_file(copy, wanted):
            untrainable[copy.label] = (
                f"system {copy.label} has no anonymised copy of the training set ({join_few(sorted(wanted['set'].unique()))}): "
                f"{copy.key()}=DIR names one"
            )
            continue
        try:
            checked[key] = read_copy(
                copy, wanted, allow_partial, threads, cache, corpus.sounds, corpus.manifest, recordings
            )
        except DataError as error:
            errors[key] = error
    if errors:
        raise _merge_errors(errors)
    return checked, untrainable


def _name_data_set(settings: DatasetSettings) -> str:
    return settings.label or (Path(settings.root).resolve().name if settings.root else settings.name)


def _prepare_scores(settings: DatasetSettings) -> Prepared:
    """Score files as a data set: there is no audio, and nothing to list."""
    score_data = score_files.read_score_sets(settings)
    return Prepared(
        _name_data_set(settings),
        manifests.frame([]),
        score_data.trials,
        {},
        (),
        score_data.notes,
        score_data.limits,
        score_sets=score_data.sets,
    )


def _compare_runs(copies: Mapping[Any, external_copy.Copy], checked: dict[Hashable, CheckedCopy]) -> None:
    """Doubt second runs that hold the files of the first."""
    first = {copy.label: checked[key] for key, copy in copies.items() if copy.setting == "root"}
    for key, copy in copies.items():
        if copy.setting == "second_root" and copy.label in first:
            run, again = first[copy.label], checked[key]
            rows = [frame.to_dict("records") for frame in (run.manifest, again.manifest)]
            checked[key] = again.doubted(resemblance.doubt_second_run(rows[0], rows[1], run.sounds, again.sounds))


def _drop_rows(manifest: pd.DataFrame, gone: Collection[tuple[str, str]]) -> pd.DataFrame:
    """A manifest without some rows, given as (set, utterance)."""
    keep = [key not in gone for key in zip(manifest["set"], manifest["utterance"])]
    return manifest if all(keep) else manifest[keep].reset_index(drop=True)


def _merge_dropped(corpus: Corpus, checked: Mapping[Hashable, CheckedCopy]) -> tuple[Dropped, ...]:
    """Each utterance that is left out, once, with all the reasons."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for line in corpus.dropped:
        reasons.setdefault((line.set, line.utterance), []).append(line.reason)
    for key, copy_checked in checked.items():
        for line in copy_checked.dropped:
            reasons.setdefault((line.set, line.utterance), []).append(f"system {key}: {line.reason}")
    return tuple(sorted(Dropped(name, of, "; ".join(texts)) for (of, name), texts in reasons.items()))


def _describe_dropped(dropped: Sequence[Dropped], corpus: Corpus, sets: Mapping[str, TrialSet]) -> list[str]:
    """How much ``allow_partial`` left out of the data set and of external systems: utterances, and trials with them."""
    if not dropped:
        return []
    absent = {(trial_set.set, trial_set.utterance) for trial_set in dropped}
    present = set(zip(corpus.manifest["set"], corpus.manifest["utterance"]))
    by_set = Counter(in_set for in_set, _ in absent)
    counts = ", ".join(f"{count} of {name}" for name, count in sorted(by_set.items()))
    sentences = [f"{len(absent)} of {len(present | absent)} utterances are left out (allow_partial): {counts}"]
    gone = sum(trial_set.expected - len(trial_set.trials) for trial_set in sets.values())
    if gone:
        expected = sum(trial_set.expected for trial_set in sets.values())
        sentences.append(f"{gone} of {expected} trials are left out with their utterances")
    return sentences


def _merge_errors(errors: Mapping[Hashable, DataError]) -> DataError:
    """The errors of several systems as one."""

    def said(part: str) -> str:
        by_system = {f"system {key}": str(vars(error)[part]) for key, error in errors.items()}
        if len(set(by_system.values())) == 1:
            return next(iter(by_system.values()))
        return "; ".join(f"{label}: {text}" for label, text in by_system.items())

    faults = [
        Fault(fault.what, f"system {key}: {fault.where}", fault.kind)
        for key, error in errors.items()
        for fault in error.faults
    ]
    what = f"the anonymised audio has {len(faults)} fault{'s' if len(faults) > 1 else ''}"
    return DataError(what, where=said("where"), cause=said("cause"), remedy=said("remedy"), faults=faults)
