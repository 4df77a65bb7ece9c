"""The written folders have the protocol's counts and the challenges' layouts, counted from the files in plain Python.

That vectors, checkpoints and score files are right is held by the tests of what reads them (e2e/test_recipes.py, e2e/test_found.py).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipeline import metrics
from pipeline.datasets.vpc.layout import read_layout
from pipeline.extractors.precomputed import files as vector_files
from tests.challenge import sets, traces, write
from tests.challenge.__main__ import main

# Speakers, utterances, target and nontarget trials of VPC 2020 and 2022, as the challenge's lists and plans have them.
COUNTS = {
    "libri_dev_enrolls": (29, 343, 0, 0),
    "libri_dev_trials_f": (20, 1018, 704, 14566),
    "libri_dev_trials_m": (20, 960, 644, 12796),
    "libri_test_enrolls": (29, 438, 0, 0),
    "libri_test_trials_f": (20, 734, 548, 11196),
    "libri_test_trials_m": (20, 762, 449, 9457),
    "vctk_dev_enrolls": (30, 600, 0, 0),
    "vctk_dev_trials_f": (15, 5422, 1781, 13219),
    "vctk_dev_trials_m": (15, 5255, 2015, 12985),
    "vctk_dev_trials_f_common": (15, 344, 344, 4810),
    "vctk_dev_trials_m_common": (15, 351, 351, 4911),
    "vctk_dev_trials_f_all": (15, 5766, 2125, 18029),
    "vctk_dev_trials_m_all": (15, 5606, 2366, 17896),
    "vctk_test_enrolls": (30, 600, 0, 0),
    "vctk_test_trials_f": (15, 5328, 1944, 13056),
    "vctk_test_trials_m": (15, 5420, 1742, 13258),
    "vctk_test_trials_f_common": (15, 346, 346, 4838),
    "vctk_test_trials_m_common": (15, 354, 354, 4952),
    "vctk_test_trials_f_all": (15, 5674, 2290, 17894),
    "vctk_test_trials_m_all": (15, 5774, 2096, 18210),
}
ENROLLED = {"libri_dev": (15, 14), "libri_test": (16, 13), "vctk_dev": (15, 15), "vctk_test": (15, 15)}


def rows(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()]


def counted(folder: Path) -> tuple[int, int, int, int]:
    """Speakers, utterances, targets and nontargets of a set, whose tables have to agree with each other."""
    speaker = dict(rows(folder / "utt2spk"))
    for table in ("wav.scp", "text", "utt2dur"):
        assert [row[0] for row in rows(folder / table)] == list(speaker) == sorted(speaker), table
    grouped = {name: ids for name, *ids in rows(folder / "spk2utt")}
    assert {id_: name for name, ids in grouped.items() for id_ in ids} == speaker
    assert {row[0] for row in rows(folder / "spk2gender")} == set(grouped)
    if (folder / "enrolls").exists():
        assert [row[0] for row in rows(folder / "enrolls")] == list(speaker)
    labels: Counter[str] = Counter()
    if (folder / "trials").exists():
        trials = rows(folder / "trials")
        assert {trial[1] for trial in trials} == set(speaker)
        assert len({(model, id_) for model, id_, _ in trials}) == len(trials)
        assert all((label == "target") == (model == speaker[id_]) for model, id_, label in trials)
        labels.update(label for _, _, label in trials)
    return len(grouped), len(speaker), labels["target"], labels["nontarget"]


def check_protocol(data: Path, names: list[str]) -> None:
    for name in names:
        assert counted(data / name) == COUNTS[name], name
    for raw, models in ENROLLED.items():
        if f"{raw}_enrolls" not in names:
            continue
        sexes = dict(rows(data / f"{raw}_enrolls" / "spk2gender"))
        given = {row[0] for row in rows(data / f"{raw}_enrolls" / "enrolls")}
        for sex, expected in zip("fm", models, strict=True):
            tried = rows(data / f"{raw}_trials_{sex}" / "trials")
            assert {trial[0] for trial in tried} == {name for name, of in sexes.items() if of == sex}
            assert len({trial[0] for trial in tried}) == expected
            assert not given & {trial[1] for trial in tried}


def test_the_counts_of_2020_are_the_protocols(tmp_path: Path) -> None:
    written = write("2020", tmp_path, seconds=0, models=False, scores=False, systems=[])
    check_protocol(written.data, list(COUNTS))
    for raw in ENROLLED:
        ending = "_mic2" if raw.startswith("vctk") else ""
        for name in ("enrolls", "trials_f", "trials_m", *(("trials_f_common", "trials_m_common") if ending else ())):
            table = "enrolls" if name == "enrolls" else "trials"
            cut = (written.data / f"{raw}_{name}" / table).read_text()
            assert (written.data / raw / f"{name}{ending}").read_text() == cut
    common = {row[0] for row in rows(written.data / "vctk_test_trials_m_common" / "utt2spk")}
    assert {id_.split("_")[1] for id_ in common} == {f"{n:03d}" for n in range(1, 25)}
    # one person is in one subset of LibriSpeech
    speakers = [set(dict(rows(written.data / raw / "spk2gender"))) for raw in ("libri_dev", "libri_test")]
    speakers.append(set(dict(rows(written.data / "train-clean-360" / "spk2gender"))))
    assert len(set.union(*speakers)) == sum(map(len, speakers))


def test_the_real_lists_keep_their_ids_and_trials(tmp_path: Path, lists: Path) -> None:
    written = write("2024", tmp_path, lists, seconds=0, models=False, scores=False, systems=["B3"])
    names = [name for name in COUNTS if name.startswith("libri")]
    check_protocol(written.data, names)
    for name in names:
        for table in ("enrolls", "trials", "utt2spk", "spk2utt", "spk2gender", "text"):
            if (lists / name / table).exists():
                for folder in (name, f"{name}_B3"):
                    assert rows(written.data / folder / table) == rows(lists / name / table), (folder, table)


def test_a_cut_keeps_the_shape(tmp_path: Path, lists: Path) -> None:
    written = write("2024", tmp_path, lists, scale=0.02, seconds=0, models=False, scores=False)
    for name in COUNTS:
        if name.startswith("libri"):
            found, whole = counted(written.data / name), COUNTS[name]
            assert all(0 < few < many if many else few == 0 for few, many in zip(found, whole, strict=True)), name


def every_recording(folder: Path, checkout: Path) -> None:
    """Each line of wav.scp leads to a file that is as long as utt2dur says; names of files are ids."""
    seconds = {id_: float(value) for id_, value in rows(folder / "utt2dur")}
    assert all(line.endswith(" ") for line in (folder / "utt2dur").read_text().splitlines())
    for id_, *words in rows(folder / "wav.scp"):
        path = checkout / next(word for word in words if word.endswith((".wav", ".flac")))
        found = soundfile.info(path)
        assert (path.stem, found.samplerate, found.frames) == (id_, 16000, round(16000 * seconds[id_]))


def digests(root: Path) -> dict[str, str]:
    """sha256 of all files but those of torch."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.suffix not in (".ckpt", ".pt")
    }


