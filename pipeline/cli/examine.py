"""What ``doctor`` says: versions, device, folders, weights (a first version; it changes nothing)."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from pipeline import __version__
from pipeline.errors import PipelineError
from pipeline.planning import Evaluation
from pipeline.registry import component


def lines(evaluation: Evaluation) -> Iterator[str]:
    """One finding a line."""
    import torch

    yield f"pipeline {__version__}, Python {platform.python_version()}, {len(os.sched_getaffinity(0))} cores"
    for name in ("torch", "torchaudio", "speechbrain", "numpy", "scipy", "librosa", "soundfile"):
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"{name} is missing: run make install"
    if torch.cuda.is_available():
        yield f"device: {torch.cuda.get_device_name()}"
    else:
        yield "device: no CUDA; runs go on the CPU"
    for name, path in (("store", evaluation.paths.store), ("models", evaluation.paths.weights)):
        nearest = next(parent for parent in (path, *path.parents) if parent.exists())
        yield f"{name}: {path} ({'writable' if os.access(nearest, os.W_OK) else 'NOT writable'})"
    for label, settings in evaluation.extractors.items():
        try:
            found = component("extractors", settings.name).weights(settings, evaluation.paths.weights)
            without = "trained in the run" if getattr(settings, "source", "") == "trained" else "needs no weights"
            yield f"extractor {label}: {f'weights in {found.folder}' if found else without}"
        except PipelineError as error:
            yield f"extractor {label}: {error}"
