"""What the challenges' own scripts leave of an evaluation: score files, SpeechBrain's checkpoints, and Kaldi's vectors with their PLDA.

Scores are drawn so that they have about the printed equal error rate; vectors without a network, by id, from the model that a PLDA assumes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.stats import norm

from pipeline import metrics
from pipeline.seeds import digest, generator
from tests.challenge.sets import SEED, Set, Utterance, write_lines
from tests.challenge.voices import STRENGTHS

# Scores --------------------------------------------------------------------------------------------------------------

DATES = {"2020": "results-2020-05-20-10-00-00", "2022": "results-2022-06-20-10-00-00"}
# Printed EERs in %, by condition: dev f, m and test f, m of LibriSpeech in 2024.
_OF_2024 = {
    "": (10.511, 0.931, 8.761, 0.418),
    "_mcadams": (12.910, 2.045, 7.483, 1.557),
    "_b1b": (10.937, 7.454, 7.474, 4.675),
    "_sttts": (28.426, 22.044, 27.920, 26.724),
    "_nac": (34.378, 31.056, 29.378, 31.155),
    "_asrbn_hifigan_bn_tdnnf_wav2vec2_vq_48_v1": (35.816, 32.918, 33.946, 34.729),
    "_asrbn_hifigan_bn_tdnnf_600h_vq_48_v1": (25.141, 20.961, 21.146, 21.137),
}
_SAME = {"_B1": "_b1b", "_B2": "_mcadams", "_B3": "_sttts", "_B4": "_nac"}
_SETS_2024 = ("libri_dev_trials_f", "libri_dev_trials_m", "libri_test_trials_f", "libri_test_trials_m")
# The same for 2020 and 2022: f, m of LibriSpeech, f, m, f_common, m_common of VCTK; dev, then test. Systems are B2.
_KALDI = {
    ("2020", "oo"): (8.807, 1.242, 2.92, 1.439, 2.616, 1.425, 7.664, 1.114, 4.938, 2.067, 2.89, 1.13),
    ("2020", "oa"): (35.37, 17.86, 35.43, 28.14, 34.01, 23.93, 26.09, 17.82, 29.99, 28.3, 30.92, 24.29),
    ("2020", "aa"): (23.58, 10.56, 15.78, 11.12, 11.63, 10.54, 15.15, 8.463, 16.98, 12.23, 14.45, 11.86),
    ("2022", "oo"): (8.665, 1.242, 2.864, 1.439, 2.616, 1.425, 7.664, 1.114, 4.887, 2.067, 2.89, 1.13),
    ("2022", "oa"): (39.77, 39.13, 28.3, 37.27, 41.28, 42.17, 38.32, 41.2, 46.4, 24.68, 44.8, 39.27),
    ("2022", "aa"): (43.32, 44.57, 55.76, 32.9, 40.99, 40.17, 39.78, 40.09, 58.85, 43.92, 53.18, 37.29),
    ("2022 retrained", "oo"): (14.91, 3.416, 6.906, 3.375, 5.814, 4.274, 10.22, 2.227, 9.259, 4.42, 8.382, 2.825),
    ("2022 retrained", "oa"): (17.05, 2.484, 8.928, 9.876, 15.12, 11.68, 8.759, 2.227, 24.64, 7.118, 14.45, 6.78),
    ("2022 retrained", "aa"): (11.36, 1.398, 6.682, 6.352, 5.814, 8.832, 7.117, 1.114, 16.92, 7.692, 10.98, 4.802),
}
_SETS_KALDI = tuple(
    f"{corpus}_{part}_trials_{kind}"
    for part in ("dev", "test")
    for corpus, kinds in (("libri", "f m"), ("vctk", "f m f_common m_common"))
    for kind in kinds.split()
)


def draw_scores(part: Set, eer: float, purpose: str) -> np.ndarray:
    """A score for each trial: evenly spaced quantiles of two normal distributions of variance 1 that have this EER.

    Args:
        part: the set.
        eer: a fraction.
        purpose: what the order of the scores depends on, beside the set.
    """
    scores = np.empty(len(part.is_target))
    for target in (True, False):
        places = np.flatnonzero(part.is_target == target)
        order = generator(SEED, "scores", purpose, part.name, int(target)).permutation(len(places))
        centre = -norm.ppf(eer) * (1 if target else -1)
        scores[places[order]] = centre + norm.ppf((np.arange(len(places)) + 0.5) / len(places))
    return scores


def write_scores_2024(exp: Path, parts: Sequence[Set], suffix: str) -> None:
    """``exp/ASV/ENROL[SUFFIX]-TRIAL[SUFFIX]/{scores,EER}`` of both extractors, and the summaries. Scores look like cosines."""
    printed = dict(zip(_SETS_2024, _OF_2024[""], strict=True))
    attacked = dict(zip(_SETS_2024, _OF_2024.get(_SAME.get(suffix, suffix), (30.0,) * 4), strict=True))
    ranked: list[str] = []
    for asv, is_informed in (("asv_orig", False), (f"asv_anon{suffix}", True)):
        rows = []
        for part in parts:
            for enrolment, trial in (("", ""), ("", suffix), (suffix, suffix)):
                rate = (
                    printed[part.name] + 4 * is_informed if not trial else attacked[part.name] if is_informed else 42.0
                )
                eer = _write_list_2024(exp / asv, part, enrolment, trial, rate / 100, asv)
                corpus, split, _, sex, *_ = part.name.split("_")
                words = ["anon" if end else "original" for end in (enrolment, trial)]
                rows.append(f"{len(rows)},{corpus},{split},{sex},{','.join(words)},{100 * eer:.3f}")
        write_lines(exp / asv / f"results{suffix}.csv", [",dataset,split,gender,enrollment,trial,EER", *rows])
        kind = "anon" if is_informed else "orig"
        shown = [row for row in rows if ("anon,anon" if is_informed else "original,original") in row]
        summary = [
            f"---- ASV_eval{'^anon' if is_informed else ''} results ----",
            *(row.replace(",", " ") for row in shown),
        ]
        write_lines(exp / "results_summary" / f"eval_{kind}{suffix}" / f"results_{kind}.txt", summary)
        ranked += ["", *summary]
    write_lines(exp / "results_summary" / f"result_for_rank{suffix}", ranked)


def write_scores_2026(exp: Path, parts: Sequence[Set], suffix: str) -> None:
    """The same for VPC 2026's mixed sets; its published OO is not known here, so that the rates are invented."""
    for part in parts:
        _write_list_2024(exp / "asv_ssl", part, "", "", 0.02, "asv_ssl")
        _write_list_2024(exp / f"asv_anon{suffix}", part, suffix, suffix, 0.05, f"asv_anon{suffix}")


