"""The challenge's real lists of LibriSpeech, where somebody has them: six Kaldi folders without audio."""

from __future__ import annotations

from pathlib import Path

from tests.challenge.sets import Set, Trial, Utterance, fewer


def libri(folder: Path, name: str, scale: float) -> list[Set]:
    """Enrolment, trials_f and trials_m of a subset as the lists say, cut to fewer speakers and utterances by ``scale``.

    A cut keeps speakers with a model and speakers without one.
    """
    models = {row.speaker for row in _utterances(folder / f"{name}_enrolls")}
    made = []
    for suffix in ("enrolls", "trials_f", "trials_m"):
        place = folder / f"{name}_{suffix}"
        rows = _utterances(place)
        if scale != 1:
            rows = _cut(rows, models, scale)
        trials = None
        if suffix != "enrolls":
            kept = {row.id for row in rows}
            enrolled = {row.speaker for row in rows} & models
            trials = tuple(trial for trial in _trials(place) if trial[1] in kept and trial[0] in enrolled)
        made.append(Set(place.name, name, tuple(rows), suffix == "enrolls", trials))
    return made


def _cut(rows: list[Utterance], models: set[str], scale: float) -> list[Utterance]:
    by_speaker: dict[str, list[Utterance]] = {}
    for row in rows:
        by_speaker.setdefault(row.speaker, []).append(row)
    kept: list[str] = []
    for sex in "fm":
        for enrolled, least in ((True, 2), (False, 1)):
            able = sorted(s for s, held in by_speaker.items() if held[0].sex == sex and (s in models) == enrolled)
            kept += able[: fewer(len(able), scale, least)]
    return [row for speaker in sorted(kept) for row in by_speaker[speaker][: fewer(len(by_speaker[speaker]), scale, 3)]]


def _table(path: Path) -> dict[str, str]:
    lines = path.read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(" ") for line in lines)}


def _utterances(folder: Path) -> list[Utterance]:
    sexes, texts = _table(folder / "spk2gender"), _table(folder / "text")
    speakers = _table(folder / "utt2spk")
    return [Utterance(id_, speaker, sexes[speaker], texts[id_]) for id_, speaker in speakers.items()]


def _trials(folder: Path) -> list[Trial]:
    rows = [line.split() for line in (folder / "trials").read_text().splitlines()]
    return [(model, utterance, label) for model, utterance, label in rows]
