"""Anonymise one shard: a wav file an utterance, and the manifest of the system for it."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from pipeline import audio
from pipeline.anonymisers._types import Utterance
from pipeline.engine.task import Work
from pipeline.models.weights import file_digest
from pipeline.registry import component
from pipeline.stages.audio_rows import MANIFEST

VERSION = 1


def run(settings: Any, threads: int, work: Work) -> None:
    """Anonymise the rows of the shard; parameters and counts of each utterance stand in the manifest and the record."""
    anonymiser = component("anonymisers", settings.name).Anonymiser(settings)
    rows: pd.DataFrame = work.input("audio")
    folder = work.folder()
    passed: Counter[str] = Counter()

    def one(row: Any) -> dict[str, Any]:
        wave, rate = audio.load(Path(row.path))
        made = anonymiser.anonymise(wave, rate, Utterance(row.utterance, row.speaker, row.set, int(row.position)))
        path = Path("wav") / quote(row.set, safe="") / f"{quote(row.utterance, safe='')}.wav"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        audio.write(folder / path, made.wave, made.rate, made.subtype)
        work.advance(len(wave) / rate)
        return {
            "set": row.set,
            "utterance": row.utterance,
            "speaker": row.speaker,
            "path": path.as_posix(),
            "sample_rate": made.rate,
            "samples": len(made.wave),
            "sha256": file_digest(folder / path),
            **{f"parameter_{name}": value for name, value in made.parameters.items()},
            **{f"passed_{name}": value for name, value in made.passed.items()},
        }

    # Threads change the speed alone: each file is a function of its own row, and results keep the order of the rows.
    with ThreadPoolExecutor(threads) as pool:
        made_rows = list(pool.map(one, rows.itertuples(index=False)))
    for row in made_rows:
        passed.update({name: int(value) for name, value in row.items() if name.startswith("passed_")})
    pd.DataFrame(made_rows).to_parquet(folder / MANIFEST, index=False)
    work.note("", **dict(passed))
