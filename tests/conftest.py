"""Fixtures that all tests share."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

# Beside another worker, torch's threads would wait for each other inside every small operation.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def _tame_lazy_modules() -> None:
    # Hypothesis asks every loaded module for its __file__; SpeechBrain's lazy ones answer that with an ImportError.
    loaded = sys.modules.get("speechbrain.utils.importutils")
    if loaded is None or hasattr(loaded.LazyModule, "tamed"):
        return
    ask = loaded.LazyModule.__getattr__

    def answer(self: object, name: str) -> object:
        if name == "__file__":
            raise AttributeError(name)
        return ask(self, name)

    loaded.LazyModule.__getattr__, loaded.LazyModule.tamed = answer, True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share the demo, and tests of one file, stay with one worker; those that run whole evaluations are shared out."""
    _tame_lazy_modules()
    for item in items:
        if {"demo", "wheel"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group("demo"))
        elif item.path.parent.name != "e2e":
            item.add_marker(pytest.mark.xdist_group(str(item.path)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    _tame_lazy_modules()


ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def speech() -> Path:
    """The folder of real speech; tests that need it are skipped, with the reason, where it is absent."""
    folder = Path(os.environ.get("VOICE_PRIVACY_TEST_DATA", ROOT.parent / "shared" / "speech"))
    if not (folder / "librispeech").is_dir():
        pytest.skip(f"no real speech in {folder}: set VOICE_PRIVACY_TEST_DATA to a folder that holds librispeech/")
    return folder


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of offline weights that ``make install`` fills."""
    return Path(os.environ.get("VOICE_PRIVACY_MODELS", Path.home() / ".cache" / "voice-privacy" / "models"))
