"""Whether each system protects, and which protects best: from the numbers of the answer to the sentence that can be quoted.

The rule. A system **protects** where the paired test (corrected over the systems) shows that it discloses less than unprotected speech,
each under its strongest attack, and nothing else explains that; else the verdict is **withheld** (:func:`_explain_withholding`). Where the test shows that it discloses more, it **discloses more**; where it shows neither, the system is
**not shown to protect**, and the same holds where nothing can be tested. Without a number of unprotected speech nothing is said of
protection. Systems are ranked in words only among those that protect.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd

from pipeline.metrics import D_ECE_MAX
from pipeline.report.formats import NOTHING, count_noun, format_number, join_words
from pipeline.report.table import shorten
from pipeline.tables import checks, results

DIFFERENT = 0.05
"""p-values up to it tell systems apart."""
ADVICE = ("enrolled_once", "not_adapted", "other_centre", "weak_extractor")
"""Checks that say what else could be tried."""
MOST_NAMED = 3
"""Systems beside the first one that the sentence names."""
NO_PROTECTED = (
    "No attacker enrolled protected speech{of}, as anybody who has the system can: such an attack may disclose more."
)

Row = Mapping[str, Any]
Kind = Literal["protects", "withheld", "unshown", "more", "untested", "unknown"]
REASSURING: tuple[Kind, ...] = ("protects", "withheld", "unshown", "untested", "more", "unknown")
"""From the most to the least reassuring."""
WORDS: dict[Kind, str] = {
    "protects": "protects", "withheld": "withheld", "unshown": "not shown to protect", "more": "discloses more", "untested": "not tested",
    "unknown": "not compared",
}  # fmt: skip
"""How the leaderboard's column ``verdict`` names them."""
NO_SPEECH_OF_ITS_OWN = {"not_anonymised": 0.05, "same_audio": 0.05, "others_original": 0.05, "length": 0.0}
"""Checks of a system's audio by the share of files from which on no number tells how private the system is: attackers miss such speech
for another reason."""
NO_EVIDENCE = 1e-9
"""Bits: calibration on a finite set finds more in any scores but equal ones and those of the wrong order."""


# --- words ----------------------------------------------------------------------------------------------------------


def describe_attack(row: Row) -> str:
    """An attack in few words: who, with what, and whether it was adapted to the system."""
    if row.get("by_set"):
        return str(row["by_set"])
    adapted = ", adapted" if str(row["trained_on"]).find("anonymised") >= 0 else ""
    both = ", original enrolled too" if row["condition"] == "OPP" else ""
    return f"{row['attacker']}: {row['extractor']}, {row['backend']}{adapted}{both}"


def describe_attack_by_set(attacks: Mapping[str, Row]) -> str:
    """The attack on each set of a mean in words, by what tells the names of the sets apart."""
    common = len(list(itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*attacks))))
    return "; ".join(f"{name[common:]}: {describe_attack(row)}" for name, row in attacks.items())


