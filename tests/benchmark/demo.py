"""How long the demo takes, as a user starts it: from an empty folder, again, and the share of the strongest attacker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmark.harness import ROOT, Row, row


def _run(folder: Path) -> float:
    """Seconds of ``recipe=demo`` in this folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VOICE_PRIVACY_")}
    environment["PYTHONPATH"] = str(ROOT)
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pipeline", "recipe=demo"], cwd=folder, env=environment, capture_output=True, check=True
    )
    return time.perf_counter() - begin


def _semi_informed(folder: Path) -> float:
    """Seconds of all that would not be there without the semi-informed attacker: anonymised training sets, their trainings,
    extraction and measures."""
    spent = {}
    for record in folder.glob("exp/store/*/*/*/record.json"):
        notes = json.loads(record.read_text())["notes"]
        if "training set (" in notes["label"] or "semi_informed" in notes["label"]:
            spent[notes["label"]] = notes["seconds"]
    return sum(spent.values())


def demo() -> list[Row]:
    """The demo, the demo again, and what of the first is due to the semi-informed attacker."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, again, spent = _run(folder), _run(folder), _semi_informed(folder)
    return [
        row("demo", first, "s", "recipe=demo from an empty folder, the process included", at_most=180),
        row("demo_again", again, "s", "the same again, nothing to compute; to the first", ratio=again / first, at_most=0.25),
        row("demo_semi_informed", spent, "s", "of the demo: what the semi-informed attacker takes; to the whole",
            ratio=spent / first, at_most=0.5),
    ]  # fmt: skip
