"""Every registered component keeps its contract, and one that does not is told what is wrong."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from pipeline import cli, conformance, contracts
from pipeline.contracts import Anonymised, ComponentSettings, Feature, Measured, Row, Utterance, numeric, runtime
from pipeline.extractors.phones.training import PhonesTrainerSettings
from pipeline.extractors.phones.training import Trainer as PhonesTrainer
from pipeline.nets import waveforms
from pipeline.registry import COMPONENT_KINDS, Kind, component, list_names
from pipeline.trainers.embedding import EmbeddingSettings, Trainer

KINDS: list[Kind] = [kind for kind, room in COMPONENT_KINDS.items() if importlib.util.find_spec(room.package)]
ALL = [(kind, name) for kind in KINDS for name in list_names(kind)]
TRAINED = ("ecapa", "xvector", "phones")
FEW: dict[str, Any] = {"replicates": 8}
PROGRAM = Path(__file__).parent / "anonymisers" / "program.py"
OWN = {
    "command": f"{shlex.quote(sys.executable)} {shlex.quote(str(PROGRAM))} {{input}} {{output}} {{seed}}",
    "level": "speaker",
}
VALUES: dict[str, Mapping[str, Any]] = {"external": {"root": "/somewhere"}, "command": OWN} | {
    name: FEW for name in list_names("families") if "replicates" in component("families", name).Settings.model_fields
}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path | None]:
    """The folder of tiny weights of an extractor that is trained; None for others."""
    waves = conformance.make_speech(16_000)
    speech = waveforms.pack_waveforms(waves, [f"s{number % 2}" for number in range(len(waves))])
    folders: dict[str, Path] = {}

    def folder(name: str) -> Path | None:
        if name in TRAINED and name not in folders:
            folders[name] = tmp_path_factory.mktemp(name)
            if name == "phones":
                small = PhonesTrainerSettings(steps=2, channels=16, codes=16, batch=4)
                assert PhonesTrainer.train(small, speech, folders[name])
            else:
                tiny = EmbeddingSettings(
                    architecture=name, channels=(16,) * 4, aggregation=24, embedding=16, attention=8, steps=2, batch=4,
                    crop_seconds=0.5, speeds=(1.0,),
                )  # fmt: skip
                assert Trainer.train(tiny, speech, folders[name])
        return folders.get(name)

    return folder


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_every_component_keeps_its_contract(
    kind: Kind, name: str, models: Path, made: Callable[[str], Path | None]
) -> None:
    cls = component(kind, name)
    found = conformance.examine(kind, name, cls, models, VALUES.get(name), made(name), imports=False)
    assert not found.faults
    if any("run voice-privacy fetch-models" in reason for reason in found.skipped):
        pytest.skip("; ".join(found.skipped))
    assert set(found.skipped) <= {
        "extraction: its vectors are read from files", "anonymisation: its speech was anonymised elsewhere"
    }  # fmt: skip


def test_the_trainer_that_an_extractor_brings_keeps_its_contract(tmp_path: Path) -> None:
    found = conformance.examine("trainers", "phones", PhonesTrainer, tmp_path, imports=False)
    assert (found.faults, found.skipped) == ([], [])


def test_no_module_of_a_component_loads_anything_heavy() -> None:
    modules = [component(kind, name).__module__ for kind, name in ALL]
    assert len(set(modules)) == len(modules)
    assert {name: loaded for name, loaded in conformance.find_heavy_imports(modules).items() if loaded} == {}


@conformance.parametrize_with_checks("backends", "cosine")
def test_a_plug_in_runs_the_checks_as_tests(check: Callable[[], None]) -> None:
    check()


# Components that break their contracts -----------------------------------------------------------------------------------


class Plain(ComponentSettings):
    name: Literal["toy"] = numeric("toy")


class Unmarked(ComponentSettings):
    name: Literal["toy"] = numeric("toy")
    level: float = 1.0


def faults(kind: Kind, cls: Any, **values: Any) -> list[str]:
    return [fault.what for fault in conformance.examine(kind, "toy", cls, Path("/none"), values, imports=False).faults]


def test_what_is_no_component_is_refused() -> None:
    assert faults("extractors", conformance) == ["it is no class that derives from pipeline.contracts.Extractor"]
    assert faults("backends", type("Bare", (contracts.Backend,), {})) == [
        "it has no Settings that derive from pipeline.contracts.ComponentSettings"
    ]
    assert faults("extractors", type("Empty", (contracts.Extractor,), {"Settings": Plain})) == [
        "it does not define extract"
    ]


class Leaking(contracts.Extractor):
    """A vector that depends on the whole batch; silence counts; segments are lost."""

    Settings = Plain

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        mean = np.mean([len(wave) for wave in waveforms])
        return [Feature(np.array([mean, len(wave), 1.0], np.float32)) for wave in waveforms]

    def segments(self, recordings: Sequence[tuple[np.ndarray, int]], count: int) -> list[Feature]:
        return self.extract([wave for wave, _ in recordings][: count - 1])

    @staticmethod
    def pool(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return vectors.mean(0)


def test_an_extractor_that_leaks() -> None:
    said = faults("extractors", Leaking)
    assert any(one.startswith("a vector depends on what is heard beside it: a cosine distance of") for one in said)
    assert {"silence has weight 1.0", "no samples has weight 1.0", "there are 2 features of 3 pieces of audio",
            "pool counts vectors of weight 0"} <= set(said)  # fmt: skip


class Longer(contracts.Anonymiser):
    """Adds a second of noise that is another one each time."""

    Settings = Plain

    def anonymise(self, wave: np.ndarray, rate: int, utterance: Utterance) -> Anonymised:
        noise = np.random.default_rng().normal(size=rate)
        return Anonymised(np.concatenate([wave, noise]).astype(np.float32), rate)

    @classmethod
    def rerun(cls, settings: Any, number: int) -> Any:
        return settings


def test_an_anonymiser_that_is_longer_and_never_the_same() -> None:
    said = faults("anonymisers", Longer)
    assert {
        "its waveform has 46400 samples at 16000 Hz of 30400 at 16000 Hz",
        "the same speech gives other samples, in another object or in a thread beside others",
        "anonymise_many gives other samples than anonymise",
        "the second run has no settings of its own",
    } <= set(said)


class Ordered(contracts.Backend):
    """Scores by place, not by content."""

    Settings = Plain

    def enrol(self, vectors: np.ndarray, model: np.ndarray, n_models: int) -> Any:
        return n_models

    def score(self, models: Any, vectors: np.ndarray) -> np.ndarray:
        return -np.add.outer(np.arange(float(models)), np.arange(float(len(vectors))))


def test_a_back_end_that_scores_by_place() -> None:
    assert faults("backends", Ordered) == [
        "scores depend on the order of models or vectors",
        "scores of the same speaker are not higher than those of others",
    ]


class Narrow(Ordered):
    @classmethod
    def is_fitted(cls, settings: Any) -> bool:
        return True

    def score(self, models: Any, vectors: np.ndarray) -> np.ndarray:
        return np.zeros((models, len(vectors)), np.float32)

    @classmethod
    def fit(
        cls, settings: Any, vectors: Any, speakers: Any, folder: Path, *, within_session: bool, choice: Any = None
    ) -> dict[str, Any]:
        return {}


def test_a_back_end_of_another_precision_without_a_record() -> None:
    assert faults("backends", Narrow) == [
        "the record of fit has no summary", "scores are no float64 [models, vectors]",
    ]  # fmt: skip


def test_a_setting_that_says_nothing_of_keys() -> None:
    unmarked = type("Unmarked", (Ordered,), {"Settings": Unmarked})
    assert faults("backends", unmarked) == ["the setting level is marked neither numeric nor runtime"]


@dataclass
class Turn:
    number: int = 0


class Double(contracts.MetricFamily):
    """The same row twice, another one each time, one that it does not know, and no table for its figure."""

    Settings = Plain
    reads = "trials"
    title = "Twice"
    metrics: ClassVar = {"share": contracts.Metric("S", "share", "A share.", bounds=(0.0, 1.0))}
    figures = (contracts.FigureTable("shares", ("share",)),)
    turn: ClassVar = Turn()

    @classmethod
    def measure(cls, settings: Any, data: Any) -> Measured:
        cls.turn.number += 1
        return Measured([Row("share", 2.0), Row("share", float(cls.turn.number)), Row("other", 0.0), Row("share")])


def test_a_family_that_counts_twice() -> None:
    assert set(faults("families", Double)) >= {
        "share is 2.0, outside of its bounds (0.0, 1.0)", "there are several rows of share",
        "the metric other is not among its metrics", "there is no table shares for its figure",
        "the same scores give other rows", "share has no value, no label and no reason",
    }  # fmt: skip


class Restless(contracts.Trainer):
    class Settings(Plain):
        steps: int = numeric(1)
        workers: int = runtime(1)

    @classmethod
    def resolved(cls, settings: Any, extractor: str, n_speakers: int, seconds: float) -> Any:
        return settings.model_copy(update={"steps": settings.steps + 1})

    @classmethod
    def cost(cls, settings: Any) -> float:
        return 0.0

    @classmethod
    def train(cls, settings: Any, waveforms: Any, folder: Path, **more: Any) -> bool:  # type: ignore[override]
        return True


class Free(Restless):
    class Settings(Plain):
        steps: int = numeric(1)


def test_a_trainer_that_never_settles() -> None:
    assert faults("trainers", Restless) == ["the setting workers of a trainer is not numeric"]
    assert faults("trainers", Free) == ["what is resolved is not left as it is", "the cost is no number of seconds"]


class Needing(Ordered):
    class Settings(Plain):
        source: str = runtime(min_length=1)


def test_settings_without_a_default_are_asked_for() -> None:
    found = conformance.examine("backends", "toy", Needing, Path("/none"), imports=False)
    assert (found.faults, found.skipped) == ([], ["what takes settings: give source"])
    assert faults("backends", Needing, source="") == [
        "settings by default are refused: String should have at least 1 character"
    ]


# The verb ------------------------------------------------------------------------------------------------------------


def test_the_verb_says_what_was_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check-plugin", "cosine"]) == 0
    said = capsys.readouterr().out
    assert "backends: cosine (pipeline.backends.cosine.Backend)" in said
    assert "checked: importing its module loads nothing heavy" in said
    assert "checked: scores are float64" in said


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A back end ``toy`` that another distribution registers."""
    from importlib.metadata import EntryPoint

    from pipeline import registry

    group = registry.entry_point_group("backends")
    point = EntryPoint("toy", f"{__name__}:Narrow", group)
    monkeypatch.setattr(registry, "_find_entry_points", lambda kind: (point,) if kind == "backends" else ())
    monkeypatch.setattr(EntryPoint, "load", lambda self: Narrow)
    registry.component.cache_clear()
    yield
    registry.component.cache_clear()


def test_the_verb_says_all_that_is_wrong(
    broken: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(conformance.CHECKS, ("imports", "backends"), [])
    assert cli.run(["check-plugin", "toy"]) == 2
    said = capsys.readouterr().err
    assert "'toy' breaks its contract" in said
    assert "backends: toy: the record of fit has no summary" in said
    assert "backends: toy: scores are no float64 [models, vectors]" in said


def test_the_verb_knows_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check-plugin", "cosin"]) == 2
    assert "did you mean cosine" in capsys.readouterr().err
    assert cli.run(["check-plugin", "plda", "source"]) == 2
    assert "write FIELD=VALUE" in capsys.readouterr().err
