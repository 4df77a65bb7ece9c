"""How long the report of a finished run takes: of six systems, with all that is drawn of them."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from pipeline.engine.store import Store
from pipeline.report.figure_cache import NOT_KEPT, FigureCache
from pipeline.report.render import render
from pipeline.tables import run_files
from tests import toy
from tests.benchmark.harness import Row, apart, row

SIX = (
    "dataset=kaldi", "dataset.root=corpus", "paths.root=exp", "extractor=[ge2e]", "attacker=[ignorant,lazy_informed]",
    "system=[original,b2,b2r,b2_vpc2020,b2_vpc2022,b2_vpc2024]",
    "+system.low={name: mcadams, alpha: 0.7}",
    "metric=[asv,zebra,vsm,srd,lid,linkability,cece,p0p1]",
    "+averages.both={subset: 'toy (mean of f and m)', weights: {toy_trials_f: 0.5, toy_trials_m: 0.5}}",
)  # fmt: skip
"""Six systems that protect, on synthetic speech."""


def six_systems(folder: Path) -> Path:
    """Make the run; its folder."""
    toy.corpus(folder / "corpus", speakers=12)
    toy.run(*SIX, cwd=folder, check=True)
    (run,) = (folder / "exp" / "runs").iterdir()
    return run


def rendered() -> list[float]:
    """Processor seconds of the report with figures that are kept, and with figures that are drawn."""
    with tempfile.TemporaryDirectory() as name:
        run = six_systems(Path(name))
        render([run], Path(name) / "warm", FigureCache(Store(run_files.locate_store_beside(run))))
        spent = []
        for place, drawn in enumerate((FigureCache(Store(run_files.locate_store_beside(run))), NOT_KEPT)):
            begin = time.process_time()
            render([run], Path(name) / str(place), drawn)
            spent.append(time.process_time() - begin)
    return spent


def report_six() -> list[Row]:
    """The report of six systems, again and for the first time."""
    (kept, drawn), _ = apart("tests.benchmark.report:rendered")
    what = "six systems, two sets, eight families, 12 speakers"
    return [
        row("report_six", kept, "s CPU", f"report of a finished run: {what}; figures as the run kept them", at_most=5),
        row("report_six_drawn", drawn, "s CPU", f"the same, all figures drawn anew: {what}"),
    ]
