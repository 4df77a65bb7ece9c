"""Fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
