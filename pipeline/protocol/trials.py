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


def drop_utterances(made: TrialSet, gone: Collection[tuple[str, str]]) -> TrialSet:
    """A trial set without the utterances of which somebody has no sound, given as (set, utterance).

    Trials with them are left out, and so are all trials of a model without an utterance.
    """
    enrolled, tried = ([name for of, name in gone if of == one] for one in (made.enrolment_set, made.name))
    if not enrolled and not tried:
        return made
    lost_enrolment, lost_trials = made.enrolment["utterance"].isin(enrolled), made.trials["utterance"].isin(tried)
    enrolment = made.enrolment[~lost_enrolment].reset_index(drop=True)
    trials = made.trials[~lost_trials & made.trials["model"].isin(enrolment["model"])].reset_index(drop=True)
    thinned = {*made.thinned, *made.enrolment.loc[lost_enrolment, "model"]} & set(trials["model"])
    return replace(made, enrolment=enrolment, trials=trials, thinned=tuple(sorted(thinned)))


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
    made: TrialSet, models: Mapping[str, str], utterances: Mapping[str, str], sexes: Mapping[str, str]
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
    model_of = {models[model]: model for model in made.trials["model"].unique()}
    own = [one for one in made.trials["utterance"].unique() if utterances[one] in model_of]
    if len(model_of) < made.trials["model"].nunique() or len(model_of) * len(own) > MOST_SEARCHED:
        return made
    claimed = made.trials["model"].map(models).map(sexes)
    spoken = made.trials["utterance"].map(utterances).map(sexes)
    within = bool(((claimed == spoken) & (claimed != "u")).all())
    pairs = pd.MultiIndex.from_product([sorted(model_of.values()), sorted(own)], names=["model", "utterance"])
    lacking = pairs.difference(pd.MultiIndex.from_frame(made.trials[["model", "utterance"]])).to_frame(index=False)
    claimed, spoken = lacking["model"].map(models), lacking["utterance"].map(utterances)
    if within:
        same = claimed.map(sexes) == spoken.map(sexes)
        lacking, claimed, spoken = lacking[same], claimed[same], spoken[same]
    if not len(lacking):
        return made
    added = lacking.assign(target=(claimed == spoken).to_numpy(bool))
    whole = pd.concat([made.trials, added]).astype(made.trials.dtypes.to_dict())
    whole = whole.sort_values(["model", "utterance"], kind="stable").reset_index(drop=True)
    return replace(made, trials=whole, expected=made.expected + len(added))