def _write_list_2024(asv: Path, part: Set, enrolment: str, trial: str, rate: float, purpose: str) -> float:
    folder = asv / f"{part.raw}_enrolls{enrolment}-{part.name}{trial}"
    scores = 0.3 + 0.08 * draw_scores(part, rate, f"{purpose} {enrolment} {trial}")
    _write_scores(folder / "scores", part, scores)
    eer = metrics.eer(scores[part.is_target], scores[~part.is_target], variant="speechbrain")
    (folder / "EER").write_text(str(eer))  # a fraction
    return eer


def write_scores_kaldi(exp: Path, parts: Sequence[Set], suffix: str, edition: str) -> None:
    """``exp/results-DATE/ASV-ENROL[SUFFIX]-TRIAL[SUFFIX]`` of 2020; in 2022 also ``results-DATE.orig``, of the original model."""
    date = DATES[edition] if suffix == "_anon" else f"{DATES[edition]}{suffix}"
    kinds = [("2020", date)] if edition == "2020" else [("2022 retrained", date), ("2022", f"{date}.orig")]
    for kind, name in kinds:
        summary: list[str] = []
        for part in parts:
            for condition, enrolment, trial in (("oo", "", ""), ("oa", "", suffix), ("aa", suffix, suffix)):
                rate = dict(zip(_SETS_KALDI, _KALDI[kind, condition], strict=True))[part.name] / 100
                place = exp / name / f"ASV-{part.raw}_enrolls{enrolment}-{part.name}{trial}"
                summary += [place.name, *_write_list_kaldi(place, part, rate, f"{kind} {enrolment} {trial}")]
        write_lines(exp / name / "results.txt", summary)
        if edition == "2022":
            eers = [f"{a}  {b.strip()}" for a, b in pairwise(summary) if a.startswith("ASV-")]
            write_lines(exp / name / "results_summary.txt", eers)


