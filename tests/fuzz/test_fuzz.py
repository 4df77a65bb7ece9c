"""Random slips in a Kaldi set, in somebody's anonymised audio and in score files: the right numbers, or a named fault.

Never a traceback, never status 1, never a result that a plain reading of the edited files does not give and of which
nothing is said. Every example of a part shares one store: what one leaves there must not reach the next.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, currently_in_test_context, given, note, settings
from hypothesis import strategies as st

from pipeline import cli, evaluation
from tests.fuzz import data
from tests.fuzz.edits import AUDIO, TEXT, Edit, edits
from tests.metrics import brute

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("VOICE_PRIVACY_FUZZ_EXAMPLES", "2000"))
"""Of all three parts together."""

RANDOM = bool(os.environ.get("VOICE_PRIVACY_FUZZ_RANDOM"))
"""Set it to look for what is not found yet; without it every run tries the same examples."""

thorough = {
    "deadline": None,
    "derandomize": not RANDOM,
    "suppress_health_check": list(HealthCheck),
    "database": None,
    # One to three edits need no shrinking, which would take longer than all examples.
    "phases": [Phase.generate],
}


@dataclass(frozen=True)
class Said:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> set[str]:
        """Its messages without times and counts of tasks."""
        text = f"{self.out}\n{self.err}"
        kept = [line for line in text.splitlines() if not re.search(r"tasks: |report\.html|\d s\b|\d/\d", line)]
        return {re.sub(r"^[\d:TZ .-]+", "", line).strip() for line in kept}


def command(*arguments: object) -> Said:
    """``voice-privacy`` in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.run([*map(str, arguments)])
    return Said(status, *(one.buffer.getvalue().decode() for one in (out, err)))  # type: ignore[attr-defined]


def named(said: Said) -> None:
    """A failure is one that a person can read."""
    if currently_in_test_context():
        note(f"exit {said.status}\n{said.out[:600]}\n{said.err[-6000:]}")
    assert said.status in (0, 2, 3, 5, 6)
    assert "Traceback" not in said.err and "bug of the pipeline" not in said.err
    if said.status:
        assert "error: " in said.err and len(said.err.split("error: ", 1)[1]) > 20


QUICK = ("recipe=kaldi", "extractor=[ge2e]", "metric=[asv]", "diagnostics=false", "runtime.threads=1")


class Part:
    """A clean data set, the numbers that it gives, and a copy that examples change."""

    def __init__(self, home: Path, models: Path) -> None:
        self.home, self.clean, self.root = home, data.build(home / "clean"), home / "data"
        self.voices = data.Voices(models / "ge2e")
        self.anonymised = data.anonymised(self.clean, home / "anonymised")
        self.copy = home / "copy"

    def reset(self) -> None:
        data.restore(self.clean, self.root)
        data.restore(self.anonymised, self.copy)
        for left in self.home.glob("away-*"):
            left.unlink()
        shutil.rmtree(self.home / "exp" / "runs", ignore_errors=True)

    def run(self, *more: str) -> Said:
        return command(*QUICK, f"dataset.root={self.root}", f"paths.root={self.home / 'exp'}", *more)

    def scores(self, said: Said, **identity: str) -> data.Scores:
        """What the product compared, and found."""
        result = evaluation.read(Path(said.out.splitlines()[-1]).parent)
        found: data.Scores = {}
        for subset in sorted(set(result.rows["subset"])):
            for row in result.scores(subset=subset, **identity).to_dict("records"):
                found[subset, row["model"], row["utterance"]] = row["score"], bool(row["target"])
            values = result.rows[(result.rows["subset"] == subset) & (result.rows["metric"] == "eer")]
            for name, value in identity.items():
                values = values[values[name] == value]
            target = [score for (one, *_), (score, same) in found.items() if one == subset and same]
            nontarget = [score for (one, *_), (score, same) in found.items() if one == subset and not same]
            (eer,) = values.loc[values["variant"] == "rocch", "value"]
            assert eer == pytest.approx(float(brute.eer_rocch(target, nontarget)), abs=1e-9)
        return found


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Part:
    if not (models / "ge2e" / "pretrained.pt").is_file():
        pytest.skip("the offline weights are not here: make install")
    return Part(tmp_path_factory.mktemp("fuzz"), models)


def agree(found: data.Scores, right: data.Scores) -> bool:
    """Whether the same trials have the same labels and scores."""
    return found.keys() == right.keys() and all(
        found[key][1] == right[key][1] and math.isclose(found[key][0], right[key][0], abs_tol=1e-5) for key in right
    )


