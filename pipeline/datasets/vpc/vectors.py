"""Vectors and PLDA models that a challenge's own evaluation left in its ``exp``. Folders are listed; no vector is read.

2020 and 2022: ``exp/models/MODEL/xvect_01709_1/xvect_SET[SUFFIX]/xvector.scp``, with ``plda mean.vec transform.mat`` beside those
folders (2020: in that of the training set; of the model that 2022 trains anew, ``exp/models/user_asv_eval_anon`` is that folder). 2024: ``exp/MODEL/cosine_out/emb_xvect/SET[SUFFIX]/utt-level/speaker_vectors.pt``.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.datasets.vpc.layout import KNOWN, Layout, split

PARAMETERS = ("plda", "mean.vec", "transform.mat")
NAMES = tuple(name for name in KNOWN if not name.endswith(("_all", "_asr")))
"""Sets that speakers are verified on, or trained; the unions hold the same recordings once more."""


def files(layout: Layout, suffix: str, model: str) -> list[Path]:
    """The files with the vectors of all sets in one speech.

    Args:
        layout: of the folder.
        suffix: of the copies whose vectors are meant; '' for original speech.
        model: suffix of the copies that the extractor was trained on; '' for one that knows original speech.
    """
    kaldi = [
        path for folder in kaldi_folders(layout, model) for path in _there(folder, "xvect_{}", suffix, "xvector.scp")
    ]
    return kaldi or _there(_emb(layout, model), "{}", suffix, "utt-level/speaker_vectors.pt")


def parameters(layout: Layout, model: str) -> Path | None:
    """The folder with Kaldi's parameters of the back end that goes with an extractor."""
    for folder in kaldi_folders(layout, model):
        for place in (folder, *sorted(folder.glob("xvect_train*"))):
            if all((place / name).is_file() for name in PARAMETERS):
                return place
    return None


def kaldi_folders(layout: Layout, model: str) -> list[Path]:
    """The folders of Kaldi's extractor and what it made."""
    if layout.exp is None:
        return []
    several = [layout.exp / "models" / name for name in _kaldi_names(model)]
    return [
        folder for one in several if one.is_dir() for folder in (one, *sorted(one.glob("xvect_*"))) if _of_model(folder)
    ]


def looked_for(layout: Layout, model: str) -> str:
    """Where vectors were looked for."""
    exp = layout.exp if layout.exp is not None else layout.data.parent / "exp"
    deeper = ("", "xvect_*/") if model else ("xvect_*/",)
    kaldi = " or ".join(
        f"{exp}/models/{name}/{one}xvect_SET/xvector.scp" for name in _kaldi_names(model) for one in deeper
    )
    return f"{kaldi} and {exp}/{_emb(layout, model).relative_to(exp)}/SET/utt-level/speaker_vectors.pt"


def _of_model(folder: Path) -> bool:
    """Whether it is a folder that may hold a model, and not the vectors of a set."""
    return folder.is_dir() and not split(folder.name.removeprefix("xvect_"))[0]


def _kaldi_names(model: str) -> tuple[str, ...]:
    return (f"user_asv_eval{model}", f"asv_eval{model}") if model else ("asv_eval",)


def _emb(layout: Layout, model: str) -> Path:
    exp = layout.exp if layout.exp is not None else layout.data.parent / "exp"
    return exp / (f"asv_anon{model}" if model else "asv_orig") / "cosine_out" / "emb_xvect"


def _there(folder: Path, form: str, suffix: str, name: str) -> list[Path]:
    paths = [folder / form.format(f"{one}{suffix}") / name for one in NAMES]
    return [path for path in paths if path.is_file()]
