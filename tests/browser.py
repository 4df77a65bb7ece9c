"""A report in headless Chromium with every host unresolvable."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.toy import HANGS


def chromium() -> str:
    """The browser; the test is skipped, with the reason, where there is none."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium on this machine: the report is not opened in a browser")
    return found


def flags(profile: Path, height: int) -> list[str]:
    """The browser and its flags for a window 1200 pixels wide; no host can be resolved."""
    return [
        chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--no-first-run", "--hide-scrollbars",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}", f"--window-size=1200,{height}",
    ]  # fmt: skip


def dom(report: Path, scratch: Path) -> str:
    """The page as the browser understands it."""
    done = subprocess.run(
        [*flags(scratch / "profile", 2000), "--dump-dom", report.as_uri()],
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=True,
    )
    return done.stdout


def screenshot(page: Path, scratch: Path, height: int) -> np.ndarray:
    """[height, 1200, 3] pixels."""
    shot = scratch / "shot.png"
    command = [*flags(scratch / "profile", height), f"--screenshot={shot}", page.as_uri()]
    subprocess.run(command, capture_output=True, timeout=HANGS, check=True)
    return np.asarray(Image.open(shot).convert("RGB"), dtype=int)


def figures_show_data(pictures: Sequence[dict[str, str]], scratch: Path) -> None:
    """Each figure in a box of its own: part of the canvas is not white, and there are pixels of strong colour."""
    assert pictures, "there is no figure"
    height = 800
    stack = scratch / "stack.html"
    stack.write_text(
        "<body style='margin:0'>"
        + "".join(f"<div style='height:{height}px;overflow:hidden'><img src='{p['src']}'></div>" for p in pictures)
    )
    pixels = screenshot(stack, scratch, height * len(pictures))
    for index, picture in enumerate(pictures):
        image = pixels[index * height : (index + 1) * height]
        assert (image.min(2) < 250).mean() > 0.003, picture["alt"][:60]
        assert (image.max(2) - image.min(2) > 60).sum() > 150, picture["alt"][:60]


def pictures(html: str) -> list[dict[str, str]]:
    """``src`` and ``alt`` of the images of a page."""
    found = []
    for tag in re.findall(r"<img\b[^>]*>", html):
        attributes = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        found.append(attributes)
    return found