def numbers(part: Part, said: Said, audio: dict[tuple[str, str], Path] | None, **identity: str) -> str:
    """'' if a finished run gives what the files say, else what is wrong with it."""
    found = part.scores(said, **identity)
    try:
        right = data.expected(part.root, part.voices, audio)
    except Exception as error:
        return f"files that do not fit together were evaluated ({error!r})"
    return "" if agree(found, right) else "the numbers are not those of the files"


@pytest.fixture(scope="module")
def plain(part: Part) -> Said:
    """The clean data set evaluated."""
    part.reset()
    said = part.run("system=original", "attacker=[ignorant]")
    named(said)
    assert said.status == 0 and not numbers(part, said, None)
    return said


@settings(max_examples=EXAMPLES * 2 // 5, **thorough)
@given(slips=edits([*TEXT, *(kind for kind in AUDIO if kind.startswith("audio"))]))
def test_a_kaldi_set(part: Part, plain: Said, slips: list[Edit]) -> None:
    part.reset()
    tables = sorted(path for name in data.SETS for path in (part.root / name).iterdir())
    sounds = sorted((part.root / "wav").iterdir())
    for slip in slips:
        slip.apply(tables if slip.kind in TEXT else sounds)
    said = part.run("system=original", "attacker=[ignorant]")
    named(said)
    if said.status == 0:
        wrong = numbers(part, said, None)
        assert not wrong or said.lines - plain.lines, wrong


@settings(max_examples=EXAMPLES // 5, **thorough)
@given(slips=edits(list(AUDIO)), partial=st.booleans())
def test_somebodys_anonymised_audio(part: Part, slips: list[Edit], partial: bool) -> None:
    part.reset()
    system = f"+system.theirs={{name: external, root: '{part.copy}', level: utterance}}"
    more = ("system=[]", system, "attacker=[ignorant]", f"allow_partial={str(partial).lower()}")
    clean = part.run(*more)
    named(clean)
    files = sorted(path for path in part.copy.rglob("*.wav"))
    for slip in slips:
        slip.apply(files)
    said = part.run(*more)
    named(said)
    if said.status == 0:
        audio = {
            (name, utterance): part.copy / f"{name}_anon" / "wav" / f"{utterance}.wav"
            for name in data.SETS[1:]
            for utterance, _ in data.table(part.root / name / "utt2spk")
        }
        wrong = numbers(part, said, audio, system="theirs")
        assert not wrong or said.lines - clean.lines, wrong
    if said.status == 6:
        assert partial


def lists(folder: Path) -> tuple[list[Path], dict[tuple[str, str], float]]:
    """A score file and a list of trials, as the challenges write them."""
    scores, trials = [], []
    for place, model in enumerate("abc"):
        for number in range(9):
            utterance, same = f"{'abc'[number % 3]}-{number}", number % 3 == place
            scores.append((model, utterance, round(math.sin(7 * place + number) + same, 4)))
            trials.append((model, utterance, "target" if same else "nontarget"))
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("scores", scores), ("trials", trials)):
        (folder / name).write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    return [folder / "scores", folder / "trials"], {(model, utterance): score for model, utterance, score in scores}


@settings(max_examples=EXAMPLES * 2 // 5, **thorough)
@given(slips=edits(list(TEXT)))
def test_score_files(tmp_path_factory: pytest.TempPathFactory, slips: list[Edit]) -> None:
    folder = Path(tmp_path_factory.getbasetemp()) / "score-files"
    files, _ = lists(folder)
    for slip in slips:
        slip.apply(files)
    said = command(
        "from-scores", "trials", "--scores", files[0], "--trials", files[1], "--replicates", 0, "--json", "-"
    )
    named(said)
    if said.status:
        return
    found = json.loads(said.out)
    try:
        given_scores = {(model, utterance): float(score) for model, utterance, score in data.table(files[0])}
        labels = {
            (model, utterance): {"target": 1, "nontarget": 0}[one.lower()]
            for model, utterance, one in data.table(files[1])
        }
        target = [given_scores[key] for key, same in labels.items() if same]
        nontarget = [given_scores[key] for key, same in labels.items() if not same]
        right = float(brute.eer_rocch(target, nontarget))
    except Exception as error:
        assert said.err, f"files that do not fit together were taken without a word ({error!r})"
        return
    got = found["eer"]["rocch"]
    value = got["value"] if isinstance(got, dict) else got
    assert value == pytest.approx(right, abs=1e-9) or said.err, "another number without a word"
