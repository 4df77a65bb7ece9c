"""EER and D_ECE of an attacker who hears several utterances of a trial speaker: another threat than one utterance."""

from __future__ import annotations

from typing import Literal

from pipeline import contracts
from pipeline.contracts import Measured, Row, Trials, numeric
from pipeline.families._common import UncertaintySettings, field_of, intervals, row
from pipeline.metrics._base import MetricError
from pipeline.metrics.conversation import conversations
from pipeline.metrics.trial_uncertainty import trials_by_speaker
from pipeline.metrics.trials import TrialMetrics, trial_metrics

VERSION = "conversation 1"
LENGTHS = (2, 3)
"""Utterances of a conversation; rows name them as their input."""
DEFINED = "pipeline/metrics/README.md, section 14d"


class ConversationSettings(UncertaintySettings):
    """Settings of the intervals of conversations."""

    name: Literal["conversation"] = numeric("conversation")


METRICS = {
    "conversation_eer": field_of(
        TrialMetrics, "eer", "EER_conv", "equal error rate of conversations",
        "The EER of an attacker who hears several utterances of the trial speaker together; rows name how many. It is no EER of "
        "single utterances.", DEFINED, summary=False,
    ),
    "conversation_d_ece": field_of(
        TrialMetrics, "d_ece", "D_ECE_conv", "expected disclosure of conversations",
        "D_ECE of an attacker who hears several utterances of the trial speaker together; rows name how many.", DEFINED,
        summary=False,
    ),
}  # fmt: skip


class MetricFamily(contracts.MetricFamily):
    """Verification of conversations, from the scores of their utterances."""

    Settings = ConversationSettings
    reads = "trials"
    title = "Conversations of several utterances"
    metrics = METRICS
    references = (
        "A. Nautsch et al., “The Privacy ZEBRA: Zero Evidence Biometric Recognition Assessment”, Interspeech 2020 "
        "(D_ECE, l_w, tag).",
    )

    @classmethod
    def measure(cls, settings: ConversationSettings, data: Trials) -> Measured:
        """EER on the convex hull, and D_ECE, for each number of utterances; for one that nobody has, the reason."""
        return Measured([line for length in LENGTHS for line in _rows(settings, data, length)])


def _rows(settings: ConversationSettings, data: Trials, length: int) -> list[Row]:
    unit = f"{length} utterances"
    try:
        if data.utterances is None:
            raise MetricError("the ids of the trial utterances are not known")
        joined = conversations(data.scores, data.models, data.speakers, data.utterances, length)
    except MetricError as error:
        return [row(metric, input_unit=unit, reason=str(error), n_expected=data.n_expected) for metric in METRICS]
    target, used = joined.is_target, len(joined.scores)
    measures = trial_metrics(joined.scores[target], joined.scores[~target])
    bounds = intervals(settings, lambda: trials_by_speaker(joined, ["eer.rocch", "d_ece"]))
    missing = -(-(data.n_expected - len(data.scores)) // length)
    counts = {"n_expected": used + missing, "n_used": used, "n_speakers": len(joined.models),
              "n_target": int(target.sum()), "n_nontarget": int((~target).sum())}  # fmt: skip
    return [
        row(
            "conversation_eer", measures.eer["rocch"], interval=bounds.get("eer.rocch"), input_unit=unit, counts=counts
        ),
        row("conversation_d_ece", measures.d_ece, interval=bounds.get("d_ece"), input_unit=unit, counts=counts),
    ]
