"""Fine-tuning: what is heard and verified against brute force, the loss against the formula, bytes after kills, what is kept."""

from __future__ import annotations

import itertools
import json
import math
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file

from pipeline.contracts import Pretrained
from pipeline.errors import ConfigError, DataError, StageFailed
from pipeline.metrics import eer
from pipeline.nets.margin import AngularMargin
from pipeline.nets.trainable import find_finetunable
from pipeline.nets.verification import Verified
from pipeline.nets.waveforms import Waveforms, pack_waveforms
from pipeline.protocol.held_out import hold_out_speakers
from pipeline.trainers import finetune
from pipeline.trainers.finetune import FinetuneSettings, Trainer, learner
from pipeline.trainers.finetune.learner import Learner
from pipeline.trainers.finetune.pieces import View, Views, cut_pieces, draw_trials, split_utterances
from tests.trainers.tiny import FILE, Tiny, pretrained
from tests.trainers.voices import voice

SMALL = FinetuneSettings(
    layers="last", learning_rate=3e-3, steps=6, batch=8, micro_batch=8, piece_seconds=0.3, warm_up=2, verify_every=2,
    patience=None,
)  # fmt: skip
ALL = SMALL.model_copy(update={"layers": "all", "learning_rate": 1e-3})


def speech(people: int = 20, each: int = 3, draws: int = 2, seconds: float = 0.35, others: int = 0) -> Waveforms:
    """Tones in noise: ``each`` recordings of every speaker under each draw, and ``others`` of another system."""
    waves, who, ids, sex, recordings, under, own = [], [], [], [], [], [], []
    for person, number, draw in itertools.product(range(people), range(each + others), range(draws)):
        waves.append(voice(len(waves), person, seconds))
        who.append(f"p{person}")
        ids.append(f"p{person}-{number}-{draw}")
        sex.append("fm"[person % 2])
        recordings.append(f"p{person}-{number}")
        under.append(draw)
        own.append(number < each)
    return pack_waveforms(waves, who, ids, sexes=sex, recordings=recordings, draws=under, own=own)


AUDIO = speech()


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Pretrained:
    return pretrained(tmp_path_factory.mktemp("weights"))


def tuned(
    folder: Path, begun: Pretrained, settings: FinetuneSettings = SMALL, audio: Waveforms = AUDIO, **more: Any
) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    assert Trainer.train(settings, audio, folder, pretrained=begun, **more)
    made: dict[str, Any] = json.loads((folder / "training.json").read_text())
    return made


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# ------------------------------------------------------------------------------------------------------ what is heard


def test_recordings_are_cut_into_uniform_parts() -> None:
    ramp = np.arange(16_000 * 2, dtype=np.float32) / 65_536 + 0.01
    audio = pack_waveforms([ramp[:4000], ramp[:20_000], ramp[:12_000]], ["a", "b", "c"], ["a", "b", "c"])
    pieces = cut_pieces(audio, [0, 1, 2], 0.5)
    # 4000 is half a piece and repeated; 20,000 are 2.5 pieces and so two; 12,000 are one and a half and so two.
    assert pieces.items.tolist() == [0, 1, 1, 2, 2]
    assert pieces.starts.tolist() == [0, 0, 10_000, 0, 6000]
    np.testing.assert_allclose(pieces.wave(0), np.concatenate([ramp[:4000]] * 2), atol=2e-5)
    np.testing.assert_allclose(pieces.wave(2), ramp[11_000:19_000], atol=2e-5)
    np.testing.assert_allclose(pieces.wave(4), np.concatenate([ramp[6000:12_000], ramp[6000:8000]]), atol=2e-5)
    assert len(pieces.wave(2, 1.1)) == 8000


def test_silent_pieces_are_left_out_and_counted() -> None:
    wave = voice(0, 0, 1.0)
    wave[8000:] = 0
    pieces = cut_pieces(pack_waveforms([wave], ["a"]), [0], 0.5)
    assert (len(pieces), pieces.n_unusable) == (1, 1)