def _write_list_kaldi(folder: Path, part: Set, rate: float, purpose: str) -> list[str]:
    """The files of one list, and what the summary says of it. Scores are log likelihood ratios, badly calibrated as printed."""
    scores = 20 * draw_scores(part, rate, purpose) - 10
    _write_scores(folder / "scores", part, scores)
    t, n = scores[part.is_target], scores[~part.is_target]
    zebra = metrics.zebra(t, n)
    files = {
        "EER": [f"EER: {100 * metrics.eer(t, n, variant='kaldi'):.4g}%"],
        "Cllr": [
            f"Cllr (min/act): {metrics.cllr_min(t, n):.3f}/{metrics.cllr(t, n):.3f}",
            f"ROCCH-EER: {100 * metrics.eer(t, n, variant='rocch'):.3f}%",
        ],
        "linkability_log": [f"linkability: {metrics.d_sys(t, n, variant='vpc'):.6f}"],
        "zebra": [f"Population: {zebra.d_ece:.3f} bit", f"Individual: {zebra.l_w:.3f} ({zebra.tag})"],
    }
    costs = ["minDCF(p-target=0.01): 0.5000", "minDCF(p-target=0.001): 0.7000"]
    for name, lines in files.items():
        write_lines(folder / name, [*lines, *(costs if name == "EER" else ())])
    (folder / ".done").touch()
    return [f"  {line}" for lines in files.values() for line in lines]


def _write_scores(path: Path, part: Set, scores: np.ndarray) -> None:
    rows = zip(part.trials or (), scores.tolist(), strict=True)
    write_lines(path, (f"{model} {utterance} {score:.6g}" for (model, utterance, _), score in rows))


# Vectors -------------------------------------------------------------------------------------------------------------

SPEAKER_DIMENSIONS = 24
"""Directions in which speakers differ."""
BETWEEN = 0.6
"""Variance between speakers in those, where that within a speaker is 1."""


