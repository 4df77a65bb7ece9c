"""The phone trainer: determinism, its record, its batches, what it refuses, and that it learns."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pipeline.datasets.synthetic import make_speaker, make_utterance
from pipeline.errors import DataError
from pipeline.extractors.phones import network as vqvae
from pipeline.extractors.phones.training import Crops, PhonesTrainerSettings, Trainer
from pipeline.nets.activity import detect, powers
from pipeline.nets.waveforms import Waveforms, pack_waveforms

TINY = PhonesTrainerSettings(
    channels=12, codes=16, dimension=6, speaker_dimension=4, n_mels=24, steps=8, batch=4, crop_seconds=0.3, restart=3,
    held_out=0.2,
)  # fmt: skip

SPEAKERS = [f"s{item % 5}" for item in range(20)]
AUDIO = pack_waveforms(
    [make_utterance(make_speaker(8, item % 5), 8, item, 1.0).wave for item in range(20)],
    SPEAKERS,
    [f"utt-{item}" for item in range(20)],
)
WAVES = [AUDIO.piece(item) for item in range(20)]


def trained(folder: Path, settings: PhonesTrainerSettings = TINY, audio: Waveforms = AUDIO, **more: Any) -> Path:
    folder.mkdir()
    assert Trainer.train(settings, audio, folder, **more)
    return folder


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    return trained(tmp_path_factory.mktemp("phones") / "one")


def record(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((folder / "training.json").read_text())
    return made


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(one: Path, tmp_path: Path) -> None:
    torch.manual_seed(2)
    two = trained(tmp_path / "two")
    other = trained(tmp_path / "other", TINY.model_copy(update={"seed": 1}))
    for name in ("phones.safetensors", "training.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes()
        assert (one / name).read_bytes() != (other / name).read_bytes()


def test_what_is_written(one: Path) -> None:
    state = load_file(one / "phones.safetensors")
    assert {key.split(".")[0] for key in state} == {"mean", "scale", "encoder", "quantiser", "speakers", "decoder"}
    assert [key for key in state if key.startswith("quantiser")] == ["quantiser.codes"]
    assert all(torch.isfinite(tensor.float()).all() for tensor in state.values())
    assert vqvae.Encoder(state, "cpu").n_codes == 16
    made = record(one)
    assert made["settings"] == TINY.numeric()
    assert (made["data_digest"], made["device"], made["threads"]) == (AUDIO.digest, "cpu", 1)
    assert (made["speakers"], made["utterances"], made["utterances_held_out"]) == (5, 20, 4)
    assert len(made["loss"]) == len(made["reconstruction"]) == 8
    assert made["reconstruction_start"] == pytest.approx(made["reconstruction"][0], abs=1e-4)
    assert all(loss >= error for loss, error in zip(made["loss"], made["reconstruction"]))
    assert made["codes_restarted"] >= 16


def test_the_record_measures_what_the_weights_do(one: Path) -> None:
    """Use of the codes and reconstruction, counted again from the files that were written."""
    state = load_file(one / "phones.safetensors")
    encoder, model = vqvae.Encoder(state, "cpu"), vqvae.Network(24, 12, 16, 6, 5, 4)
    model.load_state_dict(state)
    model.eval()
    for name, items in {"held_out": Crops(TINY, AUDIO).held_out, "training": Crops(TINY, AUDIO).trained}.items():
        counts, errors = Counter[int](), []
        for item in items:
            activity = detect(powers(WAVES[item]))
            gain = activity.level**-0.5
            codes = encoder.codes([WAVES[item]], [gain])[0]
            counts.update(codes[activity.active].tolist())
            around = vqvae.surroundings(WAVES[item] * np.float32(gain), 0, len(codes))
            with torch.no_grad():
                mels = model.normalised(vqvae.Mels(24)(torch.from_numpy(around)[None]))
                made = model.decoded(model.quantiser.codes[codes], torch.tensor([int(SPEAKERS[item][1:])]))
            errors.append(float((made - mels).abs().mean()))
        shares = np.array(list(counts.values())) / counts.total()
        written = record(one)["measured"][name]
        assert written["utterances"] == len(items)
        assert written["active_codes"] == counts.total()
        assert written["codes_used"] == len(counts)
        assert written["most_frequent"] == pytest.approx(shares.max(), abs=1e-4)
        assert written["perplexity"] == pytest.approx(np.prod(shares**-shares), abs=0.06)
        assert written["reconstruction"] == pytest.approx(np.mean(errors), abs=1e-4)


def test_bands_are_normalised_over_the_training_data(one: Path) -> None:
    state = load_file(one / "phones.safetensors")
    crops = np.concatenate([Crops(TINY, AUDIO).batch(step)[1] for step in range(8)])
    mels = vqvae.Mels(24)(torch.from_numpy(crops)).numpy()
    np.testing.assert_allclose(state["mean"].numpy(), mels.mean((0, 2)), atol=1e-3)
    np.testing.assert_allclose(state["scale"].numpy(), 1 / mels.std((0, 2)), rtol=1e-3)


def test_it_learns(tmp_path: Path) -> None:
    settings = TINY.model_copy(
        update={"steps": 150, "batch": 8, "channels": 32, "codes": 32, "dimension": 16, "learning_rate": 5e-3}
    )
    made = record(trained(tmp_path / "one", settings))
    # Normalised mels have a mean absolute value of about 0.8.
    assert made["reconstruction_start"] > 0.7
    assert made["reconstruction_end"] < 0.55 * made["reconstruction_start"]
    for measured in made["measured"].values():
        assert measured["reconstruction"] < 0.6
        assert measured["perplexity"] > 14
        assert measured["codes_used"] > 20


def test_held_out_utterances_are_never_trained_on() -> None:
    crops = Crops(TINY, AUDIO)
    assert len(crops.held_out) == 4
    met = Counter(item for step in range(40) for item in crops.batch(step)[0])
    assert sorted([*met, *crops.held_out]) == list(range(20))
    # 160 crops of 16 utterances, in rounds.
    assert set(met.values()) == {10}


def test_a_speaker_without_utterances_to_train_on_is_the_average_of_the_others(tmp_path: Path) -> None:
    audio = pack_waveforms(WAVES[:6], list("abcdee"))
    seed = next(seed for seed in range(20) if not all(Crops(TINY.model_copy(update={"seed": seed}), audio).is_trained))
    settings = TINY.model_copy(update={"seed": seed})
    known = np.array(Crops(settings, audio).is_trained)
    Trainer.train(settings, audio, tmp_path)
    table = load_file(tmp_path / "phones.safetensors")["speakers.weight"].numpy()
    np.testing.assert_allclose(table[~known][0], table[known].mean(0), atol=1e-6)


def test_batches_depend_on_their_step_alone_and_are_crops_of_power_one() -> None:
    crops = Crops(TINY, AUDIO)
    items, waves, labels = Crops(TINY, AUDIO).batch(4)
    again = crops.batch(4)
    assert items == again[0]
    np.testing.assert_array_equal(waves, again[1])
    assert [SPEAKERS[item] for item in items] == [crops.speakers[label] for label in labels]
    assert waves.shape == (4, 15 * 320 + 240)
    for crop, item in zip(waves, items):
        whole = WAVES[item] * np.float32(detect(powers(WAVES[item])).level ** -0.5)
        windows = np.lib.stride_tricks.sliding_window_view(whole, len(crop))
        assert (windows[:, ::480] == crop[::480]).all(axis=1).any()


def test_short_utterances_are_repeated_and_counted(tmp_path: Path) -> None:
    settings = TINY.model_copy(update={"held_out": 0.0})
    Trainer.train(settings, pack_waveforms([WAVES[0][:4000], WAVES[1]], ["a", "b"]), tmp_path)
    assert record(tmp_path)["repeated_up_to_a_crop"] == 1
    assert record(tmp_path)["measured"]["held_out"] is None


def test_one_utterance_is_trained_on_whatever_is_held_out(tmp_path: Path) -> None:
    Trainer.train(TINY.model_copy(update={"held_out": 0.9}), pack_waveforms(WAVES[:1], ["a"]), tmp_path)
    assert record(tmp_path)["utterances_held_out"] == 0


def test_an_utterance_without_speech_is_named(tmp_path: Path) -> None:
    silent = pack_waveforms([WAVES[0], np.zeros(9000, np.float32)], ["a", "b"], ["utt-0", "utt-1"])
    for audio, said in ((silent, "utt-1"), (pack_waveforms([], []), "no utterance")):
        with pytest.raises(DataError, match=said):
            Trainer.train(TINY, audio, tmp_path)
