"""``voice-privacy status [RUN]``: how far a run is, where, and what went wrong; also of one that goes on elsewhere.

Nothing heavy is imported here: the answer is wanted at once.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline import slurm
from pipeline.cli import status_text
from pipeline.cli.options import Parser, find_root
from pipeline.cli.output import for_rich
from pipeline.cli.status_text import Seen
from pipeline.engine.journal import FOLDER
from pipeline.engine.journal_reader import Journals
from pipeline.errors import ConfigError
from pipeline.tables import status

EVERY_SECONDS = 2.0
"""Between two looks of ``--follow``."""
SLURM_SECONDS = 30.0
"""Between two questions to Slurm."""
EXIT = {"done": 0, "partial": 6, "failed": 5, "stopped": 143, "killed": 137}
"""The exit status of a run whose record names none."""


def main(arguments: Sequence[str]) -> int:
    """Say how a run goes; the exit status: 0 if it could be told. With ``--follow`` that of the run.

    Raises:
        ConfigError: there is no such run.
    """
    options = _parser().parse(arguments)
    root, wanted = find_root(options.root).absolute(), options.run[0] if options.run else ""
    if len(options.run) > 1:
        raise ConfigError(
            "status tells of one run", where=" ".join(options.run), remedy=f"voice-privacy status {wanted}"
        )
    folder = find(wanted, root)
    watch = Watch(folder)
    if options.follow:
        return follow(watch, options.json)
    seen = watch.look()
    if options.json:
        print(json.dumps(status_text.to_plain(seen), indent=1))
        return 0
    others = {}
    if not wanted:
        others = status.in_progress(root / "runs", root / "store" / "files" / status.ENDED)
        others.pop(folder, None)
    print("\n".join([*status_text.lines(seen), *status_text.others(others)]))
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="voice-privacy status",
        description="Say how far a run is: its tasks by stage, what goes on where, rate, time left, and what failed. "
        "The exit status is 0 if that could be told, and with --follow that of the run.",
    )
    parser.overrides = ("paths.root",)
    parser.add_argument("run", nargs="*", metavar="RUN", help="a run folder or its id; the newest run if none is given")
    parser.add_argument(
        "--root",
        help="where the runs lie: paths.root of them ($VOICE_PRIVACY_ROOT, else ./exp); paths.root=DIR is the same",
    )
    parser.add_argument("--follow", action="store_true", help="go on until the run ends")
    parser.add_argument("--json", action="store_true", help="everything as JSON, with all tasks")
    return parser


def find(wanted: str, root: Path) -> Path:
    """The folder of a run.

    Args:
        wanted: its path, its id or a part of it that only it has, or a folder that holds ``runs``; '' for the newest run.
        root: ``paths.root``.

    Raises:
        ConfigError: there is no such run.
    """
    if wanted:
        run_path = Path(wanted).absolute()
        if _is_run(run_path):
            return run_path
        root = run_path if (run_path / "runs").is_dir() else root
    runs = {path.name: path for path in _listed(root / "runs") if path.name[0] != "." and _is_run(path)}
    if not runs:
        raise ConfigError(
            "there is no run yet" if not wanted else f"there is no run '{wanted}'",
            where=str(root / "runs"),
            cause="paths.root of the run is another folder" if (root / "runs").is_dir() else "no run was started there",
            remedy="name the folder by --root DIR or VOICE_PRIVACY_ROOT, or the folder of the run itself",
        )
    if not wanted or root == Path(wanted).absolute():
        return runs[max(runs)]
    matches = [runs[wanted]] if wanted in runs else [path for name, path in runs.items() if wanted in name]
    if len(matches) == 1:
        return matches[0]
    near = [path.name for path in matches] or difflib.get_close_matches(wanted, runs, n=3, cutoff=0.5) or [max(runs)]
    raise ConfigError(
        f"there is no run '{wanted}'" if not matches else f"'{wanted}' is a part of {len(matches)} ids",
        where=str(root / "runs"),
        cause="a misspelt id" if not matches else "",
        remedy=f"voice-privacy status {' or '.join(sorted(near, reverse=True)[:3])}"
        + ("" if root == Path("exp").absolute() else f" --root {root}"),
    )


def _is_run(path: Path) -> bool:
    return any((path / name).exists() for name in (status.FILE, status.LOG, FOLDER))


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


@dataclass
class Watch:
    """One run, looked at again and again."""

    folder: Path
    _asked: float = float("-inf")
    _answer: slurm.Answer = field(default_factory=slurm.Answer)

    def __post_init__(self) -> None:
        self.journals = Journals(self.folder)

    def look(self) -> Seen:
        """How it stands now."""
        record = status.read(self.folder)
        jobs = jobs_of(self.folder, record)
        if not jobs or time.monotonic() - self._asked > SLURM_SECONDS:
            record = status.settle(self.folder)  # which asks Slurm, where there are jobs
            self._asked = time.monotonic()
            self._answer = slurm.query_jobs(jobs, seconds=10, accounts=False) if jobs else slurm.Answer()
        # A folder without a record that nobody writes to is that of no run that goes on.
        over = status.is_over(self.folder, record) if record else bool(status.quiet(self.folder))
        ended = [job for job, (state, _) in self._answer.states.items() if state in slurm.ENDED]
        look = self.journals.look(over, ended)
        return Seen(self.folder, record, over, look, self._answer, status.alive(self.folder), tuple(jobs))


def jobs_of(run: Path, record: dict[str, Any]) -> list[str]:
    """The jobs of Slurm that a run has: those that it has sent, else the one that it is."""
    jobs = status.read_sent_jobs(run) or [str(record.get("slurm_job"))]
    return [job for job in jobs if re.fullmatch(r"\d{1,12}(_\d{1,12})?", job)]


def follow(watch: Watch, as_json: bool) -> int:
    """Tell of a run until it ends; its exit status."""
    if as_json:
        seen = _on_change(watch, lambda seen: json.dumps(status_text.to_plain(seen)), last=True)
    elif sys.stdout.isatty():
        seen = _on_screen(watch)
    else:
        seen = _on_change(watch, status_text.line)
    if not as_json:
        print("\n".join(status_text.lines(seen)))
    exit_status = seen.record.get("exit_status")
    return exit_status if isinstance(exit_status, int) else EXIT.get(str(seen.record.get("state")), 1)


def _on_screen(watch: Watch) -> Seen:
    """Show the run anew every two seconds, in place."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(file=for_rich(sys.stdout)), auto_refresh=False, transient=True) as live:
        while not (seen := watch.look()).over:
            shown = "\n".join(status_text.lines(seen, most_failures=3))
            live.update(Text(shown, no_wrap=True, overflow="ellipsis"), refresh=True)
            time.sleep(EVERY_SECONDS)
    return seen


def _on_change(watch: Watch, told: Any, last: bool = False) -> Seen:
    """Print a line whenever something has changed; ``last``: also one for the end."""
    before: object = None
    while True:
        seen = watch.look()
        if seen.changing() != before and (last or not seen.over):
            before = seen.changing()
            print(told(seen), flush=True)
        if seen.over:
            return seen
        time.sleep(EVERY_SECONDS)
