"""What tasks of the tests do in worker processes: functions that another process can import."""

from __future__ import annotations

import functools
import logging
import os
import resource
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pipeline.engine.task import Resources, Task, Work
from pipeline.errors import DataError

log = logging.getLogger("pipeline.tests.labour")


def until(there: Callable[[], Any], seconds: float = 120.0) -> None:
    """Wait for what another process does; what hangs ends."""
    ends = time.monotonic() + seconds
    while not there():
        if time.monotonic() > ends:
            raise TimeoutError("nothing happened")
        time.sleep(0.01)


def gone(number: int) -> bool:
    """Whether a process has ended; one that nobody has waited for has."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def write(work: Work, text: str) -> None:
    for output in work.missing:
        (work.folder(output) / "value").write_text(text)


def says(text: str, work: Work) -> None:
    write(work, text)


def joins(work: Work) -> None:
    write(work, "+".join(made.path("value").read_text() for made in work.input("sources")))


def of_this_process(work: Work) -> None:
    """Its number, and which GPU it sees."""
    write(work, f"{os.getpid()} {os.environ.get('CUDA_VISIBLE_DEVICES', 'all')}")


def content_of(place: Path, work: Work) -> None:
    """What stands outside of the store: other content each time, as a device that does not compute alike gives it."""
    write(work, place.read_text())


def fails(work: Work) -> None:
    raise ValueError("no good")


def explains(work: Work) -> None:
    raise DataError("too few speakers", remedy="add some")


def dies(times: int, folder: Path, work: Work) -> None:
    """Is killed so many times."""
    count = len(list(folder.glob("died-*")))
    if count < times:
        (folder / f"died-{count}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    write(work, "alive")


def fills(times: int, folder: Path, work: Work) -> None:
    """Has not enough memory so many times: the limit of this process is what it takes by now and a little more."""
    count = len(list(folder.glob("filled-*")))
    if count < times:
        (folder / f"filled-{count}").write_text(str(os.getpid()))
        before = resource.getrlimit(resource.RLIMIT_AS)
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + (64 << 20), before[1]))
        try:
            bytearray(1 << 30)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
    write(work, "enough")


def needs_room(folder: Path, work: Work) -> None:
    """Is killed where another one of its kind is at work, as where memory is short; the first one waits until the second was killed twice."""
    try:
        (folder / "room").mkdir()
    except FileExistsError:
        dies(2, folder, work)
        return
    if (folder / "two workers").exists():
        until(lambda: len(list(folder.glob("died-*"))) == 2)
    write(work, "enough")
    (folder / "room").rmdir()


def meets(folder: Path, name: str, other: str, work: Work) -> None:
    """Ends when another task has begun as well."""
    (folder / name).touch()
    until(lambda: (folder / other).exists())
    write(work, name)


def meets_all(folder: Path, name: str, names: Sequence[str], work: Work) -> None:
    """Ends when all of them have begun; as :func:`of_this_process`."""
    (folder / name).touch()
    until(lambda: all((folder / other).exists() for other in names))
    of_this_process(work)


def waits(folder: Path, work: Work) -> None:
    """Begins, says in which process, and ends when it is told to stop."""
    (folder / "begun.tmp").write_text(str(os.getpid()))
    (folder / "begun.tmp").rename(folder / "begun")
    until(work.stopping)


def finishes(folder: Path, work: Work) -> None:
    """As :func:`waits`, but does not leave early: it is in the middle of its last shard."""
    (folder / "begun.tmp").write_text(str(os.getpid()))
    (folder / "begun.tmp").rename(folder / "begun")
    until(lambda: (folder / "go on").exists())
    write(work, "finished")


def talks(folder: Path, name: str, other: str, work: Work) -> None:
    """In two workers at once."""
    meets(folder, name, other, work)
    log.warning("said by all")
    log.info("said by %s", name)
    warnings.warn("an old name", UserWarning, stacklevel=1)
    work.advance(2.5)


def rests(seconds: float, work: Work) -> None:
    time.sleep(seconds)
    write(work, "rested")


def leaf(
    name: str,
    function: Callable[..., None],
    *arguments: Any,
    device: bool = False,
    seconds: float = 1.0,
    **settings: Any,
) -> Task:
    bound = functools.partial(function, *arguments) if arguments else function
    return Task("leaf", name, bound, {"name": name, **settings}, resources=Resources(seconds, device))


def join(name: str, *sources: Task) -> Task:
    return Task("join", name, joins, {"name": name}, {"sources": tuple(one.ref() for one in sources)})


def counts(name: str, folder: Path, work: Work) -> None:
    """Leaves a file each time that it is done."""
    (folder / f"{name}-{os.getpid()}-{time.monotonic_ns()}").touch()
    time.sleep(0.02)
    write(work, name)
