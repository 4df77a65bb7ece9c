"""``from-scores`` through the command line: golden values, the ways a file can be written, and every refusal."""

from __future__ import annotations

import gzip
import json
import math
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from pipeline import cli

GOLDEN = Path(__file__).parent.parent / "golden"

Line = tuple[str, ...]
Call = Callable[..., tuple[int, str, str]]


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def number(value: Any) -> float:
    assert value is not None
    return float(value)


def close(got: Any, want: Any, tolerance: float) -> bool:
    got, want = number(got), number(want)
    return got == want or math.isclose(got, want, rel_tol=tolerance, abs_tol=tolerance)


@pytest.fixture
def call(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run ``from-scores`` in an empty folder: exit status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        status = cli.run(["from-scores", *map(str, arguments)])
        out, err = capfd.readouterr()
        return status, out, err

    return run


def save(name: str, lines: Sequence[Line]) -> str:
    Path(name).write_text("".join(f"{' '.join(line)}\n" for line in lines))
    return name


def result(call: Call, *arguments: object) -> dict[str, Any]:
    status, out, err = call(*arguments, "--json", "-")
    assert (status, err) == (0, ""), err
    found: dict[str, Any] = json.loads(out)
    return found


# A small set with speakers: five enrolled models, three utterances a speaker, every model against every utterance.
SPEAKERS = ["anna", "bert", "cleo", "dora", "emil"]
UTTERANCES = [f"{speaker}-{k}" for speaker in SPEAKERS for k in range(3)]


def small(seed: int = 0) -> tuple[list[Line], list[Line], list[Line]]:
    """Scores, trials and utt2spk."""
    draw = random.Random(seed)
    scores, trials = [], []
    for model in SPEAKERS:
        for utterance in UTTERANCES:
            same = utterance.startswith(model)
            scores.append((model, utterance, repr(round(draw.gauss(1.5 if same else 0, 1), 6))))
            trials.append((model, utterance, "target" if same else "nontarget"))
    return scores, trials, [(utterance, utterance[:4]) for utterance in UTTERANCES]


def square(seed: int, diagonal: bool = True) -> list[Line]:
    draw = random.Random(seed)
    return [
        (a, b, repr(draw.gauss(2 if a[:4] == b[:4] else 0, 1)))
        for a in UTTERANCES
        for b in UTTERANCES
        if diagonal or a != b
    ]


# Golden values -------------------------------------------------------------------------------------------------------

SETS = {name: entry for name, entry in golden("score_sets").items() if isinstance(entry.get("tar"), list)}


@pytest.mark.parametrize("name", sorted(SETS))
def test_trials_agree_with_the_independent_reference(name: str, call: Call) -> None:
    entry = SETS[name]
    lines = [("t", k, v) for k, v in enumerate(entry["tar"])] + [("n", k, v) for k, v in enumerate(entry["non"])]
    label = {"t": "target", "n": "nontarget"}
    scores = save("S", [("e", f"{kind}{k}", str(v) if isinstance(v, str) else repr(v)) for kind, k, v in lines])
    trials = save("T", [("e", f"{kind}{k}", label[kind]) for kind, k, _ in reversed(lines)])
    found = result(call, "trials", "--scores", scores, "--trials", trials, "--replicates", 0, "--as-is")
    want = entry["independent_reference"]
    assert (found["n_target"], found["n_nontarget"]) == (len(entry["tar"]), len(entry["non"]))
    for got, key in (
        (found["eer"]["rocch"], "EER_rocch"),
        (found["cllr_min"], "Cllr_min"),
        (found["d_ece"], "D_ECE_oracle [bit]"),
        (found["l_w"], "l_w_laplace [log10]"),
        (found["l_w_ceiling"], "l_w_attainable_max [log10]"),
        (found["cllr"], "Cllr_actual (scores taken as natural-log LLR)"),
    ):
        assert close(got, want[key], 1e-12), (key, got, want[key])
    binned = entry["peers"]["vpc2024"]["linkability D_sys omega=1"]
    if math.isnan(float(binned)):
        assert found["d_sys"]["vpc"] is None and found["reason"]["d_sys"]["vpc"]
    else:
        assert close(found["d_sys"]["vpc"], binned, 1e-12)
    assert found["interval"] == {} and found["null_band"] is None and found["reason"]["null_band"]


@pytest.mark.parametrize("similarity", ["sigmoid_mean", "geometric_mean"])
@pytest.mark.parametrize("name", sorted(golden("vsm")["sets"]))
def test_vsm_agrees_with_the_public_script_and_eq_6(name: str, similarity: str, call: Call) -> None:
    entry = golden("vsm")["sets"][name]
    ids, draw = entry["utterances"], random.Random(0)
    for key in ("oo", "op", "pp"):
        raw = entry["raw_scores"][key]
        # Only i < j of sorted ids: the half that the public script compares.
        place = {utterance: k for k, utterance in enumerate(sorted(ids))}
        lines = [(a, b, repr(raw[i][j])) for i, a in enumerate(ids) for j, b in enumerate(ids) if place[a] < place[b]]
        draw.shuffle(lines)
        save(key, lines)
    speakers = [(utterance, utterance.split("-")[0]) for utterance in ids]
    draw.shuffle(speakers)
    found = result(
        call, "vsm", "--oo", "oo", "--op", "op", "--pp", "pp", "--utt2spk", save("U", speakers), "--strict",
        "--similarity", similarity, "--pairing", "vpc2020", "--replicates", 0,
    )  # fmt: skip
    want = entry["outputs"] if similarity == "sigmoid_mean" else entry["independent_eq6_geometric_mean"]
    # The script calibrates with zebra's tilt of up to 1e-6 nat.
    assert close(found["deid"], want["DeID"], 1e-6) and close(found["g_vd"], want["G_VD"], 1e-5)
    matrices = {key: want[key]["similarity"] if similarity == "sigmoid_mean" else want["similarity"][key] for key in ("oo", "op", "pp")}  # fmt: skip
    order = np.argsort(entry["speakers"])
    assert found["speakers"] == sorted(entry["speakers"])
    for key, matrix in matrices.items():
        diagonal = [row["diagonal"][key] for row in found["speaker_table"]]
        np.testing.assert_allclose(diagonal, np.diag(np.array(matrix))[order], atol=1e-6)


def ranked(counts: Sequence[int], n: int) -> tuple[list[Line], list[Line], list[Line]]:
    """Distances, inputs and references with which ``counts[k]`` inputs have their true reference at rank k + 1."""
    scores, inputs = [], []
    ranks = [rank for rank, count in enumerate(counts) for _ in range(count)]
    for x, rank in enumerate(ranks):
        order = [k for k in range(n) if k != x % n]
        order.insert(rank, x % n)
        scores += [(f"i{x}", f"r{k}", repr(0.25 * place)) for place, k in enumerate(order)]
        inputs.append((f"i{x}", f"s{x % n}"))
    return scores, inputs, [(f"r{k}", f"s{k}") for k in range(n)]


@pytest.mark.parametrize("name", sorted(name for name, entry in golden("srd").items() if sum(entry["counts"]) <= 1000))
def test_srd_agrees_with_the_independent_values(name: str, call: Call) -> None:
    entry = golden("srd")[name]
    scores, inputs, references = ranked(entry["counts"], entry["N"])
    random.Random(1).shuffle(scores)
    found = result(
        call, "srd", "--scores", save("S", scores), "--input2spk", save("I", inputs), "--reference2spk",
        save("R", references), "--replicates", 0, "--distance",
    )  # fmt: skip
    assert (found["n_references"], found["n_inputs"]) == (entry["N"], sum(entry["counts"]))
    assert found["histogram"] == pytest.approx(np.array(entry["counts"]) / sum(entry["counts"]), abs=1e-12)
    want = entry["empirical"]
    for key, name in (("max_d", "MaxD"), ("mean_d", "MeanD"), ("idr", "IdR"), ("rank_spread", "RS_strict")):
        assert close(found["empirical"][key], want[name], 1e-12)
    fit = entry["fits"]["ml_given_gamma1_equals_p1"]
    assert close(found["beta_binomial"]["alpha"], fit["alpha"], 1e-4)
    assert close(found["beta_binomial"]["mean_d"], fit["MeanD"], 1e-6)


# Values in closed form -----------------------------------------------------------------------------------------------


def test_c_ece_of_a_run_against_itself_is_its_own_disclosure(call: Call) -> None:
    """Isotonic calibration on the run itself is its oracle but for Laplace; with linear, D_ECE cannot exceed the oracle."""
    scores, trials, _ = small()
    files = ("--train", save("S", scores), "--scores", "S", "--trials", save("T", trials))
    isotonic, linear = (result(call, "cece", *files, "--method", method) for method in ("isotonic", "linear"))
    assert isotonic["d_ece_f0"] == isotonic["d_ece_f1"] == linear["d_ece_f0"]
    assert isotonic["c_ece"] == pytest.approx(isotonic["d_ece_f0"], abs=0.05)
    assert linear["c_ece"] <= linear["d_ece_f1"] and linear["cllr_l_phi"] >= linear["cllr_min_f1"]
    assert linear["cllr_l_phi"] <= linear["cllr_f1"]


def test_linear_c_ece_of_separated_classes_is_null_with_its_reason(call: Call) -> None:
    save("T", [("m", "a", "target"), ("m", "b", "nontarget")])
    save("S", [("m", "a", "1"), ("m", "b", "0")])
    found = result(call, "cece", "--train", "S", "--scores", "S", "--trials", "T", "--method", "linear")
    assert found["c_ece"] is None and "overlap" in found["reason"]["c_ece"]
    assert (found["d_ece_f0"], found["cllr_min_f1"]) == (pytest.approx(1 / (2 * math.log(2)), abs=1e-12), 0)


def test_normalised_measures_by_hand(call: Call) -> None:
    """OP separates nothing, PP is OO: Eq. 17 and 18 give 1, Eq. 19 and 20 give 0 dB; PP that is flat gives -inf."""
    scores, trials, _ = small()
    flat = [(a, b, "0.5") for a, b, _ in scores]
    save("oo", scores), save("flat", flat), save("T", trials)
    found = result(call, "normalised", "--oo", "oo", "--op", "flat", "--pp", "oo", "--trials", "T", "--replicates", 0)
    assert (found["d_ece_op_oo"], found["cllr_min_op_oo"], found["g_d_ece"], found["g_cllr_min"]) == (1, 1, 0, 0)
    found = result(call, "normalised", "--oo", "oo", "--op", "oo", "--pp", "flat", "--trials", "T", "--replicates", 0)
    assert (found["d_ece_op_oo"], found["g_d_ece"]) == (0, "-inf")
    found = result(call, "normalised", "--oo", "flat", "--op", "oo", "--pp", "oo", "--trials", "T", "--replicates", 0)
    assert found["d_ece_op_oo"] is None and "discloses nothing" in found["reason"]["d_ece_op_oo"]


def test_paired_difference_and_its_sign(call: Call) -> None:
    scores, trials, _ = small()
    worse = [(a, b, repr(1.0)) for a, b, _ in scores]
    files = ("--a", save("A", scores), "--b", save("B", worse), "--trials", save("T", trials))
    found = result(call, "paired", *files)
    assert found["eer"]["rocch"]["b"] == 0.5
    assert found["eer"]["rocch"]["difference"] == 0.5 - found["eer"]["rocch"]["a"] > 0
    low, high = found["interval"]["eer"]["rocch"]["difference"]
    assert low < found["eer"]["rocch"]["difference"] < high
    # Five enrolled speakers: 16 swaps are all there are, and the swap of nobody always reaches the value.
    assert found["d_ece"]["exact"] and found["d_ece"]["replicates"] == 16
    assert found["d_ece"]["p_value"] * 16 == round(found["d_ece"]["p_value"] * 16) >= 1
    same = result(call, "paired", "--a", "A", "--b", "A", "--trials", "T")
    assert (same["d_ece"]["difference"], same["d_ece"]["p_value"]) == (0, 1)


def test_deid_is_0_where_op_is_oo_and_g_vd_0_where_pp_is(call: Call) -> None:
    save("oo", square(0, diagonal=False)), save("U", small()[2])
    found = result(call, "vsm", "--oo", "oo", "--op", "oo", "--pp", "oo", "--utt2spk", "U", "--strict")
    assert (found["deid"], found["g_vd"]) == (0, 0)
    assert found["normalised_all_pairs"]["cllr_min_op_oo"] == 0
    assert set(found["interval"]) >= {"d_diag", "signed"}


def test_scores_that_are_llrs_are_not_calibrated(call: Call) -> None:
    """Eq. 6 of constant LLRs: cells 1/(1+e^-2) on the diagonal and 1/(1+e^1) beside it."""
    lines = [(a, b, "2" if a[:4] == b[:4] else "-1") for a, b, _ in square(0)]
    save("oo", lines), save("U", small()[2])
    status, out, err = call("vsm", "--oo", "oo", "--op", "oo", "--pp", "oo", "--utt2spk", "U", "--json", "-",
                            "--scores-are-llr", "--replicates", 0)  # fmt: skip
    assert status == 0 and "15 scores that nothing asks for" in err
    assert json.loads(out)["d_diag"]["oo"] == pytest.approx(1 / (1 + math.exp(-2)) - 1 / (1 + math.exp(1)), abs=1e-12)


def test_infinities_are_strings(call: Call) -> None:
    save("T", [("m", "a", "target"), ("m", "b", "target"), ("m", "c", "nontarget")])
    save("S", [("m", "a", "-inf"), ("m", "b", "+inf"), ("m", "c", "-Infinity")])
    found = result(call, "trials", "--scores", "S", "--trials", "T", "--replicates", 0)
    assert (found["cllr"], found["cllr_cal"]) == ("inf", "inf")
    assert found["tpr_at_fpr"] == {"0.01": None, "0.001": None}
    assert "1 non-target scores" in found["reason"]["tpr_at_fpr"]["0.01"]


def test_distances_are_negated(call: Call) -> None:
    scores, trials, _ = small()
    save("S", scores), save("T", trials), save("D", [(a, b, repr(-float(s))) for a, b, s in scores])
    arguments = ("--trials", "T", "--replicates", 20)
    assert result(call, "trials", "--scores", "S", *arguments) == result(
        call, "trials", "--scores", "D", "--distance", *arguments
    )


# Intervals and null bands --------------------------------------------------------------------------------------------


def test_intervals_bands_and_what_they_need(call: Call) -> None:
    scores, trials, speakers = small()
    save("S", scores), save("T", trials), save("U", speakers)
    found = result(call, "trials", "--scores", "S", "--trials", "T", "--replicates", 50)
    low, high = found["interval"]["eer"]["rocch"]
    assert 0 <= low <= high <= 0.5
    assert found["null_band"]["d_ece"]["replicates"] <= 50 and 0 < found["null_band"]["l_w"]["p_value"] <= 1
    assert "l_w" not in found["interval"]
    # The models' targets tell the speakers of all utterances here, so that the table adds nothing.
    assert found == result(call, "trials", "--scores", "S", "--trials", "T", "--utt2spk", "U", "--replicates", 50)
    assert found != result(call, "trials", "--scores", "S", "--trials", "T", "--replicates", 50, "--seed", 1)


def test_speakers_that_cannot_be_told(call: Call) -> None:
    scores, trials, speakers = small()
    alone = [line for line in trials if line[:2] != ("emil", "emil-2")]
    save("S", scores), save("T", alone), save("U", speakers)
    status, out, err = call("trials", "--scores", "S", "--trials", "T", "--json", "-", "--replicates", 5)
    found = json.loads(out)
    assert status == 0 and "1 scores that nothing asks for: (emil, emil-2)" in err
    assert found["interval"] == {} and "1 utterances" in found["reason"]["interval"]
    assert found["null_band"] is None and "--utt2spk" in found["reason"]["null_band"]
    _, out, _ = call("trials", "--scores", "S", "--trials", "T", "--utt2spk", "U", "--json", "-", "--replicates", 5)
    assert json.loads(out)["interval"]["d_ece"]


def test_models_that_are_utterances_are_mapped_to_their_speakers(call: Call) -> None:
    scores, trials, speakers = small()
    save("S", scores), save("T", trials), save("U", speakers)
    want = result(call, "trials", "--scores", "S", "--trials", "T", "--utt2spk", "U", "--replicates", 9)
    save("S2", [(f"{model}-enrol", u, s) for model, u, s in scores])
    save("T2", [(f"{model}-enrol", u, s) for model, u, s in trials])
    save("U2", [*speakers, *((f"{model}-enrol", model) for model in SPEAKERS)])
    assert want == result(call, "trials", "--scores", "S2", "--trials", "T2", "--utt2spk", "U2", "--replicates", 9)


# How files can be written --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_way_to_write_a_file_gives_the_same_bytes(call: Call) -> None:
    scores, trials, _ = small()
    plain = "".join(f"{a} {b} {c}\n" for a, b, c in scores)
    reference = call("trials", "--scores", save("S", scores), "--trials", save("T", trials), "--json", "-")
    assert reference[0] == 0 and reference[2] == ""

    mixed = list(scores)
    random.Random(3).shuffle(mixed)
    header = "enroll_id trial_id score\n"
    texts = {
        "gzip": gzip.compress(plain.encode()),
        "gzip of two parts": gzip.compress(plain[:300].encode()) + gzip.compress(plain[300:].encode()),
        "header": (header + plain).encode(),
        "header after a blank line": ("\n" + header + plain).encode(),
        "header with tabs": (header + plain).replace(" ", "\t").encode(),
        "columns in another order": ("trial_id enroll_id score\n" + "".join(f"{b} {a} {c}\n" for a, b, c in scores)).encode(),
        "tabs": plain.replace(" ", "\t").encode(),
        "runs of blanks": "".join(f"  {a}   {b} \t {c}  \n" for a, b, c in scores).encode(),
        "padded last line": plain.replace(" ", "  ").encode()[:-1] + b"  ",
        "Windows": b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").encode(),
        "Windows with tabs": b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").replace(" ", "\t").encode(),
        "no last newline": plain.rstrip("\n").encode(),
        "blank lines": plain.replace("\n", "\n\n \n").encode(),
        "other spellings": plain.replace(" 0.", " +0.").replace(" -0.", " -.").encode(),
        "other order": "".join(f"{a} {b} {c}\n" for a, b, c in mixed).encode(),
        "gzip with header and tabs": gzip.compress((header + plain).replace(" ", "\t").encode()),
    }  # fmt: skip
    assert any(float(s) > 0 and s.startswith("0.") for _, _, s in scores)
    for name, content in texts.items():
        Path("V").write_bytes(content)
        assert call("trials", "--scores", "V", "--trials", "T", "--json", "-") == reference, name

    columns = {"enroll_id": [a for a, _, _ in mixed], "trial_id": [b for _, b, _ in mixed], "score": [float(s) for _, _, s in mixed]}  # fmt: skip
    tables = {
        "parquet": pa.table(columns),
        "more columns": pa.table({"note": ["x"] * len(mixed), **columns}),
        "other names": pa.table(dict(zip("abc", columns.values()))),
        "dictionaries": pa.table({**columns, "trial_id": pa.array(columns["trial_id"]).dictionary_encode()}),
        "large strings": pa.table({**columns, "enroll_id": pa.array(columns["enroll_id"], pa.large_string())}),
    }
    for name, table in tables.items():
        parquet.write_table(table, "V")
        assert call("trials", "--scores", "V", "--trials", "T", "--json", "-") == reference, name

    parquet.write_table(pa.table(dict(zip(("enroll_id", "trial_id", "label"), zip(*reversed(trials))))), "T.parquet")
    Path("T.gz").write_bytes(gzip.compress("".join(f"{a}\t{b}\t{c}\n" for a, b, c in reversed(trials)).encode()))
    for name in ("T.parquet", "T.gz"):
        assert call("trials", "--scores", "S", "--trials", name, "--json", "-") == reference, name


def test_files_of_several_blocks_are_put_together(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64 bytes: fields, lines and blanks lie across their borders."""
    from pipeline.datasets.scores import score_table as score_files

    scores, trials, _ = small()
    save("S", scores), save("T", trials)
    reference = call("trials", "--scores", "S", "--trials", "T", "--json", "-")
    Path("V").write_text("".join(f"  {a}   {b} \t {c}  \r\n" for a, b, c in scores))
    monkeypatch.setattr(score_files, "_BLOCK", 64)
    assert call("trials", "--scores", "S", "--trials", "T", "--json", "-") == reference
    assert call("trials", "--scores", "V", "--trials", "T", "--json", "-") == reference


def test_quotes_and_letters_beyond_ascii_belong_to_ids(call: Call) -> None:
    save("T", [('m"', "élan", "target"), ('m"', '"b', "nontarget")])
    save("S", [('m"', '"b', "0"), ('m"', "élan", "1")])
    assert result(call, "trials", "--scores", "S", "--trials", "T", "--replicates", 0)["eer"]["rocch"] == 0


def test_line_order_matters_nowhere(call: Call) -> None:
    """Through every verb, with intervals, bands and tests."""
    _, trials, speakers = small()
    one, two = small(1)[0], small(2)[0]
    srd = ranked([4, 3, 2, 1, 2, 3], 6)
    files = {
        "T": trials, "half": trials[:45], "U": speakers, "A": one, "B": two, "oo": square(0, False), "op": square(1, False),
        "pp": square(2, False), "S": srd[0], "I": srd[1], "R": srd[2],
    }  # fmt: skip
    verbs = [
        "trials --scores A --trials T",
        "trials --scores A --trials T --utt2spk U",
        "trials --scores A --trials half",
        "paired --a A --b B --trials T",
        "normalised --oo A --op B --pp A --trials T",
        "cece --train A --scores B --trials T --method linear",
        "cece --train A --scores B --trials T --method isotonic",
        "vsm --oo oo --op op --pp pp --utt2spk U",
        "srd --scores S --input2spk I --reference2spk R",
    ]
    outputs = []
    for seed in (0, 1):
        for name, lines in files.items():
            shuffled = list(lines)
            random.Random(seed).shuffle(shuffled)
            save(name, shuffled)
        outputs.append([call(*verb.split(), "--replicates", 20, "--json", "-") for verb in verbs])
        assert all(status == 0 for status, _, _ in outputs[-1]), outputs[-1]
    assert [out for _, out, _ in outputs[0]] == [out for _, out, _ in outputs[1]]


# Refusals ------------------------------------------------------------------------------------------------------------


def refused(call: Call, *arguments: object, status: int = 3) -> str:
    Path("OUT").unlink(missing_ok=True)
    before = sorted(path.name for path in Path.cwd().iterdir())
    got, out, err = call(*arguments, "--json", "OUT")
    assert (got, out) == (status, ""), err
    assert "Traceback" not in err and err.startswith("error: ")
    assert sorted(path.name for path in Path.cwd().iterdir()) == before
    return err


def changed(lines: Sequence[Line], place: int, *new: str) -> list[Line]:
    return [*lines[:place], *([new] if new else []), *lines[place + 1 :]]


TRIAL_FAULTS: dict[str, tuple[Callable[[list[Line], list[Line]], tuple[list[Line], list[Line]]], str]] = {
    "NaN": (lambda s, t: (changed(s, 4, s[4][0], s[4][1], "nan"), t), "1 of 75 scores are NaN: (anna, bert-1)"),
    "NaN of a distance": (lambda s, t: (changed(s, 4, s[4][0], s[4][1], "-NaN"), t), "bert-1"),
    "no target": (lambda s, t: (s, [x for x in t if x[2] != "target"]), "no target trial"),
    "no non-target": (lambda s, t: (s, [x for x in t if x[2] == "target"]), "no non-target trial"),
    "no trial": (lambda s, t: (s, []), "no target trial"),
    "no scores": (lambda s, t: ([], t), "75 trials have no score"),
    "a trial without a score": (lambda s, t: (changed(s, 7), t), "1 trials have no score: (anna, cleo-1)"),
    "many": (lambda s, t: (s[12:], t), "(anna, dora-0), ... (12 in all)"),
    "other models": (lambda s, t: ([("x" + a, b, c) for a, b, c in s], t), "75 trials have no score"),
    "duplicate scores": (lambda s, t: ([*s, s[3]], t), "1 scores stand more than once: (anna, bert-0)"),
    "duplicates that disagree": (lambda s, t: ([*s, (*s[3][:2], "9")], t), "(anna, bert-0)"),
    "duplicate of no trial": (lambda s, t: ([*s, ("x", "y", "1"), ("x", "y", "1")], t), "(x, y)"),
    "duplicate trials": (lambda s, t: (s, [*t, t[5]]), "1 trials stand more than once: (anna, bert-2)"),
    "both labels": (lambda s, t: (s, [*t, (*t[5][:2], "target")]), "(anna, bert-2)"),
    "a word for a score": (lambda s, t: (changed(s, 4, "a", "b", "high"), t), "S:5: 'high' is not a number"),
    "underscores": (lambda s, t: (changed(s, 4, "a", "b", "1_0"), t), "'1_0' is not a number"),
    "four fields": (lambda s, t: (changed(s, 4, "a", "b", "1", "2"), t), "S:5: 4 fields instead of 3"),
    "two fields": (lambda s, t: (changed(s, 4, "a", "1"), t), "S:5: 2 fields instead of 3"),
    "another label": (lambda s, t: (s, changed(t, 4, *t[4][:2], "imposter")), "'imposter'"),
    "scores for trials": (lambda s, t: (s, s), "labels other than target and nontarget"),
}  # fmt: skip


@pytest.mark.parametrize("name", TRIAL_FAULTS)
def test_refusals_of_trials(name: str, call: Call) -> None:
    scores, trials, _ = small()
    change, said = TRIAL_FAULTS[name]
    scores, trials = change(scores, trials)
    err = refused(call, "trials", "--scores", save("S", scores), "--trials", save("T", trials))
    assert said in err
    # The other verbs join in the same way.
    assert said in refused(call, "paired", "--a", "S", "--b", "S", "--trials", "T")


def test_nothing_is_overwritten_by_a_refusal(call: Call) -> None:
    scores, trials, _ = small()
    save("S", scores[1:]), save("T", trials)
    Path("OUT").write_text("before")
    assert call("trials", "--scores", "S", "--trials", "T", "--json", "OUT")[0] == 3
    assert Path("OUT").read_text() == "before"


def test_leftover_scores_are_counted_and_refused_with_strict(call: Call) -> None:
    scores, trials, _ = small()
    save("S", [*scores, *((f"x{k}", "y", "1") for k in range(12))]), save("T", trials), save("S0", scores)
    arguments = ("--trials", "T", "--replicates", 0)
    status, out, err = call("trials", "--scores", "S", *arguments, "--json", "-")
    assert (status, json.loads(out)) == (0, result(call, "trials", "--scores", "S0", *arguments))
    assert err.startswith("warning: 12 scores that nothing asks for: (x0, y)") and "(12 in all)" in err
    assert "12 scores that nothing asks for" in refused(call, "trials", "--scores", "S", *arguments, "--strict")


def test_refusals_of_speakers(call: Call) -> None:
    scores, trials, speakers = small()
    save("S", scores), save("T", trials)

    def said(lines: Sequence[Line]) -> str:
        return refused(call, "trials", "--scores", "S", "--trials", "T", "--utt2spk", save("U", lines))

    assert "not listed: cleo-0" in said([x for x in speakers if x[0] != "cleo-0"])
    assert "more than once: cleo-0" in said([*speakers, ("cleo-0", "cleo")])
    assert "the labels of 2 trials contradict the speakers: (" in said(
        [(u, "dora" if u == "cleo-0" else s) for u, s in speakers]
    )
    assert "U:1: 1 fields instead of 2" in said([("cleo-0",), *speakers])


def test_refusals_of_vsm(call: Call) -> None:
    full, speakers = square(0, False), small()[2]
    save("F", full)

    def said(oo: Sequence[Line], utt2spk: Sequence[Line], *more: str) -> str:
        save("oo", oo), save("U", utt2spk)
        return refused(call, "vsm", "--oo", "oo", "--op", "F", "--pp", "F", "--utt2spk", "U", *more)

    assert "1 of 210 comparisons have no score: (anna-0, anna-2)" in said(changed(full, 1), speakers)
    assert "1 scores stand more than once: (anna-0, anna-2)" in said([*full, full[1]], speakers)
    assert "are NaN: (anna-0, anna-2)" in said(changed(full, 1, "anna-0", "anna-2", "nan"), speakers)
    assert "1 ids are not listed: zoe-1" in said([*full, ("anna-0", "zoe-1", "0")], speakers)
    assert "1 ids are not listed: anna-0" in said(full, speakers[1:])
    # The ids of emil-1 and emil-2 gone everywhere: one utterance makes no diagonal cell.
    lonely = [line for line in full if not {"emil-1", "emil-2"} & set(line[:2])]
    save("F", lonely)
    assert "emil" in said(lonely, speakers[:-2]) and "diagonal" in said(lonely, speakers[:-2])
    save("F", full)
    half = [line for line in full if line[0] < line[1]]
    assert "105 of 210 comparisons have no score" in said(half, speakers)
    assert "scores that nothing asks for" in said(full, speakers, "--pairing", "vpc2020", "--strict")


def test_refusals_of_srd(call: Call) -> None:
    scores, inputs, references = ranked([4, 3, 2, 1, 2, 3], 6)

    def said(s: Sequence[Line], i: Sequence[Line], r: Sequence[Line]) -> str:
        return refused(call, "srd", "--scores", save("S", s), "--input2spk", save("I", i), "--reference2spk",
                       save("R", r))  # fmt: skip

    assert "more than one reference for s1" in said(
        [*scores, *((i, "again", "0") for i, _ in inputs)], inputs, [*references, ("again", "s1")]
    )
    assert "no reference for s5" in said([x for x in scores if x[1] != "r5"], inputs, references[:-1])
    assert "1 of 90 comparisons have no score: (i0, r1)" in said(changed(scores, 1), inputs, references)
    assert "stand more than once: (i0, r1)" in said([*scores, scores[1]], inputs, references)
    assert "1 ids are not listed: i99" in said([*scores, ("i99", "r1", "0")], inputs, references)
    assert "are NaN: (i0, r1)" in said(changed(scores, 1, "i0", "r1", "nan"), inputs, references)
    assert "no id is listed" in said(scores, [], references)
    swapped = [(b, a, c) for a, b, c in scores]
    assert "6 ids are not listed" in said(swapped, inputs, references)


def test_refusals_of_files(call: Call) -> None:
    scores, trials, _ = small()
    save("T", trials), save("S", scores)

    def said(name: str) -> str:
        return refused(call, "trials", "--scores", name, "--trials", "T")

    assert "No such file" in said("nowhere") and "nowhere" in said("nowhere")
    Path("folder").mkdir()
    assert "folder" in said("folder")
    Path("cut").write_bytes(gzip.compress(Path("S").read_bytes())[:-20])
    assert "the gzip file is damaged" in said("cut")
    Path("latin").write_bytes("anna élan 1\n".encode("latin-1"))
    assert "latin:1: not UTF-8" in said("latin")
    Path("cut.parquet").write_bytes(b"PAR1 and then nothing")
    assert "the parquet file cannot be read" in said("cut.parquet")
    columns = {"enroll_id": ["a"], "trial_id": ["b"], "score": [1.0]}
    parquet.write_table(pa.table({**columns, "score": ["1"]}), "words")
    assert "column score holds string instead of numbers" in said("words")
    parquet.write_table(pa.table({"a": ["a"], "b": ["b"], "c": [1.0], "d": [1.0]}), "four")
    assert "its columns are a, b, c, d" in said("four")
    parquet.write_table(pa.table({**columns, "enroll_id": pa.array([None], pa.string())}), "null id")
    assert "1 rows without a value" in said("null id")
    parquet.write_table(pa.table({**columns, "score": pa.array([None], pa.float64())}), "null score")
    assert "1 of 1 scores are NaN: (a, b)" in said("null score")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "required: WHAT"),
        (["eer"], "invalid choice: 'eer'"),
        (["trials", "--scores", "S"], "required: --json, --trials"),
        (["trials", "--scores", "S", "--trials", "T", "--json", "-", "--replicates", "-1"], "whole number"),
        (["trials", "--scores", "S", "--trials", "T", "--json", "-", "--seed", "x"], "whole number"),
        (["trials", "--scores", "S", "--trials", "T", "--json", "no/such/folder/o.json"], "No such file"),
        (["trials", "--scores", "S", "--trials", "T", "--json", "."], "cannot write --json ."),
        (["cece", "--train", "S", "--scores", "S", "--trials", "T", "--json", "-"], "--method"),
        (["srd", "--scores", "S", "--trials", "T", "--json", "-"], "--input2spk"),
    ],
)
def test_usage(arguments: list[str], said: str, call: Call) -> None:
    scores, trials, _ = small()
    save("S", scores), save("T", trials)
    status, out, err = call(*arguments)
    assert (status, out) == (2, "")
    assert said in err and "Traceback" not in err


def test_out_is_written_whole_and_alone(call: Call) -> None:
    scores, trials, _ = small()
    save("S", scores), save("T", trials)
    assert call("trials", "--scores", "S", "--trials", "T", "--json", "OUT", "--replicates", 0) == (0, "", "")
    assert json.loads(Path("OUT").read_text()) == result(call, "trials", "--scores", "S", "--trials", "T", "--replicates", 0)  # fmt: skip
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["OUT", "S", "T"]


# Start-up ------------------------------------------------------------------------------------------------------------


def test_nothing_heavy_is_loaded(tmp_path: Path) -> None:
    scores, trials, _ = small()
    for name, lines in (("S", scores), ("T", trials)):
        (tmp_path / name).write_text("".join(f"{' '.join(line)}\n" for line in lines))
    (tmp_path / "G").write_bytes(gzip.compress((tmp_path / "S").read_bytes()))
    parquet.write_table(pa.table(dict(zip(("enroll_id", "trial_id", "label"), zip(*trials)))), tmp_path / "P")
    code = """
import sys
from pipeline.cli import run
for files in (["S", "T"], ["G", "P"]):
    assert run(["from-scores", "trials", "--scores", files[0], "--trials", files[1], "--json", "OUT"]) == 0
heavy = "torch torchaudio speechbrain pandera hydra omegaconf pydantic librosa numba sklearn matplotlib".split()
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", done.stdout


def test_help_is_the_verbs_own(call: Call) -> None:
    status, out, _ = call("vsm", "--help")
    assert status == 0 and "--scores-are-llr" in out and "hydra" not in out
