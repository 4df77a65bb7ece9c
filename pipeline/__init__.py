"""End-to-end evaluation of voice anonymisation and pseudonymisation.

``evaluate``, ``plan`` and ``read`` do in Python what the command line does; ``metrics`` is the metric core, which needs numpy and
scipy alone; ``contracts`` says how to write components; ``errors`` is what they raise. Nothing of it is loaded before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.version import __version__ as __version__

__all__ = ["Planned", "Result", "contracts", "errors", "evaluate", "metrics", "plan", "read"]

if TYPE_CHECKING:
    from pathlib import Path

    from pipeline import contracts, errors, metrics
    from pipeline.evaluation import Planned, Result, Sent


def evaluate(*overrides: str) -> Result | Sent:
    """Evaluate, as ``python -m pipeline`` does with these overrides.

    Args:
        overrides: as on the command line: ``"recipe=kaldi"``, ``"dataset.root=DIR"``, ``"system=b2"``, ``"metric.srd.unit=utterance"``;
            ``"--config-dir=DIR"`` adds options of your own.

    Returns:
        The result; where values do not stand on everything that was expected, ``result.error`` says so.
        With ``executor=slurm`` what was sent: its jobs write the result into ``folder``, from where :func:`read` has it.

    Raises:
        PipelineError: what, where, likely cause and what mends it.
    """
    from pipeline import evaluation
    from pipeline.cli.compose import compose

    asked, values = compose(overrides)
    return evaluation.evaluate(asked, values, overrides)


def plan(*overrides: str) -> Planned:
    """What a run with these overrides would reuse and compute.

    Raises:
        PipelineError: as :func:`evaluate`.
    """
    from pipeline import evaluation
    from pipeline.cli.compose import compose

    return evaluation.plan(compose(overrides)[0])


def read(run: Path | str) -> Result:
    """A finished run by its folder.

    Raises:
        ConfigError: the folder holds no results.
    """
    from pipeline import evaluation

    return evaluation.read(run)


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("contracts", "errors", "metrics"):
        return importlib.import_module(f"pipeline.{name}")
    if name in ("Planned", "Result"):
        return getattr(importlib.import_module("pipeline.evaluation"), name)
    raise AttributeError(f"module 'pipeline' has no attribute '{name}'")
