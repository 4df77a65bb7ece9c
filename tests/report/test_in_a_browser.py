"""The page as a browser shows it: wide, narrow, dark and printed, of an evaluation with six systems that protect."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.report.render import render
from tests import windows
from tests.benchmark import report
from tests.report.test_first_screen import ADAPTED, LAZY, NONE, attack, compared, row, run_of

MakeRun = Callable[..., Path]

SCREEN, SCREENS = 900, 12
"""Height of a screen in pixels, and how many of them the page may take while nothing is unfolded."""
NARROW = 420
CONTRAST = 4.5
"""Least ratio of the luminance of text and its ground (WCAG 2.2, 1.4.3)."""
SYSTEMS = tuple(f"s{number}" for number in range(6))


@pytest.fixture(scope="module")
def invented(make_run: MakeRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run folder with invented numbers."""
    folder = tmp_path_factory.mktemp("six")
    board = [row(name, 0.1 + 0.05 * place, place + 1) for place, name in enumerate(SYSTEMS)]
    attacks = [attack(name, 0.1 + 0.05 * place, ADAPTED) for place, name in enumerate(SYSTEMS)]
    attacks += [attack(name, 0.05 * (place + 1), LAZY) for place, name in enumerate(SYSTEMS)]
    run = run_of(
        make_run,
        folder / "run",
        [*board, row("original", 0.6, None, n_attacks=1, deid=math.nan)],
        [*attacks, attack("original", 0.6, NONE)],
        [compared(one, other, 0.01) for one, other in itertools.combinations(SYSTEMS, 2)],
        doubts=3,
        limits=2,
    )
    return render([run], folder / "out")


@pytest.fixture(scope="module")
def of_speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of six systems on recordings, with all that is drawn of them."""
    return report.six_systems(tmp_path_factory.mktemp("spoken")) / "report.html"


WIDE = """
  const rows = all('#leaderboard [data-system]');
  return {
    height: page.documentElement.scrollHeight,
    across: page.documentElement.scrollWidth,
    unfolded: all('details[open]').length,
    answer: box(page.getElementById('answer')).bottom,
    rows: rows.map(row => [row.dataset.system, box(row).bottom]),
    dots: rows.map(row => [all('.dot.strongest', row), all('.dot:not(.strongest)', row)]
      .map(dots => dots.filter(shown).length)),
  };
"""


def first_screen_has_the_answer(seen: dict[str, Any], attacks: int) -> None:
    assert 0 < seen["answer"] <= SCREEN and seen["across"] <= 1200
    assert len(seen["rows"]) == 7 and seen["rows"][-1][0] == "original"
    assert all(bottom <= SCREEN for _, bottom in seen["rows"])
    assert seen["dots"] == [[1, attacks - 1]] * 6 + [[1, 0]]


def test_six_systems_are_on_the_first_screen(invented: Path, tmp_path: Path) -> None:
    seen = windows.found(invented, tmp_path, WIDE)
    first_screen_has_the_answer(seen, 2)
    assert [name for name, _ in seen["rows"]] == [*SYSTEMS, "original"], "the best first"
    assert seen["height"] <= SCREENS * SCREEN and not seen["unfolded"]


@pytest.mark.slow
def test_a_full_report_of_six_systems_takes_twelve_screens(of_speech: Path, tmp_path: Path) -> None:
    seen = windows.found(of_speech, tmp_path, WIDE)
    first_screen_has_the_answer(seen, 2)
    assert seen["height"] <= SCREENS * SCREEN and not seen["unfolded"]


SMALL = """
  const first = page.querySelector('#leaderboard [data-system]');
  const there = e => ({left: box(e).left, right: box(e).right, text: text(e)});
  return {
    across: Math.max(page.documentElement.scrollWidth, page.body.scrollWidth),
    system: there(first.querySelector('.system')),
    value: there(first.querySelector('[data-metric=d_ece] .value')),
    eer: there(first.querySelector('[data-metric=eer] .value')),
    others: all('[data-metric=tag], .plot', first).map(e => box(e).left),
    said: all('#leaderboard *').filter(e => shown(e) && /scrolls/.test(text(e))).length,
  };
