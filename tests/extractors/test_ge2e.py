"""GE2E: the mel filters against librosa, the embedding against a plain re-computation, and its EER on real speech."""

from __future__ import annotations

from pathlib import Path

import librosa
import numpy as np
import pytest
import torch

from pipeline import audio, contracts
from pipeline.errors import DataError, ModelMissing
from pipeline.extractors import ge2e
from pipeline.extractors.ge2e import network as model


@pytest.fixture(scope="module")
def weights(models: Path) -> Path:
    try:
        found = ge2e.Extractor.weights(ge2e.Ge2eSettings(), models)
    except ModelMissing as missing:
        pytest.skip(str(missing))
    assert found is not None
    return found.folder


@pytest.fixture(scope="module")
def extractor(weights: Path) -> ge2e.Extractor:
    return ge2e.Extractor(ge2e.Ge2eSettings(), weights, "cpu", 2)


def noise(seconds: float, seed: int = 0, gain: float = 0.05) -> np.ndarray:
    return (gain * np.random.default_rng(seed).standard_normal(int(16_000 * seconds))).astype(np.float32)


@pytest.mark.parametrize(("rate", "n_fft", "n_mels"), [(16_000, 400, 40), (16_000, 512, 80), (8_000, 256, 24)])
def test_mel_filters_are_those_of_librosa(rate: int, n_fft: int, n_mels: int) -> None:
    expected = librosa.filters.mel(sr=rate, n_fft=n_fft, n_mels=n_mels)
    assert np.abs(model.mel_filters(rate, n_fft, n_mels) - expected).max() < 1e-7


