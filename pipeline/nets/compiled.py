"""Numba kernels as this project compiles them: cached on disk where that is possible, without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a kernel at its first call.

    Sums may be reordered, so that they are vectorised; NaN and infinity keep their meaning. The cache lies beside the
    module, else (a read-only installation) in numba's user cache or ``NUMBA_CACHE_DIR``; where nothing can be
    written the kernel is compiled in each process.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
    try:
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:
        return cast(Function, numba.njit(**options)(function))
