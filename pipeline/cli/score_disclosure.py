"""``from-scores disclosure``: what each trial says about who speaks, from the scores of trials against candidates."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline import metrics
from pipeline.cli.score_report import Report, check_order, warn
from pipeline.datasets.scores import joins as score_joins
from pipeline.datasets.scores.score_table import Array
from pipeline.errors import DataError
from pipeline.metrics import MetricError, Undefined
from pipeline.names import join_few
from pipeline.seeds import generator

PARTS = {
    "n_classes": "n_classes",
    "alid_attribute": "mean_attribute",
    "alid_attribute_speaker": "mean_attribute_speaker",
    "alid_attribute_chance": "chance_attribute",
    "alid_within": "mean_within",
    "alid_within_speaker": "mean_within_speaker",
    "alid_within_chance": "chance_within",
    "prior_entropy": "prior_entropy",
    "ceiling": "ceiling",
}
"""Fields of the metric core, by the names that a run's rows have too."""
OTHER_CLASS = (
    "trials are of another class than their speaker's enrolment, and the disclosure has no part that is theirs"
)


@dataclass(frozen=True)
class Attack:
    """Scores of trials against candidates, one a speaker."""

    scores: Array
    """[n, N]."""
    truth: np.ndarray
    """[n] index of the true candidate."""
    names: list[str]
    """[N] speakers of the candidates."""
    not_enrolled: int
    """Trials that are left out: nobody enrolled speaks."""
    trials: list[str]
    """[n] ids."""
    candidates: list[str]
    """[N] ids."""


def _attribute(
    options: argparse.Namespace, report: Report, attack: Attack, path: Path, slope: float | Array | None
) -> None:
    """Of a table SPEAKER VALUE, or TRIAL VALUE: there a candidate without a line has the value that all trials of its speaker have."""
    listed = score_joins.read_speakers(path, report.note)
    values = dict(zip(listed.ids, listed.speakers))
    if path in options.spk2attr:
        _require(attack.names, values, path, "give every speaker of --reference2spk a line SPEAKER VALUE")
        own = [values[name] for name in attack.names]
        _put(report, attack, path, own, [own[k] for k in attack.truth], slope)
        return
    _require(attack.trials, values, path, "give every trial of --input2spk a line TRIAL VALUE")
    spoken = [values[name] for name in attack.trials]
    for k, candidate in enumerate(attack.candidates):
        own_values = {value for value, speaker in zip(spoken, attack.truth) if speaker == k}
        if candidate not in values and len(own_values) == 1:
            values[candidate] = own_values.pop()
    remedy = "give every candidate of --reference2spk a line too, with the value of its enrolment"
    _require(attack.candidates, values, path, remedy)
    _put(report, attack, path, [values[name] for name in attack.candidates], spoken, slope)


def _require(ids: Sequence[str], values: Mapping[str, str], path: Path, remedy: str) -> None:
    missing = [name for name in ids if name not in values]
    if missing:
        raise DataError(
            f"{len(missing)} ids have no value: {join_few(missing, 10)}",
            where=str(path),
            cause="a table of others, or one that lacks lines",
            remedy=remedy,
        )


def _put(
    report: Report,
    attack: Attack,
    path: Path,
    of_candidates: Sequence[str],
    of_trials: Sequence[str],
    slope: float | Array | None,
) -> None:
    names = sorted({*of_candidates, *of_trials})
    classes, spoken = (np.array([names.index(value) for value in each]) for each in (of_candidates, of_trials))
    place = ("attribute", path.stem if path.name.count(".") < 2 else path.name)
    report.put((*place, "values"), {name: int((classes == k).sum()) for k, name in enumerate(names)})
    if slope is None:
        report.put((*place, "alid_attribute"), None, "there is no slope")
    elif (classes[attack.truth] != spoken).any():
        report.put((*place, "alid_attribute"), None, OTHER_CLASS)
    else:
        part_measured = metrics.attribute_part(attack.scores, attack.truth, classes, slope)
        for name, part in PARTS.items():
            report.put((*place, name), getattr(part_measured, part))
    _stranger(report, attack, place, classes, spoken)


