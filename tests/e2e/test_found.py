"""Copies and models of a challenge's folder, used by name through the command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import kaldiio
import numpy as np
import pandas as pd
import pytest
import torch
from speechbrain.lobes.features import Fbank
from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN

import pipeline
from pipeline import cli
from pipeline.errors import ConfigError
from pipeline.tables import results
from tests import challenge_folder
from tests.backends import test_plda

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = challenge_folder.original(tmp_path / "vpc")
    for suffix in ("_mcadams", "_T8-5"):
        challenge_folder.anonymise(made, suffix)
    return made


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command line in this process; exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        status = cli.run([*arguments, *_common(tmp_path)])
        out, err = capfd.readouterr()
        return status, out, err

    return call


def _common(folder: Path) -> list[str]:
    return [
        f"paths.root={folder / 'exp'}",
        "dataset=vpc",
        f"dataset.root={folder / 'vpc'}",
        "dataset.protocol=reported",
    ]


QUICK = ("extractor=[f0]", "metric=[srd]")


def last(folder: Path) -> Path:
    """The folder of the last run."""
    return max((folder / "exp" / "runs").iterdir(), key=lambda one: one.stat().st_mtime_ns)


def test_all_copies_are_systems_and_their_fields_can_be_set(root: Path, tmp_path: Path) -> None:
    from pipeline.cli.compose import compose

    asked, _ = compose([*_common(tmp_path), "system=found", "system.T8-5.level=speaker"])
    assert {label: one.component.level(one.settings) for label, one in asked.systems.items()} == {
        "original": "", "T8-5": "speaker", "mcadams": "utterance",
    }  # fmt: skip
    assert compose([*_common(tmp_path), "dataset.edition=2022", "system=found"])[0].systems["T8-5"].settings.level == (
        "speaker"
    )


def test_some_copies_beside_other_systems_in_the_order_of_the_list(root: Path, tmp_path: Path) -> None:
    from pipeline.cli.compose import compose

    asked, _ = compose([*_common(tmp_path), "system=[original,b2,found:_T8-5]"])
    assert list(asked.systems) == ["original", "b2", "T8-5"]
    alone, _ = compose([*_common(tmp_path), "system=found:mcadams", "system.mcadams.level=fixed"])
    assert list(alone.systems) == ["original", "mcadams"]
    assert alone.systems["mcadams"].settings.level == "fixed"
    shared, _ = compose([*_common(tmp_path), "system=[found,b2]", "system.found.level=speaker"])
    assert [one.settings.level for label, one in shared.systems.items() if label not in ("original", "b2")] == [
        "speaker",
        "speaker",
    ]


def test_a_copy_found_is_the_external_system_that_it_stands_for(root: Path, tmp_path: Path) -> None:
    """The same numeric settings, hence the same keys and signatures as a folder that is named by hand."""
    from pipeline.cli.compose import compose

    by_hand = f"+system.mcadams={{name: external, root: '{root}/data', suffix: _mcadams, level: utterance}}"
    named, _ = compose([*_common(tmp_path), "system=[original]", by_hand])
    found, _ = compose([*_common(tmp_path), "system=found:_mcadams"])
    assert found.numeric() == named.numeric()


def test_within_python(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    planned = pipeline.plan(*_common(tmp_path), *QUICK, "system=found")
    assert {one.label.split()[3] for one, _ in planned.tasks if one.name == "measure"} >= {
        "original",
        "T8-5",
        "mcadams",
    }


@pytest.mark.slow
def test_a_sweep_over_copies(root: Path, command: Command) -> None:
    status, out, err = command("plan", "-m", *QUICK, "system=found:_mcadams,found:_T8-5")
    assert status == 0, err
    assert out.count("measure: 0 reused, 2 to compute") == 2


def test_a_suffix_that_is_not_there_names_those_that_are(root: Path, command: Command) -> None:
    status, _, err = command("prepare", "system=[original,found:_nope]")
    assert status == 2
    assert "no anonymised copy with the suffix _nope; there are _T8-5, _mcadams" in err and f"{root}/data" in err
    remedy = err.partition("write ")[2].partition(" (")[0]
    assert command("prepare", *shlex.split(remedy))[0] == 0


@pytest.mark.parametrize("order", ["b2,found", "found,b2"])
def test_a_copy_that_has_the_label_of_another_system_is_refused_and_can_be_named(
    root: Path, command: Command, order: str
) -> None:
    for folder in list((root / "data").glob("*_mcadams")):
        folder.rename(folder.with_name(folder.name.replace("_mcadams", "_b2")))
    status, _, err = command("prepare", f"system=[original,{order}]")
    assert status == 2 and "the copy _b2 would have the label b2, which is another chosen system's" in err
    remedy = shlex.split(err.partition("name the copy by ")[2].splitlines()[0].partition(" (")[0])[0]
    assert command("prepare", "system=[original,b2,found:_T8-5]", remedy)[0] == 0


def test_parameters_of_the_challenges_vectors_are_not_used_for_others(root: Path, command: Command) -> None:
    """The sizes agree, so nothing else would tell that scores mean nothing."""
    test_plda.write(kaldi(root, "asv_eval", [""]) / "x", test_plda.parts(), test_plda.as_binary, test_plda.binary_plda)
    status, _, err = command(
        "prepare", "extractor=[xvector]", "backend=[plda]", "backend.plda.source=found", "system=found"
    )
    assert status == 2 and "backend.plda: its parameters are those of the challenge's x-vectors" in err.replace(
        "  - ", ""
    )
    assert "xvector gives other vectors: set backend.plda.source=trained" in err


def test_without_copies_it_is_said_where_they_were_looked_for(tmp_path: Path, command: Command) -> None:
    challenge_folder.original(tmp_path / "vpc")
    status, _, err = command("prepare", "system=found", "system.mcadams.level=speaker")
    assert status == 2
    assert f"there are no anonymised copies: looked for folders SET_SUFFIX in {tmp_path}/vpc/data" in err
    assert "libri_dev_enrolls" in err and err.count("  - ") == 1
    assert "system=original train=default (" in err and command("prepare", "system=original", "train=default")[0] == 0


def test_another_data_set_has_none(root: Path, command: Command) -> None:
    status = cli.run(["prepare", "dataset=kaldi", f"dataset.root={root}/data", "system=found"])
    assert status == 2
    with pytest.raises(ConfigError, match="fault") as caught:
        pipeline.plan("dataset=kaldi", f"dataset.root={root}/data", "system=[original,found:_mcadams]")
    (fault,) = caught.value.faults
    assert fault.where == "system.mcadams" and "dataset=kaldi: set dataset=vpc" in fault.what


def test_an_interrupted_anonymisation_is_refused_by_set_and_system(root: Path, command: Command) -> None:
    copied = sorted((root / "data" / "libri_dev_trials_f_T8-5" / "wav").iterdir())
    for path in copied[::2]:
        path.unlink()
    status, _, err = command("prepare", "system=found")
    assert status == 3
    assert err.count("  - system T8-5: ") == len(copied[::2]) and "of libri_dev_trials_f: no file" in err
    assert "system mcadams: " not in err.partition("error:")[2]


def test_a_copy_that_lacks_sets_is_passed_over_unless_it_is_asked_for(root: Path, command: Command) -> None:
    data = root / "data"
    (data / "libri_dev_trials_m_T8-5").rename(root / "elsewhere")
    for name in challenge_folder.SETS.values():
        (data / f"{name}_in_the_making" / "wav").mkdir(parents=True)
    assert command("plan", *QUICK, "system=found")[0] == 0
    status, _, err = command("prepare", "system=found")
    assert status == 0 and "the copy _T8-5 is passed over: it lacks 1 of 3 sets, libri_dev_trials_m (" in err
    assert "the copy _in_the_making is passed over: it lacks 3 of 3 sets" in err
    assert "the copy _T8-5 is passed over" in command("validate", "system=found")[1]
    (named,) = re.findall(r"\(system=(\S+) asks", next(line for line in err.splitlines() if "copy _T8-5" in line))
    status, _, err = command("prepare", f"system=[original,{named}]")
    assert status == 3 and "there is no folder libri_dev_trials_m_T8-5 for the set libri_dev_trials_m" in err
    # What is not tried need not be there.
    assert command("prepare", f"system=[original,{named}]", "dataset.sets=[libri_dev_trials_f]")[0] == 0


def test_where_every_copy_lacks_a_set_it_is_refused(root: Path, command: Command) -> None:
    for suffix in ("_T8-5", "_mcadams"):
        (root / "data" / f"libri_dev_trials_m{suffix}").rename(root / f"elsewhere{suffix}")
    status, _, err = command("prepare", "system=found")
    assert status == 3 and err.count("for the set libri_dev_trials_m") == 2


def test_copies_that_are_passed_over_stand_above_the_results(root: Path, command: Command, tmp_path: Path) -> None:
    (root / "data" / "libri_dev_trials_f_backup").mkdir()
    status, _, err = command(*QUICK, "system=found:_mcadams", "dataset.sets=[libri_dev_trials_f]")
    assert status == 0, err
    assert not any("backup" in line for line in pipeline.read(last(tmp_path)).limits), "nobody asked for all copies"
    status, _, err = command(*QUICK, "system=found", "dataset.sets=[libri_dev_trials_f]")
    assert status == 0, err
    assert any(line.startswith("the copy _backup is passed over") for line in pipeline.read(last(tmp_path)).limits)


# Trained models ------------------------------------------------------------------------------------------------------

ATTACK = (
    "extractor=[ecapa]", "train=found", "attacker=[ignorant,semi_informed]", "metric=[asv]", "metric.asv.replicates=0",
    "diagnostics=false", "runtime.device=cpu", "runtime.threads=1",
)  # fmt: skip


@pytest.fixture
def trained(root: Path) -> Path:
    """Two checkpoints of original speech, and one of the speech of one of two copies."""
    for number, name in enumerate(("asv_orig/CKPT+9", "asv_orig/CKPT+10", "asv_anon_mcadams/CKPT+3")):
        challenge_folder.checkpoint(root / "exp" / name, number)
    return root


@pytest.mark.slow
def test_attacks_with_the_challenges_checkpoints_are_those_of_the_folders(
    trained: Path, command: Command, tmp_path: Path
) -> None:
    """Their numbers are those of an extractor that is given the same folder by hand."""
    status, _, err = command(*ATTACK, "system=found:_mcadams")
    assert status == 0, err
    assert "exp/asv_orig/CKPT+10 (the last of 2 checkpoints)" in err
    assert "extractor ecapa on mcadams: trained by the challenge's own code, exp/asv_anon_mcadams/CKPT+3" in err
    found = results.read(last(tmp_path))
    assert set(found.loc[found["attacker"] == "semi_informed", "condition"]) == {"PP", "OPP"}
    found = found[found["condition"] != "OPP"].set_index(["subset", "attacker", "metric", "variant"])
    on = dict(zip(found.index.get_level_values("attacker"), found["trained_on"]))
    assert on == {
        "unprotected": "original", "ignorant": "original", "semi_informed": "anonymised (the challenge's checkpoint)",
    }  # fmt: skip
    assert len(set(found["model_digest"])) == 2
    for folder, theirs, ours in (
        ("asv_orig/CKPT+10", "ignorant", "ignorant"),
        ("asv_anon_mcadams/CKPT+3", "semi_informed", "lazy_informed"),
    ):
        by_hand = (f"extractor.ecapa.source={trained}/exp/{folder}", "train=none", f"attacker=[{ours}]")
        assert command(*(one for one in ATTACK if "attacker" not in one and "train" not in one), *by_hand,
                       "system=found:_mcadams")[0] == 0  # fmt: skip
        hand = results.read(last(tmp_path)).set_index(["subset", "attacker", "metric", "variant"])
        for subset in ("libri_dev_trials_f", "libri_dev_trials_m"):
            mine, their = found.loc[(subset, theirs)], hand.loc[(subset, ours)]
            assert mine["value"].dropna().to_dict() == their["value"].dropna().to_dict() != {}
            assert set(mine["model_digest"]) == set(their["model_digest"])


def test_vectors_of_a_checkpoint_are_those_that_speechbrain_gives(trained: Path, tmp_path: Path) -> None:
    """The file as SpeechBrain's own network reads it, with the zeros at the ends trimmed and no length taken away."""
    from pipeline.cli.compose import compose

    asked, _ = compose([*_common(tmp_path), *ATTACK, "system=found:_mcadams"])
    one = asked.models.adapted["ecapa", "mcadams"]
    weights = one.weights(tmp_path)
    assert weights is not None and weights.folder == trained / "exp" / "asv_anon_mcadams" / "CKPT+3"
    wave = np.concatenate([np.zeros(400), np.random.default_rng(1).standard_normal(16_000) / 9, np.zeros(99)]).astype(
        "f4"
    )
    preparation = one.component.preparation(one.settings)
    (ours,) = one.component(one.settings, weights.folder, "cpu", 1).extract([preparation.trim_zeros_at_ends(wave)])
    network = ECAPA_TDNN(
        80, lin_neurons=24, channels=[16, 16, 16, 16, 48], kernel_sizes=[5, 3, 3, 3, 1], dilations=[1, 2, 3, 4, 1],
        attention_channels=8, se_channels=8,
    )  # fmt: skip
    network.load_state_dict(torch.load(weights.folder / "embedding_model.ckpt", weights_only=True))
    frames = Fbank(n_mels=80)(torch.from_numpy(wave[400:-99])[None])
    with torch.inference_mode():
        theirs = network.eval()(frames - frames.mean(1, keepdim=True))[0, 0].numpy()
    np.testing.assert_allclose(ours.vector, theirs, rtol=1e-3, atol=1e-4 * np.abs(theirs).max())
    assert abs(np.linalg.norm(ours.vector) - 1) > 1e-3


