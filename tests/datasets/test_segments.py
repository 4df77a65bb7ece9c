"""Segments of recordings and places in archives become files of their own: the very samples, once, and again where something changed."""

from __future__ import annotations

import struct
from pathlib import Path

import kaldiio
import numpy as np
import pytest
import soundfile

from pipeline import audio
from pipeline.datasets import cutting, external_copy, importers, prepare
from pipeline.datasets.audio_cache import AudioCache
from pipeline.datasets.corpus import Corpus
from pipeline.files import file_digest
from tests.datasets.conftest import RATE, Tiny, noise

SECONDS = 0.2
"""Of a segment; each begins 0.01 s behind the one before it."""
GAP = 0.01


class Cut(Tiny):
    """The tiny set with a recording a speaker and set, of which its utterances are segments: ``times[utterance]``."""

    suffix = ".wav"
    subtype = "PCM_16"
    channels = 1

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.times: dict[str, tuple[str, float, float]] = {}
        for name, tables in self.tables.items():
            ids = [line.split()[0] for line in tables["wav.scp"]]
            recordings = {u: f"{u[0]}-{name}" for u in ids}
            tables["wav.scp"] = [f"{r} rec/{r}{self.suffix}" for r in dict.fromkeys(recordings.values())]
            for u in ids:
                start = GAP + (SECONDS + GAP) * int(u[-1])
                self.times[u] = (recordings[u], start, start + SECONDS)
            tables["segments"] = [
                f"{u} {r} {start:.2f} {end:.2f}" for u, (r, start, end) in self.times.items() if u in ids
            ]
            tables["utt2dur"] = [f"{u} {SECONDS}" for u in ids]

    def recording(self, name: str) -> Path:
        return self.root / "rec" / f"{name}{self.suffix}"

    def save(self) -> Cut:
        (self.root / "rec").mkdir(parents=True, exist_ok=True)
        for folder, tables in self.tables.items():
            (self.root / folder).mkdir(exist_ok=True)
            for table, lines in tables.items():
                (self.root / folder / table).write_text("".join(f"{line}\n" for line in lines))
        for name in {recording for recording, _, _ in self.times.values()}:
            if not self.recording(name).exists():
                waves = [noise(f"{name}{channel}", 0.5) for channel in range(self.channels)]
                soundfile.write(self.recording(name), np.stack(waves, axis=1), RATE, subtype=self.subtype)
        return self

    @property
    def made(self) -> Path:
        return self.root.parent / "store" / "recordings"

    def read(self, **named: object) -> Corpus:
        return importers.read_data_set(self.settings(), recordings=self.made, **named)

    def files(self) -> list[Path]:
        return sorted(path for path in self.made.rglob("*") if path.is_file())


@pytest.fixture
def cut(tmp_path: Path) -> Cut:
    return Cut(tmp_path / "data").save()


def paths(corpus: Corpus) -> dict[str, Path]:
    return {u: Path(path) for u, path in zip(corpus.manifest["utterance"], corpus.manifest["path"])}


# Segments ------------------------------------------------------------------------------------------------------------


def test_segments_are_the_samples_between_their_times(cut: Cut) -> None:
    """Against soundfile's reading of the recording, and against kaldiio's own extraction of segments."""
    corpus = cut.read()
    assert len(corpus.manifest) == 10 and set(corpus.manifest["samples"]) <= {3199, 3200}
    for u, path in paths(corpus).items():
        recording, start, end = cut.times[u]
        whole, rate = soundfile.read(cut.recording(recording), dtype="int16")
        mine, own_rate = soundfile.read(path, dtype="int16")
        assert rate == own_rate
        assert np.array_equal(mine, whole[int(float(f"{start:.2f}") * rate) : int(float(f"{end:.2f}") * rate)])
    for name in cut.tables:
        scp = cut.root / name / "absolute.scp"
        scp.write_text(
            "".join(f"{line.split()[0]} {cut.root / line.split()[1]}\n" for line in cut.tables[name]["wav.scp"])
        )
        theirs = kaldiio.load_scp(str(scp), segments=str(cut.root / name / "segments"))
        for u in theirs:
            assert np.array_equal(theirs[u][1], soundfile.read(paths(corpus)[u], dtype="int16")[0]), u
    assert any("10 are cut out of recordings (segments); they take 0.1 MB" in note for note in corpus.notes)