def test_held_out_speakers_are_never_trained_on_and_are_verified_on_their_own_first_draw() -> None:
    audio = speech(others=1)
    trained, verified = split_utterances(audio)
    out = hold_out_speakers(audio.speakers, {f"p{person}": "fm"[person % 2] for person in range(20)})
    assert len(out) == 4
    assert {audio.speakers[item] for item in trained} == set(audio.speakers) - out
    assert {audio.speakers[item] for item in verified} == out
    assert all(audio.own[item] and audio.draws[item] == 0 for item in verified)
    assert len(verified) == 4 * 3
    assert len(trained) == 16 * 4 * 2


def brute(audio: Waveforms, pieces: Any, found: Any, across: bool) -> set[tuple[int, int, bool]]:
    """All pairs that should be there, one by one."""
    pairs = set()
    for a, b in itertools.combinations(found.pieces.tolist(), 2):
        one, two = pieces.items[a], pieces.items[b]
        same = audio.speakers[one] == audio.speakers[two]
        if {audio.sexes[one], audio.sexes[two]} == {"f", "m"}:
            continue
        if same and across and audio.recordings[one] == audio.recordings[two]:
            continue
        pairs.add((a, b, same))
    return pairs


@pytest.mark.parametrize(("each", "across"), [(3, True), (1, False)])
def test_pairs_are_of_one_sex_and_targets_of_two_recordings(each: int, across: bool) -> None:
    audio = speech(12, each, 1, 0.9)
    pieces = cut_pieces(audio, range(len(audio)), 0.3)
    found = draw_trials(pieces, range(len(pieces)), 0)
    assert found is not None
    given = zip(found.pieces[found.first].tolist(), found.pieces[found.second].tolist(), found.target.tolist())
    assert set(given) == brute(audio, pieces, found, across)
    assert (found.same_session, found.same_sex, found.speakers) == (not across, True, 12)
    assert len(found.pieces) == 12 * 3 * each


def test_a_speaker_takes_part_with_twelve_pieces_of_all_recordings() -> None:
    audio = speech(2, 5, 1, 1.5)
    pieces = cut_pieces(audio, range(len(audio)), 0.3)
    found = draw_trials(pieces, range(len(pieces)), 0)
    assert found is not None
    assert len(found.pieces) == 24
    counts = np.unique(pieces.items[found.pieces], return_counts=True)[1]
    assert len(counts) == 10 and set(counts.tolist()) == {2, 3}
    # A woman and a man: without the pairs of both there would be no non-targets.
    assert not found.same_sex


