"""Tiny folders of VoicePrivacy challenges: the sets' real names, six invented speakers a half, a quarter of a second each."""

from __future__ import annotations

import csv
from pathlib import Path

import soundfile

from .conftest import RATE, noise

SPEAKERS = {"f": ("fa", "fb", "fc"), "m": ("ma", "mb", "mc")}
"""By sex; the first two are enrolled."""
REAL = Path(__file__).resolve().parents[2] / "data_manifests" / "protocols"
COUNTS = {
    "enrolment": (4, 8, "", ""),
    "f": (3, 6, 4, 8),
    "m": (3, 6, 4, 8),
    "common": (3, 3, 2, 4),
    "mixed": (6, 12, 8, ""),
}
"""Speakers, utterances, target and non-target trials of a tiny set."""


def protocols(folder: Path) -> Path:
    """The real protocols with the counts of the tiny sets; nothing is said of sets for other ends, and of unions."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in REAL.glob("*.csv"):
        with path.open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        for row in rows:
            kind = "enrolment" if row["role"] == "enrolment" else row["sex"]
            kind = "common" if row["set"].endswith("_common") else kind
            known = COUNTS.get(kind) if row["role"] in ("enrolment", "trials", "part") else None
            row.update(zip(("speakers", "utterances", "target", "nontarget"), known or ("", "", "", "")))
        with (folder / path.name).open("w", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    return folder


class Challenge:
    """The sets of some halves; ``tables[set][table]`` are the lines: change them, then ``save``."""

    def __init__(self, root: Path, halves: tuple[str, ...] = ("libri_dev", "libri_test"), mixed: bool = False) -> None:
        self.root, self.data = root, root / "data"
        self.tables: dict[str, dict[str, list[str]]] = {}
        for half in halves:
            short = f"{half[0]}{half.split('_')[1][0]}"
            enrolled = [f"{short}{who}-e{number}" for sex in "fm" for who in SPEAKERS[sex][:2] for number in (0, 1)]
            self.tables[f"{half}_enrolls"] = self.basic(enrolled) | {"enrolls": list(enrolled)}
            for sex in "fm":
                self.add_trials(f"{half}_trials_{sex}", short, sex, ("t0", "t1"))
                if half.startswith("vctk"):
                    self.add_trials(f"{half}_trials_{sex}_common", short, sex, ("c0",))
            if mixed:
                self.add_mixed(half)

    @staticmethod
    def basic(names: list[str]) -> dict[str, list[str]]:
        speakers = sorted({name.split("-")[0] for name in names})
        return {
            "wav.scp": [f"{name} data/wav/{name}.wav" for name in names],
            "utt2spk": [f"{name} {name.split('-')[0]}" for name in names],
            "spk2gender": [f"{speaker} {speaker[2]}" for speaker in speakers],
        }

    def add_trials(self, name: str, short: str, sex: str, numbers: tuple[str, ...]) -> None:
        tried = [f"{short}{who}-{number}" for who in SPEAKERS[sex] for number in numbers]
        models = [f"{short}{who}" for who in SPEAKERS[sex][:2]]
        self.tables[name] = self.basic(tried) | {"trials": self.pairs(models, tried)}

    def add_mixed(self, half: str) -> None:
        """The set of both sexes, with every pair across sexes."""
        parts = [self.tables[f"{half}_trials_{sex}"] for sex in "fm"]
        tried = [line.split()[0] for part in parts for line in part["utt2spk"]]
        models = sorted({line.split()[0] for part in parts for line in part["trials"]})
        self.tables[f"{half}_trials_mixed"] = self.basic(tried) | {"trials": self.pairs(models, tried)}

    @staticmethod
    def pairs(models: list[str], tried: list[str]) -> list[str]:
        return [f"{m} {u} {'target' if u.split('-')[0] == m else 'nontarget'}" for m in models for u in tried]

    def save(self) -> Challenge:
        (self.data / "wav").mkdir(parents=True, exist_ok=True)
        for name, tables in self.tables.items():
            (self.data / name).mkdir(exist_ok=True)
            for table, lines in tables.items():
                (self.data / name / table).write_text("".join(f"{line}\n" for line in lines))
            for line in tables.get("wav.scp", []):
                path = self.data / "wav" / f"{line.split()[0]}.wav"
                soundfile.write(path, noise(path.stem), RATE, subtype="PCM_16")
        return self

    def copy(self, suffix: str, place: Path | None = None, tables: bool = True) -> list[Path]:
        """Anonymised copies of all sets, SET_suffix/wav/UTT.wav, beside them or in another folder; the files."""
        files = []
        for name, content in self.tables.items():
            folder = (place or self.data) / f"{name}{suffix}"
            (folder / "wav").mkdir(parents=True, exist_ok=True)
            for line in content["wav.scp"]:
                files.append(folder / "wav" / f"{line.split()[0]}.wav")
                soundfile.write(files[-1], noise(f"{files[-1].stem}{suffix}"), RATE, subtype="PCM_16")
            for table, lines in content.items() if tables else ():
                (folder / table).write_text("".join(f"{line}\n" for line in lines))
        return files

    def raw(self, half: str) -> Path:
        """Put the sets of a half back into the one that they were cut out of."""
        names = [name for name in self.tables if name.startswith(f"{half}_")]
        end = "_mic2" if half.startswith("vctk") else ""
        whole: dict[str, list[str]] = {}
        for name in names:
            for table, lines in self.tables.pop(name).items():
                called = table if table not in ("enrolls", "trials") else name.removeprefix(f"{half}_") + end
                whole.setdefault(called, []).extend(line for line in lines if line not in whole.get(called, []))
        self.tables[half] = whole
        return self.data / half
