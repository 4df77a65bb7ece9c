"""The signature of a number: all that it depends on beside the system. Numbers with equal signatures are comparable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.seeds import digest
from pipeline.version import __version__


def signature(row: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    """The signature of a row of results.

    Args:
        row: with ``metric``, ``variant``, ``estimator``, ``input_unit``, ``condition`` and ``attacker``.
        parameters: everything else by name; what is no text stands there as a digest.
    """
    parts = [of_metric(row), row["condition"]]
    if row["attacker"]:
        parts.append(f"attacker:{row['attacker']}")
    parts += [f"{name}:{value if isinstance(value, str) else digest(value)[:8]}" for name, value in parameters.items()]
    return "|".join([*parts, f"v:{__version__}"])


def of_metric(row: Mapping[str, Any]) -> str:
    """The first parts of a signature: which metric, which of its variants, by which estimator, on which unit of input."""
    name = ":".join(filter(None, [row["metric"], row["variant"]]))
    more = (("estimator", row["estimator"]), ("input", row["input_unit"]))
    return "|".join([name, *(f"{key}:{value}" for key, value in more if value)])