def test_mel_frames_are_those_of_librosa() -> None:
    wave = noise(1.6)
    padded = torch.from_numpy(np.pad(wave, model.N_FFT // 2))
    made = model.Encoder().mel(padded).numpy()
    expected = librosa.feature.melspectrogram(
        y=wave, sr=16_000, n_fft=400, hop_length=160, n_mels=40, pad_mode="constant"
    )
    assert made.shape == (161, 40)
    assert np.abs(made - expected.T).max() < 1e-5 * expected.max()


@pytest.mark.parametrize(
    ("seconds", "starts"),
    [(0.01, [0]), (1.6, [0]), (1.969, [0]), (1.971, [0, 77]), (2.739, [0, 77]), (2.741, [0, 77, 154])],
)
def test_windows_begin_every_77_frames_and_the_last_is_covered_to_three_quarters(
    seconds: float, starts: list[int]
) -> None:
    assert model.window_starts(round(16_000 * seconds)) == starts


def by_hand(wave: np.ndarray, weights: Path) -> np.ndarray:
    """The embedding by librosa's mel frames and LSTM cells written out in numpy (float64)."""
    state = torch.load(weights / ge2e.FILE, weights_only=True, map_location="cpu")["model_state"]
    state = {key: value.double().numpy() for key, value in state.items()}
    wave = wave * 10 ** (-30 / 20) / np.sqrt(np.mean(wave.astype(np.float64) ** 2))
    starts = [0]
    while len(wave) - 160 * (starts[-1] + 77) >= 0.75 * 25_600:
        starts.append(starts[-1] + 77)
    wave = np.pad(wave, (0, max(0, 160 * starts[-1] + 25_600 - len(wave))))
    mel = librosa.feature.melspectrogram(y=wave, sr=16_000, n_fft=400, hop_length=160, n_mels=40, pad_mode="constant").T

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    vectors = []
    for start in starts:
        sequence = mel[start : start + 160].astype(np.float64)
        for layer in range(3):
            h, c, outputs = np.zeros(256), np.zeros(256), []
            for frame in sequence:
                gates = (
                    state[f"lstm.weight_ih_l{layer}"] @ frame
                    + state[f"lstm.bias_ih_l{layer}"]
                    + state[f"lstm.weight_hh_l{layer}"] @ h
                    + state[f"lstm.bias_hh_l{layer}"]
                )
                i, f, g, o = np.split(gates, 4)
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                h = sigmoid(o) * np.tanh(c)
                outputs.append(h)
            sequence = np.array(outputs)
        raw = np.maximum(state["linear.weight"] @ h + state["linear.bias"], 0)
        vectors.append(raw / np.linalg.norm(raw))
    mean = np.mean(vectors, axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


@pytest.mark.parametrize("seconds", [0.3, 1.6, 2.5])
def test_embedding_equals_one_worked_out_by_hand(
    seconds: float, speech: Path, weights: Path, extractor: ge2e.Extractor
) -> None:
    path = sorted((speech / "librispeech" / "test-other").rglob("*.flac"))[3]
    wave = audio.load(path)[0][8000 : 8000 + round(16_000 * seconds)]
    [feature] = extractor.extract([wave])
    assert feature.vector.dtype == np.float32
    assert feature.weight == 1
    assert abs(np.linalg.norm(feature.vector) - 1) < 1e-6
    assert 1 - feature.vector @ by_hand(wave, weights) < 1e-6


def test_a_long_file_goes_through_in_blocks_to_the_same_vector(
    extractor: ge2e.Extractor, monkeypatch: pytest.MonkeyPatch
) -> None:
    wave = noise(30.0) * np.linspace(0, 1, 480_000, dtype=np.float32)
    [whole] = extractor.extract([wave])
    monkeypatch.setattr(model, "_TOGETHER", 5)
    [blocks] = extractor.extract([wave])
    assert 1 - whole.vector @ blocks.vector < 1e-6


@pytest.mark.parametrize(
    ("level", "moves"), [("normalise", (False, False)), ("raise_only", (False, True)), ("keep", (True, True))]
)
def test_gain_moves_the_vector_only_where_the_setting_lets_it(
    level: str, moves: tuple[bool, bool], weights: Path
) -> None:
    extractor = ge2e.Extractor(ge2e.Ge2eSettings.model_validate({"level": level}), weights, "cpu", 2)
    wave = noise(2.0, gain=10 ** (-30 / 20))
    quiet, same, loud = (f.vector for f in extractor.extract([0.1 * wave, wave, 10 * wave]))
    assert (1 - quiet @ same > 1e-4) == moves[0]
    assert (1 - loud @ same > 1e-4) == moves[1]


@pytest.mark.parametrize(
    ("wave", "reason"),
    [
        (np.zeros(0, np.float32), "no samples"),
        (np.zeros(16_000, np.float32), "silent"),
        (np.full(16_000, 1e-12, np.float32), "silent"),
        (np.array([0.1, np.nan] * 8000, np.float32), "NaN"),
    ],
)
def test_unusable_audio_has_weight_zero_and_a_reason(wave: np.ndarray, reason: str, extractor: ge2e.Extractor) -> None:
    good = noise(1.0)
    bad, other = extractor.extract([wave, good])
    assert reason in bad.reason
    assert bad.weight == 0
    assert bad.vector.shape == (256,)
    assert not bad.vector.any()
    assert other.weight == 1


@pytest.mark.parametrize("n", [1, 2, 100, 799])
def test_very_short_audio_gives_a_finite_vector(n: int, extractor: ge2e.Extractor) -> None:
    [feature] = extractor.extract([noise(1.0)[:n]])
    assert np.isfinite(feature.vector).all()
    assert feature.weight in (0, 1)
    assert (feature.weight == 0) == bool(feature.reason)


@pytest.mark.slow
def test_equal_error_rate_on_test_other(speech: Path, weights: Path) -> None:
    paths = sorted((speech / "librispeech" / "test-other").rglob("*.flac"))
    waves = [audio.load(path)[0] for path in paths]
    speakers = np.array([path.parts[-3] for path in paths])
    first, second = np.triu_indices(len(paths), 1)
    target = speakers[first] == speakers[second]
    rates = {}
    for level in ("normalise", "raise_only"):
        extractor = ge2e.Extractor(ge2e.Ge2eSettings.model_validate({"level": level}), weights, "cpu", 2)
        vectors = np.stack([feature.vector for feature in extractor.extract(waves)])
        scores = (vectors @ vectors.T)[first, second]
        thresholds = np.sort(scores[target])
        misses = np.arange(len(thresholds)) / len(thresholds)
        alarms = np.array([(scores[~target] >= threshold).mean() for threshold in thresholds])
        rates[level] = 100 * np.min(np.maximum(misses, alarms))
    # 450 targets: a step is 0.22 %. Measured by hand: 0.72 (both ways), 0.39 (raised only; printed elsewhere: 0.28).
    assert rates["normalise"] < 1.0
    assert rates["raise_only"] < 0.6


def test_missing_and_wrong_weights_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"fetch-models 'extractor=\[ge2e\]' paths.models="):
        ge2e.Extractor.weights(ge2e.Ge2eSettings(), tmp_path)
    (tmp_path / "ge2e").mkdir()
    (tmp_path / "ge2e" / "pretrained.pt").write_bytes(b"no weights")
    with pytest.raises(ModelMissing, match="sha256"):
        ge2e.Extractor.weights(ge2e.Ge2eSettings(), tmp_path)
    with pytest.raises(DataError, match="no GE2E weights"):
        ge2e.Extractor(ge2e.Ge2eSettings(), tmp_path / "ge2e", "cpu", 1)


def test_pool_is_the_mean_of_unit_vectors_that_count() -> None:
    vectors = np.array([[3.0, 0.0], [0.0, 0.5], [7.0, 7.0], [0.0, 0.0]])
    assert np.allclose(contracts.mean_of_units(vectors, np.array([1, 1, 0, 1])), [0.5, 0.5])
    assert not contracts.mean_of_units(vectors, np.zeros(4)).any()