def format_p(p: float) -> str:
    """A p-value with two digits, not below what can be told."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def format_bits(value: float) -> str:
    """Bits with three digits."""
    return format_number(value, "bit")


def format_percent(value: float) -> str:
    """A fraction as a percentage with one digit."""
    return f"{100 * value:.1f}"


def complete_row(row: Row) -> dict[str, Any]:
    """A row of the leaderboard with the D_ECE that it shows: as measured, where no error is seen to correct the highest by."""
    return {**row, "d_ece_corrected": row["d_ece"] if math.isnan(row["d_ece_corrected"]) else row["d_ece_corrected"]}


def describe_difference(row: Row) -> str:
    """One difference as a sentence; its numbers are B minus A."""
    where = f"On {row['subset']}, " + (
        "each under its strongest attack" if row["under"] == "strongest" else f"under {row['attack']}"
    )
    two = f"{row['system']} and {row['reference']}"
    if math.isnan(row.get("difference", math.nan)):
        return f"{where}, {two} cannot be compared: {row['reason']}."
    text = f"{where}, {_describe_size(row)}"
    if not math.isnan(row.get("low", math.nan)):
        scale, digits, unit = (100, 1, "points") if row["metric"] == "eer" else (1, 3, "bit")
        low, high = (f"{scale * row[end]:+.{digits}f}" for end in ("low", "high"))
        text += f" (difference: 95 % interval {low} to {high} {unit})"
    p = row.get("p_value", math.nan)
    if math.isnan(p):
        return f"{text}; not tested: {row['reason']}."
    corrected, n = row["p_holm"], row["n_compared"]
    how = f" after Holm's correction for {n} comparisons" if n > 1 else ""
    conclusion = "they are different" if corrected <= DIFFERENT else "they are not shown to be different"
    return f"{text}; {format_p(corrected)}{how}: {conclusion}."


def _describe_size(row: Row) -> str:
    size = abs(row["difference"])
    if row["metric"] == "eer" and size == 0:
        return f"the EER of {row['system']} is that of {row['reference']}"
    if row["metric"] == "eer":
        word = "higher" if row["difference"] > 0 else "lower"
        return f"the EER of {row['system']} is {format_percent(size)} points {word} than that of {row['reference']}"
    if size == 0:
        return f"{row['system']} discloses as much as {row['reference']}"
    word = "more" if row["difference"] > 0 else "less"
    return f"{row['system']} discloses {format_bits(size)} bit {word} than {row['reference']}"


# --- the rule -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What is shown of one system on one subset.

    Attributes:
        row: of the leaderboard.
        kind: ``protects``, ``withheld`` (it would, but for ``reason``), ``unshown``, ``more`` (it discloses more than unprotected speech), ``untested``, or ``unknown`` (there is no
            number of unprotected speech).
        unprotected: the row of unprotected speech with which it was compared; None where there is none.
        p: of the comparison, corrected; NaN where it was not tested.
        reason: why it was not tested, or why the verdict is withheld.
    """

    row: Row
    kind: Kind
    unprotected: Row | None = None
    p: float = math.nan
    reason: str = ""

    @property
    def system(self) -> str:
        return str(self.row["system"])

    @property
    def worse(self) -> str:
        """By what the system looks less private than unprotected speech, in words; '' if by nothing."""
        if self.unprotected is None:
            return ""
        (eer, d_ece), (their_eer, their_d_ece) = (
            (float(format_percent(row["lowest_eer"])), round(row["d_ece_corrected"], 3))
            for row in (self.row, self.unprotected)
        )
        comparisons = [("a lower EER", eer < their_eer), ("a higher D_ECE", d_ece > their_d_ece)]
        return join_words(text for text, is_so in comparisons if is_so)


def find_verdicts(
    board: pd.DataFrame, differences: pd.DataFrame, subset: str, diagnostics: pd.DataFrame
) -> list[Verdict]:
    """What is shown of each anonymised system that has a number, in the order of the leaderboard."""
    rows = [complete_row(row) for row in results.records(board) if row["subset"] == subset]
    valued = [row for row in rows if not math.isnan(row["d_ece"])]
    unprotected = [row for row in valued if not row["anonymised"]]
    return [_judge_system(row, unprotected, differences, diagnostics) for row in valued if row["anonymised"]]


def judge(board: pd.DataFrame, differences: pd.DataFrame, diagnostics: pd.DataFrame) -> pd.DataFrame:
    """The leaderboard with its columns ``verdict`` and ``withheld`` (why)."""
    judged = board.copy()
    for subset in dict.fromkeys(board["subset"].astype(str)):
        for verdict in find_verdicts(board, differences, subset, diagnostics):
            place = (judged["subset"] == subset) & (judged["system"] == verdict.system)
            judged.loc[place, "verdict"] = WORDS[verdict.kind]
            if verdict.kind == "withheld":
                judged.loc[place, "withheld"] = verdict.reason
    return judged


def _judge_system(
    row: Row, unprotected: Sequence[Row], differences: pd.DataFrame, diagnostics: pd.DataFrame
) -> Verdict:
    """The least reassuring verdict over all that is unprotected."""
    compared = [_compare(row, reference, differences) for reference in unprotected]
    worst = max(compared, key=lambda reference: REASSURING.index(reference.kind), default=Verdict(row, "unknown"))
    reason = _explain_withholding(row, diagnostics) if worst.kind == "protects" else ""
    return replace(worst, kind="withheld", reason=reason) if reason else worst