def test_a_system_without_a_model_is_refused_or_trained(trained: Path, command: Command, tmp_path: Path) -> None:
    status, _, err = command("plan", *ATTACK, "system=found")
    assert status == 2
    assert f"trained on the anonymised speech of T8-5 in {trained}/exp/asv_anon_T8-5" in err
    assert "mcadams" not in err.partition("error:")[2]
    challenge_folder.training(trained, "_T8-5")
    assert command("plan", *ATTACK, "system=found:_mcadams", "train.otherwise=null")[0] == 0
    status, out, err = command(
        "plan", *ATTACK, "system=found", "dataset.train=train-clean-360", "train@train.otherwise=small"
    )
    assert status == 0, err
    assert "train: 0 reused, 1 to compute" in out


def test_without_any_model_all_are_trained_where_there_is_speech_or_the_remedy_says_so(
    root: Path, command: Command
) -> None:
    challenge_folder.training(root, "_mcadams")
    given = ("plan", *ATTACK, "system=found:_mcadams", "train@train.otherwise=small")
    status, _, err = command(*given)
    assert status == 2 and "no trained model of a chosen extractor (ecapa) is there" in err
    assert "dataset.train=train-clean-360" in err
    status, out, err = command(*given, "dataset.train=train-clean-360")
    assert status == 0, err
    assert "train: 0 reused, 2 to compute" in out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ("system=found:_mcadams", "extractor=[ge2e]", "attacker=[ignorant]"),
            "no trained model of a chosen extractor (ge2e) is there",
        ),
        (("system=[original,b2]",), "anonymised speech of b2 in exp: it is no copy in this folder"),
        (("system=found:_mcadams", "train.otherwise.batch=none"), "train.otherwise.batch"),
        (("system=found:_mcadams", "train.other=1"), "unknown key; did you mean otherwise?"),
    ],
)
def test_what_cannot_be_used_is_refused(trained: Path, command: Command, given: tuple[str, ...], said: str) -> None:
    status, _, err = command("plan", *ATTACK, *given)
    assert (status, said in err) == (2, True), err


