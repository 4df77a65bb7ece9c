"""``from-scores``: metrics of score files alone, without audio, models or configuration."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline import metrics
from pipeline.cli import score_disclosure
from pipeline.cli.options import Parser
from pipeline.cli.score_report import Report, check_order, warn, write
from pipeline.datasets.scores import joins as score_joins
from pipeline.datasets.scores.joins import JoinedTrials
from pipeline.errors import ConfigError, DataError
from pipeline.metrics import MetricError, Undefined
from pipeline.seeds import generator

CONDITIONS = ("oo", "op", "pp")
INTERVALS = (
    "eer.rocch", "eer.kaldi", "eer.speechbrain", "cllr", "cllr_min", "cllr_cal", "d_ece", "d_sys.exact",
    "tpr_at_fpr.0.01", "tpr_at_fpr.0.001",
)  # fmt: skip
PAIRED = ("eer.rocch", "cllr_min", "d_ece", "d_sys.exact")
TRIALS = ("n_target", "n_nontarget", "eer", "cllr", "cllr_min", "cllr_cal", "d_ece", "l_w", "l_w_ceiling", "tag")
NORMALISED = ("d_ece_op_oo", "cllr_min_op_oo", "g_d_ece", "g_cllr_min")
DISCLOSURE = ("max_d", "mean_d", "idr", "rank_spread")

_OFF = "--replicates 0 turns intervals and null bands off"


def main(arguments: Sequence[str]) -> int:
    """Carry out ``from-scores`` with its arguments; the exit status.

    Raises:
        ConfigError: usage.
        DataError: files that are refused; nothing is written then.
    """
    options = _parser().parse_args(arguments)
    report = Report()
    try:
        options.act(options, report)
    except MetricError as error:
        files = [value for value in vars(options).values() if isinstance(value, Path)]
        raise DataError(str(error), where=", ".join(map(str, files))) from error
    write(report.text(), options.json)
    return 0


# Arguments -----------------------------------------------------------------------------------------------------------


def _parser() -> Parser:
    parser = Parser(
        prog="voice-privacy from-scores",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Metrics of score files alone. Files are joined on ids, never by position.",
        epilog=(
            "files: lines `ID1 ID2 SCORE`, trial lists `ID1 ID2 target|nontarget`, tables of speakers `ID SPEAKER`;\n"
            "any white space, an optional header `enroll_id trial_id score`, plain or gzip, or parquet with these columns.\n"
            "units: fractions, bits, dB; l_w in log10. A higher score means more similar (else --distance).\n"
            "exit status: 0 done, 2 usage, 3 data that are refused (nothing is written)"
        ),
    )
    verbs = parser.add_subparsers(dest="what", required=True, metavar="WHAT", parser_class=Parser)

    verb = _verb(verbs, "trials", "EER, Cllr, ZEBRA, linkability and TPR of a list of trials", _trials)
    verb.add_argument("--scores", type=Path, required=True)
    _add_trials(verb)

    verb = _verb(verbs, "vsm", "voice similarity matrices: DeID, G_VD, speaker table", _vsm)
    for condition in CONDITIONS:
        verb.add_argument(f"--{condition}", type=Path, required=True, help=f"scores of {condition.upper()}")
    verb.add_argument("--utt2spk", type=Path, required=True)
    verb.add_argument("--similarity", choices=("geometric_mean", "sigmoid_mean"), default="geometric_mean")
    verb.add_argument("--pairing", choices=("all", "vpc2020"), default="all", help="vpc2020: ids sorted, i < j only")
    verb.add_argument("--scores-are-llr", action="store_true", help="natural-log LLRs: do not calibrate")

    verb = _verb(verbs, "srd", "similarity rank disclosure", _srd)
    verb.add_argument("--scores", type=Path, required=True, help="ID1 is an input, ID2 a reference")
    verb.add_argument("--input2spk", type=Path, required=True)
    verb.add_argument("--reference2spk", type=Path, required=True)
    verb.add_argument("--ties", choices=("spread", "best", "worst"), default="spread")

    verb = _verb(
        verbs, "disclosure", "LID, ranks as evidence, linkability by population, attributes, lengths", _disclosure
    )
    score_disclosure.add_options(verb)

    verb = _verb(verbs, "normalised", "Eq. 17-20 of Noe 2022 on enrolment and trial scores", _normalised)
    for condition in CONDITIONS:
        verb.add_argument(f"--{condition}", type=Path, required=True, help=f"scores of {condition.upper()}")
    _add_trials(verb)

    verb = _verb(verbs, "cece", "C_ECE: calibration trained on another run", _cece)
    verb.add_argument("--train", type=Path, required=True, help="scores of run f0")
    verb.add_argument("--scores", type=Path, required=True, help="scores of run f1")
    _add_trials(verb)
    verb.add_argument("--method", choices=("linear", "isotonic"), required=True)

    verb = _verb(verbs, "paired", "differences between two systems on the same trials, B minus A", _paired)
    verb.add_argument("--a", type=Path, required=True, help="scores of system A")
    verb.add_argument("--b", type=Path, required=True, help="scores of system B")
    _add_trials(verb)
    return parser


def _verb(
    verbs: Any, name: str, text: str, act: Callable[[argparse.Namespace, Report], None]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=text, allow_abbrev=False)
    parser.set_defaults(act=act)
    parser.add_argument("--json", required=True, metavar="OUT", help="where the result goes; - is standard output")
    parser.add_argument(
        "--replicates", type=read_whole_number, default=1000, help="0: no intervals and no bands (default 1000)"
    )
    parser.add_argument("--seed", type=read_whole_number, default=0, help="of the draws (default 0)")
    parser.add_argument(
        "--distance",
        nargs="*",
        metavar="OPTION",
        help="scores are distances: negate them (of these options only: e.g. oo op)",
    )
    parser.add_argument("--as-is", action="store_true", help="keep scores that order the classes the wrong way round")
    parser.add_argument("--strict", action="store_true", help="refuse scores that nothing asks for")
    return parser


def _add_trials(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=Path, required=True, help="ID1 ID2 target|nontarget")
    parser.add_argument(
        "--utt2spk", type=Path, help="speakers of trial utterances, and of models that are not speakers"
    )


def read_whole_number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


# Trials --------------------------------------------------------------------------------------------------------------


TARGETS = "a target scores above a non-target"


def _negated(options: argparse.Namespace, names: Sequence[str]) -> list[str]:
    if options.distance is None:
        return []
    names_given = [name.removeprefix("--") for name in options.distance]
    unknown = [name for name in names_given if name not in names]
    if unknown:
        raise ConfigError(
            f"--distance {' '.join(unknown)}: no option of that name gives scores",
            remedy=f"name some of {', '.join(names)}, or none for all",
        )
    return names_given or list(names)


def _joined(options: argparse.Namespace, report: Report, *names: str) -> JoinedTrials:
    """The scores of these options, joined to the trials, none of them the wrong way round."""
    negated = _negated(options, names)
    joined = score_joins.join_trials(
        [getattr(options, name) for name in names],
        options.trials,
        options.utt2spk,
        distance=[name in negated for name in names],
        strict=options.strict,
        note=report.note,
        tell=warn,
    )
    orders = {name: (joined.where[k], joined.order(k)) for k, name in enumerate(names)}
    check_order(orders, negated, options.as_is, report, TARGETS)
    return joined


def _with_speakers(options: argparse.Namespace, joined: JoinedTrials, report: Report) -> list[metrics.Trials]:
    """The trials of each system with their speakers; none, with the reason, where there is nothing over speakers."""
    off = joined.reason if options.replicates else _OFF
    if off or joined.enrolled is None or joined.spoken is None:
        report.reason(("interval",), off)
        return []
    enrolled, spoken = joined.enrolled.astype(np.int64), joined.spoken.astype(np.int64)
    return [metrics.Trials(scores, enrolled, spoken) for scores in joined.scores]


def _counts(joined: JoinedTrials, report: Report) -> None:
    report.put(("n_target",), int(np.count_nonzero(joined.is_target)))
    report.put(("n_nontarget",), int(np.count_nonzero(~joined.is_target)))


def _trials(options: argparse.Namespace, report: Report) -> None:
    joined = _joined(options, report, "scores")
    target, nontarget = joined.classes()
    measured = metrics.trial_metrics(target, nontarget)
    report.put_all((), measured, TRIALS)
    report.put(("d_sys", "exact"), metrics.d_sys(target, nontarget))
    report.put_defined(("d_sys", "vpc"), lambda: metrics.d_sys(target, nontarget, variant="vpc"))
    for each in measured.tpr_at_fpr:
        report.put(("tpr_at_fpr", f"{each.fpr:g}"), each.tpr, each.reason)
    for each in measured.tpr_at_fpr:
        report.put(("few", "tpr_at_fpr", f"{each.fpr:g}"), each.few)
    report.put_all(("ece_profile",), measured.ece_profile, ("log_odds", "prior_entropy", "ece"))

    off = joined.reason if options.replicates else _OFF
    if off:
        report.put(("null_band",), None, off)
    for trials in _with_speakers(options, joined, report):
        _bands(options, report, metrics.trials_by_identity(trials), "null band over enrolment models")
        report.intervals_of(metrics.intervals(metrics.trials_by_speaker(trials, INTERVALS)))


def _bands(options: argparse.Namespace, report: Report, metric: metrics.ByIdentity, purpose: str) -> None:
    random = generator(options.seed, purpose)
    report.bands(metrics.null_bands(metric, generator=random, replicates=options.replicates))


def _normalised(options: argparse.Namespace, report: Report) -> None:
    joined = _joined(options, report, *CONDITIONS)
    _counts(joined, report)
    of_oo, of_op, of_pp = (metrics.trial_metrics(*joined.classes(k)) for k in range(3))
    d_ece, cllr_min = (of_oo.d_ece, of_op.d_ece, of_pp.d_ece), (of_oo.cllr_min, of_op.cllr_min, of_pp.cllr_min)
    measured = metrics.normalised(d_ece=d_ece, cllr_min=cllr_min)
    for name in NORMALISED:
        report.put((name,), getattr(measured, name), measured.reasons.get(name, ""))
    for name, values in (("d_ece", d_ece), ("cllr_min", cllr_min)):
        report.put((name,), dict(zip(CONDITIONS, values)))

    systems = _with_speakers(options, joined, report)
    if not systems:
        return
    report.intervals_of(metrics.intervals(metrics.normalised_by_speaker(*systems)))
    for condition, trials in zip(CONDITIONS, systems):
        for name, interval in metrics.intervals(metrics.trials_by_speaker(trials, ("d_ece", "cllr_min"))).items():
            report.interval((name, condition), interval)


def _cece(options: argparse.Namespace, report: Report) -> None:
    joined = _joined(options, report, "train", "scores")
    _counts(joined, report)
    train, test = joined.classes(0), joined.classes(1)
    report.put(("method",), options.method)
    elsewhere = ("c_ece", "cllr_l_phi")
    try:
        report.put_all((), metrics.c_ece(*train, *test, method=options.method), elsewhere)
    except Undefined as undefined:
        report.put_all((), None, elsewhere, str(undefined))
    report.put(("cllr_f1",), metrics.cllr(*test))
    report.put(("cllr_min_f1",), metrics.cllr_min(*test))
    report.put(("d_ece_f0",), metrics.d_ece_oracle(*train))
    report.put(("d_ece_f1",), metrics.d_ece_oracle(*test))

    systems = _with_speakers(options, joined, report)
    if not systems:
        return
    for run, trials, names in (("f0", systems[0], ("d_ece",)), ("f1", systems[1], ("d_ece", "cllr", "cllr_min"))):
        for name, interval in metrics.intervals(metrics.trials_by_speaker(trials, names)).items():
            report.interval((f"{name}_{run}",), interval)
    try:
        report.intervals_of(metrics.intervals(metrics.c_ece_by_speaker(*systems, calibration=options.method)))
    except Undefined as undefined:
        report.reason(("interval", "c_ece"), str(undefined))


def _paired(options: argparse.Namespace, report: Report) -> None:
    joined = _joined(options, report, "a", "b")
    _counts(joined, report)
    values = []
    for target, nontarget in (joined.classes(k) for k in range(2)):
        measured = metrics.trial_metrics(target, nontarget)
        exact = metrics.d_sys(target, nontarget)
        values.append(dict(zip(PAIRED, (measured.eer["rocch"], measured.cllr_min, measured.d_ece, exact), strict=True)))
    systems = _with_speakers(options, joined, report)
    tested = {}
    if systems:
        random = generator(options.seed, "paired test over enrolment models")
        tested = metrics.paired_tests(*systems, generator=random, metrics=PAIRED, replicates=options.replicates)
    for name in PAIRED:
        place = tuple(name.split(".", 1))
        report.put((*place, "a"), values[0][name])
        report.put((*place, "b"), values[1][name])
        report.put((*place, "difference"), values[1][name] - values[0][name])
        if name not in tested:
            report.put((*place, "p_value"), None, joined.reason if options.replicates else _OFF)
            continue
        report.put_all(place, tested[name], ("p_value", "replicates", "exact"))
        report.interval((*place, "difference"), tested[name].interval)


# Matrices ------------------------------------------------------------------------------------------------------------


def _vsm(options: argparse.Namespace, report: Report) -> None:
    utterances = score_joins.read_speakers(options.utt2spk, report.note)
    names = sorted(set(utterances.speakers))
    code = {name: k for k, name in enumerate(names)}
    codes = np.array([code[speaker] for speaker in utterances.speakers])
    index = np.arange(codes.size)
    needed = index[:, None] < index if options.pairing == "vpc2020" else index[:, None] != index
    negated = _negated(options, CONDITIONS)
    scores = {
        condition: score_joins.join_matrix(
            getattr(options, condition), utterances, utterances, needed,
            distance=condition in negated, strict=options.strict, note=report.note, tell=warn,
        )
        for condition in CONDITIONS
    }  # fmt: skip
    rows, columns = np.nonzero(needed)
    first, second = codes[rows], codes[columns]
    orders = {}
    for condition, matrix in scores.items():
        # Within one speech, a pair of recordings stands in both orders; across two, rows and columns are different speech.
        two_sided = condition != "op" or options.pairing == "vpc2020"
        order = metrics.class_order(matrix[needed], first == second, first, second, two_sided_ids=two_sided)
        orders[condition] = (str(getattr(options, condition)), order)
    check_order(orders, negated, options.as_is, report, "two utterances of one speaker score above two of others")
    settings = {
        "names": names,
        "similarity": options.similarity,
        "pairing": options.pairing,
        "scores_are_llr": options.scores_are_llr,
    }
    parts = {condition: metrics.similarity_matrix(matrix, codes, **settings) for condition, matrix in scores.items()}
    measured = metrics.vsm_metrics(parts["oo"], parts["op"], parts["pp"], names)
    report.put_all((), measured, ("speakers", "d_diag", "signed"))
    for name in ("deid", "g_vd"):
        report.put((name,), getattr(measured, name), measured.reasons.get(name, ""))
    others = measured.normalised_all_pairs
    for name in NORMALISED:
        report.put(("normalised_all_pairs", name), getattr(others, name), others.reasons.get(name, ""))
    for k, row in enumerate(measured.speaker_table):
        if row.deid is None:
            reason = "the speaker's diagonal cell of OO does not differ from the others"
            report.reason(("speaker_table", str(k), "deid"), reason)
    report.put(("speaker_table",), [dataclasses.asdict(row) for row in measured.speaker_table])
    if not options.replicates:
        report.reason(("interval",), _OFF)
        return
    report.intervals_of(metrics.intervals(metrics.vsm_by_speaker(scores, codes, **settings)))


def _srd(options: argparse.Namespace, report: Report) -> None:
    inputs, references = (
        score_joins.read_speakers(path, report.note) for path in (options.input2spk, options.reference2spk)
    )
    truth = metrics.true_references(inputs.speakers, references.speakers)
    needed = np.ones((len(inputs.ids), len(references.ids)), dtype=np.bool_)
    negated = _negated(options, ("scores",))
    similarity = score_joins.join_matrix(
        options.scores,
        inputs,
        references,
        needed,
        distance=bool(negated),
        strict=options.strict,
        note=report.note,
        tell=warn,
    )
    order = metrics.rank_order(similarity, truth, truth)
    unit = "the true reference is more similar than another one"
    check_order({"scores": (str(options.scores), order)}, negated, options.as_is, report, unit)
    measured = metrics.srd(similarity, truth, ties=options.ties)
    report.put_all((), measured, ("n_references", "n_inputs", "histogram"))
    report.put_all(("empirical",), measured.empirical, DISCLOSURE)
    fit = measured.beta_binomial
    report.put_all(("beta_binomial",), fit, ("alpha", "beta"), fit.reason)
    report.put_all(("beta_binomial",), fit.disclosure, DISCLOSURE, fit.reason)
    report.put(("beta_binomial", "flag"), fit.flag)
    if not options.replicates:
        report.put(("null_band",), None, _OFF)
        report.reason(("interval",), _OFF)
        return
    _bands(options, report, metrics.srd_by_identity(similarity, truth, options.ties), "null band over references")
    report.intervals_of(metrics.intervals(metrics.srd_by_speaker(similarity, truth, options.ties)), "empirical")


# Disclosure ----------------------------------------------------------------------------------------------------------


def _disclosure(options: argparse.Namespace, report: Report) -> None:
    score_disclosure.measure(options, report, _negated(options, ("scores",)))
