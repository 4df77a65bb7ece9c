"""``validate`` on a submission: each fault is planted alone and all together; what is named is what was planted."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipeline import cli
from pipeline.anonymisers.mcadams import Anonymiser, McAdamsSettings
from pipeline.contracts import Utterance
from pipeline.submission.findings import WORDS
from pipeline.tables import csv
from tests import toy

SETS = ("toy_enrolls", "toy_trials_f", "toy_trials_m")
RATE = 16_000


@dataclass
class Folder:
    """A data set and a submission to it, which tests break."""

    root: Path
    sub: Path
    options: list[str] = field(default_factory=list)

    def ids(self, name: str) -> list[str]:
        return [line.split()[0] for line in (self.root / name / "utt2spk").read_text().splitlines()]

    def file(self, utterance: str) -> Path:
        return next(self.sub.rglob(f"{utterance}.wav"))

    def original(self, utterance: str) -> Path:
        return self.root / "wav" / f"{utterance}.wav"

    def wave(self, utterance: str) -> np.ndarray:
        return soundfile.read(self.file(utterance))[0]

    def write(self, utterance: str, wave: np.ndarray, rate: int = RATE) -> str:
        soundfile.write(self.file(utterance), wave, rate, subtype="PCM_16")
        return utterance

    def lines(self, name: str = "toy_trials_f") -> list[str]:
        return (self.root / name / "trials").read_text().splitlines()

    def save(self, lines: list[str], name: str = "toy_trials_f") -> None:
        (self.root / name / "trials").write_text("".join(f"{line}\n" for line in lines))


def anonymised(root: Path, sub: Path, **settings: object) -> None:
    """A submission to a toy data set: ``SET_anon/wav/UTTERANCE.wav``."""
    system = Anonymiser(McAdamsSettings.model_validate(settings))
    for name in SETS:
        folder = sub / f"{name}_anon" / "wav"
        folder.mkdir(parents=True)
        for line in (root / name / "utt2spk").read_text().splitlines():
            utterance, speaker = line.split()
            wave, rate = soundfile.read(root / "wav" / f"{utterance}.wav", dtype="float32")
            made = system.anonymise(wave, rate, Utterance(utterance, speaker, name)).wave
            soundfile.write(
                folder / f"{utterance}.wav", made * min(1, 0.9 / np.abs(made).max()), rate, subtype="PCM_16"
            )


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    place = tmp_path_factory.mktemp("clean")
    root = toy.corpus(place / "toy")
    anonymised(root, place / "sub", level="speaker", alpha_range=[0.6, 0.9])
    return Folder(root, place / "sub")


@pytest.fixture
def folder(clean: Folder, tmp_path: Path) -> Folder:
    shutil.copytree(clean.root, tmp_path / "toy")
    shutil.copytree(clean.sub, tmp_path / "sub")
    return Folder(tmp_path / "toy", tmp_path / "sub")


@dataclass(frozen=True)
class Said:
    """What the verb printed, and the table that it wrote: ids by title of the check."""

    status: int
    out: str
    err: str
    verdicts: dict[str, str]
    found: dict[str, set[str]]

    @property
    def last(self) -> str:
        return self.out.splitlines()[-1]

    def others(self) -> dict[str, str]:
        """Checks that are not ok."""
        return {title: verdict for title, verdict in self.verdicts.items() if verdict != "ok"}


@pytest.fixture
def validate(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    monkeypatch.chdir(tmp_path)

    def call(given: Folder, *more: str) -> Said:
        table = tmp_path / "found.findings.csv"
        status = cli.run(
            [
                "validate", "dataset=kaldi", f"dataset.root={given.root}", "system=original", f"--html={tmp_path / 'found.html'}",
                f"+system.mine={{name: external, root: {given.sub}, level: speaker}}", "runtime.threads=2", *given.options, *more,
            ]
        )  # fmt: skip
        out, err = capfd.readouterr()
        rows = csv.read(table) if table.exists() else None
        titles = "|".join(re.escape(words.title) for words in WORDS.values())
        lines = re.findall(rf"^(ok|warning|wrong|unknown) +(?:mine: )?({titles})\b", out, re.MULTILINE)
        found: dict[str, set[str]] = {}
        for row in rows.to_dict("records") if rows is not None else []:
            found.setdefault(row["check"], set()).add(row["id"])
        return Said(status, out, err, {title: verdict for verdict, title in lines}, found)

    return call


def test_a_clean_submission_passes_every_check(clean: Folder, validate: Callable[..., Said]) -> None:
    said = validate(clean)
    assert (said.status, said.last) == (0, "verdict: nothing wrong")
    assert set(said.verdicts) == {words.title for name, words in WORDS.items() if name != "second_run"}
    assert set(said.verdicts.values()) == {"ok"} and not said.found
    assert "mine: 48 files" in said.out and "beside 48 originals" in said.out


def _missing(f: Folder) -> set[str]:
    gone = f.ids("toy_trials_m")[:3]
    for one in gone:
        f.file(one).unlink()
    return {*gone}


def _extra(f: Folder) -> set[str]:
    shutil.copy(f.file(f.ids("toy_enrolls")[0]), f.sub / "toy_enrolls_anon" / "wav" / "stray.wav")
    return {"toy_enrolls_anon/wav/stray.wav"}


def _unclear(f: Folder) -> set[str]:
    one = f.file(f.ids("toy_enrolls")[1])
    soundfile.write(one.with_suffix(".flac"), *soundfile.read(one))
    return {one.stem}


def _unreadable(f: Folder) -> set[str]:
    one = f.file(f.ids("toy_trials_f")[2])
    one.write_bytes(one.read_bytes()[:5000])
    return {one.stem}


def _silent(f: Folder) -> set[str]:
    return {f.write(f.ids("toy_trials_f")[3], np.zeros(RATE))}


def _cut(f: Folder) -> set[str]:
    one = f.ids("toy_trials_f")[4]
    return {f.write(one, f.wave(one)[: len(f.wave(one)) * 2 // 5])}


def _longer(f: Folder) -> set[str]:
    one = f.ids("toy_trials_f")[4]
    noise = 0.001 * np.random.default_rng(1).standard_normal(800)
    return {f.write(one, np.concatenate([f.wave(one), noise]))}


def _rate(f: Folder) -> set[str]:
    one = f.ids("toy_enrolls")[5]
    return {f.write(one, f.wave(one)[::2], RATE // 2)}


def _bandwidth(f: Folder) -> set[str]:
    one = f.ids("toy_trials_f")[5]
    spectrum = np.fft.rfft(f.wave(one))
    spectrum[len(spectrum) // 2 :] = 0
    return {f.write(one, np.fft.irfft(spectrum, len(f.wave(one))))}


def _zeros(f: Folder) -> set[str]:
    one = f.ids("toy_enrolls")[6]
    wave = f.wave(one)
    wave[-400:] = 0
    return {f.write(one, wave)}


def _clipped(f: Folder) -> set[str]:
    return {
        f.write(one, np.clip(8 * f.wave(one) / np.abs(f.wave(one)).max(), -1, 1)) for one in f.ids("toy_enrolls")[7:8]
    }


def _flat(f: Folder) -> set[str]:
    """Clipped, and scaled down afterwards."""
    one = f.ids("toy_enrolls")[8]
    return {f.write(one, 0.5 * np.clip(8 * f.wave(one) / np.abs(f.wave(one)).max(), -1, 1))}


def _alike(f: Folder) -> set[str]:
    one, other = f.ids("toy_trials_m")[3], f.ids("toy_trials_m")[6]
    assert len(f.wave(one)) == len(f.wave(other))
    shutil.copy(f.file(one), f.file(other))
    return {one, other}


def _unprotected(f: Folder) -> set[str]:
    """Byte for byte, and at another level and some samples later."""
    one, other = f.ids("toy_trials_m")[7:9]
    shutil.copy(f.original(one), f.file(one))
    wave = soundfile.read(f.original(other))[0]
    return {one, f.write(other, 0.7 * np.concatenate([wave[37:], wave[:37]]))}


def _others(f: Folder) -> set[str]:
    one, other = f.ids("toy_trials_m")[9], f.ids("toy_trials_m")[0]
    assert f.original(one).stat().st_size == f.original(other).stat().st_size
    shutil.copy(f.original(other), f.file(one))
    return {one}


def _data(f: Folder) -> set[str]:
    f.save([*f.lines(), "nobody syn00-03 nontarget"])
    return {f"{f.root}/toy_trials_f/trials:{len(f.lines())}"}


PLANTS: dict[str, tuple[Callable[[Folder], set[str]], str]] = {
    "missing": (_missing, "wrong"),
    "extra": (_extra, "warning"),
    "unclear": (_unclear, "wrong"),
    "unreadable": (_unreadable, "wrong"),
    "silent": (_silent, "wrong"),
    "duration": (_cut, "wrong"),
    "rate": (_rate, "warning"),
    "bandwidth": (_bandwidth, "warning"),
    "zeros": (_zeros, "warning"),
    "clipping": (_clipped, "warning"),
    "alike": (_alike, "wrong"),
    "unprotected": (_unprotected, "wrong"),
    "others": (_others, "wrong"),
    "data": (_data, "wrong"),
}


DEAR = ("extra", "unclear", "unreadable", "silent", "rate", "bandwidth", "zeros", "data")
"""They are found among all others in every test run, and alone in the long one."""


@pytest.mark.parametrize(
    ("name", "plant", "verdict"),
    [
        *(pytest.param(name, *how, marks=[pytest.mark.slow] if name in DEAR else []) for name, how in PLANTS.items()),
        pytest.param("duration", _longer, "warning", marks=pytest.mark.slow),
        ("clipping", _flat, "warning"),
    ],
)
def test_each_fault_is_found_alone(
    folder: Folder, validate: Callable[..., Said], name: str, plant: Callable[[Folder], set[str]], verdict: str
) -> None:
    planted = plant(folder)
    said = validate(folder)
    title = WORDS[name].title
    assert said.others() == {title: verdict} and said.found == {title: planted}
    assert said.status == (3 if verdict == "wrong" else 0)
    of = "" if name == "data" else "mine: "
    expected = f"wrong: 1 of 16 checks ({of}{title})" if verdict == "wrong" else "nothing wrong, 1 warning"
    assert said.last == f"verdict: {expected}"
    assert all(one in said.out for one in planted)
    assert "means: " in said.out and "to do: " in said.out


def test_a_header_of_another_rate_than_the_samples_is_wrong(folder: Folder, validate: Callable[..., Said]) -> None:
    """Three files of 48, with as many samples as their originals; a system that writes 22,050 Hz and takes its time is none of them."""
    odd = folder.ids("toy_trials_f")[:3]
    for one in odd:
        folder.write(one, folder.wave(one), 22_050)
    for number, one in enumerate(folder.ids("toy_enrolls")[:8]):
        wave = folder.wave(one)
        folder.write(one, np.resize(wave, round((1.2 + 0.05 * number) * len(wave))), 24_000)
    said = validate(folder)
    assert said.found[WORDS["header"].title] == {*odd} and said.others()[WORDS["header"].title] == "wrong"
    assert said.status == 3 and said.last.startswith("verdict: wrong: 1 of 16 checks (mine: wrong sampling rate")


def test_a_mixed_list_without_trials_across_sexes(folder: Folder, validate: Callable[..., Said]) -> None:
    """As VoicePrivacy 2026 handed them out: the lists of f and m put together."""
    for place, names in ((folder.root, SETS[1:]), (folder.sub, [f"{name}_anon" for name in SETS[1:]])):
        mixed = place / names[0].replace("trials_f", "trials_mixed")
        shutil.move(place / names[0], mixed)
        for path in sorted((place / names[1]).rglob("*")):
            there = mixed / path.relative_to(place / names[1])
            if path.suffix == ".wav":
                shutil.move(path, there)
            elif path.is_file():
                there.write_text(there.read_text() + path.read_text())
        shutil.rmtree(place / names[1])
    said = validate(folder)
    assert said.found == {WORDS["cross_sex"].title: {"toy_trials_mixed"}}
    assert said.status == 3 and "none of its 96 trials crosses sexes (96 could)" in " ".join(said.out.split())
    models = sorted({line.split()[0] for line in folder.lines("toy_trials_mixed")})
    whole = [
        f"{model} {utterance} {'target' if utterance.startswith(model) else 'nontarget'}"
        for model in models
        for utterance in folder.ids("toy_trials_mixed")
    ]
    folder.save(whole, "toy_trials_mixed")
    said = validate(folder)
    assert said.status == 0 and not said.found


def test_enrolment_left_unprotected_is_named(folder: Folder, validate: Callable[..., Said]) -> None:
    for one in folder.ids("toy_enrolls"):
        shutil.copy(folder.original(one), folder.file(one))
    said = validate(folder)
    assert said.status == 3 and said.found[WORDS["unprotected"].title] == {*folder.ids("toy_enrolls")}


def test_wrong_labels_and_trials_that_stand_twice_are_faults_of_the_data_set(
    folder: Folder, validate: Callable[..., Said]
) -> None:
    first, *lines = folder.lines()
    assert first.endswith(" target")
    folder.save([first.replace(" target", " nontarget"), *lines, lines[-1]])
    said = validate(folder)
    assert said.status == 3 and said.others() == {WORDS["data"].title: "wrong"}
    assert len(said.found[WORDS["data"].title]) >= 2


@pytest.mark.slow
def test_swapped_folders_are_named(folder: Folder, validate: Callable[..., Said]) -> None:
    one, other = folder.sub / "toy_enrolls_anon", folder.sub / "toy_trials_m_anon"
    one.rename(folder.sub / "aside")
    other.rename(one)
    (folder.sub / "aside").rename(other)
    said = validate(folder)
    text = " ".join(said.out.split())
    assert said.status == 3 and "all 24 of toy_enrolls; all 12 of toy_trials_m" in text
    assert (
        "12 that toy_trials_m lacks in toy_enrolls_anon" in text
        and "exchanged: 24 files that toy_enrolls lacks lie in" in text
    )
    remedy = re.search(r"put each in its own place: (mv .*)", said.out)
    assert remedy is not None
    subprocess.run(remedy[1], shell=True, check=True)
    assert validate(folder).last == "verdict: nothing wrong"


def test_a_set_that_is_not_there_and_half_of_another(folder: Folder, validate: Callable[..., Said]) -> None:
    shutil.rmtree(folder.sub / "toy_trials_f_anon")
    for utterance in folder.ids("toy_trials_m")[6:]:
        folder.file(utterance).unlink()
    said = validate(folder)
    assert said.found[WORDS["missing"].title] == {*folder.ids("toy_trials_f"), *folder.ids("toy_trials_m")[6:]}
    assert "all 12 of toy_trials_f; 6 of 12 of toy_trials_m" in " ".join(said.out.split())


@pytest.mark.slow
def test_files_of_another_name_and_the_remedy(folder: Folder, validate: Callable[..., Said]) -> None:
    for path in sorted(folder.sub.rglob("*.wav")):
        path.rename(path.with_name(f"{path.stem}_gen.wav"))
    said = validate(folder)
    assert said.status == 3 and len(said.found[WORDS["missing"].title]) == 48
    remedy = re.search(r'"(system\.mine\.pattern=[^"]+)"', said.out)
    assert remedy is not None
    assert validate(folder, remedy[1]).last == "verdict: nothing wrong"


@pytest.mark.slow
def test_a_second_run_is_checked_too(folder: Folder, validate: Callable[..., Said]) -> None:
    again = folder.sub.with_name("again")
    shutil.copytree(folder.sub, again)
    _missing(Folder(folder.root, again))
    said = validate(folder, f"+system.mine.second_root={again}")
    assert said.status == 3 and "mine (second run): missing files" in said.last
    assert len(said.found[WORDS["second_run"].title]) == 45


def test_all_faults_at_once_and_the_page(folder: Folder, validate: Callable[..., Said], tmp_path: Path) -> None:
    planted = {name: plant(folder) for name, (plant, _) in PLANTS.items()}
    evil = folder.sub / "toy_enrolls_anon" / "<img src=x onerror=alert(1)>.wav"
    shutil.copy(folder.sub / "toy_enrolls_anon" / "wav" / "stray.wav", evil)
    planted["extra"].add(str(evil.relative_to(folder.sub)))
    said = validate(folder)
    assert said.status == 3
    assert {name: said.found.get(WORDS[name].title) for name in planted} == planted
    wrong = [name for name, (_, verdict) in PLANTS.items() if verdict == "wrong"]
    assert said.last.startswith(f"verdict: wrong: {len(wrong)} of 16 checks (") and "5 warnings" in said.last
    page = (tmp_path / "found.html").read_text(encoding="utf-8")
    for ids in planted.values():
        for one in ids:
            assert one.replace("<", "&lt;").replace(">", "&gt;") in page
    assert said.last.replace("'", "&#39;") in page
    assert "<img" not in page and "<script" not in page
    references = re.findall(
        r"""(?:src|href|action)=["']?([^"'\s>]+)|url\(([^)]+)\)""", page.replace("&lt;img src=x", "")
    )
    assert references and all("".join(one).startswith(("#", "data:")) for one in references)
    assert f"written: {tmp_path / 'found.html'}" in said.out


