"""Somebody's own program, which reads a wav file and writes an anonymised one: run for each recording, or once for many.

The program is given as a command line with names in braces::

    python anonymise.py {input} {output}                     one recording at a time, several at once
    python anonymise.py --list {list}                        many at a time: a model is loaded once
    python anonymise.py --seed {seed} {input} {output}       with random numbers of the run

``{input}`` is a wav file of 16 bits with one channel, at the rate of the recording; ``{output}`` is where the program writes a sound
file. ``{list}`` is a text file, a recording a line: input, output, speaker, seed, parted by tabs. ``{seed}`` is a whole number below
2^31, made of ``seed``, and of the set and the speaker or the utterance, as the level says: with it the run makes the second runs, the
training sets and the levels that it needs. No shell is run: the command is taken apart as a shell would, and nothing in it is expanded.
A configuration file cannot name a command: it is given on the command line, or in Python.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import soundfile
from pydantic import field_validator, model_validator

from pipeline import audio, contracts, processes
from pipeline.audio.correlation import peak_correlation
from pipeline.contracts import Anonymised, ComponentSettings, Utterance, Weights, numeric, runtime
from pipeline.errors import DataError, StageFailed
from pipeline.files import file_digest, temporary_folder
from pipeline.seeds import digest

VERSION = "command 2"
FIELDS = ("input", "output", "list", "seed", "speaker", "utterance", "set")
OF_DATA = ("speaker", "utterance", "set")
"""Fields whose values come from tables of the data, which anybody may have written."""
SAID = 800
"""Characters of the program's last words in a message."""


class CommandSettings(ComponentSettings):
    """Settings of a system that is a program of the user's.

    Attributes:
        command: the command line, with ``{input}`` and ``{output}``, or ``{list}``; ``{seed}``, ``{speaker}``, ``{utterance}``, ``{set}``.
            What enters keys are its words; of a word that is a file or a folder, or has one behind ``=``, the bytes, and not the
            name; of a Python script the modules beside it too. What else it stands on, ``version`` has to say.
        level: who has a pseudo-voice of their own: nobody (``fixed``), each ``speaker`` or each ``utterance``. A command with
            ``{seed}`` has to say it.
        seed: of ``{seed}``.
        version: say another one where the program changed by something that the command does not name, such as a library, or a
            package that it imports: the old sound is taken for its work otherwise.
        timeout_seconds: for a recording; a program that takes longer is ended.
    """

    name: Literal["command"] = numeric("command")
    command: str = runtime(..., min_length=1)
    level: Literal["unknown", "fixed", "speaker", "utterance"] = numeric("unknown")
    seed: int = numeric(0, ge=0)
    version: str = numeric("")
    timeout_seconds: float = runtime(600.0, gt=0)

    @field_validator("command")
    @classmethod
    def _names_files(cls, command: str) -> str:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ValueError(f"it cannot be taken apart into words ({error})") from error
        used = [name for name in FIELDS if any(f"{{{name}}}" in word for word in words)]
        if "list" in used and {"input", "output"} & set(used):
            raise ValueError("{list} names all inputs and outputs: leave {input} and {output} out")
        if "list" not in used and not {"input", "output"} <= set(used):
            raise ValueError("it needs {input} and {output}, or {list}: python anonymise.py {input} {output}")
        if "list" in used and {"seed", "speaker", "utterance", "set"} & set(used):
            raise ValueError("with {list}, speaker and seed of each recording stand in the list")
        return command

    @model_validator(mode="after")
    def _consistent(self) -> CommandSettings:
        if "{seed}" in self.command and self.level not in ("speaker", "utterance"):
            raise ValueError("a command with {seed} needs level=speaker or level=utterance: what a seed is drawn for")
        return self

    @property
    def words(self) -> list[str]:
        return shlex.split(self.command)

    @property
    def takes_a_list(self) -> bool:
        return "{list}" in self.command

    @property
    def is_random(self) -> bool:
        """Whether the program is given random numbers."""
        return self.level in ("speaker", "utterance") and (self.takes_a_list or "{seed}" in self.command)