@pytest.fixture(scope="module")
def of_2024(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("challenge") / "2024"
    write("2024", root, scale=0.01, seconds=0.3, training=(3, 2), systems=["mcadams", "nac"])
    return root


def test_2024_has_audio_copies_and_sets_for_recognition(of_2024: Path, tmp_path: Path) -> None:
    data = of_2024 / "data"
    for name in ("libri_dev_enrolls", "libri_dev_trials_f", "libri_dev_trials_m", "IEMOCAP_dev", "train-clean-360"):
        every_recording(data / name, of_2024)
        originals = {id_: words for id_, *words in rows(data / name / "wav.scp")}
        for suffix in ("_mcadams", "_nac"):
            copy = data / f"{name}{suffix}"
            every_recording(copy, of_2024)
            tables = {path.name: path.read_text() for path in (data / name).iterdir() if path.is_file()}
            del tables["wav.scp"]
            assert {path.name for path in copy.iterdir()} == {*tables, "wav.scp", "wav"}
            assert all((copy / table).read_text() == content for table, content in tables.items())
            for id_, path in rows(copy / "wav.scp"):
                assert path == f"data/{copy.name}/wav/{id_}.wav"
                spoken = next(of_2024 / word for word in originals[id_] if word.endswith((".wav", ".flac")))
                assert not np.array_equal(soundfile.read(of_2024 / path)[0], soundfile.read(spoken)[0])
    assert rows(data / "train-clean-360" / "wav.scp")[0][1:5] == ["flac", "-c", "-d", "-s"]
    for suffix in ("", "_nac"):
        both = data / f"libri_test_asr{suffix}"
        parts = [data / f"libri_test_trials_{sex}{suffix}" for sex in "fm"]
        assert rows(both / "wav.scp") == sorted(row for part in parts for row in rows(part / "wav.scp"))
        assert not (both / "trials").exists()
    layout = read_layout(of_2024)
    assert layout is not None
    assert (layout.recognised, set(layout.copies), layout.exp) == ("2024", {"_mcadams", "_nac"}, of_2024 / "exp")
    again = tmp_path / "again"
    write("2024", again, scale=0.01, seconds=0.3, training=(3, 2), systems=["nac"], models=False, scores=False)
    written, before = digests(again), digests(of_2024)
    assert len(written) > 100
    assert written == {name: before[name] for name in written}


def test_scores_have_the_error_rate_that_they_are_drawn_for() -> None:
    part = next(part for part in sets.libri("libri_test", 1.0) if part.name == "libri_test_trials_m")
    values = traces.draw_scores(part, 0.31155, "any")
    eer = metrics.eer(values[part.is_target], values[~part.is_target], variant="speechbrain")
    assert eer == pytest.approx(0.31155, abs=0.002)


@pytest.fixture(scope="module", params=["2020", pytest.param("2022", marks=pytest.mark.slow)])
def of_kaldi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    root = tmp_path_factory.mktemp("challenge") / request.param
    write(request.param, root, scale=1e-4, seconds=0.2, training=(3, 2), systems=["anon", "B1"])
    return request.param, root / "baseline"


def test_2020_and_2022_have_copies_and_vectors(of_kaldi: tuple[str, Path]) -> None:
    edition, base = of_kaldi
    for name in COUNTS:
        for suffix in ("", "_anon", "_B1"):
            every_recording(base / "data" / f"{name}{suffix}", base)
    found = read_layout(base.parent)
    assert found is not None and found.is_sure
    assert (found.recognised, found.data, set(found.copies)) == (edition, base / "data", {"_anon", "_B1"})
    line = rows(base / "data" / "vctk_dev_trials_f_common_anon" / "wav.scp")[0]
    id_ = line[0]
    made = "data/vctk_dev_trials_f_all_anon/wav"
    deeper = ["sox", f"{made}/{id_}/{id_}.wav", "-t", "wav", "-R", "-b", "16", "-", "|"]
    assert line[1:] == (deeper if edition == "2020" else [f"{made}/{id_}.wav"])
    line = rows(base / "data" / "libri_dev_enrolls_B1" / "wav.scp")[0]
    assert line[1:3] == ["sox", f"exp/am_nsf_data/libri_dev_enrolls/nsf_output_wav/{line[0]}.wav"]
    assert not (base / "data" / "libri_dev_enrolls_B1" / "wav").exists()
    model = base / "exp/models/asv_eval/xvect_01709_1"
    ids = [row[0] for row in rows(base / "data" / "vctk_test_trials_m" / "utt2spk")]
    for suffix in ("", "_anon", "_B1"):
        table = vector_files.read_vectors(model / f"xvect_vctk_test_trials_m{suffix}" / "xvector.scp")
        assert sorted(table.ids) == ids
    back_end = model / "xvect_train_clean_360" if edition == "2020" else model
    assert {path.name for path in back_end.iterdir()} >= {"plda", "mean.vec", "transform.mat"}
    assert (base / "exp/models/user_asv_eval_anon/plda").is_file() == (edition == "2022")
    assert (base / "data/train-clean-360_anon/wav.scp").is_file() == (edition == "2022")


def test_the_attacker_challenge_has_its_traps(tmp_path: Path) -> None:
    written = write("attacker", tmp_path, scale=1e-4, seconds=0.2, training=(3, 2))
    systems = ["B3", "B4", "B5", "T10-2", "T12-5", "T25-1", "T8-5"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*systems, "original"]
    for system in systems:
        data = tmp_path / system / "data"
        assert all(path.name.endswith(f"_{system}") for path in data.iterdir())
        assert bool(list(data.glob("*/wav.scp"))) == (system != "B4")
        for name, held in written.sets.items():
            usual = data / f"{name}_{system}"
            if usual.exists():
                assert sorted(path.stem for path in (usual / "wav").iterdir()) == [row.id for row in held.utterances]
    assert (tmp_path / "B4/data/libri360_anon_B4/wav").is_dir() and not (
        tmp_path / "B4/data/train-clean-360_B4"
    ).exists()
    assert not (tmp_path / "T25-1/data/libri_dev_trials_f_T25-1").exists()
    found = read_layout(tmp_path)
    assert found is not None and found.recognised == "attacker" and set(found.sets) >= set(written.sets)
    assert {suffix: set(copies) for suffix, copies in found.copies.items()} == {
        f"_{system}": set(written.sets) for system in systems
    }
    every_recording(tmp_path / "T8-5/data/libri_dev_trials_m_T8-5", tmp_path / "T8-5")
    every_recording(tmp_path / "original/data/libri_dev_trials_m", tmp_path / "original")


def test_2026_tries_across_sexes(tmp_path: Path) -> None:
    written = write("2026", tmp_path, seconds=0, models=False, scores=False)
    data = written.data
    assert counted(data / "libri_dev_trials_mixed") == (40, 1978, 704 + 644, 29 * 1978 - 704 - 644)
    assert counted(data / "libri_test_trials_mixed") == (40, 1496, 548 + 449, 29 * 1496 - 548 - 449)


def test_the_command_says_what_it_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["challenge", "raw2024", str(tmp_path / "vpc"), "--seconds", "0", "--systems", ""])
    main()
    *lines, root = capsys.readouterr().out.splitlines()
    assert "libri_test_trials_f: 20 speakers, 734 utterances, 11744 trials" in lines and Path(root).is_dir()
    assert "note: there is no audio, and utt2dur is invented" in lines