def test_the_same_bytes_in_any_place_and_at_once(cut: Cut, tmp_path: Path) -> None:
    one = cut.read()
    before = {path: path.stat().st_mtime_ns for path in cut.files()}
    assert cut.read(threads=3).manifest.equals(one.manifest)
    assert {path: path.stat().st_mtime_ns for path in cut.files()} == before, "nothing is written twice"
    other = importers.read_data_set(cut.settings(), recordings=tmp_path / "elsewhere", threads=3)
    assert list(other.manifest["sha256"]) == list(one.manifest["sha256"])
    assert [Path(path).name for path in other.manifest["path"]] == [Path(path).name for path in one.manifest["path"]]


@pytest.mark.parametrize(
    ("suffix", "subtype", "kept", "dtype"),
    [(".wav", "PCM_U8", "PCM_16", "int16"), (".flac", "PCM_16", "PCM_16", "int16"), (".flac", "PCM_24", "PCM_24", "int32"),
     (".wav", "FLOAT", "FLOAT", "float32"), (".wav", "PCM_32", "FLOAT", "float32"), (".mp3", "MPEG_LAYER_III", "FLOAT", "float32"),
     (".ogg", "VORBIS", "FLOAT", "float32")],
)  # fmt: skip
def test_nothing_is_lost(tmp_path: Path, suffix: str, subtype: str, kept: str, dtype: str) -> None:
    kind = type("Kind", (Cut,), {"suffix": suffix, "subtype": subtype})
    cut = kind(tmp_path / "data").save()
    for u, path in paths(cut.read()).items():
        recording, start, end = cut.times[u]
        # From its begin, because an mp3 decoder that seeks gives other samples.
        whole, rate = soundfile.read(cut.recording(recording), dtype=dtype)
        mine, _ = soundfile.read(path, dtype=dtype)
        assert soundfile.info(path).subtype == kept
        first, behind = int(float(f"{start:.2f}") * rate), int(float(f"{end:.2f}") * rate)
        # Two passes of an mp3 decoder differ in the last bit; a run hears what audio.load gives.
        assert np.allclose(mine, whole[first:behind], rtol=0, atol=1e-7 if suffix == ".mp3" else 0)
        assert np.array_equal(audio.load(path)[0], audio.load(cut.recording(recording))[0][first:behind])


def test_channels_are_kept_or_chosen(tmp_path: Path) -> None:
    cut = type("Stereo", (Cut,), {"channels": 2})(tmp_path / "data")
    lines = cut.tables["t_trials_f"]["segments"]
    lines[0], lines[1] = f"{lines[0]} 0", f"{lines[1]} 1"
    found = paths(cut.save().read())
    whole, _ = soundfile.read(cut.recording("a-t_trials_f"), dtype="int16")
    assert np.array_equal(soundfile.read(found["a-t0"], dtype="int16")[0], whole[160:3360, 0])
    assert np.array_equal(soundfile.read(found["a-t1"], dtype="int16")[0], whole[3520:6720, 1])
    both, _ = soundfile.read(found["b-t0"], dtype="int16")
    assert both.shape == (3200, 2)


def test_ends(cut: Cut) -> None:
    """-1 is the end of the recording, and so is what lies less than half a second behind it, which is said."""
    lines = cut.tables["t_trials_f"]["segments"]
    lines[1], lines[3] = "a-t1 a-t_trials_f 0.22 -1", "b-t1 b-t_trials_f 0.22 0.99"
    corpus = cut.save().read()
    rows = corpus.manifest.set_index("utterance")["samples"]
    assert rows["a-t1"] == rows["b-t1"] == 8000 - 3520
    assert "1 segments end up to 0.5 s behind their recordings, and are taken to end with them" in corpus.notes