class Anonymiser(contracts.Anonymiser):
    """What a program makes of recordings."""

    Settings = CommandSettings
    libraries = ("soundfile",)
    settings: CommandSettings

    @classmethod
    def level(cls, settings: CommandSettings) -> str:
        return "" if settings.level == "unknown" else settings.level

    @classmethod
    def rerun(cls, settings: CommandSettings, number: int) -> CommandSettings | None:
        """Another seed; None where the program is given none."""
        return settings.model_copy(update={"seed": settings.seed + number}) if settings.is_random else None

    @classmethod
    def at_level(cls, settings: CommandSettings, level: str) -> CommandSettings | None:
        return settings.model_copy(update={"level": level}) if settings.is_random else None

    @classmethod
    def batches_on_cpu(cls, settings: CommandSettings) -> bool:
        return settings.takes_a_list

    @classmethod
    def weights(cls, settings: CommandSettings, models: Path) -> Weights | None:
        """The program: its words, and the bytes of what they name.

        Raises:
            StageFailed: there is no such program.
        """
        words = settings.words
        program = shutil.which(words[0])
        if program is None:
            raise StageFailed(
                f"there is no program '{words[0]}'",
                where=settings.command,
                cause="a misspelt name, or an environment that is not active",
                remedy="give the path of the program as the first word of the command",
            )
        parts = [_digest_content(Path(program)), *(_digest_word(word) for word in words[1:])]
        return Weights(Path(program).absolute().parent, digest("command", parts))

    def anonymise(self, wave: np.ndarray, rate: int, utterance: Utterance) -> Anonymised:
        return self.anonymise_many([(wave, rate, utterance)])[0]

    def anonymise_many(self, waves: Sequence[tuple[np.ndarray, int, Utterance]]) -> list[Anonymised]:
        """What the program makes of these recordings, in order.

        Raises:
            StageFailed: it failed, took too long, or left an output out.
            DataError: what it wrote is no sound file.
        """
        with temporary_folder("voice-privacy-") as folder:
            places = [(folder / f"{n}.wav", folder / f"{n}.out.wav") for n in range(len(waves))]
            for (source, _), (wave, rate, _) in zip(places, waves):
                audio.write(source, np.clip(wave, -1.0, 1.0 - 1.0 / 32768), rate, "PCM_16")
            if self.settings.takes_a_list:
                self._listed(folder / "list.txt", places, waves)
            else:
                for (source, target), (_, _, utterance) in zip(places, waves):
                    self._run({**self._fields(utterance), "input": str(source), "output": str(target)}, 1)
            return [self._made(target, *spoken) for (_, target), spoken in zip(places, waves)]

    def _listed(
        self, table: Path, places: Sequence[tuple[Path, Path]], waves: Sequence[tuple[np.ndarray, int, Utterance]]
    ) -> None:
        lines = []
        for (source, target), (_, _, utterance) in zip(places, waves):
            fields = self._fields(utterance)
            lines.append(f"{source}\t{target}\t{fields['speaker']}\t{fields['seed']}\n")
        table.write_text("".join(lines), encoding="utf-8")
        self._run({"list": str(table)}, len(lines))

    def _fields(self, utterance: Utterance) -> dict[str, str]:
        """What the command may name of an utterance, its seed among it."""
        chosen = self.settings
        if chosen.level not in ("speaker", "utterance"):
            return {"seed": "0", "speaker": utterance.speaker, "utterance": utterance.id, "set": utterance.set}
        of = (utterance.set, utterance.speaker, *([utterance.id] if chosen.level == "utterance" else []))
        seed = int(digest(chosen.seed, "command", *of)[:8], 16) >> 1
        return {"seed": str(seed), "speaker": utterance.speaker, "utterance": utterance.id, "set": utterance.set}

    def _run(self, fields: dict[str, str], recordings: int) -> None:
        words = [_fill(word, fields) for word in self.settings.words]
        try:
            status, output = processes.run_program(words, self.settings.timeout_seconds * recordings)
        except TimeoutError as error:
            raise _make_failure(words, f"took longer than {error.args[0]:g} s", b"") from error
        except OSError as error:
            raise _make_failure(words, f"cannot be started ({error.strerror})", b"") from error
        if status:
            raise _make_failure(words, f"ended with status {status}", output)

    def _made(self, path: Path, original: np.ndarray, original_rate: int, utterance: Utterance) -> Anonymised:
        if not path.is_file():
            raise StageFailed(
                f"the program wrote no sound of utterance '{utterance.id}' and ended without an error",
                where=self.settings.command,
                cause="it leaves recordings out that it cannot anonymise, or writes to another place than it is told",
                remedy="have it write every output, or end with an error",
            )
        try:
            wave, rate = audio.load(path)
            subtype: Any = "PCM_16" if soundfile.info(path).subtype == "PCM_16" else "FLOAT"
            mono = soundfile.info(path).channels == 1
        except DataError as error:
            raise DataError(
                f"what the program wrote of utterance '{utterance.id}' cannot be used: {error.what}",
                where=self.settings.command,
                cause="a fault of the program",
                remedy=error.remedy,
            ) from error
        measured = {"correlation": peak_correlation(original, original_rate, wave, rate)}
        return Anonymised(wave, rate, subtype if mono else "FLOAT", measured)