def test_data_are_looked_at_where_models_are_not_there(root: Path, command: Command) -> None:
    """An organiser gets audio alone. What a run needs is said, and the exit status is that of the check."""
    given = (*ATTACK, "system=[original,found:_mcadams]")
    for verb in ("prepare", "validate"):
        status, out, err = command(verb, *given)
        assert status == 0, err
        assert "a run would also need: what train asks for; no trained model of a chosen extractor (ecapa)" in out
    assert "verdict: nothing wrong" in out
    next((root / "data" / "libri_dev_trials_f_mcadams" / "wav").iterdir()).unlink()
    assert command("validate", *given)[0] == 3
    status, out, _ = command("prepare", "system=original", *READ[:2], "backend=[plda]", "backend.plda.source=found")
    assert status == 0 and "what extractor.precomputed asks for; no vectors of original are there" in out
    assert "what backend.plda asks for; no folder with plda" in out


def test_a_missing_model_is_asked_for_where_one_is_used_and_its_remedy_is_no_circle(
    root: Path, command: Command
) -> None:
    status, _, err = command("plan", *ATTACK, "system=original")
    assert status == 2 and "(ecapa) is there" in err
    assert "extractor=[ecapa]" not in err and "dataset.train=DIR" in err and "train=default takes a public" in err
    status, out, err = command(
        "plan", *QUICK, "train=found", "attacker=[ignorant]", "diagnostics=false", "system=found:_mcadams"
    )
    assert status == 0 and "measure: " in out, err