def _explain_withholding(row: Row, diagnostics: pd.DataFrame) -> str:
    """Why a lower disclosure shows no protection; '' if nothing but protection is known to explain it."""
    system = str(row["system"])
    for finding in results.records(diagnostics) if len(diagnostics) else []:
        least = NO_SPEECH_OF_ITS_OWN.get(str(finding["check"]))
        if (
            least is not None
            and str(finding["system"]) == system
            and bool(finding["flagged"])
            and finding["value"] >= least
        ):
            return str(finding["sentence"]).removeprefix(f"System {system}: ").rstrip(".")
    if row["d_ece"] <= NO_EVIDENCE:
        return "its scores hold no evidence at all, as equal ones and those of the wrong order do after a failed extraction"
    if pd.isna(row["rank"]):
        return f"it was spared attacks that were tried on others: {row['untried']}"
    return ""


def _compare(row: Row, unprotected: Row, differences: pd.DataFrame) -> Verdict:
    compared = find_difference(differences, str(row["subset"]), str(row["system"]), str(unprotected["system"]))
    if compared is None or math.isnan(compared["p_holm"]):
        return Verdict(row, "untested", unprotected, reason="" if compared is None else str(compared["reason"]))
    p, step = compared["p_holm"], compared["difference"]
    if str(compared["system"]) != str(row["system"]):
        step = -step
    kind: Kind = "unshown"
    if p <= DIFFERENT and step > 0:
        kind = "more"
    elif p <= DIFFERENT and step < 0 and row["d_ece_corrected"] < unprotected["d_ece_corrected"]:
        kind = "protects"
    return Verdict(row, kind, unprotected, p)


def find_difference(differences: pd.DataFrame, subset: str, system: str, reference: str) -> dict[str, Any] | None:
    """The comparison of two systems by D_ECE, each under its strongest attack."""
    wanted = (subset, "strongest", "d_ece", {system, reference})
    for row in results.records(differences):
        if (row["subset"], row["under"], row["metric"], {row["system"], row["reference"]}) == wanted:
            return row
    return None


# --- the sentence ---------------------------------------------------------------------------------------------------


def write_sentence(
    board: pd.DataFrame, differences: pd.DataFrame, subset: str, diagnostics: pd.DataFrame, longest: int = 10**6
) -> str:
    """What a reviewer could quote of one subset: whether the systems protect, compared with unprotected speech, which protects best, and
    the strongest doubt about the attack, cut to the ``longest`` that is wanted; '' where no protected speech was attacked."""
    judged = find_verdicts(board, differences, subset, diagnostics)
    if not judged:
        return ""
    first = find_lead(judged)
    others = [verdict for verdict in judged if verdict is not first]
    parts = [
        f"On {subset}, {_write_headline(first, others)}",
        *_write_scale(first, others),
        *_write_others(first, others, differences),
    ]
    if first.unprotected is not None and first.unprotected["chance"] == "within":
        parts.append("The attacks do not recognise unprotected speech either, so that they show nothing.")
    elif first.row["chance"] == "within":
        parts.append(f"{first.system} is {NOTHING}.")
    parts += list_limits(verdict.row for verdict in judged)
    ranked = [row for row in results.records(board) if row["subset"] == subset and row["anonymised"]]
    without = [str(row["system"]) for row in ranked if math.isnan(row["d_ece"])]
    if without:
        parts.append(f"There is no number for {join_words(without)}.")
    parts += _list_untried(judged)
    doubt = find_doubt(first.row, diagnostics)
    if doubt and not (first.kind == "withheld" and first.reason in doubt):
        which = f"the attack on {first.system}" if others else "this attack"
        parts.append(f"Doubt about {which}: {shorten(doubt, longest)}")
    return " ".join(parts)


