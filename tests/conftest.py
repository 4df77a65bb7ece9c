"""Fixtures that all tests share."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

import pytest

from pipeline import host

# As the command line does it: what is compiled for one test is there for the next.
host.use_cache_folder(host.find_cache_folder())

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
def pytest_collection_modifyitems() -> None:
    _tame_lazy_modules()


ROOT = Path(__file__).resolve().parent.parent
SHARE_THE_DEMO = ("e2e/test_demo.py", "e2e/test_readme.py", "e2e/test_report.py")


@functools.cache
def shares_fixtures(path: str) -> bool:
    """Whether the tests of a file look at one evaluation, which would else be made by both workers."""
    return 'scope="module"' in (ROOT / path).read_text(encoding="utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Tests that share the demo, and tests of one file, stay with one worker; those that run whole evaluations of their own are shared out.

    By name, because the groups of pytest-xdist 3.8 are lost on pytest 9.2, and both workers then make the demo.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.split("::")[0]
            if path.endswith(SHARE_THE_DEMO):
                return "demo"
            return path if "/e2e/" not in path or shares_fixtures(path) else nodeid

    return Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    _tame_lazy_modules()


@pytest.fixture(scope="session")
def speech() -> Path:
    """The folder of real speech; tests that need it are skipped, with the reason, where it is absent."""
    folder = Path(os.environ.get("VOICE_PRIVACY_TEST_DATA", ROOT.parent / "shared" / "speech"))
    if not (folder / "librispeech").is_dir():
        pytest.skip(f"no real speech in {folder}: set VOICE_PRIVACY_TEST_DATA to a folder that holds librispeech/")
    return folder


@pytest.fixture(scope="session")
def lists() -> Path:
    """The folder of VoicePrivacy's real LibriSpeech lists; tests that need them are skipped, with the reason, where it is absent."""
    folder = Path(os.environ.get("VOICE_PRIVACY_TEST_LISTS", ROOT.parent / "shared" / "reference" / "vpc_lists"))
    if not (folder / "libri_dev_enrolls").is_dir():
        pytest.skip(f"no lists in {folder}: set VOICE_PRIVACY_TEST_LISTS to a folder that holds libri_dev_enrolls/")
    return folder


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of offline weights that ``make install`` fills."""
    return Path(os.environ.get("VOICE_PRIVACY_MODELS", Path.home() / ".cache" / "voice-privacy" / "models"))