def test_a_folder_of_another_edition_is_named_before_models_are_missed(root: Path, command: Command) -> None:
    (root / "exp" / "models" / "asv_eval" / "xvect_01709_1" / "plda").mkdir(parents=True)
    for recipe, asked in (("vpc2024", "2024"), ("vpc2020", "2020")):
        status, _, err = command("prepare", f"recipe={recipe}")
        assert status == 2 and "one of VoicePrivacy 2022 (by " in err, err
        assert f"recipe={recipe} asks for VoicePrivacy {asked}: set recipe=vpc2022, or dataset.edition=2022" in err
        assert "model" not in err.partition("asks for")[2]
    assert command("prepare", "recipe=vpc2022", "system=found:_mcadams")[0] == 0


def test_models_at_hand_are_said(trained: Path, command: Command) -> None:
    status, _, err = command("prepare", "system=found:_mcadams")
    assert status == 0
    assert "system mcadams: the copies SET_mcadams in" in err and "no training set of it is there" in err
    assert "trained models that are not used: exp/asv_orig/CKPT+10" in err


# Vectors and PLDA models ---------------------------------------------------------------------------------------------

READ = ("extractor=[precomputed]", "extractor.precomputed.vectors=found", "train=none", "metric=[asv]", "metric.asv.replicates=0",
        "diagnostics=false")  # fmt: skip


