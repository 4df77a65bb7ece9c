"""Cut recordings into pieces before they are anonymised, so that each piece gets a pseudo-voice of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline import audio
from pipeline.engine.task import Work
from pipeline.files import file_digest, make_file_name
from pipeline.protocol.cuts import Pieces, name_piece, position_of_piece
from pipeline.tables import manifest

VERSION = "cutting 3"


def cut_recordings(cut: Pieces, threads: int, work: Work) -> None:
    """Write a wav file a piece, float32 at the rate of the recording, and their manifest."""
    folder = work.folder()
    rows = manifest.rows_of(work.input("audio")).to_dict("records")
    with ThreadPoolExecutor(threads) as pool:
        pieces = [row for entries in pool.map(lambda row: _pieces(row, cut, folder, work), rows) for row in entries]
    table = pd.DataFrame(pieces)
    table["position"] = [position_of_piece(name) for name in table["utterance"]]
    table[manifest.COLUMNS].to_parquet(folder / manifest.FILE, index=False)


def _pieces(row: dict[str, Any], cut: Pieces, folder: Path, work: Work) -> list[dict[str, Any]]:
    wave, rate = audio.load(Path(row["path"]), row["sha256"])
    (count,) = cut.counts(pd.DataFrame([row]))
    pieces = []
    for number, piece in enumerate(np.array_split(wave, count)):
        name = name_piece(row["utterance"], number)
        path = Path("wav") / make_file_name(row["set"]) / f"{make_file_name(name)}.wav"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        audio.write(folder / path, piece, rate, "FLOAT")
        digest = file_digest(folder / path)
        of = {"utterance": name, "path": path.as_posix(), "sample_rate": rate, "samples": len(piece), "sha256": digest}
        pieces.append({**row, **of})
    work.advance(len(wave) / rate)
    return pieces