def _stranger(report: Report, attack: Attack, place: tuple[str, ...], classes: np.ndarray, spoken: np.ndarray) -> None:
    """At a slope of its own: one for persons is too bold for this question."""
    s, t = attack.scores, attack.truth
    try:
        slopes = metrics.stranger_slopes(s, t, classes, spoken)
        told = ~np.isnan(slopes[t])
        measured = metrics.stranger(s[told], t[told], classes, slopes, spoken[told])
    except (Undefined, MetricError) as undefined:
        report.put((*place, "alid_stranger"), None, str(undefined))
        return
    speaks = ~np.isnan(slopes)
    report.put(
        (*place, "stranger_slope"),
        {name: float(w) for name, w, has_slope in zip(attack.names, slopes, speaks) if has_slope},
    )
    for end, value in (("", measured.mean), ("_speaker", measured.mean_speaker), ("_chance", measured.chance)):
        report.put((*place, f"alid_stranger{end}"), value, measured.reason or "everybody is alone in the class")
    report.put((*place, "n_undefined"), int(measured.n_undefined + (~told).sum()))


SLOPES = ("loso", "actual")
FPRS = (0.01, 0.001)
OFF = "--replicates 0 turns intervals and null bands off"
SAID = "the true candidate scores above another one"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the verb beside those that all have."""
    parser.add_argument("--scores", type=Path, required=True, help="ID1 is a trial, ID2 a candidate")
    parser.add_argument("--input2spk", type=Path, required=True, help="speakers of trials")
    parser.add_argument("--reference2spk", type=Path, required=True, help="speakers of candidates, one candidate each")
    parser.add_argument("--ties", choices=("spread", "best", "worst"), default="spread")
    parser.add_argument(
        "--slope",
        type=_slope,
        default="loso",
        metavar="SLOPE",
        help="of posteriors: loso (from the other speakers; the default), actual (scores are natural-log LLRs), or a number that "
        "was learnt elsewhere",
    )
    parser.add_argument("--spk2attr", type=Path, nargs="+", default=[], help="tables SPEAKER VALUE: sex, accent, ...")
    parser.add_argument(
        "--utt2attr",
        type=Path,
        nargs="+",
        default=[],
        help="tables TRIAL VALUE: emotion, language, ...; candidates too, unless theirs is that of all their trials",
    )
    parser.add_argument("--lengths", type=_length, nargs="+", default=[], help="trials that are pooled: 1 2 5 10")


def _length(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _slope(text: str) -> str | float:
    if text in SLOPES:
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(SLOPES)}, nor a number from 0 on")
    return value


def measure(options: argparse.Namespace, report: Report, negated: Collection[str]) -> None:
    """Put all measures of disclosure into the report.

    Raises:
        DataError: files that are refused.
        MetricError: scores that cannot be measured.
    """
    attack = _attack(options, report, negated)
    s, t, n_candidates = attack.scores, attack.truth, len(attack.names)
    order = metrics.rank_order(s, t, t)
    check_order({"scores": (str(options.scores), order)}, list(negated), options.as_is, report, SAID)
    for name, number in (
        ("n_trials", t.size),
        ("n_candidates", n_candidates),
        ("n_speakers", np.unique(t).size),
        ("n_not_enrolled", attack.not_enrolled),
    ):
        report.put((name,), int(number))
    report.put(("candidates",), attack.names)
    slope = _learn_slope(options, report, attack)
    _lid(options, report, attack, slope)
    _ranks(options, report, attack)
    _evidence(options, report, attack)
    for path in (*options.spk2attr, *options.utt2attr):
        _attribute(options, report, attack, path, slope)
    if options.lengths:
        _lengths(options, report, attack)


def _attack(options: argparse.Namespace, report: Report, negated: Collection[str]) -> Attack:
    tables = options.input2spk, options.reference2spk
    inputs, references = (score_joins.read_speakers(path, report.note) for path in tables)
    column = {speaker: k for k, speaker in enumerate(references.speakers)}
    # Refuses speakers with two candidates.
    metrics.true_references([], references.speakers)
    own = np.array([column.get(speaker, -1) for speaker in inputs.speakers], dtype=np.int64)
    kept = own >= 0
    needed = np.repeat(kept[:, None], len(references.ids), axis=1)
    matrix = score_joins.join_matrix(
        options.scores,
        inputs,
        references,
        needed,
        distance=bool(negated),
        # Scores of trials that are left out are told in a note; nothing else asks for them.
        strict=options.strict and bool(kept.all()),
        note=report.note,
        tell=warn if kept.all() else score_joins.ignore_note,
    )
    if not kept.any():
        raise DataError(
            "no trial is of a speaker who is enrolled",
            where=f"{tables[0]} and {tables[1]}",
            cause="tables of different speakers, or speakers named in different ways",
            remedy="name speakers alike in both tables",
        )
    left_out = int((~kept).sum())
    if left_out:
        report.note(f"{left_out} of {kept.size} trials are of speakers who are not enrolled, and are left out")
    trials = [name for name, is_kept in zip(inputs.ids, kept) if is_kept]
    return Attack(matrix[kept], own[kept], list(references.speakers), left_out, trials, list(references.ids))


def _learn_slope(options: argparse.Namespace, report: Report, attack: Attack) -> float | Array | None:
    """The slope; None where there is none: LLRs as they are, or too few speakers."""
    report.put(("slope", "method"), options.slope if isinstance(options.slope, str) else "given")
    if isinstance(options.slope, float):
        report.put(("slope", "value"), options.slope)
        return options.slope
    if options.slope == "actual":
        return None
    try:
        slopes = metrics.loso_slopes(attack.scores, attack.truth)
    except Undefined as undefined:
        report.put(("slope", "value"), None, str(undefined))
        return None
    speaks = ~np.isnan(slopes.value)
    names = [name for name, slope in zip(attack.names, speaks) if slope]
    report.put(("slope", "value"), dict(zip(names, slopes.value[speaks].tolist())))
    report.put(("slope", "unconstrained"), dict(zip(names, slopes.unconstrained[speaks].tolist())))
    return slopes.value


def _lid(options: argparse.Namespace, report: Report, attack: Attack, slope: float | Array | None) -> None:
    s, t = attack.scores, attack.truth
    if slope is None and options.slope != "actual":
        report.put(("lid",), None, "there is no slope")
        report.reason(("interval", "lid"), "there is no slope")
        return
    measured = metrics.lid_of_llr(s, t) if slope is None else metrics.lid(s, t, slope)
    names = ("alid", "alid_speaker", "pdr", "pdr_speaker", "lid_plus", "lid_minus", "lid_max", "lid_max_ceiling")
    report.put_all(("lid",), measured, names, measured.reason)
    for part in dataclasses.fields(measured.chance):
        report.put(("lid", f"{part.name}_chance"), getattr(measured.chance, part.name), "no candidate has such a value")
    means = measured.speaker_alid
    speaks = [(name, float(mean)) for name, mean in zip(attack.names, means) if not math.isnan(mean)]
    report.put(("lid", "speaker_alid"), dict(speaks))
    bits = np.unique(measured.lid)
    report.put(("lid", "ccdf"), {"bit": bits, "share": metrics.exceedance(measured.lid, bits)})
    if slope is None:
        report.reason(("interval", "lid"), "intervals and null bands are of slopes, and these LLRs have none")
        return
    if not options.replicates:
        report.put(("null_band",), None, OFF)
        report.reason(("interval",), OFF)
        return
    report.intervals_of(metrics.intervals(metrics.lid_by_speaker(s, t, slope)), "lid")
    metric = metrics.lid_by_identity(s, t, None if options.slope == "loso" else slope)
    random = generator(options.seed, "null band over candidates")
    report.bands(metrics.null_bands(metric, generator=random, replicates=options.replicates))


def _ranks(options: argparse.Namespace, report: Report, attack: Attack) -> None:
    s, t = attack.scores, attack.truth
    measured = metrics.rank_llr(s, t, ties=options.ties)
    for name, value in metrics.flatten(measured).items():
        if name not in ("n_candidates", "n_trials", "reason"):
            report.put(("rank_llr", name), value, measured.reason)
    curve = metrics.pi_link_curve(s, t, ties=options.ties)
    report.put_all(("pi_link",), curve, ("population", "value", "chance", "tied"))
    if not options.replicates:
        return
    interval = metrics.intervals(metrics.srd_by_speaker(s, t, options.ties))["idr"]
    if interval.low is not None and interval.high is not None:
        ends = metrics.llr_of_share([interval.low, interval.high], len(attack.names))
        interval = dataclasses.replace(interval, low=float(ends[0]), high=float(ends[1]))
    report.interval(("rank_llr", "rank_one"), interval)
    report.intervals_of(metrics.intervals(metrics.pi_link_by_speaker(s, t, ties=options.ties)))


def _evidence(options: argparse.Namespace, report: Report, attack: Attack) -> None:
    n, n_candidates = attack.scores.shape
    claimed, spoken = np.tile(np.arange(n_candidates), n), np.repeat(attack.truth, n_candidates)
    trials = metrics.Trials(attack.scores.ravel(), claimed, spoken)
    worst = metrics.worst_evidence(trials)
    for name, value in metrics.flatten(worst).items():
        if name != "reason":
            report.put(("evidence", name), value, worst.reason)
    if worst.reversed:
        report.note("the negated scores show stronger evidence than the scores: classes may be the wrong way round")
    for fpr in FPRS:
        measured = metrics.tpr_evidence(trials, fpr)
        for name, value in metrics.flatten(measured).items():
            if name not in ("fpr", "reason"):
                report.put(("tpr_at_fpr", f"{fpr:g}", name), value, measured.reason or "no target is accepted")
    target, nontarget = trials.scores[trials.is_target], trials.scores[~trials.is_target]
    report.put(("d_sys", "exact"), metrics.d_sys(target, nontarget))
    report.put_defined(("d_sys", "vpc"), lambda: metrics.d_sys(target, nontarget, variant="vpc"))
    if not options.replicates:
        return
    rates = [f"tpr_at_fpr.{fpr:g}" for fpr in FPRS if report.values["tpr_at_fpr"][f"{fpr:g}"]["tpr"] is not None]
    ends = metrics.intervals(metrics.trials_by_speaker(trials, ["d_sys.exact"]))
    if rates:
        random = generator(options.seed, "bootstrap over speakers")
        ends |= metrics.intervals(
            metrics.trials_by_speaker(trials, rates),
            method="percentile",
            replicates=options.replicates,
            generator=random,
        )
    report.intervals_of(ends)


def _lengths(options: argparse.Namespace, report: Report, attack: Attack) -> None:
    slope = options.slope if isinstance(options.slope, float) else None
    purpose = "choices of trials that are pooled"
    items = metrics.Lengths(
        attack.scores, attack.truth, options.lengths, slope=slope, generator=generator(options.seed, purpose)
    )
    curve = items.curve()
    report.put_all(("length",), curve, ("lengths", "n_items", "idr", "pi_link_half", "half", "eer"))
    report.put(("length", "panel"), [attack.names[k] for k in curve.panel])
    report.put(("length", "alid"), None if curve.reason else curve.alid, curve.reason)
    report.put(("length", "slopes"), None if curve.reason else curve.slopes, curve.reason)
    report.put(("length", "slope"), "loso" if slope is None else "given")
    if options.replicates:
        report.intervals_of(metrics.intervals(items.by_speaker()), "length")
