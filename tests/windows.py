"""A report in a window of headless Chromium: what a script finds there, and how it prints.

The page stands in a frame of its own, so that it meets the width that is asked for (a window of the browser has a least one), and needs no
script itself: the script is the surrounding page's. ``page`` is its document, ``view`` its window.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests import browser
from tests.toy import HANGS

LIGHT, DARK = 1, 0
"""Blink's numbers of ``prefers-color-scheme``."""

TOOLS = """
  const box = e => e.getBoundingClientRect();
  const shown = e => box(e).width > 0 && box(e).height > 0 && view.getComputedStyle(e).visibility === 'visible';
  const within = (e, height) => shown(e) && box(e).top >= 0 && box(e).bottom <= height;
  const text = e => e.textContent.replace(/\\s+/g, ' ').trim();
  const all = (where, from = page) => [...from.querySelectorAll(where)];
"""


def found(report: Path, scratch: Path, script: str, *, width: int = 1200, height: int = 900, dark: bool = False) -> Any:
    """What a script gives of a report, as JSON.

    Args:
        report: the HTML file.
        script: body of a function of JavaScript that returns the answer; it has :data:`TOOLS`.
        width, height: of the window, in pixels.
        dark: whether the reader prefers dark pages.
    """
    around = scratch / "around.html"
    around.write_text(
        f"""<!doctype html><meta charset="utf-8"><style>body {{ margin: 0 }} iframe {{ border: 0; width: {width}px; height: {height}px }}</style>
<iframe srcdoc="{html.escape(report.read_text(encoding="utf-8"), quote=True)}"></iframe><script>
document.querySelector('iframe').onload = event => {{
  const view = event.target.contentWindow, page = view.document;
  {TOOLS}
  let answer;
  try {{ answer = {{ found: (() => {{ {script} }})() }}; }} catch (error) {{ answer = {{ failed: String(error) }}; }}
  document.body.setAttribute('data-answer', JSON.stringify(answer));
  event.target.remove();
}}</script>""",
        encoding="utf-8",
    )
    command = [
        *browser.flags(scratch / "profile", height + 200),
        f"--blink-settings=preferredColorScheme={DARK if dark else LIGHT}",
    ]
    done = subprocess.run(
        [*command, "--dump-dom", around.as_uri()], capture_output=True, text=True, timeout=HANGS, check=True
    )
    said = re.search(r'data-answer="([^"]*)"', done.stdout)
    assert said, f"the browser gave no answer: {done.stdout[-500:]}"
    answer = json.loads(html.unescape(said[1]))
    assert "failed" not in answer, answer
    return answer["found"]


def pages(report: Path, scratch: Path) -> int:
    """How many pages a report prints on."""
    printed = scratch / "printed.pdf"
    command = [*browser.flags(scratch / "profile", 1000), "--no-pdf-header-footer", f"--print-to-pdf={printed}"]
    subprocess.run([*command, report.as_uri()], capture_output=True, timeout=HANGS, check=True)
    return len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes()))