def test_whose_sex_is_unknown_is_compared_with_all() -> None:
    audio = pack_waveforms([voice(item, item // 2) for item in range(6)], list("aabbcc"), sexes=list("ffmmuu"))
    pieces = cut_pieces(audio, range(6), 1.0)
    found = draw_trials(pieces, range(6), 0)
    assert found is not None
    assert int((~found.target).sum()) == 8  # a and c, b and c


def test_pairs_that_are_lacking() -> None:
    audio = pack_waveforms([voice(0, 0), voice(1, 1)], ["a", "b"])
    pieces = cut_pieces(audio, [0, 1], 1.0)
    assert draw_trials(pieces, [0, 1], 0) is None
    assert draw_trials(pieces, [0], 0) is None


def test_speakers_are_heard_equally_often_and_so_are_their_pieces() -> None:
    audio = pack_waveforms([voice(item, 0, 0.3) for item in range(7)], list("aaaaabb"))
    pieces = cut_pieces(audio, range(7), 0.3)
    views = Views(pieces, range(7), (0.9, 1.0), False, 0)
    assert (views.n_classes, len(views)) == (4, 14)
    heard = [(view, label) for step in range(10) for view, label in zip(*views.batch(step, 8), strict=True)]
    assert len(heard) == 80
    for label in range(4):
        mine = [view for view, one in heard if one == label]
        assert len(mine) == 20
        assert {view.speed for view in mine} == {(0.9, 1.0)[label % 2]}
        n = 5 if label < 2 else 2
        assert sorted(np.unique([view.piece for view in mine], return_counts=True)[1].tolist()) == [20 // n] * n
        assert set(views.first(label, 3)) == set(mine[: min(3, n)])


# ------------------------------------------------------------------------------------------------------- what is learnt


def made_learner(begun: Pretrained, settings: FinetuneSettings = SMALL, audio: Waveforms = AUDIO) -> Learner:
    pieces = cut_pieces(audio, range(len(audio)), settings.piece_seconds)
    views = Views(pieces, range(len(pieces)), settings.speeds, settings.spec_augment is not None, settings.seed)
    return Learner(settings, begun, pieces, views, "cpu")


def test_vectors_before_training_are_those_of_the_extractor(begun: Pretrained) -> None:
    for settings in (SMALL, ALL):
        made = made_learner(begun, settings)
        vectors = made.embed([View(piece) for piece in range(40)])
        expected = Tiny(begun.settings, begun.folder, "cpu", 1).extract(
            [made.pieces.wave(piece) for piece in range(40)]
        )
        np.testing.assert_allclose(vectors, np.stack([one.vector for one in expected]), atol=3e-3)


def test_class_weights_begin_as_the_means(begun: Pretrained) -> None:
    made = made_learner(begun)
    assert made.begin(lambda: False)
    assert made.head is not None
    assert not made_learner(begun).begin(lambda: True)
    for label in (0, 7):
        mine = made.views.first(label, 3)
        assert len({view.piece for view in mine}) == 3
        assert {made.pieces.speaker(view.piece) for view in mine} == {made.views.speakers[label]}
        vectors = made.embed(mine)
        mean = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).mean(0)
        np.testing.assert_allclose(made.head.directions[label].detach(), mean, atol=1e-6)


@pytest.mark.parametrize("settings", [SMALL, ALL])
def test_a_step_is_adamw_on_the_margin_loss_with_normalisation_as_it_came(
    begun: Pretrained, settings: FinetuneSettings
) -> None:
    settings = settings.model_copy(update={"micro_batch": 3, "weight_decay": 0.1})
    made = made_learner(begun, settings)
    made.begin(lambda: False)
    assert made.head is not None
    views, labels = made.views.batch(0, 8)
    waves = torch.from_numpy(np.stack([made.pieces.wave(view.piece) for view in views]))
    # The whole batch at once, by autograd, and the first step of AdamW by its formula.
    model = Tiny.pretrained(begun.settings, begun.folder)
    head = AngularMargin(8, made.views.n_classes, 0.2, 30.0)
    head.load_state_dict(made.head.state_dict())
    hidden = Tiny.trunk(model, Tiny.frames(begun.settings, model, waves))
    loss, _ = head(Tiny.last(model, hidden), torch.from_numpy(labels))
    loss.backward()
    learnt = [*Tiny.learnt(model, settings.layers), head.directions]
    norm = math.sqrt(sum(float(one.grad.square().sum()) for one in learnt if one.grad is not None))
    assert made.gradients(0, (views, labels)) == pytest.approx(loss.item(), rel=2e-3)
    made.update(0, 6)
    assert settings.learning_rate is not None
    for mine, theirs in zip([*made.learnt, made.head.directions], learnt, strict=True):
        assert theirs.grad is not None
        top = settings.head_learning_rate if theirs is head.directions else settings.learning_rate
        rate = top / 3  # the first of two steps of warm-up
        gradient = theirs.grad * min(1.0, 5.0 / norm)
        expected = theirs * (1 - rate * 0.1) - rate * gradient / (gradient.abs() + 1e-8)
        clear = gradient.abs() > 1e-3
        np.testing.assert_allclose(mine.detach()[clear], expected.detach()[clear], atol=rate * 1e-2)
    state = made.model.state_dict()
    for name, tensor in load_file(begun.folder / FILE).items():
        if name.startswith(("norm.running", "norm.num")) or (settings.layers == "last" and name.startswith("below")):
            assert torch.equal(state[name], tensor), name


@pytest.mark.parametrize("settings", [SMALL, ALL])
def test_it_learns_and_the_extractor_reads_what_it_wrote(
    tmp_path: Path, begun: Pretrained, settings: FinetuneSettings
) -> None:
    settings = settings.model_copy(
        update={"steps": 60, "batch": 16, "verify_every": 10, "learning_rate": 0.02, "head_learning_rate": 0.05}
    )
    record = tuned(tmp_path, begun, settings)
    assert np.mean(record["loss"][-5:]) < 0.7 * np.mean(record["loss"][:3])
    assert record["brought"] and record["held_out"]["best_step"] > 0
    assert record["held_out"]["eer"] < record["held_out_before"]["eer"]
    # The EER is that of the written weights, through the extractor, over pairs counted one by one.
    _, items = split_utterances(AUDIO)
    wave = {item: AUDIO.piece(item, 400, 5200) for item in items}
    vectors = Tiny(begun.settings, tmp_path, "cpu", 1).extract(list(wave.values()))
    scores: dict[bool, list[float]] = {True: [], False: []}
    for (a, x), (b, y) in itertools.combinations(zip(wave, vectors, strict=True), 2):
        if AUDIO.sexes[a] == AUDIO.sexes[b]:
            u, v = x.vector.astype(np.float64), y.vector.astype(np.float64)
            scores[AUDIO.speakers[a] == AUDIO.speakers[b]].append(u @ v / math.sqrt((u @ u) * (v @ v)))
    assert (len(scores[True]), len(scores[False])) == (
        record["held_out"]["n_target"],
        record["held_out"]["n_nontarget"],
    )
    assert record["held_out"]["eer"] == pytest.approx(eer(np.array(scores[True]), np.array(scores[False])), abs=0.02)


def test_masks_hide_a_stretch_of_time_and_of_bands(begun: Pretrained) -> None:
    settings = ALL.model_copy(update={"spec_augment": finetune.SpecAugmentSettings(time=12, bands=6)})
    made = made_learner(begun, settings)
    frames = torch.randn(30, 24)
    widths = set()
    for turn in range(40):
        masked = made._mask(frames, View(3, 1.0, True), turn)
        hidden = masked != frames
        rows, columns = hidden.all(1).sum().item(), hidden.all(0).sum().item()
        widths.add((rows, columns))
        assert rows <= 12 and columns <= 6
        assert hidden.sum() == rows * 24 + columns * 30 - rows * columns
        np.testing.assert_allclose(masked[hidden], frames.mean(0).expand(30, 24)[hidden])
    assert {rows for rows, _ in widths} >= {0, 6, 12} and {columns for _, columns in widths} >= {0, 3, 6}
    assert torch.equal(made._mask(frames, View(3), 0), frames)
    same = [made._frames([View(3, 1.0, True)], None) for _ in range(2)]
    assert torch.equal(*same)
    assert not torch.equal(made._frames([View(3, 1.0, True)], 1), made._frames([View(3, 1.0, True)], 2))


# ---------------------------------------------------------------------------------------------------- the same bytes


@pytest.mark.parametrize(
    "settings",
    [
        SMALL,
        ALL,
        SMALL.model_copy(
            update={"speeds": (0.9, 1.0), "precision": "bfloat16", "spec_augment": finetune.SpecAugmentSettings()}
        ),
    ],
)
def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(
    tmp_path: Path, begun: Pretrained, settings: FinetuneSettings
) -> None:
    torch.manual_seed(1)
    tuned(tmp_path / "one", begun, settings)
    torch.manual_seed(2)
    tuned(tmp_path / "two", begun, settings)
    tuned(tmp_path / "other", begun, settings.model_copy(update={"seed": 1}))
    one, two, other = (contents(tmp_path / name) for name in ("one", "two", "other"))
    assert set(one) == {FILE, "training.json"}
    assert one == two
    assert all(one[name] != other[name] for name in one)


@pytest.mark.parametrize("settings", [SMALL, ALL])
def test_a_stop_at_any_step_changes_no_byte(tmp_path: Path, begun: Pretrained, settings: FinetuneSettings) -> None:
    tuned(tmp_path / "whole", begun, settings)
    scratch, made = tmp_path / "scratch", tmp_path / "made"
    scratch.mkdir()
    made.mkdir()

    def goes_on(asked: int) -> bool:
        """Train until ``stopping`` has been asked so often."""
        answers = iter([False] * asked)
        return Trainer.train(
            settings, AUDIO, made, pretrained=begun, scratch=scratch, stopping=lambda: next(answers, True)
        )

    # It is asked once a class before there is a checkpoint, and then once a step.
    assert not goes_on(0) and not goes_on(15)
    assert list(scratch.iterdir()) == []
    assert not goes_on(16)
    assert list(scratch.iterdir()) != []
    assert [goes_on(asked) for asked in (0, 1, 0, 0, 0)] == [False] * 4 + [True]
    assert contents(made) == contents(tmp_path / "whole")


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from tests.trainers.test_finetune import ALL, AUDIO, SMALL
from tests.trainers.tiny import pretrained
from pipeline.trainers.finetune import Trainer
from pipeline.trainers.finetune.learner import Learner

torch.set_num_threads(1)
layers, folder, scratch, weights, at = sys.argv[1:]
begun = pretrained(Path(weights))
update = Learner.update

def killed(self, step, steps):
    update(self, step, steps)
    if step == int(at):
        os.kill(os.getpid(), signal.SIGKILL)

Learner.update = killed
Trainer.train({"last": SMALL, "all": ALL}[layers], AUDIO, Path(folder), pretrained=begun, scratch=Path(scratch))
"""


@pytest.mark.parametrize("layers", ["last", pytest.param("all", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_kill_changes_no_byte(tmp_path: Path, begun: Pretrained, layers: str) -> None:
    settings = {"last": SMALL, "all": ALL}[layers]
    tuned(tmp_path / "whole", begun, settings)
    for name in ("made", "scratch"):
        (tmp_path / name).mkdir()
    places = [str(tmp_path / name) for name in ("made", "scratch", "weights")]
    for at in (0, 3, 5):
        done = subprocess.run([sys.executable, "-c", KILLED, layers, *places, str(at)], cwd=Path(__file__).parents[2])
        assert done.returncode == -signal.SIGKILL
        assert list((tmp_path / "made").iterdir()) == []
    left = json.loads(next(iter(_metadata(tmp_path / "scratch"))))
    assert left["step"] == 4
    assert Trainer.train(settings, AUDIO, tmp_path / "made", pretrained=begun, scratch=tmp_path / "scratch")
    assert contents(tmp_path / "made") == contents(tmp_path / "whole")


def _metadata(scratch: Path) -> Iterator[str]:
    from safetensors import safe_open

    for path in scratch.glob("*.safetensors"):
        with safe_open(path, framework="pt") as opened:
            yield opened.metadata()["progress"]


def test_what_is_kept_in_memory_changes_no_byte(
    tmp_path: Path, begun: Pretrained, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[View] = []
    frames = Learner._frames
    monkeypatch.setattr(
        Learner, "_frames", lambda self, views, step: (computed.extend(views), frames(self, views, step))[1]
    )
    whole = tuned(tmp_path / "whole", begun)
    # Each view once, and one of them again to say how large they are.
    assert len(computed) == len(set(computed)) + 1
    size = whole["cache"]["bytes_a_view"]
    assert whole["cache"]["views_that_fit"] == learner.CACHE // size
    computed.clear()
    monkeypatch.setattr(learner, "CACHE", 20 * size)
    short = tuned(tmp_path / "short", begun)
    assert len(computed) > len(set(computed)) + 20
    assert short["cache"] == {"bytes_a_view": size, "views_that_fit": 20}
    assert (tmp_path / "short" / FILE).read_bytes() == (tmp_path / "whole" / FILE).read_bytes()
    assert short["verified"] == whole["verified"]


def test_a_checkpoint_of_other_weights_is_not_gone_on_from(tmp_path: Path, begun: Pretrained) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for name in ("one", "other", "two"):
        (tmp_path / name).mkdir()
    stop = iter([False] * 16 + [False, True])
    assert not Trainer.train(
        SMALL, AUDIO, tmp_path / "one", pretrained=begun, scratch=scratch, stopping=lambda: next(stop)
    )
    other = pretrained(tmp_path / "other")
    model = Tiny.pretrained(other.settings, other.folder)
    with torch.no_grad():
        model.get_parameter("out.bias").add_(0.5)
    Tiny.write(model, other.folder)
    alone = tuned(tmp_path / "two", other)
    assert tuned(tmp_path / "one", other, scratch=scratch) == alone


# ------------------------------------------------------------------------------------------------------- what is kept


LAST = [(0.5, 1.0)]  # of those trained on


def scripted(monkeypatch: pytest.MonkeyPatch, numbers: list[tuple[float, float]]) -> list[list[torch.Tensor]]:
    """Verification with numbers that are given, and the weights that each was of."""
    given, seen = iter(numbers), list[list[torch.Tensor]]()

    def verified(one: Learner, found: Any, step: int) -> Verified:
        seen.append(list(one.weights().values()))
        return Verified(*next(given), found.speakers, 10_000, 10_000, found.same_session)

    monkeypatch.setattr(finetune, "_verify", verified)
    return seen


@pytest.mark.parametrize(
    ("numbers", "best"), [([0.2, 0.1, 0.3, 0.3], 1), ([0.2, 0.3, 0.3, 0.3], 0), ([0.4, 0.3, 0.2, 0.1], 3)]
)
def test_the_best_verification_is_kept_also_that_of_the_weights_as_they_came(
    tmp_path: Path, begun: Pretrained, monkeypatch: pytest.MonkeyPatch, numbers: list[float], best: int
) -> None:
    seen = scripted(monkeypatch, [(one, one) for one in numbers] + LAST)
    record = tuned(tmp_path, begun)
    assert record["brought"] is (best > 0)
    assert record["held_out"]["best_step"] == 2 * best
    assert record["held_out"]["eer"] == numbers[best]
    assert record["held_out_before"]["eer"] == numbers[0]
    assert ("brought nothing" in record["summary"]) is (best == 0)
    kept = list(Tiny.learnt(Tiny.pretrained(begun.settings, tmp_path), "last"))
    for place, weights in enumerate(seen[:4]):
        equal = all(torch.equal(one, two) for one, two in zip(weights, kept, strict=True))
        assert equal is (place == best)
    if best == 0:
        came, wrote = (load_file(folder / FILE) for folder in (begun.folder, tmp_path))
        assert all(torch.equal(came[name], wrote[name]) for name in came)


def test_patience_ends_a_training(tmp_path: Path, begun: Pretrained, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, [(0.2, 0.2), (0.1, 0.1), (0.3, 0.3), (0.3, 0.3), *LAST])
    record = tuned(tmp_path, begun, SMALL.model_copy(update={"verify_every": 1, "patience": 2}))
    assert (record["steps"], record["held_out"]["best_step"]) == (3, 1)


def test_the_record_says_what_was_heard(tmp_path: Path, begun: Pretrained) -> None:
    audio = speech(others=1)
    record = tuned(tmp_path, begun, audio=audio)
    assert (record["speakers"], record["speakers_trained_on"]) == (20, 16)
    assert (record["pieces_trained_on"], record["pieces_of_other_systems"]) == (16 * 8, 16 * 2)
    assert record["draws"] == [0, 1]
    assert record["suspected_same_speaker"] == []
    assert record["trained"]["speakers"] == record["held_out"]["speakers"] == 4
    assert record["held_out"]["same_session"] is False
    assert [one["step"] for one in record["verified"]] == [0, 2, 4, 6]
    assert record["parameters_that_learn"] == 16 * 16 * 3 + 16 + 32 * 8 + 8
    assert "speakers held out" in record["summary"]


# ------------------------------------------------------------------------------------------------------------ bad input


def test_fewer_than_ten_speakers_are_refused(tmp_path: Path, begun: Pretrained) -> None:
    with pytest.raises(DataError, match=r"10 training speakers at least, and there are 9.*larger training set"):
        Trainer.train(SMALL, speech(9), tmp_path, pretrained=begun)
    assert Trainer.train(SMALL, speech(10), tmp_path, pretrained=begun)


def test_one_piece_a_speaker_is_refused(tmp_path: Path, begun: Pretrained) -> None:
    with pytest.raises(DataError, match=r"no two pieces to compare.*piece_seconds"):
        Trainer.train(SMALL, speech(20, 1, 1), tmp_path, pretrained=begun)


def test_weights_that_give_no_vectors_are_named(tmp_path: Path) -> None:
    broken = pretrained(tmp_path / "weights")
    model = Tiny.pretrained(broken.settings, broken.folder)
    with torch.no_grad():
        model.get_parameter("out.weight").fill_(math.nan)
    Tiny.write(model, broken.folder)
    with pytest.raises(StageFailed, match=r"not finite after 0 steps.*p.*fetch the weights"):
        Trainer.train(SMALL, AUDIO, tmp_path, pretrained=broken)


@pytest.mark.parametrize("settings", [SMALL, ALL])
def test_out_of_memory_halves_what_goes_through_at_once(
    tmp_path: Path, begun: Pretrained, monkeypatch: pytest.MonkeyPatch, settings: FinetuneSettings
) -> None:
    expected = tuned(tmp_path / "expected", begun, settings.model_copy(update={"micro_batch": 2}))
    last = Tiny.last.__func__  # type: ignore[attr-defined]

    def limited(cls: Any, model: Any, hidden: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled() and len(hidden) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        made: torch.Tensor = last(cls, model, hidden)
        return made

    monkeypatch.setattr(Tiny, "last", classmethod(limited))
    record = tuned(tmp_path / "made", begun, settings)
    assert (record["micro_batch"], record["loss"]) == (2, expected["loss"])
    assert (tmp_path / "made" / FILE).read_bytes() == (tmp_path / "expected" / FILE).read_bytes()


# ------------------------------------------------------------------------------------------------------------- settings


def test_nulls_follow_from_the_layers_and_the_speech() -> None:
    every = Trainer.resolved(FinetuneSettings(), "tiny", 168, 6480.0)
    assert (every.layers, every.learning_rate, every.steps, every.verify_every) == ("all", 6e-4, 20, 10)
    assert every.architecture == "tiny"
    assert Trainer.resolved(every, "tiny", 168, 6480.0) == every
    assert Trainer.cost(every) == 20 * 32 * 3.0
    last = Trainer.resolved(FinetuneSettings(layers="last"), "tiny", 168, 6480.0)
    assert (last.learning_rate, last.steps, last.verify_every) == (2e-3, 60, 10)
    # 100 hours: 80 of them are trained on, of which a third is 1000 steps.
    assert Trainer.resolved(FinetuneSettings(), "tiny", 921, 360_000.0).steps == 1000
    assert Trainer.resolved(FinetuneSettings(layers="last", batch=64), "tiny", 921, 360_000.0).steps == 1500
    assert Trainer.resolved(FinetuneSettings(layers="last", steps=12), "tiny", 168, 1e6).verify_every == 2


def test_planning_is_told_what_to_give() -> None:
    assert (Trainer.share(FinetuneSettings()), Trainer.other_systems(FinetuneSettings())) == (1.0, ())
    chosen = FinetuneSettings(share=0.1, also=("b2",))
    assert (Trainer.share(chosen), Trainer.other_systems(chosen)) == (0.1, ("b2",))
    assert Trainer.adapts and Trainer.trains(Tiny)


def test_what_cannot_be_fine_tuned_is_named() -> None:
    with pytest.raises(ConfigError, match="'f0' cannot be fine-tuned"):
        find_finetunable("f0")
    with pytest.raises(ValidationError, match="cannot be fine-tuned"):
        FinetuneSettings(architecture="f0")
    for wrong in ({"share": 0.0}, {"layers": "first"}, {"speeds": ()}, {"spec_augment": {"time": -1}}):
        with pytest.raises(ValidationError):
            FinetuneSettings.model_validate(wrong)
