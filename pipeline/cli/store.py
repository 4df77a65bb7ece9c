"""The verb ``store``: what lies in a store, whether it is whole, and what may go.

Nothing heavy is imported here: the verb answers at once.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pipeline.cli.options import Parser, find_root
from pipeline.cli.output import align_columns, log_to_stderr
from pipeline.engine import claims, cleaning, inventory, usage
from pipeline.engine.inventory import ENOUGH, StoredArtefact
from pipeline.errors import ConfigError, StageFailed
from pipeline.faults import escape_unprintable
from pipeline.names import join_few

TELL_SECONDS = 5.0
"""Between two lines of progress."""
YOUNGER_HOURS = 24.0


def main(arguments: Sequence[str]) -> int:
    """Carry out ``store`` with its arguments; the exit status.

    Raises:
        PipelineError: usage; a store, run or artefact that is not there or not sound.
    """
    log_to_stderr()
    options = _parser().parse(arguments)
    root = find_root(options.root)
    if not (root / "store").is_dir():
        # Whoever names the store itself is told the folder above it.
        above = f"--root {shlex.quote(str(root.parent))}" if root.name == "store" and root.is_dir() else "--root DIR"
        raise ConfigError(
            f"there is no store in {root}",
            where=str(root / "store"),
            cause="--root (or VOICE_PRIVACY_ROOT) is the folder above the store: what paths.root is to a run, by default ./exp",
            remedy=f"give the paths.root of your runs: {above}",
        )
    actions: dict[str, Callable[[argparse.Namespace, Path], None]] = {
        "ls": _ls, "why": _why, "verify": _verify, "gc": _gc,
    }  # fmt: skip
    actions[options.action](options, root)
    sys.stdout.flush()
    return 0


def _ls(options: argparse.Namespace, root: Path) -> None:
    """The artefacts; without a stage also how much room each folder of the store takes."""
    store = root / "store"
    stages = inventory.list_stages(store)
    if options.stage is not None and options.stage not in stages:
        remedy = f"its stages: {', '.join(stages) or 'none'}"
        raise ConfigError(f"the store has nothing of stage '{options.stage}'", where=str(store), remedy=remedy)
    artefacts = sorted(
        inventory.list_artefacts(store, options.stage), key=lambda each: (each.stage, each.label, each.made, each.key)
    )
    for artefact in artefacts if options.json else ():
        fields = {
            name: getattr(artefact, name) for name in ("stage", "key", "digest", "label", "made", "host", "bytes")
        }
        more = {"path": str(artefact.folder), "damaged": artefact.problem, "unreadable": artefact.unread}
        print(json.dumps({**fields, "files": len(artefact.files), **more}))
    if not options.json:
        _print_table(
            [*_identify(each), size(each.bytes), each.made or "?", each.host or "?", each.label] for each in artefacts
        )
        rooms = {path.name: inventory.measure_size(path) for path in sorted(store.iterdir())}
        rooms |= {"runs": inventory.measure_size(root / "runs")}
        if options.stage is None:
            print("room:")
            _print_table([f"  {name}", f"{count} files", size(room)] for name, (count, room) in rooms.items())
            print(f"free: {size(shutil.disk_usage(store).free)}")
    for artefact in artefacts:
        if artefact.problem or artefact.unread:
            _warn(f"{' '.join(_identify(artefact))}: {artefact.problem or artefact.unread}")
    if any(artefact.problem for artefact in artefacts):
        _warn(f"{_command(root)} verify sets damaged artefacts aside; the next run that needs them makes them again")


def _identify(artefact: StoredArtefact) -> list[str]:
    return [artefact.stage, artefact.key[:ENOUGH]]


def _why(options: argparse.Namespace, root: Path) -> None:
    """All that is known of one artefact, as JSON."""
    store = root / "store"
    artefact = inventory.find_by_prefix(store, options.key)
    users = inventory.find_users(root, [artefact.key])[artefact.key]
    if artefact.problem or artefact.unread:
        raise StageFailed(
            f"{artefact.stage} {artefact.key} {'is damaged' if artefact.problem else 'cannot be read'}: {artefact.problem or artefact.unread}",
            where=str(artefact.folder),
            cause=f"used by {join_few(users, 5)}" if users else "no run in this root says that it used it",
            remedy=f"{_command(root)} verify sets it aside; {inventory.explain_recovery(root, users)}"
            if artefact.problem
            else "give yourself the permission to read it",
        )
    web = inventory.Web.of(inventory.list_artefacts(store))

    def name(key: str) -> str:
        return " ".join([web.labels[key][0], key, web.labels[key][1]]) if key in web.labels else key

    told: dict[str, Any] = {
        "artefact": name(artefact.key),
        "folder": str(artefact.folder),
        "made": artefact.made,
        "host": artefact.host,
        "sources": {each: list(map(name, keys)) for each, keys in web.sources[artefact.key].items()},
        **{part: artefact.record[part] for part in ("parts", "notes", "files")},
        "read_by": list(map(name, web.standing_on(artefact.key))),
        "runs": users,
    }
    print(json.dumps(told, indent=1))


def _verify(options: argparse.Namespace, root: Path) -> None:
    """Hash everything, by as many threads as there are cores; what is damaged is said at once, and set aside."""
    store = root / "store"
    told, total = time.monotonic(), sum(inventory.measure_size(place)[1] for place in inventory.list_places(store))
    done = count = 0
    refused: list[str] = []
    wrong: list[StoredArtefact] = []
    with ThreadPoolExecutor(min(16, len(os.sched_getaffinity(0)))) as pool:
        for artefact in filter(None, pool.map(inventory.check_bytes, inventory.list_artefacts(store))):
            count, done = count + 1, done + artefact.bytes
            if time.monotonic() - told > TELL_SECONDS:
                told = time.monotonic()
                print(f"hashed {size(done)} of {size(total)}", file=sys.stderr)
            if not (artefact.problem or artefact.unread):
                continue
            wrong.append(artefact)
            problem = artefact.problem or artefact.unread
            print(escape_unprintable(f"{artefact.stage} {artefact.key}: {problem}"), flush=True)
            if artefact.problem and not options.dry_run:
                refused += filter(None, [inventory.set_aside(artefact)])
    for text in refused:
        _warn(text)
    if not wrong:
        print(f"{count} artefacts are whole ({size(done)})")
        return
    users = inventory.find_users(root, [artefact.key for artefact in wrong])
    print("results of runs that stand on this:")
    for each in wrong:
        print(
            escape_unprintable(
                f"  {' '.join(_identify(each))} {each.label}: {', '.join(users[each.key]) or 'no run that says so'}"
            )
        )
    damaged = sum(bool(artefact.problem) for artefact in wrong)
    permission = f"give yourself the permission (`chmod -R u+rwX {shlex.quote(str(store))}`)"
    again = inventory.explain_recovery(root, sorted({run for names in users.values() for run in names}))
    if refused or not damaged:
        remedy = f"{permission}, and then the same again; or see whether the disk is well"
    else:
        remedy = f"{f'{_command(root)} verify sets it aside; then' if options.dry_run else 'it is set aside;'} {again}"
    raise StageFailed(
        f"of {count} artefacts {damaged} are damaged, {len(wrong) - damaged} unreadable",
        where=str(store),
        cause="a disk or a copy that changed bytes, a file that was edited, or permissions",
        remedy=remedy,
    )


def _gc(options: argparse.Namespace, root: Path) -> None:
    keep = [usage.find_run(root, name) for name in options.keep]
    plan = cleaning.plan_removal(root, keep, options.younger, options.idle_weights)
    stages: dict[str, list[int]] = {}
    for artefact in plan.goes:
        stages.setdefault(artefact.stage, []).append(artefact.bytes)
    _print_table([name, f"{len(sizes)} artefacts", size(sum(sizes))] for name, sizes in stages.items())
    told = [
        f"kept: {plan.kept} artefacts that {join_few([run.name for run in keep], 5)} used; {plan.young} younger than "
        f"{options.younger:g} hours; {plan.idle} trained weights that no run has used yet (--idle-weights lets them go too)"
    ]
    if plan.going:
        told.append(f"still go on: {join_few(list(plan.going), 5)}; what they used so far is kept, what they ask for later and find gone is computed again")  # fmt: skip
    if plan.losing:
        told.append(
            f"lose results in the store (run folders and their reports stay): {join_few(list(plan.losing), 10)}"
        )
    if plan.silent:
        told.append(f"do not say what they used, and may lose some: {join_few(list(plan.silent), 10)}")
    told.append("not touched: recordings, files and selections of the store, which runs share, checkpoints, and what is set aside or being written")  # fmt: skip
    if not plan.goes:
        told.append("nothing is to be removed")
    elif not options.yes:
        told.append(f"would remove {len(plan.goes)} artefacts, {size(plan.bytes)}; nothing was removed: --yes does it")
    else:
        count, freed = cleaning.remove_artefacts(plan)
        told.append(f"removed {count} artefacts, {size(freed)}")
    print("\n".join(map(escape_unprintable, told)))
    if options.yes:
        claims.sweep_leftovers(root / "store")


def size(count: int) -> str:
    """Bytes as people read them."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.95 or unit == "TB":
            break
    return f"{value:.1f} {unit}"


