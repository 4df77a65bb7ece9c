"""A tiny folder as the scripts of the VoicePrivacy Challenge 2024 leave it: synthetic speakers in two libri sets, and copies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline import audio
from tests import toy

SETS = {"toy_enrolls": "libri_dev_enrolls", "toy_trials_f": "libri_dev_trials_f", "toy_trials_m": "libri_dev_trials_m"}


def original(root: Path, speakers: int = 6, utterances: int = 4) -> Path:
    """``root/data`` with the sets of libri_dev."""
    data = root / "data"
    data.mkdir(parents=True)
    toy.corpus(data, speakers, utterances)
    for made, name in SETS.items():
        (data / made).rename(data / name)
        table = data / name / "wav.scp"
        lines = [line.split() for line in table.read_text().splitlines()]
        table.write_text("".join(f"{utterance} {data / path}\n" for utterance, path in lines))
    return root


def anonymise(root: Path, suffix: str, sets: Sequence[str] = tuple(SETS.values()), data: Path | None = None) -> None:
    """A copy of sets, in which each recording is turned back to front, as loud as the suffix is short."""
    for name in sets:
        for line in (root / "data" / name / "wav.scp").read_text().splitlines():
            utterance, path = line.split()
            wave, rate = audio.load(Path(path))
            copied = (data or root / "data") / f"{name}{suffix}" / "wav" / f"{utterance}.wav"
            copied.parent.mkdir(parents=True, exist_ok=True)
            audio.write(copied, wave[::-1] / len(suffix), rate, "PCM_16")


def training(root: Path, suffix: str, speakers: int = 4) -> Path:
    """``train-clean-360`` of further speakers, and its copy."""
    rows = []
    for index in range(20, 20 + speakers):
        speaker = toy.synthetic.make_speaker(toy.SEED, index)
        for number in range(2):
            name, _, path = toy.wav(root / "corpora", index, number, 1.2)
            rows.append((name, speaker.id, speaker.sex, path))
    folder = toy.write_set(root / "data" / "train-clean-360", rows)
    anonymise(root, suffix, ["train-clean-360"])
    return folder


def checkpoint(folder: Path, seed: int) -> Path:
    """A small ECAPA with random weights as SpeechBrain's checkpointer names it, with a file that no one may read."""
    import torch

    from pipeline.nets import speechbrain_networks as network

    torch.manual_seed(seed)
    model = network.make_ecapa(80, [16, 16, 16, 16, 48], 24, 8)
    folder.mkdir(parents=True)
    torch.save(model.state_dict(), folder / "embedding_model.ckpt")
    (folder / "hyperparams.yaml").write_text("embedding_model: !!python/object/apply:os.abort []\n")
    return folder
