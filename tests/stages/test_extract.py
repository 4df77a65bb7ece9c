"""The extract stage with real extractors and each cut: each file decoded once, chunks that do not show, refusals."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import soundfile
import torch
from safetensors.torch import save_file

from pipeline import audio
from pipeline.contracts import Extractor, Feature, Preparation
from pipeline.datasets.synthetic import make_speaker, make_utterance
from pipeline.engine.store import Store
from pipeline.engine.task import Artefact, Output, Task
from pipeline.errors import PipelineError
from pipeline.extractors import ecapa, f0, phones
from pipeline.extractors.phones import training as trainer
from pipeline.files import file_digest
from pipeline.nets import speechbrain_networks as network
from pipeline.nets import waveforms as packed
from pipeline.protocol import halves
from pipeline.protocol.cuts import Cut, Pieces, Segments, Whole
from pipeline.stages import selections
from pipeline.stages.features import compute
from pipeline.stages.features.compute import ExtractorSpec
from pipeline.tables import manifest, vectors
from pipeline.tables.vectors import FeatureTable
from tests.running import execute

LABELS = ("ecapa", "f0", "phones")
Specs = dict[str, ExtractorSpec]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Ten utterances of 0.5 to 3 s at 16 kHz, and one at 22.05 kHz."""
    folder = tmp_path_factory.mktemp("audio")
    made = []
    for number in range(11):
        wave = make_utterance(make_speaker(3, number % 3), 3, number, 0.5 + 0.25 * number).wave
        rate = 22_050 if number == 4 else 16_000
        path = folder / f"u{number}.wav"
        audio.write(path, audio.resample(wave.astype(np.float32), 16_000, rate), rate)
        header = soundfile.info(path)
        made.append((f"u{number}", str(path), header.samplerate, header.frames, file_digest(path)))
    return pd.DataFrame(made, columns=["utterance", "path", "sample_rate", "samples", "sha256"])


