"""Digest of each stage's source beside its version: ``python -m tests.stage_sources > tests/stage_sources.json``."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pipeline

ROOT = Path(pipeline.__file__).parent

# Stage: where its version stands, and the files whose code makes its numbers.
STAGES: dict[str, tuple[str, list[str]]] = {
    "synthesise": ("stages.synthesise:VERSION", ["stages/synthesise.py", "data/rendered.py", "data/synthetic.py"]),
    "anonymise": ("stages.anonymise:VERSION", ["stages/anonymise.py", "audio.py"]),
    "anonymise mcadams": (
        "anonymisers.mcadams:Anonymiser.version",
        ["anonymisers/mcadams.py", "models/mcadams.py", "models/mcadams_torch.py"],
    ),
    "pack": ("stages.pack:VERSION", ["stages/pack.py", "data/packed.py", "audio.py"]),
    "train embedding": (
        "training.embedding:VERSION",
        [
            "stages/train.py",
            "training/embedding.py",
            "training/_*.py",
            "models/ecapa.py",
            "models/ecapa_training.py",
            "models/xvector.py",
            "models/margin.py",
            "models/speechbrain_layout.py",
        ],
    ),
    "train phones": (
        "training.phones:VERSION",
        ["stages/train.py", "training/phones.py", "training/_common.py", "models/vqvae.py", "models/activity.py"],
    ),
    "extract": ("stages.extract:VERSION", ["stages/extract.py", "audio.py", "data/vectors.py"]),
    "segments": ("stages.segments:VERSION", ["stages/segments.py", "data/halves.py"]),
    "extract ge2e": (
        "extractors.ge2e:Extractor.version",
        ["extractors/ge2e.py", "models/ge2e.py", "models/embedding.py"],
    ),
    "extract ecapa": (
        "extractors.ecapa:Extractor.version",
        [
            "extractors/ecapa.py",
            "extractors/_speechbrain.py",
            "models/ecapa.py",
            "models/packed.py",
            "models/batches.py",
            "models/speechbrain_layout.py",
            "models/embedding.py",
        ],
    ),
    "extract xvector": (
        "extractors.xvector:Extractor.version",
        [
            "extractors/xvector.py",
            "extractors/_speechbrain.py",
            "models/xvector.py",
            "models/packed.py",
            "models/batches.py",
            "models/speechbrain_layout.py",
            "models/embedding.py",
        ],
    ),
    "extract f0": ("extractors.f0:Extractor.version", ["extractors/f0.py", "models/pyin.py", "models/pyin_torch.py"]),
    "extract phones": (
        "extractors.phones:Extractor.version",
        ["extractors/phones.py", "models/vqvae.py", "models/activity.py", "models/embedding.py"],
    ),
    "pieces": ("stages.pieces:VERSION", ["stages/pieces.py"]),
    "precomputed": ("extractors.precomputed:Extractor.version", ["extractors/precomputed.py", "data/vector_files.py"]),
    "fit": ("stages.fit:VERSION", ["stages/fit.py"]),
    "check": ("stages.check:VERSION", ["stages/check.py", "metrics/treatment.py"]),
    "score": ("stages.score:VERSION", ["stages/score.py"]),
    "score cosine": ("backends.cosine:Backend.version", ["backends/cosine.py"]),
    "score plda": ("backends.plda:Backend.version", ["backends/plda.py", "models/plda.py", "models/kaldi_files.py"]),
    "measure": ("stages.measure:VERSION", ["stages/measure.py", "measures/_rows.py", "measures/_trials.py"]),
    "measure asv": ("measures.asv:VERSION", ["measures/asv.py", "metrics/*.py"]),
    "measure zebra": ("measures.zebra:VERSION", ["measures/zebra.py", "metrics/*.py"]),
    "measure vsm": ("measures.vsm:VERSION", ["measures/vsm.py", "metrics/*.py"]),
    "measure cece": ("measures.cece:VERSION", ["measures/cece.py", "metrics/*.py"]),
    "measure p0p1": ("measures.p0p1:VERSION", ["measures/p0p1.py", "metrics/*.py"]),
    "measure srd": ("measures.srd:VERSION", ["measures/srd.py", "metrics/*.py"]),
}


def version(place: str) -> int:
    module, _, names = place.partition(":")
    found: Any = importlib.import_module(f"pipeline.{module}")
    for name in names.split("."):
        found = getattr(found, name)
    return int(found)


def code(path: Path) -> str:
    """The file without blank lines and comment lines. Nothing that parses: syntax trees differ between Pythons."""
    lines = [line.rstrip() for line in path.read_text().splitlines()]
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def table() -> dict[str, dict[str, Any]]:
    made = {}
    for stage, (place, patterns) in STAGES.items():
        files = sorted({path for pattern in patterns for path in ROOT.glob(pattern)})
        assert len(files) >= len(patterns), stage
        text = "".join(f"{path.relative_to(ROOT)}\n{code(path)}\n" for path in files)
        made[stage] = {"version": version(place), "source": hashlib.sha256(text.encode()).hexdigest()}
    return made


if __name__ == "__main__":
    json.dump(table(), sys.stdout, indent=1)
    sys.stdout.write("\n")