def _fill(word: str, fields: dict[str, str]) -> str:
    """A word with the names in it replaced, each once: what a value holds is no name.

    Raises:
        DataError: an id of the data would be read as an option of the program, or lead into another folder.
    """

    def value(match: re.Match[str]) -> str:
        name, text = match[1], fields[match[1]]
        if name in OF_DATA:
            _refuse_unsafe(name, text, word, match.start() == 0)
        return text

    return re.sub(r"\{(" + "|".join(fields) + r")\}", value, word)


def _refuse_unsafe(name: str, text: str, word: str, is_first: bool) -> None:
    if is_first and text.startswith("-"):
        reason = "the program would take it for an option"
    elif "/" in text or text in (".", ".."):
        reason = "as a file's name it would lead into another folder"
    else:
        return
    raise DataError(
        f"the {name} '{text}' is not given to a program as {word}: {reason}",
        where=f"{{{name}}} in the command",
        cause="an id of the data that was made for this, or of another tool",
        remedy=f"leave {{{name}}} out of the command, or give it another id in the tables of the data",
    )


def _digest_word(word: str) -> str:
    """What of a word enters keys: the bytes of the file or folder that it is, or that stands behind its ``=``; else itself."""
    flag, equals, value = word.partition("=")
    if equals and flag.startswith("-"):
        return f"{flag}={_digest_content(Path(value).expanduser()) or value}"
    return _digest_content(Path(word).expanduser()) or word


def _digest_content(path: Path) -> str:
    """Digest of the bytes of a file, or of all files of a folder; '' if there is neither. With a Python script go the modules
    beside it, which it may import. A folder that holds the current one is a place and no model: its name alone counts."""
    try:
        if path.is_file():
            beside = sorted(file for file in path.parent.glob("*.py") if file != path) if path.suffix == ".py" else []
            return digest(file_digest(path), [(file.name, file_digest(file)) for file in beside])
        if path.is_dir() and not Path.cwd().is_relative_to(path.resolve()):
            inside = sorted(file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
            return digest([(file.relative_to(path).as_posix(), file_digest(file)) for file in inside])
    except OSError as error:
        raise StageFailed(
            f"a file that the command names cannot be read ({error.strerror})",
            where=os.fspath(path),
            cause="its permissions",
            remedy="make it readable",
        ) from error
    return ""


def _make_failure(words: Sequence[str], event: str, output: bytes) -> StageFailed:
    text = output.decode("utf-8", "replace").strip()
    last = text[-SAID:]
    return StageFailed(
        f"the program of the system {event}" + (f"; its last words: {last}" if last else ""),
        where=shlex.join(words),
        cause="a fault of the program, or a model or a library that it misses" if text else "a fault of the program",
        remedy="run it by hand on one of your recordings: it gets a wav file of 16 bits, and writes another",
    )
