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
    "synthesise": (
        "stages.synthesise:VERSION",
        ["stages/synthesise.py", "datasets/rendered.py", "datasets/synthetic.py"],
    ),
    "anonymise": ("stages.anonymise:VERSION", ["stages/anonymise.py", "audio.py"]),
    "anonymise mcadams": (
        "anonymisers.mcadams:Anonymiser.version",
        ["anonymisers/mcadams/__init__.py", "anonymisers/mcadams/transform.py", "anonymisers/mcadams/on_device.py"],
    ),
    "pack": ("stages.pack:VERSION", ["stages/pack.py", "nets/waveforms.py", "audio.py"]),
    "train embedding": (
        "trainers.embedding:VERSION",
        [
            "stages/train.py",
            "trainers/embedding/__init__.py",
            "trainers/embedding/*.py",
            "nets/checkpoints.py",
            "nets/training.py",
            "extractors/ecapa/network.py",
            "extractors/ecapa/training_network.py",
            "extractors/xvector/network.py",
            "nets/margin.py",
            "nets/speechbrain_layout.py",
        ],
    ),
    "train phones": (
        "extractors.phones.training:VERSION",
        [
            "stages/train.py",
            "extractors/phones/training.py",
            "nets/training.py",
            "extractors/phones/network.py",
            "extractors/phones/activity.py",
        ],
    ),
    "extract": ("stages.extract:VERSION", ["stages/extract.py", "audio.py", "tables/vectors.py"]),
    "segments": ("stages.segments:VERSION", ["stages/segments.py", "protocol/halves.py"]),
    "extract ge2e": (
        "extractors.ge2e:Extractor.version",
        ["extractors/ge2e/__init__.py", "extractors/ge2e/network.py", "nets/embedding.py"],
    ),
    "extract ecapa": (
        "extractors.ecapa:Extractor.version",
        [
            "extractors/ecapa/__init__.py",
            "nets/speechbrain.py",
            "extractors/ecapa/network.py",
            "nets/packed.py",
            "nets/batches.py",
            "nets/speechbrain_layout.py",
            "nets/embedding.py",
        ],
    ),
    "extract xvector": (
        "extractors.xvector:Extractor.version",
        [
            "extractors/xvector/__init__.py",
            "nets/speechbrain.py",
            "extractors/xvector/network.py",
            "nets/packed.py",
            "nets/batches.py",
            "nets/speechbrain_layout.py",
            "nets/embedding.py",
        ],
    ),
    "extract f0": (
        "extractors.f0:Extractor.version",
        ["extractors/f0/__init__.py", "extractors/f0/pyin.py", "extractors/f0/pyin_torch.py"],
    ),
    "extract phones": (
        "extractors.phones:Extractor.version",
        [
            "extractors/phones/__init__.py",
            "extractors/phones/network.py",
            "extractors/phones/activity.py",
            "nets/embedding.py",
        ],
    ),
    "pieces": ("stages.pieces:VERSION", ["stages/pieces.py"]),
    "precomputed": (
        "extractors.precomputed:Extractor.version",
        ["extractors/precomputed/__init__.py", "extractors/precomputed/files.py"],
    ),
    "fit": ("stages.fit:VERSION", ["stages/fit.py"]),
    "check": ("stages.check:VERSION", ["stages/check.py", "metrics/treatment.py"]),
    "score": ("stages.score:VERSION", ["stages/score.py"]),
    "score cosine": ("backends.cosine:Backend.version", ["backends/cosine.py"]),
    "score plda": (
        "backends.plda:Backend.version",
        ["backends/plda/__init__.py", "backends/plda/model.py", "backends/plda/kaldi_files.py"],
    ),
    "measure": ("stages.measure:VERSION", ["stages/measure.py", "families/_rows.py", "families/_trials.py"]),
    "measure asv": ("families.asv:VERSION", ["families/asv.py", "metrics/*.py"]),
    "measure zebra": ("families.zebra:VERSION", ["families/zebra.py", "metrics/*.py"]),
    "measure vsm": ("families.vsm:VERSION", ["families/vsm.py", "metrics/*.py"]),
    "measure cece": ("families.cece:VERSION", ["families/cece.py", "metrics/*.py"]),
    "measure p0p1": ("families.p0p1:VERSION", ["families/p0p1.py", "metrics/*.py"]),
    "measure srd": ("families.srd:VERSION", ["families/srd.py", "metrics/*.py"]),
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