@pytest.mark.slow
def test_names_that_a_terminal_would_obey_are_escaped(folder: Folder, validate: Callable[..., Said]) -> None:
    shutil.copy(folder.file("syn00-00"), folder.sub / "toy_enrolls_anon" / "\x1b[31m.wav")
    out = validate(folder).out
    assert "\x1b" not in out and "\\x1b[31m.wav" in out


@pytest.mark.slow
def test_a_training_set_is_looked_at_where_that_is_asked(
    folder: Folder, validate: Callable[..., Said], tmp_path: Path
) -> None:
    for place, gain in ((tmp_path / "train", 1.0), (tmp_path / "train_anon", 0.5)):
        for number in range(6):
            path = place / f"p{number // 2}" / "c" / f"p{number // 2}-c-{number}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            wave = soundfile.read(folder.original(folder.ids("toy_enrolls")[number]))[0]
            soundfile.write(path, (gain if number else 1.0) * wave, RATE)
    overrides = [f"dataset.train={tmp_path / 'train'}", f"+system.mine.train_root={tmp_path / 'train_anon'}"]
    said = validate(folder, *overrides)
    assert said.status == 0 and "training speech was not looked at" in said.out
    said = validate(folder, "--training", *overrides)
    assert len(said.found[WORDS["unprotected"].title]) == 6 and said.status == 3
    assert "mine (training): files that are the original" in said.last


