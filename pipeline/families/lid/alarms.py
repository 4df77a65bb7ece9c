"""True-positive rates at low false-positive rates, of the trials as they are listed."""

from __future__ import annotations

from pipeline.contracts import Row, Trials
from pipeline.families._rows import row
from pipeline.families._trials import coded, counts
from pipeline.families._uncertainty import intervals
from pipeline.families.lid.settings import LidSettings
from pipeline.metrics import MetricError, tpr_by_speaker, tpr_evidence

FPRS = {0.01: "1 %", 0.001: "0.1 %"}


def rows(settings: LidSettings, data: Trials) -> list[Row]:
    """A row a rate; where the counts do not allow it, the reason."""
    number = counts(data)
    try:
        trials = coded(data)
    except MetricError as error:  # a class is empty
        return [row("tpr_at_fpr", variant=f"FPR {name}", reason=str(error), counts=number) for name in FPRS.values()]
    found = {fpr: tpr_evidence(trials, fpr) for fpr in FPRS}
    rated = [fpr for fpr in FPRS if found[fpr].tpr is not None]
    # The jackknife covers rates of few alarms badly; drawing speakers does not (pipeline/metrics/README.md, section 15).
    drawn = "none" if settings.interval == "none" or not settings.replicates or not rated else "percentile"
    ends = intervals(settings.model_copy(update={"interval": drawn}), lambda: tpr_by_speaker(trials, rated))
    made = []
    for fpr, one in found.items():
        if one.tpr is None:
            made.append(row("tpr_at_fpr", variant=f"FPR {FPRS[fpr]}", reason=one.reason, counts=number))
            continue
        notes = [f"coarse: {one.allowed} false alarms are allowed"] if one.few else []
        if one.few_pairs:
            notes.append(f"the alarms come from {one.alarm_pairs} pairs of speakers")
        made.append(
            row(
                "tpr_at_fpr",
                one.tpr,
                variant=f"FPR {FPRS[fpr]}",
                interval=ends.get(f"tpr_at_fpr.{fpr:g}"),
                note="; ".join(notes),
                counts=number,
            )
        )
    return made
