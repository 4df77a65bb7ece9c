"""The package ``pipeline`` under the name of its distribution: ``import voice_privacy as vp``.

``pipeline`` is a common name. Where Python finds another module of that name first, this package says where it lies.
"""

import sys

_AS_MODULE = sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].endswith("voice_privacy")
if _AS_MODULE and not sys.flags.safe_path:
    del sys.path[0]  # the current folder, as in pipeline/__init__.py

import importlib.util  # noqa: E402
import os  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

if TYPE_CHECKING:
    from pipeline import *  # noqa: F403


def _refuse_intruder() -> None:
    """Raise ImportError where ``pipeline`` is not the package that this one belongs to."""
    try:
        spec = importlib.util.find_spec("pipeline")
        places = list(spec.submodule_search_locations or [str(spec.origin)]) if spec is not None else []
    except ValueError:  # a module that was made by hand has no spec
        places = [repr(sys.modules["pipeline"])]
    if any(os.path.isfile(os.path.join(place, "_alias", "__init__.py")) for place in places):  # noqa: PTH113, PTH118
        return
    if places:
        what = f"Python finds another module of that name first: {places[0]}"
        remedy = "rename it, or start from another folder; if PYTHONPATH names its folder, take it out"
    else:
        what = "it is not installed"
        remedy = f"{sys.executable} -m pip install --force-reinstall voice-privacy-pipeline"
    message = f"voice_privacy needs the package `pipeline` that it came with, and {what}. To mend it: {remedy}"
    if _AS_MODULE or os.path.basename(sys.argv[0]) == "voice-privacy":  # noqa: PTH119
        sys.stderr.write(f"error: {message}\n")
        sys.exit(2)
    raise ImportError(message, name="pipeline", path=places[0] if places else None)


_refuse_intruder()


def __getattr__(name: str) -> Any:
    import pipeline

    return getattr(pipeline, name)


def __dir__() -> list[str]:
    import pipeline

    return pipeline.__all__