@pytest.mark.slow
def test_without_audio_the_configuration_alone_is_checked(
    folder: Folder, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mine = f"+system.mine={{name: external, root: {folder.sub}}}"
    assert cli.run(["validate", "recipe=kaldi", "dataset.root=nowhere", mine]) == 0
    out = capfd.readouterr().out
    assert out.startswith("valid: dataset kaldi") and "audio was not looked at: there is no folder 'nowhere'" in out
    assert cli.run(["validate", f"dataset.root={folder.root}", "dataset=kaldi", "system=b2"]) == 0
    assert "no system names a folder" in capfd.readouterr().out
    assert cli.run(["validate", "recipe=demo", "--html", "found.html"]) == 2
    assert "no audio can be checked" in capfd.readouterr().err and not (tmp_path / "found.html").exists()
    assert cli.run(["validate", "recipe=demo", "--html"]) == 2
    assert "--html" in capfd.readouterr().err


def test_a_folder_that_is_not_there_is_wrong(folder: Folder, validate: Callable[..., Said]) -> None:
    shutil.rmtree(folder.sub)
    said = validate(folder)
    assert said.status == 3 and "there is no folder" in said.out and "system.mine.root=DIR" in said.out
    assert len(said.found[WORDS["missing"].title]) == 48


@pytest.mark.slow
def test_a_data_set_without_sets_is_said_as_such(folder: Folder, validate: Callable[..., Said]) -> None:
    for name in SETS:
        shutil.rmtree(folder.root / name)
    said = validate(folder)
    assert said.status == 3 and said.last == "verdict: wrong: 1 of 1 checks (the data set itself)"
