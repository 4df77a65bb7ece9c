"""``from-scores disclosure`` through the command line: golden values, slopes from other speakers, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import cli, metrics

SETS = json.loads((Path(__file__).parent.parent / "golden" / "disclosure.json").read_text())["sets"]

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run ``from-scores disclosure`` in an empty folder: exit status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        status = cli.run(["from-scores", "disclosure", *map(str, arguments), "--json", "-"])
        out, err = capfd.readouterr()
        return status, out, err

    return run


def files(name: str, prefix: str = "", *, sign: float = 1.0, named: str = "s") -> list[str]:
    """Files of a golden set, and the options that name them."""
    entry = SETS[name]
    scores, truth = sign * np.array(entry["scores"]), entry["truth"]
    n, n_candidates = scores.shape
    written = {
        "scores": [f"u{i:03} c{k:02} {float(scores[i, k])!r}" for i in range(n) for k in range(n_candidates)],
        "input2spk": [f"u{i:03} {named}{k:02}" for i, k in enumerate(truth)],
        "reference2spk": [f"c{k:02} {named}{k:02}" for k in range(n_candidates)],
        "classes": [f"{named}{k:02} group{c}" for k, c in enumerate(entry["classes"])],
    }
    for what, lines in written.items():
        Path(f"{prefix}{what}").write_text("\n".join(lines) + "\n")
    return [part for what in list(written)[:3] for part in (f"--{prefix}{what}", f"{prefix}{what}")]


def found(call: Call, *arguments: object) -> dict[str, Any]:
    status, out, err = call(*arguments)
    assert status == 0, err
    read: dict[str, Any] = json.loads(out)
    return read


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(np.array(got, dtype=float), np.array(want, dtype=float), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["balanced_8x6", "unbalanced_7", "ties_integers", "distractors_5_of_15", "separated_6x4"]
)
def test_values_agree_with_the_independent_ones(name: str, call: Call) -> None:
    want = SETS[name]["expected"]
    got = found(call, *files(name), "--replicates", 0, "--spk2attr", "classes", "--slope", 1.0, "--lengths", 1, 2, 3)
    for key in ("alid", "alid_speaker", "pdr", "pdr_speaker", "lid_plus", "lid_minus", "lid_max"):
        if want["lid"]["w1"][key] is None:
            assert got["lid"][key] is None and got["reason"]["lid"][key]
        else:
            close(got["lid"][key], want["lid"]["w1"][key])
    close(got["lid"]["lid_max_ceiling"], want["lid"]["w1"]["ceiling"])
    close(got["lid"]["pdr_chance"], want["lid"]["w1"]["chance"]["pdr"])
    close(got["lid"]["alid_chance"], want["lid"]["w1"]["chance"]["alid"])
    close(got["rank_llr"]["llr_laplace"], want["rank"]["llr_laplace_nat"])
    close(got["pi_link"]["value"], list(want["pi_link"]["curve"]["spread"]["speaker"].values()))
    close(got["evidence"]["eps_plus"], want["pav"]["eps_plus_nat"])
    assert got["evidence"]["top_target_speakers"] == want["pav"]["top_target_speakers"]
    close(got["attribute"]["classes"]["alid_attribute"], want["attribute_w1"]["mean_attribute"])
    for k, value in enumerate(want["length_w1"]["L"].values()):
        close(got["length"]["alid"][k], value["alid_mean_embedding"])
        close(got["length"]["idr"][k], value["idr"])
    tpr = want["tpr_at_fpr"]["0.01"]["tpr"]
    if tpr is None:
        assert got["tpr_at_fpr"]["0.01"]["tpr"] is None and got["reason"]["tpr_at_fpr"]["0.01"]["tpr"]
    else:
        close(got["tpr_at_fpr"]["0.01"]["tpr"], tpr)
    assert got["interval"] == {} and got["null_band"] is None


@pytest.mark.parametrize("name", ["balanced_8x6", "constant_rows"])
def test_slopes_from_the_other_speakers_are_the_default(name: str, call: Call) -> None:
    want = SETS[name]["expected"]["lid"]["loso"]
    got = found(call, *files(name), "--replicates", 40)
    close(got["lid"]["alid"], want["alid"])
    close([got["slope"]["value"][f"s{int(k):02}"] for k in want["w"]], list(want["w"].values()))
    assert got["interval"]["lid"]["alid"] and got["null_band"]["alid"]["replicates"] == 40
    assert got["interval"]["pi_link"]["2"] and got["interval"]["rank_llr"]["rank_one"]


def test_distances_are_negated_and_recognised(call: Call) -> None:
    upright = found(call, *files("balanced_8x6"), "--replicates", 0)
    options = files("balanced_8x6", sign=-1.0)
    assert found(call, *options, "--distance", "--replicates", 0)["lid"] == upright["lid"]


def test_trials_of_strangers_are_left_out_and_counted(call: Call) -> None:
    want = found(call, *files("balanced_8x6"), "--replicates", 0)
    options = files("balanced_8x6")
    with Path("input2spk").open("a") as file:
        file.write("x1 nobody\nx2 nobody\n")
    with Path("scores").open("a") as file:
        file.write("x1 c00 1.0\n")
    status, out, err = call(*options, "--replicates", 0, "--strict")
    got = json.loads(out)
    assert status == 0 and "2 of 50 trials are of speakers who are not enrolled" in err
    assert (got["n_not_enrolled"], got["n_trials"], got["lid"]) == (2, 48, want["lid"])


def test_llrs_as_they_are(call: Call) -> None:
    got = found(call, *files("balanced_8x6"), "--slope", "actual")
    scores, truth = np.array(SETS["balanced_8x6"]["scores"]), np.array(SETS["balanced_8x6"]["truth"])
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    close(got["lid"]["alid"], np.log2(8 * p[np.arange(48), truth]).mean())
    assert got["reason"]["interval"]["lid"]


def test_two_candidates_have_no_slope_and_say_so(call: Call) -> None:
    got = found(call, *files("two_candidates"), "--replicates", 20, "--spk2attr", "classes", "--lengths", 1, 2)
    assert got["lid"] is None and "3 speakers" in got["reason"]["slope"]["value"]
    assert got["length"]["alid"] is None and got["pi_link"]["value"][0] == 1


def test_attributes_of_speakers_and_of_utterances(call: Call) -> None:
    options = [*files("balanced_8x6"), "--slope", 1.0, "--replicates", 0]
    entry = SETS["balanced_8x6"]
    scores, truth, classes = np.array(entry["scores"]), np.array(entry["truth"]), np.array(entry["classes"])
    Path("utt2class").write_text("".join(f"u{i:03} group{classes[k]}\n" for i, k in enumerate(truth)))
    moods = np.random.default_rng(0).integers(0, 2, truth.size)
    enrolled = "".join(f"c{k:02} group{c}\n" for k, c in enumerate(classes))
    Path("utt2mood").write_text(enrolled + "".join(f"u{i:03} group{c}\n" for i, c in enumerate(moods)))
    got = found(call, *options, "--spk2attr", "classes", "--utt2attr", "utt2class", "utt2mood")["attribute"]
    assert got["classes"] == got["utt2class"]
    # The slope of a stranger is one for this question; its value at chance is that of the core.
    slopes = metrics.stranger_slopes(scores, truth, classes)
    close(got["classes"]["alid_stranger"], metrics.stranger(scores, truth, classes, slopes).mean)
    close(list(got["classes"]["stranger_slope"].values()), slopes)
    assert got["utt2mood"]["alid_attribute"] is None
    slopes = metrics.stranger_slopes(scores, truth, classes, moods)
    close(got["utt2mood"]["alid_stranger"], metrics.stranger(scores, truth, classes, slopes, moods).mean)
    # Without a value for candidates, of trials that differ within a speaker.
    Path("utt2mood").write_text("".join(f"u{i:03} group{c}\n" for i, c in enumerate(moods)))
    status, out, err = call(*options, "--utt2attr", "utt2mood")
    assert (status, out) == (3, "") and "ids have no value" in err and "give every candidate" in err


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--slope", "-1"], 2, "none of loso, actual"),
        (["--lengths", "0"], 2, "whole number from 1 on"),
        (["--lengths", "7"], 3, "no speaker has 7 trials"),
        (["--spk2attr", "input2spk"], 3, "8 ids have no value: s00, s01"),
        (["--utt2attr", "classes"], 3, "48 ids have no value: u000, u001"),
    ],
)  # fmt: skip
def test_refusals(arguments: list[str], status: int, said: str, call: Call) -> None:
    got, out, err = call(*files("balanced_8x6"), *arguments)
    assert (got, out) == (status, "") and said in err


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("scores", "u000 c00 0.5", "more than once"),
        ("scores", "", "comparisons have no score: (u047, c07)"),
        ("reference2spk", "c99 s00", "more than one reference for s00"),
    ],
)
def test_files_that_are_refused(file: str, line: str, said: str, call: Call) -> None:
    options = files("balanced_8x6")
    lines = Path(file).read_text().splitlines()
    Path(file).write_text("\n".join([*lines, line] if line else lines[:-1]) + "\n")
    status, out, err = call(*options)
    assert (status, out) == (3, "") and said in err


def test_infinite_scores_are_refused(call: Call) -> None:
    options = files("balanced_8x6")
    first, *rest = Path("scores").read_text().splitlines()
    Path("scores").write_text("\n".join([" ".join([*first.split()[:2], "-inf"]), *rest]) + "\n")
    status, out, err = call(*options)
    assert (status, out) == (3, "") and "1 of 384 scores are NaN or infinite" in err
