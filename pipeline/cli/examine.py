"""What ``doctor`` says: versions, device, folders, weights (a first version; it changes nothing)."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from pipeline.errors import PipelineError
from pipeline.planning import Evaluation
from pipeline.version import __version__


def lines(asked: Evaluation) -> Iterator[str]:
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
    for name, path in (("store", asked.paths.store), ("models", asked.paths.weights)):
        nearest = next(parent for parent in (path, *path.parents) if parent.exists())
        yield f"{name}: {path} ({'writable' if os.access(nearest, os.W_OK) else 'NOT writable'})"
    trained = {
        f"extractor {label}"
        for label, one in asked.extractors.items()
        if one.component.training(one.settings, asked.train) is not None
    }
    for what, chosen in asked.components().items():
        try:
            found = chosen.weights(asked.paths.weights)
        except PipelineError as error:
            yield f"{what}: {error}"
            continue
        if found is not None:
            yield f"{what}: weights in {found.folder}"
        elif what in trained:
            yield f"{what}: trained in the run"
        elif what.startswith("extractor "):
            yield f"{what}: needs no weights"