def _print_table(rows: Iterable[Sequence[object]]) -> None:
    for line in align_columns([[escape_unprintable(str(cell)) for cell in row] for row in rows]):
        print(line)


def _warn(text: str) -> None:
    print(escape_unprintable(f"warning: {text}"), file=sys.stderr)


def _command(root: Path) -> str:
    return f"voice-privacy store --root {shlex.quote(str(root))}"


def _hours(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("a number of hours, 0 or more")
    return value


def _parser() -> Parser:
    parser = Parser(
        prog="voice-privacy store",
        description="Looks after the store: results by key, which runs share. Only gc and verify change anything.",
        epilog="exit status: 0 done, 2 usage, 3 a list that is not what was written, 5 damaged artefacts, or a disk that refuses",
    )  # fmt: skip
    parser.add_argument("--root", help="paths.root of the runs (default: VOICE_PRIVACY_ROOT, else ./exp)")
    parser.overrides = ("paths.root",)
    common = Parser(add_help=False)
    common.add_argument("--root", default=argparse.SUPPRESS, help="paths.root of the runs")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ls|why|verify|gc")

    def action(name: str, text: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, parents=[common], help=text, description=f"{text[0].upper()}{text[1:]}.")

    ls = action("ls", "list artefacts: stage, key, size, date, host, label; and how much room things take")
    ls.add_argument("stage", nargs="?", help="only of this stage")
    ls.add_argument("--json", action="store_true", help="JSON, a line an artefact")
    why = action("why", "say as JSON what an artefact is made of, what was made from it, and which runs used it")
    why.add_argument("key", help="the first digits of its key, as many as tell it apart")
    verify = action(
        "verify", "hash every artefact; set aside what is damaged, so that the next run makes it again (exit 5)"
    )
    verify.add_argument("--dry-run", action="store_true", help="set nothing aside")
    gc = action("gc", "remove the artefacts that no kept run used; without --yes only say which")
    gc.add_argument(
        "--keep", nargs="+", action="extend", required=True, metavar="RUN", help="a run folder, or the name of one below ROOT/runs"
    )  # fmt: skip
    gc.add_argument(
        "--younger", type=_hours, default=YOUNGER_HOURS, metavar="HOURS", help="keep what is younger (default 24)"
    )
    gc.add_argument("--idle-weights", action="store_true", help="let trained weights go too that no run has used yet")
    gc.add_argument("--yes", action="store_true", help="remove them")
    return parser
