"""Score files of other people through ``from-scores``: the order of classes, layouts, odd files, sizes; remedies are applied."""

from __future__ import annotations

import json
import os
import random
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline import cli
from pipeline.tables import scores as stored

Call = Callable[..., tuple[int, str, str]]

SPEAKERS = [f"s{k}" for k in range(8)]
UTTERANCES = [f"{speaker}-{k}" for speaker in SPEAKERS for k in range(4)]


@pytest.fixture
def call(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run ``from-scores`` in an empty folder without replicates: exit status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        more = [] if "--replicates" in arguments else ["--replicates", "0"]
        status = cli.run(["from-scores", *map(str, arguments), *more, "--json", "-"])
        out, err = capfd.readouterr()
        assert "Traceback" not in err and "bug of the pipeline" not in err
        return status, out, err

    return run


def save(name: str, text: str | bytes) -> str:
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return name


def speaker(name: str) -> str:
    return name.split("-")[0]


def drawn(seed: int, rows: list[str], columns: list[str], gain: float = 2.0) -> list[tuple[str, str, float]]:
    draw = random.Random(seed)
    return [(a, b, draw.gauss(gain if speaker(a) == speaker(b) else 0, 1)) for a in rows for b in columns if a != b]


def lines(scores: list[tuple[str, str, float]], sign: int = 1) -> str:
    return "".join(f"{a} {b} {sign * x!r}\n" for a, b, x in scores)


def trials(target: str = "target", other: str = "nontarget", form: str = "{a} {b} {label}") -> str:
    return "".join(
        form.format(a=a, b=b, label=target if a == speaker(b) else other) + "\n" for a in SPEAKERS for b in UTTERANCES
    )


def speakers() -> str:
    return "".join(f"{u} {speaker(u)}\n" for u in UTTERANCES)


def found(answer: tuple[int, str, str]) -> dict[str, Any]:
    assert answer[0] == 0, answer[2]
    read: dict[str, Any] = json.loads(answer[1])
    return read


def numbers(answer: tuple[int, str, str]) -> dict[str, Any]:
    return {name: value for name, value in found(answer).items() if name != "notes"}


def refused(answer: tuple[int, str, str], status: int = 3) -> str:
    assert answer[:2] == (status, ""), answer
    return answer[2]


# The order of classes ------------------------------------------------------------------------------------------------

MATRIX = ("--utt2spk", "U")
LISTS = ("--trials", "T")
RANKS = ("--input2spk", "U", "--reference2spk", "R")
CASES = {
    "trials": (("scores",), LISTS),
    "paired": (("a", "b"), LISTS),
    "cece": (("train", "scores"), (*LISTS, "--method", "isotonic")),
    "normalised": (("oo", "op", "pp"), LISTS),
    "vsm": (("oo", "op", "pp"), MATRIX),
    "srd": (("scores",), RANKS),
}  # fmt: skip


def given(verb: str, wrong: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments of a verb, with the scores of some options negated."""
    names, more = CASES[verb]
    save("T", trials()), save("U", speakers()), save("R", "".join(f"{s} {s}\n" for s in SPEAKERS))
    arguments: list[str] = [verb]
    for seed, name in enumerate(names):
        rows, columns = {"vsm": (UTTERANCES, UTTERANCES), "srd": (UTTERANCES, SPEAKERS)}.get(
            verb, (SPEAKERS, UTTERANCES)
        )
        arguments += [f"--{name}", save(name, lines(drawn(seed, rows, columns), -1 if name in wrong else 1))]
    return (*arguments, *more)


@pytest.mark.parametrize("verb", CASES)
def test_distances_are_refused_and_the_remedy_mends_it(verb: str, call: Call) -> None:
    names = CASES[verb][0]
    right = numbers(call(*given(verb, ())))
    for wrong in {names, names[-1:]}:
        arguments = given(verb, wrong)
        said = refused(call(*arguments))
        assert "the wrong way round, beyond chance" in said and all(f"- {name}: " in said for name in wrong)
        remedy = re.search(r"add `(--distance[^`]*)`", said)
        assert remedy is not None
        assert numbers(call(*arguments, *remedy[1].split())) == right
        kept = call(*arguments, "--as-is")
        assert f"{len(wrong)} kept" == f"{sum('kept by --as-is' in note for note in found(kept)['notes'])} kept"
        assert kept[2].count("wrong way round") == len(wrong)
        assert numbers(kept) != right


def test_similarities_that_are_called_distances_are_refused(call: Call) -> None:
    arguments = given("paired", ("a",))
    said = refused(call(*arguments, "--distance"))
    assert "leave b out of --distance" in said and "- b: " in said and "- a: " not in said
    assert found(call(*arguments, "--distance", "a"))["notes"] == []
    assert "leave scores out of --distance" in refused(call(*given("trials", ()), "--distance"))
    assert "no option of that name" in refused(call(*given("trials", ()), "--distance", "oo"), 2)


def test_a_weak_system_is_no_wrong_order(call: Call) -> None:
    save("T", trials())
    for seed in range(12):
        save("S", lines(drawn(seed, SPEAKERS, UTTERANCES, gain=0.0)))
        assert 0.3 < found(call("trials", "--scores", "S", "--trials", "T"))["order"]["auc"] < 0.7


def test_few_speakers_are_told_and_not_refused(call: Call) -> None:
    save(
        "S",
        "a u1 -3\na u2 -4\na u3 -3.5\na v1 3\na v2 4\na v3 3.3\nb u1 3\nb u2 4\nb u3 5\nb v1 -3\nb v2 -4\nb v3 -6\n",
    )
    save("T", "".join(f"{m} {u}{k} {'target' if (m == 'a') == (u == 'u') else 'nontarget'}\n"
                      for m in "ab" for u in "uv" for k in (1, 2, 3)))  # fmt: skip
    answer = call("trials", "--scores", "S", "--trials", "T")
    (note,) = found(answer)["notes"]
    assert "may order the classes the wrong way round" in note and note in answer[2] and "--distance" in note
    assert "too few" in found(answer)["reason"]["order"]["p_value"]


# Layouts -------------------------------------------------------------------------------------------------------------

FOUR = {
    "wespeaker": "{a} {b} {x!r} {long}",
    "SpeechBrain": "{a} {b} {bit} {x!r}",
    "label first": "{bit} {a} {b} {x!r}",
    "commas": "{a},{b},{x!r}",
    "commas and blanks": "{a}, {b}, {x!r}, {short}",
    "quotes": '"{a}";"{b}";{x!r}',
    "score first": "{x!r} {a} {b}",
}


@pytest.mark.parametrize("name", FOUR)
def test_scores_of_other_toolkits_are_read(name: str, call: Call) -> None:
    scores = drawn(0, SPEAKERS, UTTERANCES)
    save("S", lines(scores)), save("T", trials())
    right = call("trials", "--scores", "S", "--trials", "T")
    text = "".join(
        FOUR[name].format(
            a=a, b=b, x=x, bit=int(a == speaker(b)), long="target" if a == speaker(b) else "nontarget",
            short="tgt" if a == speaker(b) else "imp",
        ) + "\n" for a, b, x in scores
    )  # fmt: skip
    for form in (text, "\ufeff" + text.replace("\n", "\r\n"), text.replace("\n", " \t\n\n")):
        answer = call("trials", "--scores", save("F", form), "--trials", "T")
        assert numbers(answer) == numbers(right)
        (note,) = found(answer)["notes"]
        assert note.startswith("F: ") and note in answer[2]
    # A list of trials is in the same file where it has labels.
    if "{bit}" in FOUR[name] or "{long}" in FOUR[name] or "{short}" in FOUR[name]:
        assert numbers(call("trials", "--scores", "F", "--trials", "F")) == numbers(right)


HEADERS = {
    "commas": ("score,label,enroll,test", "{x!r},{bit},{a},{b}"),
    "a column that nobody knows": ("model_id segment_id side LLR", "{a} {b} x {x!r}"),
    "tabs": ("utt1\tutt2\tcosine", "{a}\t{b}\t{x!r}"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_says_what_columns_are(name: str, call: Call) -> None:
    head, form = HEADERS[name]
    scores = drawn(0, SPEAKERS, UTTERANCES)
    text = "".join(form.format(a=a, b=b, x=x, bit=int(a == speaker(b))) + "\n" for a, b, x in scores)
    save("S", lines(scores)), save("T", trials()), save("F", f"{head}\n{text}")
    answer = call("trials", "--scores", "F", "--trials", "T")
    assert numbers(answer) == numbers(call("trials", "--scores", "S", "--trials", "T"))
    assert "columns by the header" in found(answer)["notes"][0]


@pytest.mark.parametrize(
    ("target", "other", "form"),
    [("1", "0", "{label} {a} {b}"), ("1", "0", "{a} {b} {label}"), ("tgt", "imp", "{a} {b} {label}"),
     ("True", "False", "{a},{b},{label}"), ("TARGET", "NONTARGET", "{a} {b} {label}"), ("same", "different", "{label} {a} {b}")],
)  # fmt: skip
def test_labels_of_other_toolkits_are_read(target: str, other: str, form: str, call: Call) -> None:
    save("S", lines(drawn(0, SPEAKERS, UTTERANCES))), save("T", trials()), save("L", trials(target, other, form))
    answer = call("trials", "--scores", "S", "--trials", "L")
    assert numbers(answer) == numbers(call("trials", "--scores", "S", "--trials", "T"))
    assert any(f"{target.lower()} is read as target" in note for note in found(answer)["notes"]) or target == "TARGET"
    save("L", trials(target, other, form) + form.format(a="s0", b="x", label="perhaps") + "\n")
    assert "labels other than target and nontarget" in refused(call("trials", "--scores", "S", "--trials", "L"))


@pytest.mark.parametrize("form", ["{a} {b} 0.5 {x!r}", "{a},{b},7,8,{x!r}", "{a} {b} yes it is {x!r}"])
def test_columns_that_cannot_be_told_are_refused(call: Call, form: str) -> None:
    (
        save("T", trials()),
        save("S", "".join(form.format(a=a, b=b, x=x) + "\n" for a, b, x in drawn(0, SPEAKERS, UTTERANCES))),
    )
    said = refused(call("trials", "--scores", "S", "--trials", "T"))
    assert "cannot be told" in said and "write a file with lines" in said


def test_scores_of_zeros_and_ones_beside_labels_are_unclear(call: Call) -> None:
    save("T", trials()), save("S", trials("1", "0", "{a} {b} {label} 1"))
    assert "more than one reading is possible" in refused(call("trials", "--scores", "S", "--trials", "T"))


# What the pipeline keeps ---------------------------------------------------------------------------------------------


def test_scores_of_the_store_are_read(call: Call) -> None:
    tables = {}
    for seed, name in enumerate("ab"):
        scores = drawn(seed, SPEAKERS, UTTERANCES)
        save(name, lines(scores))
        tables[name] = pd.DataFrame(
            [(a, speaker(b), a, b, x, a == speaker(b)) for a, b, x in scores],
            columns=["model_speaker", "speaker", "model", "utterance", "score", "target"],
        )
        Path(f"store-{name}").mkdir()
        tables[name].to_parquet(f"store-{name}/{stored.TRIALS}", index=False)
    save("T", trials()), save("U", speakers())
    right = numbers(call("paired", "--a", "a", "--b", "b", "--trials", "T", "--replicates", 50))
    kept = f"store-a/{stored.TRIALS}"
    for given in (("store-a", "store-b", kept, kept), (kept, "b", "T", "U"), ("a", "b", "store-b", "store-a")):
        a, b, asked, utt2spk = given
        answer = call("paired", "--a", a, "--b", b, "--trials", asked, "--utt2spk", utt2spk, "--replicates", 50)
        assert numbers(answer) == right, given


def test_matrices_of_the_store_are_read(call: Call) -> None:
    cells = {
        name: {(a, b): x for a, b, x in drawn(k, UTTERANCES, UTTERANCES)} for k, name in enumerate(["oo", "op", "pp"])
    }
    owners = tuple(map(speaker, UTTERANCES))
    for name, cell in cells.items():
        Path(f"m-{name}").mkdir()
        matrix = np.array([[cell.get((a, b), 0.0) for b in UTTERANCES] for a in UTTERANCES])
        stored.write(
            Path(f"m-{name}"), stored.ScoreMatrix(matrix, tuple(UTTERANCES), owners, tuple(UTTERANCES), owners)
        )
        save(name, lines([(a, b, x) for (a, b), x in cell.items()]))
    save("U", speakers())
    right = numbers(call("vsm", "--oo", "oo", "--op", "op", "--pp", "pp", "--utt2spk", "U"))
    answer = call(
        "vsm", "--oo", "m-oo", "--op", f"m-op/{stored.MATRIX}", "--pp", "pp", "--utt2spk", "m-oo/rows.parquet"
    )
    assert numbers(answer) == right
    ranks = drawn(9, UTTERANCES, SPEAKERS)
    similarity = np.array([x for _, _, x in ranks]).reshape(len(UTTERANCES), -1)
    Path("m-srd").mkdir()
    stored.write(
        Path("m-srd"), stored.ScoreMatrix(similarity, tuple(UTTERANCES), owners, tuple(SPEAKERS), tuple(SPEAKERS))
    )
    save("S", lines(ranks)), save("R", "".join(f"{s} {s}\n" for s in SPEAKERS))
    right = numbers(call("srd", "--scores", "S", "--input2spk", "U", "--reference2spk", "R"))
    tables = ("--input2spk", "m-srd/rows.parquet", "--reference2spk", "m-srd/columns.parquet")
    assert numbers(call("srd", "--scores", "m-srd", *tables)) == right
    assert "rows.parquet" in refused(call("srd", "--scores", "m-srd", "--input2spk", "m-srd", "--reference2spk", "R"))
    Path("m-srd/scores.safetensors").write_bytes(b"\xff" * 64)
    assert "damaged" in refused(call("srd", "--scores", "m-srd", *tables))


# Odd files -----------------------------------------------------------------------------------------------------------


def test_only_files_are_read(call: Call) -> None:
    save("S", lines(drawn(0, SPEAKERS, UTTERANCES))), save("T", trials())
    os.mkfifo("pipe")
    for odd in ("pipe", "/dev/zero", "/dev/tty"):
        assert "not a file" in refused(call("trials", "--scores", odd, "--trials", "T")) or not Path(odd).exists()
    with Path("holes").open("wb") as stream:
        stream.truncate(200 << 30)
    assert "zero bytes" in refused(call("trials", "--scores", "holes", "--trials", "T"))
    save("line", b"a" * (3 << 20))
    assert "a line of more than" in refused(call("trials", "--scores", "line", "--trials", "T"))
    save("late", Path("S").read_bytes() + b"\0" * (2 << 20))
    assert "zero bytes" in refused(call("trials", "--scores", "late", "--trials", "T"))


def test_utf16_is_refused(call: Call) -> None:
    save("S", lines(drawn(0, SPEAKERS, UTTERANCES)).encode("utf-16")), save("T", trials())
    said = refused(call("trials", "--scores", "S", "--trials", "T"))
    assert "UTF-16" in said and "UTF-8" in said


def test_composed_and_decomposed_names_are_one(call: Call) -> None:
    def spelled(text: str, form: str) -> str:
        return unicodedata.normalize(form, text.replace("s1", "sé").replace("s2", "sö"))

    scores = lines(drawn(0, SPEAKERS, UTTERANCES))
    save("S", spelled(scores, "NFD")), save("T", spelled(trials(), "NFC")), save("U", spelled(speakers(), "NFD"))
    files = ("--scores", "S", "--trials", "T")
    both = [numbers(call("trials", *files, *more, "--replicates", 20)) for more in ((), ("--utt2spk", "U"))]
    assert both[0] == both[1] and both[0]["interval"]


# Sizes of scores -----------------------------------------------------------------------------------------------------


def exact(value: Any) -> bool:
    """Whether nothing in a result is NaN; json.loads makes NaN of what a strict reader refuses."""
    if isinstance(value, dict):
        return all(map(exact, value.values()))
    if isinstance(value, list):
        return all(map(exact, value))
    return value == value and value not in (float("inf"), float("-inf"))


SIZES: dict[str, Callable[[random.Random, bool], str]] = {
    "equal up to rounding": lambda draw, same: draw.choice(["1.0", "0.9999999999999999", "1.0000000000000002"]),
    "equal": lambda draw, same: "1",
    "separated by rounding": lambda draw, same: "1.0000000000000002" if same else "1.0",
    "huge": lambda draw, same: repr(draw.choice([-1.7e308, 1.7e308])),
    "huge, separated": lambda draw, same: repr((1 if same else -1) * draw.uniform(1e308, 1.79e308)),
    "a few huge": lambda draw, same: draw.choice(["1e308", "-1e308", "0.5", "0.1"]),
    "denormal": lambda draw, same: draw.choice(["5e-324", "1e-323", "0", "-5e-324"]),
    "all sizes": lambda draw, same: repr(draw.gauss(1 if same else 0, 1) * 10.0 ** draw.randint(-300, 300)),
    "far from zero": lambda draw, same: repr(1e15 + draw.gauss(1 if same else 0, 1)),
    "infinite": lambda draw, same: draw.choice(["inf", "-inf", "0"]),
}


@pytest.mark.parametrize("name", SIZES)
def test_scores_of_any_size_have_values_or_reasons(name: str, call: Call) -> None:
    draw = random.Random(3)

    def made(rows: list[str], columns: list[str]) -> str:
        return "".join(
            f"{a} {b} {SIZES[name](draw, speaker(a) == speaker(b))}\n" for a in rows for b in columns if a != b
        )

    save("S", made(SPEAKERS, UTTERANCES)), save("N", lines(drawn(1, SPEAKERS, UTTERANCES))), save("T", trials())
    save("Q", made(UTTERANCES, UTTERANCES)), save("U", speakers()), save("R", "".join(f"{s} {s}\n" for s in SPEAKERS))
    save("I", made(UTTERANCES, SPEAKERS))
    more = ("--as-is", "--replicates", 10)
    for arguments in (
        ("trials", "--scores", "S", *LISTS),
        ("paired", "--a", "N", "--b", "S", *LISTS),
        ("normalised", "--oo", "N", "--op", "S", "--pp", "S", *LISTS),
        ("cece", "--train", "N", "--scores", "S", *LISTS, "--method", "linear"),
        ("cece", "--train", "S", "--scores", "N", *LISTS, "--method", "isotonic"),
        ("cece", "--train", "S", "--scores", "N", *LISTS, "--method", "linear"),
        ("vsm", "--oo", "Q", "--op", "Q", "--pp", "Q", *MATRIX),
        ("vsm", "--oo", "Q", "--op", "Q", "--pp", "Q", *MATRIX, "--scores-are-llr", "--similarity", "sigmoid_mean"),
        ("srd", "--scores", "I", *RANKS),
    ):
        status, out, err = call(*arguments, *more)
        assert "Warning" not in err, arguments
        if status == 0:
            assert "NaN" not in out and exact(json.loads(out)), arguments
        else:
            assert status == 3 and re.search("infinite|no LLRs|[+]inf and -inf", err), (arguments, err)


def test_scaling_by_powers_of_two_changes_no_rank_metric(call: Call) -> None:
    """Exact values at the ends of the range: the same scores at an ordinary size are the reference."""
    scores = drawn(0, SPEAKERS, UTTERANCES)
    coarse = [(a, b, float(np.round(x * 64))) for a, b, x in scores]
    save("T", trials()), save("S", lines(coarse))
    right = found(call("trials", "--scores", "S", *LISTS))
    train = found(call("cece", "--train", "S", "--scores", "S", *LISTS, "--method", "linear"))
    for power in (1014, -1074):
        sized = [(a, b, float(np.ldexp(x, power))) for a, b, x in coarse]
        save("E", lines(sized))
        got = found(call("trials", "--scores", "E", *LISTS))
        for name in ("eer", "cllr_min", "d_ece", "l_w", "tpr_at_fpr"):
            assert got[name] == right[name], name
        assert got["d_sys"] == pytest.approx(right["d_sys"], abs=1e-12)
        if power > 0:
            # The cost of scores of this size as LLRs is their mean size on the wrong side, over ln 2.
            wrong = [[max(0.0, -x if a == speaker(b) else x) for a, b, x in coarse if (a == speaker(b)) == same] for same in (True, False)]  # fmt: skip
            cost = sum(float(np.mean(each)) for each in wrong) / (2 * np.log(2)) * 2.0**20
            assert got["cllr"] / 2.0 ** (power - 20) == pytest.approx(cost, rel=1e-12)
            linear = found(call("cece", "--train", "E", "--scores", "E", *LISTS, "--method", "linear"))
            assert linear["c_ece"] == pytest.approx(train["c_ece"], abs=1e-9)