def utterances(root: Path, name: str) -> list[str]:
    return [line.split()[0] for line in (root / "data" / name / "wav.scp").read_text().splitlines()]


def vector(utterance: str, suffix: str) -> np.ndarray:
    """What depends on the speaker most, and on the recording and the speech."""
    parts = [
        np.random.default_rng(list(text.encode())).standard_normal(test_plda.D) for text in (utterance, utterance[:5])
    ]
    return (0.4 * parts[0] + parts[1] + 0.1 * len(suffix)).astype(np.float32)


def kaldi(root: Path, model: str, suffixes: Sequence[str]) -> Path:
    """Vectors as the recipes of 2020 and 2022 leave them, with the model's own PLDA beside them."""
    folder = root / "exp" / "models" / model / "xvect_01709_1"
    for suffix in suffixes:
        for name in challenge_folder.SETS.values():
            place = folder / f"xvect_{name}{suffix}"
            place.mkdir(parents=True)
            made = {utterance: vector(utterance, suffix) for utterance in utterances(root, name)}
            kaldiio.save_ark(str(place / "xvector.1.ark"), made, scp=str(place / "xvector.scp"))
    return folder


@pytest.mark.parametrize(
    ("edition", "place"), [("2022", ""), pytest.param("2020", "xvect_train_clean_360", marks=pytest.mark.slow)]
)
def test_kaldi_vectors_and_plda_of_2020_and_2022(
    root: Path, command: Command, tmp_path: Path, edition: str, place: str
) -> None:
    """Rows are those of the same files named by hand."""
    folder = kaldi(root, "asv_eval", ["", "_mcadams"])
    parameters = test_plda.write(folder / place, test_plda.parts(), test_plda.as_binary, test_plda.binary_plda)
    common = (
        *READ,
        f"dataset.edition={edition}",
        "attacker=[ignorant,lazy_informed]",
        "backend=[plda]",
        "system=found:_mcadams",
    )
    status, _, err = command(*common, "backend.plda.source=found")
    assert status == 0, err
    columns = ["subset", "attacker", "condition", "system_level", "metric", "variant", "value", "model_digest"]
    rows = results.read(last(tmp_path))[columns]
    assert set(rows["condition"]) == {"OO", "OP", "PP"} and set(rows["system_level"]) == {"none", "speaker"}
    files = {label: [f"{folder}/xvect_{name}{suffix}/xvector.scp" for name in challenge_folder.SETS.values()]
             for label, suffix in (("original", ""), ("mcadams", "_mcadams"))}  # fmt: skip
    listed = ",".join(f"{label}:[{','.join(paths)}]" for label, paths in files.items())
    status, _, err = command(
        *common, f"extractor.precomputed.vectors={{{listed}}}", f"backend.plda.source={parameters}"
    )
    assert status == 0, err
    pd.testing.assert_frame_equal(rows, results.read(last(tmp_path))[columns])