@pytest.fixture(scope="module")
def specs(rows: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Specs:
    """A small ECAPA with random weights, F0, and a small phone network after a few steps."""
    folder = tmp_path_factory.mktemp("weights")
    with torch.random.fork_rng():
        torch.manual_seed(1)
        state = network.make_ecapa(80, [32, 32, 32, 32, 96], 24, 16).state_dict()
    for name in ("ecapa", "phones"):
        (folder / name).mkdir()
    save_file(
        {key: tensor.contiguous() for key, tensor in state.items()}, folder / "ecapa" / "embedding_model.safetensors"
    )
    waves = [audio.resample(*audio.load(Path(path)), 16_000) for path in rows["path"]]
    heard = packed.pack_waveforms(waves, ["a", "b"] * 5 + ["a"])
    trainer.Trainer.train(
        trainer.PhonesTrainerSettings(steps=5, channels=16, codes=32, batch=4, threads=1), heard, folder / "phones"
    )
    return {
        "ecapa": ExtractorSpec(
            ecapa.Extractor, ecapa.EcapaSettings(source=str(folder / "ecapa")), folder / "ecapa", False
        ),
        "f0": ExtractorSpec(f0.Extractor, f0.F0Settings(), None, False),
        "phones": ExtractorSpec(
            phones.Extractor, phones.PhonesSettings(source=str(folder / "phones")), folder / "phones", False
        ),
    }


def made(
    rows: pd.DataFrame,
    specs: Specs,
    store: Path,
    cut: Cut = Whole(),  # noqa: B008 (a frozen value)
    threads: int = 2,
) -> dict[str, Artefact]:
    """The artefacts of one extract task over the rows."""
    task = Task(
        name="extract",
        label="extract under test",
        settings=cut.numeric(),
        inputs={"audio": selections.rows(rows)},
        outputs={label: Output(settings={"label": label}) for label in specs},
        function=functools.partial(compute.extract_features, specs, cut, "cpu", threads),
    )
    outcome = execute([task], Store(store))
    return {label: outcome.artefact(task.ref(label)) for label in specs}


def alone(spec: ExtractorSpec) -> Extractor:
    """The extractor by itself, without the stage."""
    return spec.extractor(spec.settings, spec.weights, "cpu", 1)


def table(artefact: Artefact) -> FeatureTable:
    return vectors.read(artefact.folder / compute.FEATURES)


@pytest.mark.parametrize("cut", [Whole(), Pieces(0.8), Segments(20)])
def test_three_extractors_decode_each_file_once(
    cut: Cut, rows: pd.DataFrame, specs: Specs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Counter[str] = Counter()
    load = audio.load

    def counted(path: Path, sha256: str) -> tuple[np.ndarray, int]:
        read[str(path)] += 1
        return load(path, sha256)

    monkeypatch.setattr(audio, "load", counted)
    # the same audio under another id is not decoded again either, unless recordings are joined in a row
    twice = rows if cut.joins else pd.concat([rows, rows.iloc[:1].assign(utterance="again")])
    # nor for an extractor that wants it prepared in another way
    other = {"other": prepared_as(specs["ecapa"], trim_zeros=False, resampler="torchaudio_sinc")}
    found = made(twice, specs | other, tmp_path, cut)
    assert set(read) == set(rows["path"]) and set(read.values()) == {1}
    for label in LABELS:
        ids = table(found[label]).ids
        assert len(set(ids)) == len(ids)
        if not cut.joins:
            assert {name.partition("#")[0] for name in ids} == set(rows["sha256"])
            assert len(ids) == len(rows) or isinstance(cut, Pieces)


def test_each_row_holds_the_features_of_its_own_file(rows: pd.DataFrame, specs: Specs, tmp_path: Path) -> None:
    found = made(rows, specs, tmp_path)
    for label, spec in specs.items():
        extractor, got = alone(spec), table(found[label])
        for row in rows.itertuples():
            wave = audio.resample(*audio.load(Path(row.path)), extractor.sample_rate)
            expected = extractor.extract([wave])[0]
            place = got.row[row.sha256]
            np.testing.assert_allclose(got.vectors[place], expected.vector, atol=1e-4 * np.abs(expected.vector).max())
            assert got.weights[place] == expected.weight


def test_neither_threads_nor_chunks_change_a_byte(
    rows: pd.DataFrame, specs: Specs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def content(artefacts: dict[str, Artefact]) -> dict[str, bytes]:
        return {label: (one.folder / compute.FEATURES).read_bytes() for label, one in artefacts.items()}

    first = content(made(rows, specs, tmp_path / "a", threads=1))
    assert content(made(rows.iloc[::-1], specs, tmp_path / "b", threads=3)) == first
    monkeypatch.setitem(compute.CHUNK_SECONDS, "cpu", 3.0)
    assert len(compute.chunks(rows, Whole(), "cpu")) > 4
    cut = content(made(rows, specs, tmp_path / "c"))
    for label in ("f0", "phones"):
        assert cut[label] == first[label]


def test_chunks_hold_all_files_in_order_within_the_limit(rows: pd.DataFrame) -> None:
    long = pd.concat([rows, rows.iloc[:1].assign(path="long", samples=16_000 * 7200), rows.iloc[1:2]])
    cut = compute.chunks(long, Whole(), "cuda:1")
    assert [str(file.path) for chunk in cut for file in chunk] == list(long["path"])
    assert [str(file.path) for file in cut[1]] == ["long"]
    assert compute.chunks(rows.iloc[:0], Whole(), "cpu") == []


def test_what_is_joined_is_not_taken_apart(rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(compute.CHUNK_SECONDS, "cpu", 3.0)
    (joined,) = compute.chunks(rows, Segments(20), "cpu")
    assert [(str(file.path), file.sha256) for file in joined] == list(zip(rows["path"], rows["sha256"]))


class AtOnce(Executor):
    """Does what it is given when it is given it, so that what has been asked for has been done."""

    def __init__(self, threads: int) -> None:
        assert threads == 1

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(function(*arguments, **named))
        return done


@pytest.mark.parametrize(("longest", "ahead"), [(1800.0, True), (0.0, False)])
def test_nothing_is_decoded_beside_a_long_file(
    longest: float, ahead: bool, rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compute, "AHEAD_SECONDS", longest)
    monkeypatch.setattr(compute, "ThreadPoolExecutor", AtOnce)
    read: list[Path] = []
    load = audio.load
    monkeypatch.setattr(audio, "load", lambda path, sha256: (read.append(path), load(path, sha256))[1])
    files = [[compute.File(Path(path), sha)] for path, sha in zip(rows["path"], rows["sha256"])]
    chunks = compute.decoded(files, Whole(), [(Preparation(), 16_000)], 1)
    next(chunks)
    assert len(read) == 1 + ahead
    assert len(list(chunks)) == len(rows) - 1 and read == [file.path for (file,) in files]


@pytest.mark.parametrize("cut", [Whole(), Pieces(0.8), Segments(20)])
def test_a_vector_that_is_not_finite_is_refused(
    cut: Cut, rows: pd.DataFrame, specs: Specs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        f0.Extractor, "extract", lambda self, waves: [Feature(np.full(107, np.nan, np.float32))] * len(waves)
    )
    with pytest.raises(PipelineError, match="the extractor f0 returned a vector that is not finite"):
        made(rows, specs, tmp_path, cut)


@pytest.fixture(scope="module")
def segmented(rows: pd.DataFrame, specs: Specs, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artefact]:
    return made(rows, specs, tmp_path_factory.mktemp("segments"), Segments(halves.INPUTS))


def test_there_are_twenty_segments_of_each_feature(segmented: dict[str, Artefact]) -> None:
    for label in LABELS:
        assert table(segmented[label]).ids == tuple(str(number) for number in range(20))


def test_phone_segments_are_runs_of_the_codes_of_whole_utterances(
    segmented: dict[str, Artefact], rows: pd.DataFrame, specs: Specs
) -> None:
    """Weighted by their codes they add up to the histogram of all utterances, of which no code is lost at a border."""
    got = table(segmented["phones"])
    waves = [audio.resample(*audio.load(Path(path)), 16_000) for path in rows["path"]]
    whole = alone(specs["phones"]).extract(waves)
    counts = sum(np.rint(one.vector.astype(float) * one.weight) for one in whole)
    np.testing.assert_array_equal(np.rint(got.weights @ got.vectors.astype(float)), counts)
    assert got.weights.max() - got.weights.min() <= 1


def test_other_features_are_of_the_cut_audio(segmented: dict[str, Artefact], rows: pd.DataFrame, specs: Specs) -> None:
    got = table(segmented["f0"])
    extractor = alone(specs["f0"])
    waves = [audio.resample(*audio.load(Path(path)), 16_000) for path in rows["path"]]
    joined = np.concatenate(waves)
    for number in (0, 7, 19):
        low, high = len(joined) * number // 20, len(joined) * (number + 1) // 20
        expected = extractor.extract([audio.resample(joined[low:high], 16_000, 8000)])[0]
        place = got.row[str(number)]
        assert np.abs(got.vectors[place] - expected.vector).sum() < 0.2
        assert abs(got.weights[place] - expected.weight) <= 2


def test_pieces_are_equal_parts_of_each_file_and_keep_their_order_and_speakers(
    rows: pd.DataFrame, specs: Specs, tmp_path: Path
) -> None:
    chosen = {label: specs[label] for label in ("ecapa", "f0")}
    found = made(rows, chosen, tmp_path, Pieces(0.8))
    for label, spec in chosen.items():
        extractor = alone(spec)
        wanted = rows.iloc[[7, 2]].assign(set="x", speaker=["s7", "s2"])[["set", "utterance", "speaker"]]
        listed = rows.assign(set="x", speaker=[f"s{number}" for number in range(len(rows))])
        read = selections.SelectPieces(manifest.Listing(listed), 0, manifest.Wanted(wanted))([found[label]]).value
        counts = {7: 3, 2: 1}  # 2.25 s and 1 s in pieces of about 0.8 s
        assert read.ids == tuple(f"u{number}#{place}" for number, count in counts.items() for place in range(count))
        assert read.speakers == ("s7",) * 3 + ("s2",)
        expected = [
            feature.vector
            for number, count in counts.items()
            for feature in extractor.extract([
                audio.resample(piece, 16_000, extractor.sample_rate)
                for piece in np.array_split(audio.load(Path(rows["path"].iloc[number]))[0], count)])
        ]  # fmt: skip
        np.testing.assert_allclose(read.vectors, expected, atol=1e-4 * np.abs(expected).max())


# Preparation ----------------------------------------------------------------------------------------------------------


def audio_rows(folder: Path, waves: dict[str, np.ndarray], rate: int = 16_000) -> pd.DataFrame:
    """Waveforms as rows of a manifest."""
    made = []
    for name, wave in waves.items():
        audio.write(folder / f"{name}.wav", wave, rate)
        made.append((name, str(folder / f"{name}.wav"), rate, len(wave), file_digest(folder / f"{name}.wav")))
    return pd.DataFrame(made, columns=["utterance", "path", "sample_rate", "samples", "sha256"])


def prepared_as(spec: ExtractorSpec, **settings: Any) -> ExtractorSpec:
    """The extractor with other settings."""
    return dataclasses.replace(spec, settings=spec.settings.model_copy(update=settings))


@pytest.mark.parametrize("rate", [16_000, 8000])
def test_padding_with_zeros_moves_no_vector_that_is_trimmed(rate: int, specs: Specs, tmp_path: Path) -> None:
    """Also where the rate has to be changed: the file is trimmed before."""
    wave = make_utterance(make_speaker(3, 0), 3, 1, 2.0).wave.astype(np.float32)
    wave = np.trim_zeros(audio.resample(wave, 16_000, rate))
    listed = audio_rows(tmp_path, {"plain": wave, "padded": np.pad(wave, (1234, 16_000))}, rate)
    several = {
        "trimmed": specs["ecapa"],
        "sinc": prepared_as(specs["ecapa"], resampler="torchaudio_sinc"),
        "whole": prepared_as(specs["ecapa"], trim_zeros=False),
    }
    apart = {}
    for label, artefact in made(listed, several, tmp_path / "store").items():
        found = table(artefact)
        plain, padded = (found.vectors[found.row[sha]].astype(float) for sha in listed["sha256"])
        apart[label] = 1 - plain @ padded / np.linalg.norm(plain) / np.linalg.norm(padded)
    assert abs(apart["trimmed"]) < 1e-6 and abs(apart["sinc"]) < 1e-6
    assert apart["whole"] > 1e-3


@pytest.mark.parametrize("cut", [Whole(), Pieces(0.5), Segments(4)])
def test_a_file_of_zeros_alone_is_unusable_with_a_reason(cut: Cut, specs: Specs, tmp_path: Path) -> None:
    listed = audio_rows(tmp_path, {"silent": np.zeros(32_000, np.float32)})
    several = {"trimmed": specs["ecapa"], "whole": prepared_as(specs["ecapa"], trim_zeros=False)}
    for artefact in made(listed, several, tmp_path / "store", cut).values():
        found = table(artefact)
        assert len(found.ids) == len(cut.names(listed))
        assert not found.weights.any() and all(found.reasons)


def test_files_that_begin_or_end_with_digital_silence_are_counted_where_they_are_whole(
    specs: Specs, tmp_path: Path
) -> None:
    sound = np.random.default_rng(0).uniform(0.1, 0.2, 8000).astype(np.float32)
    lengths = {"none": (0, 0), "too_short": (7, 7), "begin": (8, 0), "both": (1, 320), "end": (0, 80)}
    waves = {name: np.pad(sound, ends) for name, ends in lengths.items()} | {"silent": np.zeros(1600, np.float32)}
    waves["inside"] = np.concatenate([sound, np.zeros(4000, np.float32), sound])
    listed = audio_rows(tmp_path, waves)
    chosen = {label: specs[label] for label in ("ecapa", "f0")}
    for one in made(listed, chosen, tmp_path / "whole").values():
        assert one.record["notes"]["digital_silence"] == {
            "files": 7,
            "milliseconds": [0.5, 5.0, 20.062, 100.0],
        }
    pieces = made(listed, chosen, tmp_path / "pieces", Pieces(0.1))
    assert all("digital_silence" not in one.record["notes"] for one in pieces.values())
