"""Numba kernels as this project compiles them: cached on disk where that is possible, without the interpreter's lock."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from pipeline import host

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a kernel at its first call.

    Sums may be reordered, so that they are vectorised; NaN and infinity keep their meaning. Where nothing can be kept
    (:mod:`pipeline.host`) the kernel is compiled in each process.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
    try:
        return cast(Function, numba.njit(cache=_is_kept(os.environ.get("NUMBA_CACHE_DIR", "")), **options)(function))
    except RuntimeError:
        return cast(Function, numba.njit(**options)(function))


@functools.cache
def _is_kept(folder: str) -> bool:
    """Whether kernels can be kept in the folder for them. numba would take another one, beside the source file for instance."""
    if not folder or not host.is_writable(Path(folder)):
        return False
    numba.config.CACHE_DIR = folder  # type: ignore[attr-defined]  # numba may have been loaded before the folder was named
    return True