def test_tensors_of_2024_for_each_attacker(root: Path, command: Command, tmp_path: Path) -> None:
    """Those of exp/asv_orig for who knows original speech, those of exp/asv_anon_mcadams for who knows the system's."""
    for model, scale in (("asv_orig", 1.0), ("asv_anon_mcadams", 2.0)):
        for suffix in ("", "_mcadams"):
            for name in challenge_folder.SETS.values():
                names = utterances(root, name)
                place = root / "exp" / model / "cosine_out" / "emb_xvect" / f"{name}{suffix}" / "utt-level"
                place.mkdir(parents=True)
                held = np.stack([vector(one, suffix) * np.linspace(1, scale, test_plda.D, dtype="f4") for one in names])
                torch.save(torch.from_numpy(held), place / "speaker_vectors.pt")
                (place / "id2idx").write_text("".join(f"{one} {row}\n" for row, one in enumerate(names)))
    given = (*READ, "backend=[cosine]", "system=found:_mcadams")
    status, _, err = command(*given, "attacker=[ignorant]")
    assert status == 0, err
    plain = results.read(last(tmp_path))
    assert set(plain["trained_on"]) == {"original"}
    semi = (*given, "attacker=[semi_informed]", "extractor.precomputed.trained_on=anonymised")
    status, _, err = command(*semi)
    assert status == 0, err
    assert set(results.read(last(tmp_path))["trained_on"]) == {"anonymised"}
    status, _, err = command(*semi, "system=found")
    assert status == 2 and "take one copy a run" in err


def test_vectors_that_are_not_there(root: Path, command: Command) -> None:
    kaldi(root, "asv_eval", [""])
    status, _, err = command("plan", *READ, "backend=[plda]", "backend.plda.source=found", "system=found:_mcadams")
    assert status == 2
    assert (
        f"no vectors of mcadams are there: looked for {root}/exp/models/asv_eval/xvect_*/xvect_SET/xvector.scp" in err
    )
    assert "no folder with plda, mean.vec, transform.mat is there: looked in" in err
    status = cli.run(["plan", *READ, "dataset=kaldi", f"dataset.root={root}/data", "system=b2"])
    assert status == 2
