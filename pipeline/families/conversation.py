"""EER and D_ECE of an attacker who hears several utterances of a trial speaker: another threat than one utterance."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from pipeline import contracts
from pipeline.contracts import Measured, Row, Trials, numeric
from pipeline.families._rows import field_of, row
from pipeline.families._uncertainty import UncertaintySettings, intervals
from pipeline.metrics import MetricError, TrialMetrics, conversations, trial_metrics, trials_by_speaker

VERSION = 1

DEFINED = "pipeline/metrics/README.md, section 14d"


class ConversationSettings(UncertaintySettings):
    """Settings of conversations.

    Attributes:
        lengths: numbers of utterances of a trial speaker that the attacker hears together; rows of each name it as their input.
    """

    name: Literal["conversation"] = numeric("conversation")
    lengths: tuple[int, ...] = numeric((2, 3), min_length=1)

    @field_validator("lengths")
    @classmethod
    def _several(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        if min(lengths) < 2 or len(set(lengths)) < len(lengths):
            raise ValueError("lengths are 2 or more, each once; single utterances are metric=[asv,zebra]")
        return lengths


METRICS = {
    "conversation_eer": field_of(
        TrialMetrics,
        "eer",
        "EER_conv",
        "equal error rate of conversations",
        "The EER of an attacker who hears several utterances of the trial speaker together; rows name how many. It is another "
        "threat than one utterance, and stands beside no EER of single utterances.",
        DEFINED,
    ),
    "conversation_d_ece": field_of(
        TrialMetrics,
        "d_ece",
        "D_ECE_conv",
        "expected disclosure of conversations",
        "D_ECE of an attacker who hears several utterances of the trial speaker together; rows name how many.",
        DEFINED,
    ),
}


class MetricFamily(contracts.MetricFamily):
    """Verification of conversations, from the scores of their utterances."""

    Settings = ConversationSettings
    reads = "trials"
    title = "Conversations of several utterances"
    metrics = METRICS

    @classmethod
    def measure(cls, settings: ConversationSettings, data: Trials) -> Measured:
        """EER on the convex hull, and D_ECE, for each number of utterances; a number that nobody has gives the reason."""
        return Measured([one for length in settings.lengths for one in _rows(settings, data, length)])


def _rows(settings: ConversationSettings, data: Trials, length: int) -> list[Row]:
    unit = f"{length} utterances"
    try:
        if data.utterances is None:
            raise MetricError("the ids of the trial utterances are not known")
        joined = conversations(data.scores, data.models, data.speakers, data.utterances, length)
        found = trial_metrics(joined.scores[joined.is_target], joined.scores[~joined.is_target])
    except MetricError as error:
        return [row(metric, input_unit=unit, reason=str(error), n_expected=data.n_expected) for metric in METRICS]
    bounds = intervals(settings, lambda: trials_by_speaker(joined, ["eer.rocch", "d_ece"]))
    missing = -(-(data.n_expected - len(data.scores)) // length)
    counts = {
        "n_expected": len(joined.scores) + missing,
        "n_used": len(joined.scores),
        "n_speakers": len(set(joined.enrolled.tolist())),
        "n_target": int(joined.is_target.sum()),
        "n_nontarget": int((~joined.is_target).sum()),
    }
    values = {"conversation_eer": ("eer.rocch", found.eer["rocch"]), "conversation_d_ece": ("d_ece", found.d_ece)}
    return [
        row(metric, value, interval=bounds.get(name), input_unit=unit, counts=counts)
        for metric, (name, value) in values.items()
    ]
