"""Every number, folded: all of them in the page, each metric once, and what would only repeat a number below it."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline.report import glossary, runs
from pipeline.report.formats import format_number
from pipeline.report.page.numbers import Numbers, list_numbers, merge_originals, name_signatures, split_by_way
from pipeline.report.render import render
from pipeline.report.table import Table
from pipeline.tables import results
from tests.report.conftest import row

MakeRun = Callable[..., Path]
Change = Callable[[list[dict[str, Any]]], None]


def only(*rows: dict[str, Any]) -> Change:
    """Rows of a run in place of all others."""
    return lambda old: old.__setitem__(slice(None), [dict(one) for one in rows])


def made(folder: Path) -> Numbers:
    evaluation = runs.read([folder])
    return list_numbers(evaluation.rows, evaluation, name_signatures(evaluation.rows, evaluation.systems))


def section(page: str, name: str) -> str:
    return page.split(f'<section aria-labelledby="{name}">')[1].split("</section>")[0]


def plain(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", html)))


def unfolded(html: str) -> str:
    """What is seen before anything is opened."""
    depth, seen = 0, []
    for piece in re.split(r"(</?details\b[^>]*>)", html):
        if piece.startswith("<details"):
            depth += 1
        elif piece.startswith("</details"):
            depth -= 1
        elif not depth:
            seen.append(piece)
    assert depth == 0
    return "".join(seen)


def column(table: Table, head: str) -> list[str]:
    place = [one.head for one in table.columns].index(head)
    return [line[place] for line in table.body]


@pytest.fixture(scope="module")
def page(make_run: MakeRun, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("numbers")
    run = make_run(folder / "run", tables={})
    return run, render([run], folder / "out").read_text(encoding="utf-8")


def test_all_numbers_stay_in_the_page_and_each_metric_stands_once(page: tuple[Path, str]) -> None:
    run, html = page
    part = section(html, "metrics")
    rows = results.read(run)
    shown = plain(part)
    for line in results.records(rows[rows["value"].notna()]):
        assert format_number(line["value"], line["unit"]) in shown
    headings = re.findall(r'<h3 id="metric-[^"]*">(.*?)<', part)
    valued = rows[rows["value"].notna() | (rows["label"] != "")]["metric"].unique()
    assert len(headings) == len(valued)
    names = [metric.name for family in made(run).families for metric in family.metrics]
    assert sorted(names) == sorted(valued)


def test_it_is_folded_by_family_with_a_line_each(page: tuple[Path, str]) -> None:
    run, html = page
    rows = results.read(run)
    part = section(html, "metrics")
    assert "<table" not in unfolded(part) and "<h3" not in unfolded(part)
    found = made(run)
    held = sum(metric.rows for family in found.families for metric in family.metrics)
    without = rows.groupby("metric")["value"].apply(lambda values: values.isna().all())
    silent = [name for name in without[without].index if name != "tag"]
    assert held == len(rows) - rows["metric"].isin(silent).sum() and silent == ["cllr"]
    for family in found.families:
        assert f"<strong>{family.title}</strong>: {family.line}" in part
    assert found.families[0].line.startswith("5 metrics, ")


def test_metrics_without_a_value_are_a_line_with_the_reason(make_run: MakeRun, tmp_path: Path) -> None:
    about = {"subset": "s", "extractor": "ge2e", "condition": "PP", "attacker": "ignorant"}
    given = only(
        row("eer", 0.1, "rocch", system="b2", **about),
        *(row("cllr", reason="scores are not LLRs", system=system, **about) for system in ("b2", "b2r", "c")),
        row("l_w", reason="too few trials", system="b2", **about),
        row("l_w", reason="no impostor <b>", system="c", **about),
    )
    run = make_run(tmp_path / "run", change=given, tables={})
    html = render([run], tmp_path / "out").read_text(encoding="utf-8")
    part = section(html, "metrics")
    assert "<strong>Without a value</strong>: 2 metrics" in part
    assert "Cllr, cost of the log-likelihood ratio: 3 rows: scores are not LLRs." in plain(part)
    assert "1 row: too few trials; 1 row: no impostor <b>." in plain(part)
    assert part.count("<h3") == 1 and "Without a value" not in section(render_eer(make_run, tmp_path), "metrics")


def render_eer(make_run: MakeRun, folder: Path) -> str:
    one = row("eer", 0.1, "rocch", system="b2", subset="s", extractor="ge2e", condition="PP")
    run = make_run(folder / "eer", change=only(one), tables={})
    return render([run], folder / "eer" / "out").read_text(encoding="utf-8")


def test_beta_binomial_rows_are_folded_below_the_empirical_ones(page: tuple[Path, str]) -> None:
    run, html = page
    rows = results.read(run)
    family = next(one for one in made(run).families if one.title == "Similarity rank disclosure")
    expected = len(rows[(rows["metric"] == "mean_d") & (rows["estimator"] == "empirical")])
    for metric in family.metrics:
        assert metric.others is not None and len(metric.table.body) == len(metric.others.body) == expected
        assert "beta_binomial" in str(metric.others) and "beta_binomial" not in str(metric.table)
        assert "variant empirical" in metric.table.note
    assert len(family.compact[0].body) == expected and "beta_binomial" not in str(family.compact)
    assert "MeanD computed otherwise: 8 rows" in plain(section(html, "metrics"))


def test_of_several_ways_to_compute_one_number_the_first_that_is_there_is_the_number() -> None:
    about = {"subset": "s", "system": "b2", "extractor": "ge2e", "condition": "PP"}

    def parted(*variants: tuple[str, str], **more: Any) -> list[list[tuple[str, str]]]:
        rows = results.frame([row("eer", 0.1, variant, **{**about, **more}, estimator=by) for variant, by in variants])
        return [sorted(zip(part["variant"], part["estimator"])) for part in split_by_way(rows, ("rocch", "kaldi"))]

    assert parted(("kaldi", ""), ("rocch", "")) == [[("rocch", "")], [("kaldi", "")]]
    assert parted(("kaldi", "")) == [[("kaldi", "")], []]
    # The usual definition has no words; what has more of them is the same number by another definition.
    assert parted(("noe2020, half", ""), ("", ""), ("noe2020", "")) == [
        [("", "")],
        [("noe2020", ""), ("noe2020, half", "")],
    ]
    assert parted(("rocch, own", ""), ("rocch", ""), ("kaldi, own", "")) == [
        [("rocch", "")], [("kaldi, own", ""), ("rocch, own", "")],
    ]  # fmt: skip
    # Numbers of different things stand side by side.
    beside = [("among 10", ""), ("among 2", "")]
    assert parted(*beside) == [beside, []]
    rows = results.frame([row("eer", 0.1, "rocch", **about), row("eer", 0.2, "kaldi", **{**about, "system": "c"})])
    assert len(split_by_way(rows, ("rocch", "kaldi"))[0]) == 2, "each system has its number"


def test_original_against_original_stands_once(page: tuple[Path, str]) -> None:
    run, _ = page
    metric = next(one for one in made(run).metrics if one.name == "d_diag")
    lines = list(zip(column(metric.table, "system"), column(metric.table, "condition")))
    assert lines.count(("original", "OO")) == 0 and len(lines) == 2 * 3 * 3, "their values differ between systems"
    rows = results.read(run)
    same = rows.assign(value=[0.5 if c == "OO" else v for c, v in zip(rows["condition"], rows["value"])])
    kept = merge_originals(same)
    originals = kept[(kept["condition"] == "OO") & (kept["metric"] == "d_diag")]
    assert list(originals["system"]) == ["original"] * 2 and set(originals["system_level"]) == {"none"}
    assert len(same) - len(kept) == 2 * 2
    assert len(kept[kept["condition"] != "OO"]) == len(rows[rows["condition"] != "OO"])


def test_original_speech_that_differs_between_systems_stays(page: tuple[Path, str]) -> None:
    rows = results.read(page[0])
    same = rows.assign(value=[0.5 if c == "OO" else v for c, v in zip(rows["condition"], rows["value"])])
    few = same.index[(same["condition"] == "OO") & (same["metric"] == "d_diag") & (same["system"] == "b2")]
    same.loc[few, "n_used"] = 3000
    assert len(merge_originals(same)) == len(same)


def test_dominance_with_its_sign_is_no_second_table_where_it_is_the_same(make_run: MakeRun, tmp_path: Path) -> None:
    about = {"subset": "s", "extractor": "ge2e", "system": "b2"}

    def pair(sign: float) -> Change:
        return only(
            row("d_diag", 0.6, low=0.5, high=0.7, condition="PP", **about),
            row("d_diag", 0.3, low=0.2, high=0.4, condition="OP", **about),
            {**row("d_diag", 0.6, condition="PP", **about), "metric": "signed"},
            {**row("d_diag", sign * 0.3, condition="OP", **about), "metric": "signed"},
        )

    one = made(make_run(tmp_path / "same", change=pair(1), tables={}))
    (metric,) = one.metrics
    assert metric.name == "d_diag" and [other.symbol for other in metric.same] == ["D_diag signed"]
    html = render([tmp_path / "same"], tmp_path / "out").read_text(encoding="utf-8")
    assert "D diag signed (diagonal dominance with its sign) is the same number in each of these rows." in plain(html)
    two = made(make_run(tmp_path / "other", change=pair(-1), tables={}))
    assert [metric.name for metric in two.metrics] == ["d_diag", "signed"] and not two.metrics[0].same


def test_signatures_are_short_names_that_lead_to_their_readable_form_and_the_whole(page: tuple[Path, str]) -> None:
    run, html = page
    whole = set(results.read(run)["signature"])
    outside = html.replace(section(html, "signatures"), "")
    text = plain(re.sub(r'(href|src)="data:[^"]*"', "", outside))
    assert not any(one in text for one in whole) and not re.search(r"[0-9a-f]{33}", text)
    listed = re.findall(
        r'<tr id="sig-(S\d+)"><td>S\d+</td><td[^>]*><code>(.*?)</code><details[^>]*>(.*?)</details>', html
    )
    short = {unescape(form.replace("<wbr>", "")) for _, form, _ in listed}
    assert len(listed) == len(short) == len(whole)
    assert {plain(full.replace("<wbr>", "")).removeprefix(" in full ").strip() for _, _, full in listed} == whole
    assert all("ext:ge2e" in form or "ext:f0" in form for form in short)
    links = set(re.findall(r'href="#sig-(S\d+)"', html))
    assert links <= {name for name, _, _ in listed} and links


def test_numbers_of_a_family_that_is_not_known_stand_last(page: tuple[Path, str]) -> None:
    titles = [family.title for family in made(page[0]).families]
    assert titles[-1] == glossary.OTHERS and titles[0] == "Speaker verification and ZEBRA"


def test_two_runs_have_their_own_original_rows(make_run: MakeRun, tmp_path: Path) -> None:
    def level(rows: list[dict[str, Any]]) -> None:
        for one in rows:
            if one["condition"] == "OO":
                one["value"] = 0.25 if not np.isnan(one["value"]) else np.nan

    given = [make_run(tmp_path / name, run_id=name, change=level, tables={}) for name in ("run-a", "run-b")]
    evaluation = runs.read(given)
    metric = next(
        one
        for one in list_numbers(
            evaluation.rows, evaluation, name_signatures(evaluation.rows, evaluation.systems)
        ).metrics
        if one.name == "d_diag"
    )
    lines = pd.DataFrame(metric.table.body, columns=[one.head for one in metric.table.columns])
    assert dict(lines[lines["condition"] == "OO"]["run"].value_counts()) == {"run-a": 2, "run-b": 2}