def list_limits(rows: Iterable[Row]) -> Iterator[str]:
    """How small a leak would have been seen of each system that lies within its null band, as sentences."""
    for row in rows:
        if row["chance"] == "within" and row["limit_reason"]:
            yield f"How small a leak of {row['system']} would have been seen cannot be said: {row['limit_reason']}."
        elif row["chance"] == "within" and not math.isnan(row["limit"]):
            share, rise = describe_share(row["limit"]), format_bits(row["limit_rise"])
            yield f"A leak of {row['system']} would have been seen if {share} had passed unprotected ({rise} bit)."


def describe_share(share: float) -> str:
    """A share of utterances, above 0, in words; never smaller than it is."""
    return f"1 utterance in {int(1 / share)}" if share <= 0.5 else f"{math.ceil(100 * share)} % of all utterances"


def find_lead(verdicts: Sequence[Verdict]) -> Verdict:
    """The system that the sentence begins with: the best of those that protect, else the first of the leaderboard."""
    return next((verdict for verdict in verdicts if verdict.kind == "protects"), verdicts[0])


def _write_headline(first: Verdict, others: Sequence[Verdict]) -> str:
    """What is shown, with the numbers of the system that comes first."""
    numbers = _format_in_full(first.row)
    if first.kind == "unknown":
        return (
            "nothing can be said of protection, because there is no number of unprotected speech to compare with (attack it too: "
            f"name original among the systems, or give its scores, condition OO). {first.system}: {numbers}."
        )
    if first.kind == "protects":
        return f"{first.system} protects{' best' if _is_best(first, others) else ''}: {numbers}."
    if first.kind == "withheld" and not others:
        return f"nothing can be said of protection: {first.reason}. {first.system}: {numbers}."
    if others:
        return f"no system is shown to protect. {first.system}{_describe_status(first, first)}: {numbers}."
    if first.kind == "more":
        return f"{first.system} does not protect, it discloses more than unprotected speech: {numbers}."
    worse = f" and shows {first.worse} than unprotected speech" if first.worse else ""
    return f"{first.system} is not shown to protect{worse}: {numbers}."


def _is_best(first: Verdict, others: Sequence[Verdict]) -> bool:
    """Whether every other system is shown to protect worse."""
    ranks = [verdict.row["rank"] for verdict in (first, *others)]
    return bool(others) and not any(map(pd.isna, ranks)) and min(ranks[1:]) > ranks[0]


def _format_in_full(row: Row) -> str:
    """EER, then D_ECE, each with its interval, and which attack has the lowest EER."""
    n = int(row["n_attacks"])
    by = str(row["lowest_eer_attack"]) or describe_attack(row)
    tried = f"lowest of {n} attacks, {by}" if n > 1 else f"the only attack, {by}"
    low, high = row["lowest_eer_low"], row["lowest_eer_high"]
    interval = "" if math.isnan(low) else f"95 % interval {format_percent(low)} to {format_percent(high)}; "
    ends = [row["d_ece_low"], row["d_ece_high"]]
    span = "" if any(map(math.isnan, ends)) else f" ({format_bits(ends[0])} to {format_bits(ends[1])})"
    partial = f", on {row['n_used']} of {row['n_expected']} trials" if row["status"] == "partial" else ""
    return f"EER {format_percent(row['lowest_eer'])} % ({interval}{tried}), D_ECE {format_bits(row['d_ece_corrected'])} bit{span}{partial}"


def _format_in_short(row: Row) -> str:
    return f"EER {format_percent(row['lowest_eer'])} %, D_ECE {format_bits(row['d_ece_corrected'])} bit"


def _describe_comparison(verdict: Verdict) -> str:
    """How a further system compares with unprotected speech, as a clause."""
    worse = f"{verdict.worse} than unprotected speech, " if verdict.worse and verdict.kind != "more" else ""
    return f" ({worse}{_describe_test(verdict)})"


def _describe_test(verdict: Verdict) -> str:
    if verdict.kind == "untested":
        return f"not tested{f': {verdict.reason}' if verdict.reason else ''}"
    return format_p(verdict.p)


