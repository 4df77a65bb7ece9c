"""End-to-end evaluation of voice anonymisation and pseudonymisation.

``evaluate``, ``plan`` and ``read`` do in Python what the command line does; ``metrics`` is the metric core, which needs numpy and
scipy alone; ``contracts`` says how to write components; ``errors`` is what they raise. Nothing of it is loaded before it is used.
"""

import sys

# `python -m pipeline`: what lies in the current folder may be a stranger's, and not even `__future__` is imported from there.
_AS_MODULE = sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].endswith("pipeline")
if _AS_MODULE and not sys.flags.safe_path and f"{sys.path[0]}/pipeline" != __path__[0]:
    del sys.path[0]

from typing import TYPE_CHECKING, Any  # noqa: E402

from pipeline.version import __version__ as __version__  # noqa: E402

__all__ = ["Planned", "Result", "contracts", "errors", "evaluate", "metrics", "plan", "read"]

if TYPE_CHECKING:
    from pathlib import Path

    from pipeline import contracts, errors, metrics
    from pipeline.evaluation import Planned, Result, Sent


def evaluate(*overrides: str) -> "Result | Sent":
    """Evaluate, as ``voice-privacy`` does with these overrides.

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

    evaluation_asked, values = compose(overrides)
    return evaluation.evaluate(evaluation_asked, values, overrides)


def plan(*overrides: str) -> "Planned":
    """What a run with these overrides would reuse and compute.

    Raises:
        PipelineError: as :func:`evaluate`.
    """
    from pipeline import evaluation
    from pipeline.cli.compose import compose

    return evaluation.plan(compose(overrides)[0])


def read(run: "Path | str") -> "Result":
    """A finished run by its folder: what it measured as tables of pandas (``rows``, ``leaderboard``, ``attacks``, ``differences``,
    ``speakers``, ``worst_overlap``), whose columns are in data_manifests/README.md, section 10.

    Units are those of the results (fractions 0 to 1, bits, dB), an interval is a 95 % interval over speakers, an absent number NaN, an
    absent text ''.

    Raises:
        ConfigError: the folder holds no results.
        DataError: its files are not what the run wrote.
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
