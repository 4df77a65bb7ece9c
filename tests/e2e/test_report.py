"""The demo's report as a browser shows it."""

from __future__ import annotations

from pathlib import Path

from tests import browser
from tests.e2e.conftest import Demo


def test_the_report_opens_without_network_and_every_figure_shows_data(demo: Demo, tmp_path: Path) -> None:
    html = browser.dom(demo.report, tmp_path)
    for title in ("ZEBRA", "Voice similarity matrices", "Similarity rank disclosure", "equal error rate"):
        assert title in html, title
    pictures = browser.pictures(html)
    # ECE of two sets, matrices, zoo, ranks, DeID against G_VD.
    assert len(pictures) >= 6
    assert all(len(picture["alt"]) > 40 for picture in pictures)
    browser.figures_show_data(pictures, tmp_path)
    assert len(list((demo.run / "figures").glob("*.csv"))) >= len(pictures)