FAULTS = {
    "outside": ("a-t0 a-t_trials_f 0.5 0.9", "begins at 0.5 s, and 'a-t_trials_f' lasts 0.5 s"),
    "too far": ("a-t0 a-t_trials_f 0 1.01", "ends at 1.01 s, and 'a-t_trials_f' lasts 0.5 s"),
    "backwards": ("a-t0 a-t_trials_f 0.3 0.2", "it ends at 0.2 s, and begins at 0.3 s"),
    "empty": ("a-t0 a-t_trials_f 0.2 0.2", "it ends at 0.2 s, and begins at 0.2 s"),
    "no sample": ("a-t0 a-t_trials_f 0.2 0.20001", "holds no sample"),
    "negative": ("a-t0 a-t_trials_f -0.2 0.2", "is no part of a recording"),
    "no number": ("a-t0 a-t_trials_f x 0.2", "are no times in seconds"),
    "not finite": ("a-t0 a-t_trials_f 0 nan", "is no part of a recording"),
    "unknown": ("a-t0 a 0 0.2", "the recording 'a' has no line in wav.scp"),
    "channel": ("a-t0 a-t_trials_f 0 0.2 1", "channel 1 is wanted, and the recording has 1"),
    "side": ("a-t0 a-t_trials_f 0 0.2 B", "'B' is no channel"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault(cut: Cut, refused, name: str) -> None:
    line, said = FAULTS[name]
    cut.tables["t_trials_f"]["segments"][0] = line
    cut.save()
    (fault,) = refused(cut.read).faults
    assert fault.kind == "segments" and said in fault.what and "'a-t0'" in fault.what
    assert fault.where == f"{cut.root}/t_trials_f/segments:1"
    assert not cut.files(), "nothing is written for data that are refused"


def test_all_faults_at_once(cut: Cut, refused) -> None:
    lines = cut.tables["t_trials_f"]["segments"]
    lines[0], lines[1], lines[2] = FAULTS["outside"][0], "a-t1 a-t_trials_f 0.3 0.1", "b-t0 nobody 0 1"
    lines += ["c-t1 c-t_trials_f 0 0.2", "c-t1 c-t_trials_f", "c-t2 c-t_trials_f 0.1 0.3"]
    cut.tables["t_trials_f"]["wav.scp"].append("c-t_trials_f rec/other.wav")
    cut.save()
    cut.recording("a-t_enrolls").unlink()
    faults = refused(cut.read).faults
    assert sorted((fault.kind, fault.where.rpartition("/")[2]) for fault in faults) == [
        ("duplicate-id", "segments:7"),
        ("duplicate-id", "wav.scp:4"),
        ("malformed", "segments:8"),
        ("missing-audio", "segments:1"),
        ("missing-audio", "segments:2"),
        ("no-speaker", "segments:9"),
        ("segments", "segments:1"),
        ("segments", "segments:2"),
        ("segments", "segments:3"),
    ]


def test_a_recording_with_a_fault_costs_its_segments_alone(cut: Cut) -> None:
    cut.recording("c-t_trials_f").write_bytes(b"RIFF")
    corpus = cut.read(allow_partial=True)
    assert [line.utterance for line in corpus.dropped] == ["c-t0", "c-t1"] and len(corpus.manifest) == 8


def test_speakers_need_a_segment(cut: Cut, refused) -> None:
    cut.tables["t_trials_f"]["segments"].pop()
    cut.tables["t_trials_f"]["trials"] = [line for line in cut.tables["t_trials_f"]["trials"] if "c-t1" not in line]
    cut.save()
    (fault,) = refused(cut.read).faults
    assert "utterance 'c-t1' has a speaker but no line in segments" in fault.what


def test_segments_that_overlap_are_said(cut: Cut) -> None:
    cut.tables["t_trials_f"]["segments"][1] = "a-t1 a-t_trials_f 0.1 0.4"
    (note,) = [note for note in cut.save().read().notes if "overlap with" in note]
    assert note.startswith("1 segments overlap with one before them, e.g. a-t1 and a-t0")


def test_one_segment_under_two_ids(cut: Cut, refused) -> None:
    cut.tables["t_trials_f"]["segments"][1] = "a-t1 a-t_trials_f 0.01 0.21"
    cut.save()
    (fault,) = refused(cut.read).faults
    assert fault.kind == "duplicate-audio" and fault.where.endswith("segments:2")


def test_a_recording_is_decoded_once_for_all_its_segments(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    real = cutting.open_stream
    monkeypatch.setattr(cutting, "open_stream", lambda path: (decoded.append(path), real(path))[1])
    cut.read()
    assert len(decoded) == len(set(decoded)) == 5


def test_a_long_recording_comes_in_blocks(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that begin, end and lie across the borders of blocks."""
    from pipeline.audio import decoding

    plain = cut.read().manifest
    for size in (100, 160, 3360, 3361):
        monkeypatch.setattr(decoding, "BLOCK", size)
        other = importers.read_data_set(cut.settings(), recordings=cut.made.parent / str(size))
        assert list(other.manifest["sha256"]) == list(plain["sha256"]), size


def test_what_was_interrupted_goes_on(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cut.read().manifest
    for path in cut.files():
        path.unlink()
    real, written = audio.write, []

    def dies(path: Path, **rest: object) -> None:
        if len(written) == 3:
            path.write_bytes(b"RIFF")
            raise KeyboardInterrupt
        written.append(path)
        real(path, **rest)

    monkeypatch.setattr(audio, "write", dies)
    with pytest.raises(KeyboardInterrupt):
        cut.read()
    assert len(cut.files()) == 3 and all(path.suffix == ".wav" for path in cut.files())
    monkeypatch.setattr(audio, "write", lambda path, **rest: (written.append(path), real(path, **rest)))
    assert cut.read().manifest.equals(whole) and len(written) == 10


def test_a_changed_recording_is_cut_again(cut: Cut) -> None:
    known = AudioCache(cut.root.parent / "known")
    before = cut.read(cache=known).manifest.set_index("utterance")
    soundfile.write(cut.recording("a-t_trials_f"), noise("another", 0.5), RATE, subtype="PCM_16")
    after = cut.read(cache=AudioCache(cut.root.parent / "known")).manifest.set_index("utterance")
    changed = before.index[before["sha256"] != after["sha256"]]
    assert sorted(changed) == ["a-t0", "a-t1"]


def test_a_damaged_cut_is_made_again(cut: Cut) -> None:
    whole = cut.read().manifest
    first = cut.files()[0]
    content = bytearray(first.read_bytes())
    content[-2:] = b"\x55\x55"
    first.write_bytes(bytes(content))
    assert cut.read().manifest.equals(whole)
    assert file_digest(first) == first.name.split(".")[1]


def test_a_recording_that_changes_meanwhile_is_no_silent_matter(
    cut: Cut, refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = cutting.open_stream

    def opened(path: Path):
        path.write_bytes(path.read_bytes())
        return real(path)

    monkeypatch.setattr(cutting, "open_stream", opened)
    error = refused(cut.read)
    assert isinstance(error, audio.Changed) and "run the same command again" in error.remedy


def test_segments_of_commands_and_a_training_set(cut: Cut, tmp_path: Path) -> None:
    """Recordings that stand in wav.scp as commands, in a set to train on."""
    other = Cut(tmp_path / "other")
    other.tables = {"train": other.tables["t_trials_f"]}
    for table in ("utt2spk", "segments"):
        other.tables["train"][table] = [f"x{line.replace(' a', ' xa').replace(' b', ' xb').replace(' c', ' xc')}"
                                        for line in other.tables["train"][table]]  # fmt: skip
    other.tables["train"] = {name: other.tables["train"][name] for name in ("utt2spk", "segments")}
    other.tables["train"]["wav.scp"] = [f"x{s}-t_trials_f sox rec/{s}-t_trials_f.wav -t wav - |" for s in "abc"]
    other.times = {u: time for u, time in other.times.items() if "t" in u}
    other.save()
    for s in "abc":
        soundfile.write(other.recording(f"{s}-t_trials_f"), noise(f"x{s}", 0.5), RATE, subtype="PCM_16")
    corpus = importers.read_data_set(cut.settings(train=str(other.root / "train")), recordings=cut.made)
    trained = corpus.manifest[corpus.manifest["role"] == "train"]
    assert len(trained) == 6 and all(str(cut.made) in path for path in trained["path"])
    whole, _ = soundfile.read(other.recording("a-t_trials_f"), dtype="int16")
    assert np.array_equal(soundfile.read(paths(corpus)["xa-t0"], dtype="int16")[0], whole[160:3360])


# Archives ------------------------------------------------------------------------------------------------------------


def archive(tiny: Tiny, how: str) -> dict[str, bytes]:
    """Put all wav files of the tiny set into one archive: the bytes of each file, by utterance."""
    tiny.save()
    content, place = {}, {}
    ark = tiny.root / "wav.ark"
    with ark.open("wb") as stream:
        for path in sorted((tiny.root / "wav").glob("*.wav")):
            content[path.stem] = path.read_bytes()
            stream.write(f"{path.stem} ".encode())
            place[path.stem] = stream.tell()
            if how == "AUDIO":
                length = len(content[path.stem])
                stream.write(b"AUDIO" + struct.pack("<B", 2) + length.to_bytes(2, "little"))
            stream.write(content[path.stem])
            path.unlink()
    for folder, tables in tiny.tables.items():
        ids = [line.split()[0] for line in tables["wav.scp"]]
        (tiny.root / folder / "wav.scp").write_text("".join(f"{u} wav.ark:{place[u]}\n" for u in ids))
    return content


def read(tiny: Tiny, **named: object) -> Corpus:
    return importers.read_data_set(tiny.settings(), recordings=tiny.root.parent / "store", **named)


@pytest.mark.parametrize("how", ["RIFF", "AUDIO"])
def test_entries_of_an_archive_are_the_bytes_of_their_files(tiny: Tiny, how: str) -> None:
    content = archive(tiny, how)
    corpus = read(tiny)
    assert {u: path.read_bytes() for u, path in paths(corpus).items()} == content
    assert any("10 are taken out of archives" in note for note in corpus.notes)
    before = {path: path.stat().st_mtime_ns for path in paths(corpus).values()}
    assert {path: path.stat().st_mtime_ns for path in paths(read(tiny)).values()} == before


@pytest.mark.parametrize("write", ["wav", "flac"])
def test_archives_of_kaldiio(tiny: Tiny, write: str) -> None:
    """Written by kaldiio, and read as kaldiio reads them."""
    tiny.save()
    waves = {path.stem: soundfile.read(path, dtype="int16")[0] for path in sorted((tiny.root / "wav").glob("*.wav"))}
    ark, scp = tiny.root / "wav.ark", tiny.root / "all.scp"
    function = None if write == "wav" else "soundfile"
    given = {} if function is None else {"format": write}
    entries = {u: (RATE, wave) for u, wave in waves.items()}
    kaldiio.save_ark(str(ark), entries, scp=str(scp), write_function=function, write_kwargs=given)
    lines = dict(line.split() for line in scp.read_text().splitlines())
    for folder, tables in tiny.tables.items():
        ids = [line.split()[0] for line in tables["wav.scp"]]
        (tiny.root / folder / "wav.scp").write_text(
            "".join(f"{u} wav.ark:{lines[u].rpartition(':')[2]}\n" for u in ids)
        )
    for path in (tiny.root / "wav").glob("*.wav"):
        path.unlink()
    for u, path in paths(read(tiny)).items():
        theirs = kaldiio.load_mat(lines[u])[1]
        mine = soundfile.read(path, dtype="int16" if function is None else "float64")[0]
        assert np.array_equal(mine, theirs) and np.array_equal(soundfile.read(path, dtype="int16")[0], waves[u])


@pytest.mark.parametrize(
    ("line", "kind", "said"),
    [
        ("a-t0 wav.ark:3", "archive", "is no recording: neither RIFF (Kaldi) nor AUDIO (kaldiio) stands there"),
        ("a-t0 wav.ark:100000000", "archive", "lies behind the end of the archive"),
        ("a-t0 gone.ark:3", "missing-audio", "gone.ark is missing"),
        ("a-t0 wav.ark:3[0:100]", "pipe", "(a range of samples)"),
    ],
)
def test_places_where_nothing_lies(tiny: Tiny, refused, line: str, kind: str, said: str) -> None:
    archive(tiny, "RIFF")
    scp = tiny.root / "t_trials_f" / "wav.scp"
    scp.write_text("\n".join([line, *scp.read_text().splitlines()[1:]]))
    (fault,) = refused(read, tiny).faults
    assert fault.kind == kind and said in fault.what and fault.where == f"{scp}:1"


@pytest.mark.parametrize("content", [b"PKLcos\nsystem\n(S'touch x'\ntR.", b"\0BFV \4\1\0\0\0\0\0\0\0", b"NPY\1x"])
def test_nothing_is_unpickled(tiny: Tiny, refused, content: bytes) -> None:
    archive(tiny, "RIFF")
    (tiny.root / "odd.ark").write_bytes(b"a-t0 " + content + bytes(20))
    scp = tiny.root / "t_trials_f" / "wav.scp"
    scp.write_text("\n".join(["a-t0 odd.ark:5", *scp.read_text().splitlines()[1:]]))
    (fault,) = refused(read, tiny).faults
    assert fault.kind == "archive" and "is no recording" in fault.what


def test_an_archive_that_was_cut_off(tiny: Tiny, refused) -> None:
    archive(tiny, "RIFF")
    ark = tiny.root / "wav.ark"
    ark.write_bytes(ark.read_bytes()[:-100])
    (fault,) = refused(read, tiny).faults
    assert fault.kind == "archive" and "'c-t1'" in fault.what and "ends early" in fault.what


def test_a_changed_archive_is_read_again(tiny: Tiny) -> None:
    archive(tiny, "RIFF")
    before = read(tiny).manifest
    ark = tiny.root / "wav.ark"
    content = bytearray(ark.read_bytes())
    content[-2:] = b"\x11\x11"
    ark.write_bytes(bytes(content))
    after = read(tiny).manifest
    assert (before["sha256"] != after["sha256"]).sum() == 1


def test_the_digest_of_an_archive_is_kept_once_its_times_have_settled(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(tiny, "RIFF")
    ark = tiny.root / "wav.ark"
    asked = []
    real = cutting.files.file_digest
    monkeypatch.setattr(cutting.files, "file_digest", lambda path: (asked.append(path), real(path))[1])
    read(tiny)
    read(tiny)
    assert asked.count(ark) == 2, "it was just written"
    monkeypatch.setattr(cutting, "RACY_NS", 0)
    read(tiny)
    read(tiny)
    assert asked.count(ark) == 3


def test_segments_of_recordings_in_an_archive(cut: Cut) -> None:
    plain = paths(cut.read())
    ark, places = cut.root / "rec.ark", {}
    with ark.open("wb") as stream:
        for path in sorted((cut.root / "rec").iterdir()):
            stream.write(f"{path.stem} ".encode())
            places[path.stem] = stream.tell()
            stream.write(path.read_bytes())
            path.unlink()
    for tables in cut.tables.values():
        tables["wav.scp"] = [f"{(r := line.split()[0])} rec.ark:{places[r]}" for line in tables["wav.scp"]]
    times, cut.times = cut.times, {}
    found = paths(cut.save().read())
    cut.times = times
    assert {u: path.name for u, path in found.items()} == {u: path.name for u, path in plain.items()}


# Writing -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("subtype", "dtype"), [("PCM_16", "int16"), ("PCM_24", "int32"), ("FLOAT", "float32")])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_several_channels_are_written_as_libsndfile_reads_them(
    tmp_path: Path, subtype, dtype: str, channels: int
) -> None:
    wave = np.random.default_rng(1).uniform(-1, 1, (1001, channels)).astype(np.float32)
    soundfile.write(tmp_path / "theirs.wav", wave, RATE, subtype=subtype)
    theirs, _ = soundfile.read(tmp_path / "theirs.wav", dtype="float32", always_2d=True)
    audio.write(tmp_path / "mine.wav", theirs, RATE, subtype)
    mine, rate = soundfile.read(tmp_path / "mine.wav", dtype=dtype, always_2d=True)
    assert rate == RATE and soundfile.info(tmp_path / "mine.wav").subtype == subtype
    assert np.array_equal(mine, soundfile.read(tmp_path / "theirs.wav", dtype=dtype, always_2d=True)[0])
    audio.survey(tmp_path / "mine.wav")


def test_a_system_beside_segments_by_the_ids_of_utterances(
    cut: Cut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders as VPC 2020's B2 leaves them: wav.scp with sox commands, and the files a level deeper, by recording."""
    monkeypatch.chdir(tmp_path)
    theirs = tmp_path / "theirs"
    for name, tables in cut.tables.items():
        lines = []
        for line in tables["segments"]:
            u, recording, start, end = line.split()
            wave, rate = soundfile.read(cut.recording(recording))
            path = theirs / f"{name}_anon" / "wav" / recording / f"{u}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, wave[int(float(start) * rate) : int(float(end) * rate)][::-1], rate)
            lines.append(f"{u} sox {path.relative_to(tmp_path)} -t wav -R -b 16 - |\n")
        (theirs / f"{name}_anon" / "wav.scp").write_text("".join(lines))
    original = cut.read().manifest
    copy = prepare.read_copy(external_copy.Copy(str(theirs)), original, recordings=cut.made)
    assert copy.manifest["utterance"].tolist() == original["utterance"].tolist() and not copy.same.doubts
