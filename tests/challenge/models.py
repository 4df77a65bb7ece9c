"""What SpeechBrain and the challenge of 2024 leave of a training: checkpoints, and vectors of what was evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.seeds import digest, generator
from tests.challenge import tables, vectors
from tests.challenge.sets import SEED, Set

CHANNELS, EMBEDDING, ATTENTION, BANDS = [16, 16, 16, 16, 48], 192, 16, 80
HYPERPARAMS = """# what SpeechBrain would build; a reader takes the sizes from the tensors
output_folder: exp/asv
embedding_model: !new:speechbrain.lobes.models.ECAPA_TDNN.ECAPA_TDNN
    input_size: 80
    channels: [16, 16, 16, 16, 48]
    lin_neurons: 192
"""


def ecapa(folder: Path, seed: str, training: Set, epochs: Sequence[int], ssl: bool = False) -> None:
    """The folder of a training: a tiny ECAPA in ``CKPT+EPOCH`` for the best and the last epoch, with other weights in each.

    Args:
        folder: where to.
        seed: of the weights, with the epoch.
        training: its speakers are the classes.
        epochs: of the checkpoints; the last is the best only where ``ssl`` is False, for VPC 2026 takes the best.
        ssl: whether the file of hyperparameters is called as in VPC 2026.
    """
    for epoch in epochs:
        _checkpoint(folder / f"CKPT+{epoch}", f"{seed} {epoch}", epoch, len(_speakers(training)), ssl)
    best = epochs[0] if ssl else epochs[-1]
    log = []
    for epoch in range(1, max(epochs) + 1):
        loss = 2.0 + 0.1 * abs(epoch - best)
        log.append(
            f"Epoch: {epoch}, lr: {1e-8 + 2e-4 * epoch:.2e} - train loss: {loss - 0.2:.2f}, train error: 1.0e-01 - "
            f"valid loss: {loss:.2f}, valid ErrorRate: {loss / 20:.2e}"
        )
    tables.lines(folder / "train_log.txt", log)
    labels = [f"'{speaker}' => {place}" for place, speaker in enumerate(_speakers(training))]
    tables.lines(folder / "label_encoder.txt", [*labels, "================", "'starting_index' => 0"])
    (folder / "hyperparams.yaml").write_text(HYPERPARAMS)
    tables.lines(folder / "env.log", ["SpeechBrain system description", "Python version: 3.8"])
    for name, rows in (("train.csv", training.utterances[1:]), ("dev.csv", training.utterances[:1])):
        items = [f"{row.id}_0.0_3.0,3.0,data/{row.id}.wav,0,48000,{row.speaker}" for row in rows]
        tables.lines(folder / name, ["ID,duration,wav,start,stop,spk_id", *items])


def _checkpoint(folder: Path, seed: str, epoch: int, classes: int, ssl: bool) -> None:
    import torch

    from pipeline.extractors.ecapa import network

    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(digest(SEED, "ecapa", seed)[:8], 16))
        model = network.fresh(BANDS, CHANNELS, EMBEDDING, ATTENTION)
        weights = torch.randn(classes, EMBEDDING)
    torch.save(model.state_dict(), folder / "embedding_model.ckpt")
    torch.save({"weight": weights}, folder / "classifier.ckpt")
    torch.save({"count": torch.zeros(()), "glob_mean": torch.zeros(BANDS)}, folder / "normalizer.ckpt")
    (folder / "counter.ckpt").write_text(f"{epoch}\n")
    tables.lines(folder / "CKPT.yaml", ["# yamllint disable", f"ErrorRate: {1 / epoch:.4f}", "end-of-epoch: true",
                                        f"unixtime: {1_700_000_000 + epoch}.0"])  # fmt: skip
    (folder / "hyperparams.yaml").write_text(HYPERPARAMS)
    other = "ecapa_ssl_hyperparams.yaml" if ssl else "train_ecapa_tdnn_small.yaml"
    (folder / other).write_text(HYPERPARAMS)


def ssl_ecapa(folder: Path, seed: str, training: Set) -> None:
    """VPC 2026's ``exp/asv_ssl``: the checkpoints alone; its WavLM Large is not imitated."""
    ecapa(folder, seed, training, (4, 9), ssl=True)


def speaker_vectors(folder: Path, held: Sequence[Set], suffix: str) -> None:
    """``cosine_out/emb_xvect/SET[SUFFIX]``: by utterance for trials, by speaker too for enrolment (plain means)."""
    import numpy as np

    for one in held:
        made = vectors.of(one.utterances, one.name, suffix, EMBEDDING, vectors.HELD)
        place = folder / "cosine_out" / "emb_xvect" / f"{one.name}{suffix}"
        # the extraction walks through the utterances in an order of its own, so that rows are not sorted by id
        order = generator(SEED, "rows", folder.name, one.name, suffix).permutation(len(made))
        speakers = [one.utterances[n].speaker for n in order]
        _vectors(place / "utt-level", made[order], [one.utterances[n].id for n in order], speakers, one)
        if one.enrols:
            names = list(dict.fromkeys(speakers))
            of_speaker = np.array(speakers)
            means = np.stack([made[order][of_speaker == name].mean(0) for name in names])
            _vectors(place / "spk-level", means, names, names, one)


def _vectors(folder: Path, made: object, ids: Sequence[str], speakers: Sequence[str], held: Set) -> None:
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    torch.save(torch.from_numpy(made), folder / "speaker_vectors.pt")
    tables.lines(folder / "id2idx", sorted(f"{id_} {row}" for row, id_ in enumerate(ids)))
    tables.lines(folder / "idx2spk", (f"{row} {speaker}" for row, speaker in enumerate(speakers)))
    tables.lines(folder / "spk2gender", sorted({f"{row.speaker} {row.sex}" for row in held.utterances}))


def _speakers(training: Set) -> list[str]:
    return sorted({row.speaker for row in training.utterances})