"""


def test_a_narrow_screen_shows_system_and_value_first_and_says_that_the_table_scrolls(
    invented: Path, tmp_path: Path
) -> None:
    seen = windows.found(invented, tmp_path, SMALL, width=NARROW)
    assert seen["across"] <= NARROW, "the page itself does not scroll sideways"
    assert seen["system"]["text"] == "s0" and seen["value"]["text"]
    assert (
        0
        <= seen["system"]["left"]
        < seen["system"]["right"]
        <= seen["eer"]["left"]
        < seen["eer"]["right"]
        <= seen["value"]["left"]
        < seen["value"]["right"]
        <= NARROW
    )
    assert all(left >= seen["value"]["right"] for left in seen["others"]) and seen["said"]


CONTRASTS = """
  all('details').forEach(one => one.open = true);
  const numbers = colour => { const n = colour.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n };
  const over = (top, ground) => top.slice(0, 3).map((c, k) => c * top[3] + ground[k] * (1 - top[3]));
  const ground = e => {
    if (!e) return numbers(view.getComputedStyle(page.documentElement).colorScheme.startsWith('dark') ? 'rgb(18, 18, 18)' : 'rgb(255, 255, 255)');
    const own = numbers(view.getComputedStyle(e).backgroundColor);
    return own[3] === 1 ? own : over(own, ground(e.parentElement));
  };
  const light = rgb => rgb.slice(0, 3).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, k) => sum + c * [0.2126, 0.7152, 0.0722][k], 0);
  const ratio = e => {
    const behind = ground(e), ink = over(numbers(view.getComputedStyle(e).color), behind);
    const [dark, bright] = [light(ink), light(behind)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };
  const written = all('body *').filter(e => shown(e) && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()));
  return {
    ground: view.getComputedStyle(page.body).backgroundColor,
    written: written.length,
    faint: written.filter(e => ratio(e) < LEAST).map(e => [e.tagName, e.className, ratio(e), text(e).slice(0, 40)]).slice(0, 10),
  };
""".replace("LEAST", str(CONTRAST))


def contrasts(page: Path, scratch: Path) -> None:
    grounds = []
    for dark in (False, True):
        seen = windows.found(page, scratch, CONTRASTS, dark=dark)
        assert seen["written"] > 100 and seen["faint"] == [], f"dark: {dark}"
        grounds.append(seen["ground"])
    light, dark_ground = (sum(map(int, ground.strip("rgb()").split(", "))) for ground in grounds)
    assert light > 3 * 200 and dark_ground < 3 * 60


def test_text_stands_out_on_light_and_on_dark_pages(invented: Path, tmp_path: Path) -> None:
    contrasts(invented, tmp_path)


@pytest.mark.slow
def test_text_of_a_full_report_stands_out_too(of_speech: Path, tmp_path: Path) -> None:
    contrasts(of_speech, tmp_path)
    assert windows.found(of_speech, tmp_path, SMALL, width=NARROW)["across"] <= NARROW


@pytest.mark.slow
def test_what_is_folded_is_printed(invented: Path, tmp_path: Path) -> None:
    """The page as it is takes as much paper as one whose folded parts were opened by hand, and more than one without them."""
    html = invented.read_text(encoding="utf-8")
    opened, without = tmp_path / "opened.html", tmp_path / "without.html"
    opened.write_text(html.replace("<details", "<details open"), encoding="utf-8")
    without.write_text(html.replace("</head>", "<style>details { display: none }</style></head>"), encoding="utf-8")
    as_it_is, all_open, least = (windows.pages(page, tmp_path) for page in (invented, opened, without))
    assert abs(as_it_is - all_open) <= 1 and as_it_is > least + 2
