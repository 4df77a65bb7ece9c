"""Which definition of a metric stands for a print, and what a verdict does not say by itself."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from pipeline import cli
from pipeline.errors import ConfigError
from pipeline.families import vsm
from pipeline.report.scorecard import card, consistency, output, settings
from pipeline.stages.scores.plan import tell_apart
from pipeline.stages.settings import Chosen
from pipeline.tables import published, results
from tests.report.test_scorecard import RUN, eer, line, made

POOLED = "libri_test (pooled)"
CHAPTERS = "chapters apart, srd_chapter"


def rank(value: float, metric: str = "max_d", **more: Any) -> dict[str, Any]:
    """A row of SRD of the original speech."""
    return {
        **RUN, "extractor": "ecapa", "backend": "cosine", "condition": "OO", "attacker": "", "trained_on": "original",
        "system": "original", "subset": POOLED, "unit": "bit", "estimator": "empirical", "input_unit": "segment",
        "metric": metric, "value": value, **more,
    }  # fmt: skip


def changed(*overrides: str) -> settings.Changes:
    """What overrides such as ``scorecard.ours.max_d.variant="a, b"`` change."""
    found: dict[str, Any] = {}
    for override in overrides:
        key, _, word = override.partition("=")
        *parents, last = key.removeprefix("scorecard.").split(".")
        place = found
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = word.strip('"')
    return settings.Changes.model_validate(found)


def test_ranks_by_another_protocol_are_not_held_against_the_paper() -> None:
    words = {"metric": "max_d", "estimator": "empirical"}
    both = made("srd2026", rank(4.5), rank(4.1, variant=CHAPTERS))
    found = line(both, "original", POOLED, **words)
    assert (found.value, found.verdict) == (4.5, consistency.REPRODUCED) and not both.faults
    alone = line(made("srd2026", rank(4.5, variant=CHAPTERS)), "original", POOLED, **words)
    assert (alone.value, alone.verdict) == (None, consistency.NOT_RUN) and CHAPTERS in alone.note
    # What the note names takes it, and leaves every other metric as it was.
    (given,) = shlex.split(alone.note.partition(": ")[2].removesuffix(" takes it"))
    rows = [rank(4.5, variant=CHAPTERS), rank(2.19, "mean_d"), eer("b3", "libri_test (mean of f and m)", 0.273)]
    taken = made("srd2026", *rows, changes=changed(given))
    assert line(taken, "original", POOLED, **words).value == 4.5
    assert line(taken, "original", POOLED, metric="mean_d", estimator="empirical").value == 2.19
    assert line(taken, "B3", "libri_test (mean of f and m)", metric="eer").value == 27.3


def test_the_remedy_of_several_is_of_one_metric() -> None:
    rows = [rank(value, name, input_unit=unit) for name, value in (("max_d", 4.5), ("mean_d", 2.19))
            for unit in ("segment", "utterance")]  # fmt: skip
    rows.append(eer("b3", "libri_test (mean of f and m)", 0.273))
    with pytest.raises(ConfigError) as caught:
        card.refuse_ambiguous(made("srd2026", *rows), Path("run"))
    given = shlex.split(caught.value.remedy.partition("with each: ")[2])
    assert given == ["scorecard.ours.max_d.input_unit=segment", "scorecard.ours.mean_d.input_unit=segment"]
    mended = made("srd2026", *rows, changes=changed(*given))
    assert not mended.faults and line(mended, "original", POOLED, metric="mean_d", estimator="empirical").value == 2.19
    assert line(mended, "B3", "libri_test (mean of f and m)", metric="eer").value == 27.3


def test_a_column_that_results_lack_is_refused() -> None:
    for given in ("scorecard.ours.sett=x", "scorecard.ours.max_d.varient=x"):
        with pytest.raises(ConfigError, match="the results have no column"):
            settings.read("srd2026", changed(given))


def test_a_tolerance_is_of_the_cells_that_it_names() -> None:
    """Two trainings of an attacker of SRD 2026 differ; one extractor on original speech does not."""
    subset = "libri_test (mean of f and m)"
    one_point = settings.Tolerance(
        value=1.0, unit="%", where={"condition": ["PP"]}, reason="two trainings of an attacker differ"
    )
    asked = settings.read("srd2026")
    assert asked is not None
    rows = results.records(results.frame([eer("b3", subset, 0.281), eer("original", subset, 0.054)]))
    found = card.make_card(asked.model_copy(update={"tolerances": {"eer": one_point}}), rows)
    near, far = line(found, "B3", subset, metric="eer"), line(found, "original", subset, metric="eer")
    assert (near.verdict, near.tolerance) == (consistency.REPRODUCED, 1.0)
    assert far.row is not None and (far.verdict, far.tolerance) == (consistency.DIFFERS, 0.0)
    assert "Tolerance of eer (PP alone): 1 %" in " ".join(output.tabulate(found, True, []).notes)


def test_a_part_is_never_the_published_number() -> None:
    """Three of a hundred recordings that happen to give the print, and a tag of them."""
    found = made("vpc2024", eer("b2", "libri_test_trials_f", 0.07483, status="partial", n_used=3))
    assert line(found, "B2", "libri_test_trials_f").verdict == consistency.PARTIAL
    assert found.counts()[consistency.PARTIAL] == 1 and consistency.REPRODUCED not in found.counts()
    assert any(note.startswith("partial: ") for note in output.tabulate(found, True, []).notes)


@pytest.mark.parametrize(
    ("level", "trained_on", "note"),
    [
        ("utterance", "anonymised (utterance)", ""),
        ("speaker", "anonymised (utterance)", "pseudo-voices: speaker, published: utterance"),
        ("utterance", "anonymised (speaker)", "pseudo-voices of the training speech: speaker, published: utterance"),
        ("fixed, shared", "anonymised (fixed, shared)",
         "pseudo-voices: fixed, published: utterance; pseudo-voices of the training speech: fixed, published: utterance"),
    ],
)  # fmt: skip
def test_other_pseudo_voices_than_the_published_are_said(level: str, trained_on: str, note: str) -> None:
    row = eer("b2", "libri_test_trials_f", 0.07483, system_level=level, trained_on=trained_on)
    found = made("vpc2024", row)
    assert (line(found, "B2", "libri_test_trials_f").verdict, line(found, "B2", "libri_test_trials_f").note) == (
        consistency.REPRODUCED,
        note,
    )


def test_a_mean_that_a_run_has_not_is_formed_in_the_view_as_that_of_the_print_is() -> None:
    rows = [eer("mine", f"libri_{part}_trials_{sex}", value, **more) for part, sex, value, more in (
        ("dev", "f", 0.3, {}), ("dev", "m", 0.2, {}), ("test", "f", 0.1, {"status": "partial"}), ("test", "m", 0.3, {}))]  # fmt: skip
    found = made("vpc2024", *rows)
    table = output.fill_view(found.settings.views[0], found)
    (place,) = table.marked
    assert table.body[place] == ["ours: mine", "30.000", "20.000", "25.000", "10.000 †", "30.000", "20.000 †"]


def test_lines_of_vpc_2022_that_repeat_those_of_the_asr_trained_on_anonymised_speech_are_of_it() -> None:
    """The 80 ASR lines of results.orig_* are those of results.anon_* to the digit, so both are of one ASR."""
    of: dict[str, dict[tuple[str, ...], str]] = {"orig": {}, "anon": {}}
    for cell in published.read(published.find("vpc2022_results")):
        name = cell.table.rpartition("/results.")[2]
        if cell.identity.metric == "wer":
            of[name.partition("_")[0]][(name.partition("_")[2], *cell.identity)] = cell.value
            assert cell.identity.system == name.partition("_")[2] and cell.identity.trained_on == "anonymised", cell
    assert len(of["orig"]) == 80 and of["orig"] == of["anon"]


@pytest.mark.parametrize(
    ("verb", "given", "wanted", "said"),
    [
        ("", "scorecard.tables=[none.csv]", 2, "there is no published table 'none.csv'"),
        ("plan", "scorecard.tables=[bad.csv]", 3, "columns of the published table"),
        ("validate", "scorecard.ours.sett=a", 2, "the results have no column sett"),
    ],
)
def test_what_a_scorecard_cannot_read_is_said_before_anything_is_computed(
    verb: str, given: str, wanted: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The data set is not there, which would be said otherwise."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("a,b\n")
    asked = [*filter(None, [verb]), "recipe=bring_your_scores", "dataset.root=nowhere", given, "paths.root=exp"]
    assert cli.run(asked) == wanted
    err = capfd.readouterr().err
    assert said in err and "no folder 'nowhere'" not in err


@pytest.mark.parametrize(
    ("chosen", "variants"),
    [
        ({"vsm": {}}, [""]),
        ({"vsm": {"similarity": "sigmoid_mean", "pairing": "vpc2020"}}, ["noe2020, half"]),
        ({"vsm": {}, "noe2020": {"similarity": "sigmoid_mean"}}, ["", "noe2020"]),
        ({"vsm": {}, "half": {"similarity": "sigmoid_mean", "pairing": "vpc2020"}}, ["", "noe2020, half"]),
        ({"vsm": {"pairing": "vpc2020"}, "half": {"pairing": "vpc2020"}}, ["half", "half, half"]),
        ({"vsm": {}, "mine": {"interval": "none"}}, ["", "mine"]),
        ({"mine": {"self_pairs": "keep"}}, ["self pairs"]),
    ],
)
def test_rows_of_similarity_matrices_name_their_definition(
    chosen: dict[str, dict[str, str]], variants: list[str]
) -> None:
    families = {
        label: Chosen("vsm", vsm.MetricFamily, vsm.VsmSettings.model_validate(given)) for label, given in chosen.items()
    }
    assert [tell_apart(label, one, families) for label, one in families.items()] == variants


def test_a_definition_is_held_against_the_print_that_has_it() -> None:
    """Noé 2020 prints Eq. 2 of all pairs, Noé 2022 Eq. 6, the challenge of 2022 Eq. 2 of half of them: one cell, three numbers."""
    row = {
        **RUN, "condition": "PP", "system": "b2", "attacker": "", "extractor": "xvector",
        "trained_on": "original", "backend": "plda", "metric": "g_vd", "unit": "dB",
    }  # fmt: skip
    rows = [
        {**row, "subset": f"libri_{part}_trials_f", "variant": name, "value": value}
        for part in ("dev", "test")  # Noé 2020 prints dev sets alone
        for name, value in (("", -1.0), ("noe2020", -2.0), ("noe2020, half", -3.0))
    ]
    of = {
        one.cell.file: one.value
        for one in (*made("vpc2020", *rows).lines, *made("vpc2022", *rows).lines)
        if one.value is not None
    }
    assert of == {
        "noe2020_table2": -2.0,
        "noe2022_table2": -1.0,
        "noe2022_table4": -1.0,
        "vpc2022_results": -3.0,
        "vpc2022_results_summary": -3.0,
    }
    assert {one.value for one in made("vpc2022", rows[3]).lines} == {None}
