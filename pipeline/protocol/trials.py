"""Trial sets: who is enrolled with which utterances, and which model is compared with which trial utterance."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from pipeline.seeds import digest


@dataclass(frozen=True, eq=False)
class TrialSet:
    """One list of trials.

    Attributes:
        name: the trial set's name as the data set has it, e.g. ``libri_dev_trials_f``; its utterances are in the manifest
            under this set.
        enrolment_set: the set of the enrolment utterances, e.g. ``libri_dev_enrolls``.
        enrolment: columns model, utterance: the utterances of ``enrolment_set`` that make each model.
        trials: columns model, utterance, target (bool).
        expected: trials in the list, before any were dropped with their utterances (``allow_partial``).
        thinned: models that are made of fewer utterances than the list says (``allow_partial``).
        across_sexes: whether the pairs were made here without the sex of any speaker, so that they stand across sexes too. It is
            no part of the digest: the scores of given trials are the same, whoever chose them.
    """

    name: str
    enrolment_set: str
    enrolment: pd.DataFrame
    trials: pd.DataFrame
    expected: int
    thinned: tuple[str, ...] = ()
    across_sexes: bool = False

    @property
    def n_target(self) -> int:
        return int(self.trials["target"].sum())

    @property
    def n_nontarget(self) -> int:
        return len(self.trials) - self.n_target

    @cached_property
    def digest(self) -> str:
        """sha256 of names, enrolment and trials, whatever their order."""
        enrolment = sorted(zip(*(self.enrolment[name].tolist() for name in ("model", "utterance"))))
        trials = sorted(zip(*(self.trials[name].tolist() for name in ("model", "utterance", "target"))))
        return digest("trials", self.name, self.enrolment_set, enrolment, trials, self.expected)


def make_trial_set(
    name: str,
    enrolment_set: str,
    enrolment: Iterable[tuple[str, str]],
    trials: Iterable[tuple[str, str, bool]],
    expected: int,
    across_sexes: bool = False,
) -> TrialSet:
    """A trial set from tuples (model, utterance) and (model, utterance, target), each ordered by model and utterance."""
    enrolled = pd.DataFrame(sorted(enrolment), columns=["model", "utterance"]).astype("str")
    compared = pd.DataFrame(sorted(trials), columns=["model", "utterance", "target"])
    compared = compared.astype({"model": "str", "utterance": "str", "target": "bool"})
    return TrialSet(name, enrolment_set, enrolled, compared, expected, across_sexes=across_sexes)


def drop_utterances(trial_set: TrialSet, gone: Collection[tuple[str, str]]) -> TrialSet:
    """A trial set without the utterances of which somebody has no sound, given as (set, utterance).

    Trials with them are left out, and so are all trials of a model without an utterance.
    """
    enrolled, tried = (
        [name for of, name in gone if of == name_of_set] for name_of_set in (trial_set.enrolment_set, trial_set.name)
    )
    if not enrolled and not tried:
        return trial_set
    lost_enrolment, lost_trials = (
        trial_set.enrolment["utterance"].isin(enrolled),
        trial_set.trials["utterance"].isin(tried),
    )
    enrolment = trial_set.enrolment[~lost_enrolment].reset_index(drop=True)
    trials = trial_set.trials[~lost_trials & trial_set.trials["model"].isin(enrolment["model"])].reset_index(drop=True)
    thinned = {*trial_set.thinned, *trial_set.enrolment.loc[lost_enrolment, "model"]} & set(trials["model"])
    return replace(trial_set, enrolment=enrolment, trials=trials, thinned=tuple(sorted(thinned)))


def pair_same_sex(models: Mapping[str, str], utterances: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, bool]]:
    """All pairs of an enrolled speaker and a trial utterance of the same sex, as the VoicePrivacy libri lists are.

    Args:
        models: sex of each enrolled speaker.
        utterances: (utterance, speaker, sex) of the trial set.

    Returns:
        (model, utterance, target).
    """
    return [
        (model, utterance, model == speaker)
        for utterance, speaker, sex in utterances
        for model, model_sex in models.items()
        if model_sex == sex
    ]


MOST_SEARCHED = 5_000_000
"""Pairs up to which a list is completed; a protocol of the field has some ten thousand."""


def complete_trials(
    trial_set: TrialSet, models: Mapping[str, str], utterances: Mapping[str, str], sexes: Mapping[str, str]
) -> TrialSet:
    """A list with the pairs that it lacks of an enrolled speaker and an utterance of an enrolled speaker: within the sexes where it
    stays within them.

    It is the list itself where it lacks none, where a speaker has several models, and where there would be more than
    :data:`MOST_SEARCHED` pairs.

    Args:
        models: speaker of each model.
        utterances: speaker of each trial utterance.
        sexes: of each speaker, ``u`` where it is not known.
    """
    model_of = {models[model]: model for model in trial_set.trials["model"].unique()}
    own = [utterance for utterance in trial_set.trials["utterance"].unique() if utterances[utterance] in model_of]
    if len(model_of) < trial_set.trials["model"].nunique() or len(model_of) * len(own) > MOST_SEARCHED:
        return trial_set
    claimed = trial_set.trials["model"].map(models).map(sexes)
    spoken = trial_set.trials["utterance"].map(utterances).map(sexes)
    within = bool(((claimed == spoken) & (claimed != "u")).all())
    pairs = pd.MultiIndex.from_product([sorted(model_of.values()), sorted(own)], names=["model", "utterance"])
    lacking = pairs.difference(pd.MultiIndex.from_frame(trial_set.trials[["model", "utterance"]])).to_frame(index=False)
    claimed, spoken = lacking["model"].map(models), lacking["utterance"].map(utterances)
    if within:
        same = claimed.map(sexes) == spoken.map(sexes)
        lacking, claimed, spoken = lacking[same], claimed[same], spoken[same]
    if not len(lacking):
        return trial_set
    added = lacking.assign(target=(claimed == spoken).to_numpy(bool))
    completed = pd.concat([trial_set.trials, added]).astype(trial_set.trials.dtypes.to_dict())
    completed = completed.sort_values(["model", "utterance"], kind="stable").reset_index(drop=True)
    return replace(trial_set, trials=completed, expected=trial_set.expected + len(added))