def _write_scale(first: Verdict, others: Sequence[Verdict]) -> Iterator[str]:
    """What unprotected speech discloses, the most that is possible, and whether the first system is told from it."""
    if first.unprotected is None:
        return
    worse = f", {first.system} has {first.worse}" if first.worse and (others or first.kind == "protects") else ""
    numbers = f"{_format_in_short(first.unprotected)}, of at most {format_bits(D_ECE_MAX)} bit"
    tested = "" if first.kind == "withheld" else f" (difference: {_describe_test(first)}{worse})"
    yield f"Unprotected speech: {numbers}{tested}."


def _write_others(first: Verdict, others: Sequence[Verdict], differences: pd.DataFrame) -> Iterator[str]:
    """The other systems: those that disclose more than unprotected speech, then as they are ranked."""
    ordered = sorted(others, key=lambda verdict: verdict.kind != "more")
    for verdict in ordered[:MOST_NAMED]:
        text = f"{verdict.system}{_describe_status(first, verdict)}: {_format_in_short(verdict.row)}"
        alike = verdict.kind == first.kind and verdict.reason == first.reason
        if alike and verdict.kind == "protects":
            text += _describe_step(first, verdict, differences)
        elif verdict.kind != "withheld" and not (alike and verdict.kind in ("untested", "unknown")):
            text += _describe_comparison(verdict)
        yield f"{text}."
    unnamed = ordered[MOST_NAMED:]
    if unnamed:
        protect = sum(verdict.kind == "protects" for verdict in unnamed)
        text = f", of which {protect or 'none'} {'are' if protect > 1 else 'is'} shown to protect"
        yield f"The table has {count_noun(len(unnamed), 'more system')}{'' if first.kind == 'unknown' else text}."


def _describe_status(first: Verdict, verdict: Verdict) -> str:
    """What is shown of a further system, where the headline has not said it of all."""
    if verdict.kind == "more":
        return " discloses more than unprotected speech"
    if verdict.kind == "withheld":
        return f" cannot be judged ({verdict.reason})"
    if first.kind != "protects":
        return ""
    return " protects too" if verdict.kind == "protects" else " is not shown to protect"


def _describe_step(first: Verdict, other: Verdict, differences: pd.DataFrame) -> str:
    """Whether the first of two systems that protect is shown to protect better."""
    compared = find_difference(differences, str(first.row["subset"]), first.system, other.system)
    if compared is None or math.isnan(compared["p_holm"]):
        return f" (not tested against {first.system})"
    told = "worse than" if compared["p_holm"] <= DIFFERENT else "cannot be told from"
    return f" ({told} {first.system}, {format_p(compared['p_holm'])})"


def _list_untried(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """What was not tried: an attacker who enrols protected speech, and the checks of the attacks."""
    without = [verdict.system for verdict in verdicts if not verdict.row["pp_attack"]]
    if without:
        yield NO_PROTECTED.format(of="" if len(without) == len(verdicts) else f" of {join_words(without)}")
    unchecked = next((str(verdict.row["unchecked"]) for verdict in verdicts if verdict.row["unchecked"]), "")
    if unchecked:
        yield f"Whether the attacks were strong enough was not checked ({unchecked})."


def find_doubt(row: Row, diagnostics: pd.DataFrame) -> str:
    """The first thing that casts doubt on an attack: of itself, else of its system, else of all; '' if nothing does."""
    flagged = (
        [finding for finding in results.records(diagnostics) if bool(finding["flagged"])] if len(diagnostics) else []
    )
    flagged = [finding for finding in flagged if finding["check"] not in checks.OF_NUMBERS]
    # What was found wrong comes before what else could be tried.
    flagged.sort(key=lambda finding: str(finding["check"]) in ADVICE)

    def count_matches(finding: Row) -> int | None:
        names = ("subset", "system", "condition", "attacker", "extractor", "trained_on", "backend")
        pairs = [(name, str(finding[name] or ""), str(row[name]).split(" / ")) for name in names]
        if any(
            value and value not in own and not (name == "subset" and row["n_sets"] > 1) for name, value, own in pairs
        ):
            return None
        return -sum(bool(value) for _, value, _ in pairs)

    fitting = [
        (number, place) for place, finding in enumerate(flagged) if (number := count_matches(finding)) is not None
    ]
    return str(flagged[min(fitting)[1]]["sentence"]) if fitting else ""