@cache
def mean_and_axes(dimension: int, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean [dimension] of all vectors and orthonormal axes [dimension, rank]."""
    random = generator(SEED, "axes", dimension)
    return 0.2 * random.normal(size=dimension), np.linalg.qr(random.normal(size=(dimension, rank)))[0]


def draw_vectors(
    rows: Sequence[Utterance], folder: str, suffix: str, dimension: int, rank: int, model: str = ""
) -> np.ndarray:
    """Float32 [rows, dimension]: the mean, what is the speaker's, and what is the recording's.

    Args:
        rows: the recordings.
        folder: the set, on which the pseudo-speaker of a copy depends.
        suffix: of the copy; '' for the originals.
        dimension: of a vector.
        rank: directions in which recordings differ.
        model: what the extractor was trained on, where that is no original speech: pseudo-voices hide half as much from it.
    """
    mean, axes = mean_and_axes(dimension, rank)
    strength = (STRENGTHS.get(suffix, 0.7) if suffix else 0.0) / (2 if model else 1)
    hidden = np.empty((len(rows), rank))
    for place, row in enumerate(rows):
        hidden[place] = generator(SEED, "recording", suffix + model, row.id).normal(size=rank)
        own = np.sqrt(1 - strength**2) * _draw_voice(row.speaker)
        hidden[place, :SPEAKER_DIMENSIONS] += own + strength * _draw_voice(f"{folder}{suffix} {row.speaker}")
    return (mean + hidden @ axes.T).astype(np.float32)


@cache
def _draw_voice(name: str) -> np.ndarray:
    return np.sqrt(BETWEEN) * generator(SEED, "voice", name).normal(size=SPEAKER_DIMENSIONS)


# SpeechBrain ---------------------------------------------------------------------------------------------------------

CHANNELS, EMBEDDING, ATTENTION, BANDS = [16, 16, 16, 16, 48], 192, 16, 80
HYPERPARAMS = """# what SpeechBrain would build; a reader takes the sizes from the tensors
output_folder: exp/asv
embedding_model: !new:speechbrain.lobes.models.ECAPA_TDNN.ECAPA_TDNN
    input_size: 80
    channels: [16, 16, 16, 16, 48]
    lin_neurons: 192
"""


def write_training(folder: Path, seed: str, training: Set, epochs: Sequence[int], ssl: bool = False) -> None:
    """The folder of a training: a tiny ECAPA in ``CKPT+EPOCH`` for the best and the last epoch, with other weights in each.

    Args:
        folder: where to.
        seed: of the weights, with the epoch.
        training: its speakers are the classes.
        epochs: of the checkpoints; the last is the best only where ``ssl`` is False, for VPC 2026 takes the best.
        ssl: whether the file of hyperparameters is called as in VPC 2026.
    """
    speakers = sorted({row.speaker for row in training.utterances})
    for epoch in epochs:
        _write_checkpoint(folder / f"CKPT+{epoch}", f"{seed} {epoch}", epoch, len(speakers), ssl)
    best = epochs[0] if ssl else epochs[-1]
    log = []
    for epoch in range(1, max(epochs) + 1):
        loss = 2.0 + 0.1 * abs(epoch - best)
        log.append(
            f"Epoch: {epoch}, lr: {1e-8 + 2e-4 * epoch:.2e} - train loss: {loss - 0.2:.2f}, train error: 1.0e-01 - "
            f"valid loss: {loss:.2f}, valid ErrorRate: {loss / 20:.2e}"
        )
    write_lines(folder / "train_log.txt", log)
    labels = [f"'{speaker}' => {place}" for place, speaker in enumerate(speakers)]
    write_lines(folder / "label_encoder.txt", [*labels, "================", "'starting_index' => 0"])
    (folder / "hyperparams.yaml").write_text(HYPERPARAMS)
    write_lines(folder / "env.log", ["SpeechBrain system description", "Python version: 3.8"])
    for name, rows in (("train.csv", training.utterances[1:]), ("dev.csv", training.utterances[:1])):
        items = [f"{row.id}_0.0_3.0,3.0,data/{row.id}.wav,0,48000,{row.speaker}" for row in rows]
        write_lines(folder / name, ["ID,duration,wav,start,stop,spk_id", *items])


def _write_checkpoint(folder: Path, seed: str, epoch: int, classes: int, ssl: bool) -> None:
    import torch

    from pipeline.nets import speechbrain_networks as network

    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(digest(SEED, "ecapa", seed)[:8], 16))
        model = network.make_ecapa(BANDS, CHANNELS, EMBEDDING, ATTENTION)
        weights = torch.randn(classes, EMBEDDING)
    torch.save(model.state_dict(), folder / "embedding_model.ckpt")
    torch.save({"weight": weights}, folder / "classifier.ckpt")
    torch.save({"count": torch.zeros(()), "glob_mean": torch.zeros(BANDS)}, folder / "normalizer.ckpt")
    (folder / "counter.ckpt").write_text(f"{epoch}\n")
    facts = [f"ErrorRate: {1 / epoch:.4f}", "end-of-epoch: true", f"unixtime: {1_700_000_000 + epoch}.0"]
    write_lines(folder / "CKPT.yaml", ["# yamllint disable", *facts])
    for name in ("hyperparams.yaml", "ecapa_ssl_hyperparams.yaml" if ssl else "train_ecapa_tdnn_small.yaml"):
        (folder / name).write_text(HYPERPARAMS)


def write_speaker_vectors(folder: Path, parts: Sequence[Set], suffix: str) -> None:
    """``cosine_out/emb_xvect/SET[SUFFIX]``: by utterance for trials, by speaker too for enrolment (plain means)."""
    for part in parts:
        vectors = draw_vectors(part.utterances, part.name, suffix, EMBEDDING, SPEAKER_DIMENSIONS)
        place = folder / "cosine_out" / "emb_xvect" / f"{part.name}{suffix}"
        # the extraction walks through the utterances in an order of its own, so that rows are not sorted by id
        order = generator(SEED, "rows", folder.name, part.name, suffix).permutation(len(vectors))
        ids, speakers = ([getattr(part.utterances[n], name) for n in order] for name in ("id", "speaker"))
        _write_vectors(place / "utt-level", vectors[order], ids, speakers, part)
        if part.enrols:
            names, owner = list(dict.fromkeys(speakers)), np.array(speakers)
            means = np.stack([vectors[order][owner == name].mean(0) for name in names])
            _write_vectors(place / "spk-level", means, names, names, part)


def _write_vectors(folder: Path, vectors: np.ndarray, ids: Sequence[str], speakers: Sequence[str], part: Set) -> None:
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    torch.save(torch.from_numpy(vectors), folder / "speaker_vectors.pt")
    write_lines(folder / "id2idx", sorted(f"{id_} {row}" for row, id_ in enumerate(ids)))
    write_lines(folder / "idx2spk", (f"{row} {speaker}" for row, speaker in enumerate(speakers)))
    write_lines(folder / "spk2gender", sorted({f"{row.speaker} {row.sex}" for row in part.utterances}))


# Kaldi ---------------------------------------------------------------------------------------------------------------

DIMENSION, LDA = 512, 200


def write_kaldi_model(
    model: Path, checkout: Path, parts: Sequence[Set], suffixes: Sequence[str], back_end: str, trained_on: str = ""
) -> None:
    """``final.raw``, ``xvect_SET[SUFFIX]/{xvector.scp,.done}``, and ``plda mean.vec transform.mat``.

    Args:
        model: the folder of the x-vector network.
        checkout: where the paths of xvector.scp start.
        parts: the sets.
        suffixes: of the copies; '' for the originals.
        back_end: the folder in ``model`` that holds the back end; '' for ``model`` itself.
        trained_on: suffix of the copies that the network was trained on; '' for original speech.
    """
    for suffix in suffixes:
        for part in parts:
            vectors = draw_vectors(part.utterances, part.name, suffix, DIMENSION, LDA, trained_on)
            folder = model / f"xvect_{part.name}{suffix}"
            _write_archive(folder, checkout, [row.id for row in part.utterances], vectors)
            (folder / ".done").touch()
    (model / "final.raw").write_bytes(b"\0B<Nnet3> ")  # nothing reads the network itself
    _write_plda(model / back_end)


def _write_archive(folder: Path, checkout: Path, ids: Sequence[str], vectors: np.ndarray) -> None:
    """``xvector.1.ark`` and the ``xvector.scp`` that says where in it each vector begins."""
    folder.mkdir(parents=True, exist_ok=True)
    archive, lines = bytearray(), []
    name = (folder / "xvector.1.ark").relative_to(checkout)
    for id_, vector in zip(ids, vectors, strict=True):
        archive += id_.encode() + b" "
        lines.append(f"{id_} {name}:{len(archive)}")
        archive += b"\0B" + encode(vector)
    (folder / "xvector.1.ark").write_bytes(archive)
    write_lines(folder / "xvector.scp", lines)


def _write_plda(folder: Path) -> None:
    """The back end with which the vectors were drawn, so that its ratios are right up to what length normalisation does."""
    mean, axes = mean_and_axes(DIMENSION, LDA)
    between = np.where(np.arange(LDA) < SPEAKER_DIMENSIONS, BETWEEN, 0.0)
    # vectors are brought to the length sqrt(LDA) first, which divides their variances by the mean of 1 + between
    scale = np.sqrt(np.mean(1 + between))
    folder.mkdir(parents=True, exist_ok=True)
    offset = np.zeros((LDA, 1))  # ivector-compute-lda writes one, and the mean is subtracted before
    (folder / "mean.vec").write_bytes(b"\0B" + encode(mean.astype(np.float32)))
    (folder / "transform.mat").write_bytes(b"\0B" + encode(np.hstack([axes.T, offset]).astype(np.float32)))
    arrays = [np.zeros(LDA), scale * np.eye(LDA), between]
    (folder / "plda").write_bytes(b"\0B<Plda> " + b"".join(map(encode, arrays)) + b"</Plda> ")


def encode(values: np.ndarray) -> bytes:
    """A vector or matrix, float32 or float64, as Kaldi writes it in binary, without the mark before it."""
    kind = {("f", 1): b"FV ", ("d", 1): b"DV ", ("f", 2): b"FM ", ("d", 2): b"DM "}[values.dtype.char, values.ndim]
    sizes = b"".join(b"\4" + struct.pack("<i", size) for size in values.shape)
    return kind + sizes + np.ascontiguousarray(values).tobytes()
