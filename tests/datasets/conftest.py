"""A tiny valid Kaldi data set that tests break in one place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import DataError

RATE = 16_000


def noise(name: str, seconds: float = 0.25) -> np.ndarray:
    """A waveform that depends on the name alone."""
    random = np.random.default_rng(list(name.encode()))
    return (0.1 * random.standard_normal(round(seconds * RATE))).astype(np.float32)


class Tiny:
    """Speakers a, b, c (f), the first two enrolled with two utterances each, and two trial utterances a speaker.

    ``tables[set][table]`` are the lines; change them, then ``save``.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        enrolled = [f"{speaker}-e{number}" for speaker in "ab" for number in (0, 1)]
        tried = [f"{speaker}-t{number}" for speaker in "abc" for number in (0, 1)]
        self.tables = {
            "t_enrolls": self.basic(enrolled) | {"enrolls": list(enrolled)},
            "t_trials_f": self.basic(tried)
            | {"trials": [f"{m} {u} {'target' if u[0] == m else 'nontarget'}" for m in "ab" for u in tried]},
        }

    @staticmethod
    def basic(names: list[str]) -> dict[str, list[str]]:
        speakers = sorted({name[0] for name in names})
        return {
            "wav.scp": [f"{name} wav/{name}.wav" for name in names],
            "utt2spk": [f"{name} {name[0]}" for name in names],
            "spk2gender": [f"{speaker} f" for speaker in speakers],
            "utt2dur": [f"{name} 0.25 " for name in names],
        }

    def wav(self, name: str) -> Path:
        return self.root / "wav" / f"{name}.wav"

    def save(self) -> Tiny:
        (self.root / "wav").mkdir(parents=True, exist_ok=True)
        for folder, tables in self.tables.items():
            (self.root / folder).mkdir(exist_ok=True)
            for table, lines in tables.items():
                (self.root / folder / table).write_text("".join(f"{line}\n" for line in lines))
            for line in filter(str.strip, tables.get("wav.scp", [])):
                path = self.wav(line.split()[0])
                soundfile.write(path, noise(path.stem), RATE, subtype="PCM_16")
        return self

    def settings(self, **changed: object) -> DatasetSettings:
        return DatasetSettings(**{"name": "kaldi", "root": str(self.root), **changed})


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return Tiny(tmp_path / "data")


@pytest.fixture
def refused() -> Callable[..., DataError]:
    """Call a function that must refuse its data, and return the error."""

    def call(function: Callable[..., object], *arguments: object, **named: object) -> DataError:
        with pytest.raises(DataError) as caught:
            function(*arguments, **named)
        assert caught.value.status == 3
        assert caught.value.cause and caught.value.remedy and caught.value.where
        return caught.value

    return call
