"""The verb ``store``: what lies in a store, whether it is whole, and what may go.

Nothing heavy is imported here: the verb answers at once.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shlex
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
    _refuse_absent(root)
    actions: dict[str, Callable[[argparse.Namespace, Path], int]] = {
        "ls": _ls, "du": _du, "why": _why, "verify": _verify, "gc": _gc,
    }  # fmt: skip
    status = actions[options.action](options, root)
    sys.stdout.flush()
    return status


def _refuse_absent(root: Path) -> None:
    store = root / "store"
    if store.is_dir():
        return
    inside = root.name == "store" and root.is_dir()
    raise ConfigError(
        f"there is no store in {root}" if not store.exists() else f"{store} is no folder",
        where=str(store),
        cause="--root (or VOICE_PRIVACY_ROOT) is the folder above the store: what paths.root is to a run, by default ./exp",
        remedy=f"--root {shlex.quote(str(root.parent))}"
        if inside
        else "give the paths.root of your runs with --root DIR",
    )


# Looking -------------------------------------------------------------------------------------------------------------


def _ls(options: argparse.Namespace, root: Path) -> int:
    store = root / "store"
    stages = inventory.list_stages(store)
    if options.stage is not None and options.stage not in stages:
        remedy = f"its stages: {', '.join(stages) or 'none'}"
        raise ConfigError(f"the store has nothing of stage '{options.stage}'", where=str(store), remedy=remedy)
    artefacts = sorted(
        inventory.list_artefacts(store, options.stage), key=lambda each: (each.stage, each.label, each.made, each.key)
    )
    if options.json:
        for artefact in artefacts:
            print(json.dumps({**_to_plain(artefact), "bytes": artefact.bytes}))
    elif not artefacts:
        print(f"the store {store} holds no artefacts")
    else:
        rows = []
        for each in artefacts:
            state = "  DAMAGED" if each.problem else "  UNREADABLE" if each.unread else ""
            rows.append([*_identify(each), size(each.bytes), each.made or "?", each.host or "?", each.label + state])
        _print_table(rows)
    for artefact in artefacts:
        if artefact.problem or artefact.unread:
            _warn(f"{' '.join(_identify(artefact))}: {artefact.problem or artefact.unread}")
    if any(artefact.problem for artefact in artefacts):
        _warn(f"{_command(root)} verify sets damaged artefacts aside; the next run that needs them makes them again")
    return 0


def _identify(artefact: StoredArtefact) -> list[str]:
    return [artefact.stage, artefact.key[:ENOUGH]]


def _to_plain(artefact: StoredArtefact) -> dict[str, Any]:
    fields = {name: getattr(artefact, name) for name in ("stage", "key", "digest", "label", "made", "host")}
    return {**fields, "files": len(artefact.files), "path": str(artefact.folder), "damaged": artefact.problem, "unreadable": artefact.unread}  # fmt: skip


def _du(options: argparse.Namespace, root: Path) -> int:
    sizes = inventory.measure_usage(root / "store")
    runs = inventory.Space()
    for folder in usage.list_runs(root):
        runs.add(1, inventory.measure_size(folder)[1])
    if options.json:
        stages, others = ({name: vars(room) for name, room in rooms.items()} for rooms in (sizes.stages, sizes.others))
        print(
            json.dumps(
                {"stages": stages, "others": others, "runs": vars(runs), "total": sizes.total, "free": sizes.free}
            )
        )
        return 0
    rows = [[name, f"{room.count} artefacts", size(room.bytes)] for name, room in sizes.stages.items()]
    for name, room in sizes.others.items():
        if room.count:
            rows.append([name, str(room.count), size(room.bytes), inventory.BESIDE.get(name, "")])
    _print_table([*rows, ["total", "", size(sizes.total)], ["free", "", size(sizes.free)]])
    if runs.count:
        print(f"beside the store: {runs.count} run folders, {size(runs.bytes)}")
    return 0


# One artefact --------------------------------------------------------------------------------------------------------


def _why(options: argparse.Namespace, root: Path) -> int:
    store = root / "store"
    artefact = inventory.find_by_prefix(store, options.key)
    if artefact.problem or artefact.unread:
        runs = inventory.find_users(root, [artefact.key])[artefact.key]
        remedy = f"{_command(root)} verify sets it aside; {inventory.explain_recovery(root, runs)}"
        raise StageFailed(
            f"{artefact.stage} {artefact.key} {'is damaged' if artefact.problem else 'cannot be read'}: {artefact.problem or artefact.unread}",
            where=str(artefact.folder),
            cause=f"used by {join_few(runs, 5)}" if runs else "no run in this root says that it used it",
            remedy=remedy if artefact.problem else "give yourself the permission to read it",
        )
    web = inventory.Web.of(inventory.list_artefacts(store))
    above, users = web.standing_on(artefact.key), inventory.find_users(root, [artefact.key])[artefact.key]
    if options.json:
        fields = {name: artefact.record[name] for name in ("parts", "notes", "files")}
        print(
            json.dumps(
                {**_to_plain(artefact), **fields, "sources": web.sources[artefact.key], "read_by": above, "runs": users}
            )
        )
        return 0
    parts, notes = artefact.record["parts"], artefact.record["notes"]
    print(escape_unprintable(f"{artefact.stage} {artefact.key}"))
    took = f", in {notes['seconds']} s" if "seconds" in notes else ""
    print(escape_unprintable(f"  {artefact.label}, made {artefact.made or '?'} on {artefact.host or '?'}{took}"))
    print(escape_unprintable(f"  {artefact.folder}"))
    output = parts.get("output")
    own = output.get("settings") if isinstance(output, dict) else {}
    _block("settings", _flat({**_mapping(parts.get("settings")), **_mapping(own)}))
    _block("inputs", _inputs(artefact, web))
    _block("code, by the versions that its files declare", _flat(_mapping(parts.get("code"))))
    _block("libraries", _flat(_mapping(parts.get("libraries"))))
    shown_above = {"key_version", "stage", "settings", "inputs", "output", "code", "libraries"}
    _block(
        "of which it is made besides", _flat({name: value for name, value in parts.items() if name not in shown_above})
    )
    _block("notes, which enter no key", _flat({name: value for name, value in notes.items() if name not in ("label", "seconds", "sources")}))  # fmt: skip
    _block("files", [[name, size(entry["bytes"]), entry["sha256"][:ENOUGH]] for name, entry in artefact.files.items()])
    _block("read for", [_name_artefact(key, web) for key in above] or [["nothing in this store"]])
    _block("used by", [[name] for name in users] or [["no run in this root that says so"]])
    return 0


def _inputs(artefact: StoredArtefact, web: inventory.Web) -> list[list[str]]:
    """Each input with the artefacts that it was taken from, a line each; of one that was given, its digest."""
    rows = []
    for name, keys in web.sources[artefact.key].items():
        digest = inventory.list_inputs(artefact)[name]
        for place, key in enumerate(keys):
            gone = [f"{key[:ENOUGH]}, which is not in this store"] if key != digest else [f"given: what has the digest {key[:ENOUGH]}"]  # fmt: skip
            rows.append([name if place == 0 else "", *(_name_artefact(key, web) if key in web.labels else gone)])
    return rows


def _name_artefact(key: str, web: inventory.Web) -> list[str]:
    stage, label = web.labels[key]
    return [stage, key[:ENOUGH], label]


def _block(title: str, rows: Sequence[Sequence[str]]) -> None:
    if rows:
        print(f"{title}:")
        _print_table([["  " + str(row[0]), *row[1:]] for row in rows])


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _flat(values: dict[str, Any], above: str = "") -> list[list[str]]:
    rows = []
    for name, value in sorted(values.items()):
        if isinstance(value, dict) and value:
            rows += _flat(value, f"{above}{name}.")
        else:
            text = json.dumps(value, ensure_ascii=False)
            rows.append([f"{above}{name}", text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"])
    return rows


# Whether it is whole -------------------------------------------------------------------------------------------------


def _verify(options: argparse.Namespace, root: Path) -> int:
    store = root / "store"
    told, total = time.monotonic(), sum(inventory.measure_size(place)[1] for place in inventory.list_places(store))
    done = count = 0
    refused: list[str] = []
    wrong: list[StoredArtefact] = []
    for artefact in _hash_all(store):
        count, done = count + 1, done + sum(entry["bytes"] for entry in artefact.files.values())
        if time.monotonic() - told > TELL_SECONDS:
            told = time.monotonic()
            print(f"hashed {size(done)} of {size(total)}", file=sys.stderr)
        if not (artefact.problem or artefact.unread):
            continue
        wrong.append(artefact)
        print(escape_unprintable(f"{artefact.stage} {artefact.key}: {artefact.problem or artefact.unread}"), flush=True)
        if artefact.problem and not options.dry_run:
            refused += filter(None, [inventory.set_aside(artefact)])
    for text in refused:
        _warn(text)
    if not wrong:
        print(f"{count} artefacts are whole ({size(done)})")
        return 0
    users = inventory.find_users(root, [artefact.key for artefact in wrong])
    print("results of runs that stand on this:")
    rows = [[*_identify(each), each.label, ", ".join(users[each.key]) or "no run that says so"] for each in wrong]
    _print_table([["  " + row[0], *row[1:]] for row in rows])
    runs = sorted({run for names in users.values() for run in names})
    damaged = sum(bool(artefact.problem) for artefact in wrong)
    states = {"damaged": damaged, "unreadable": len(wrong) - damaged}
    counts = " and ".join(f"{number} {state}" for state, number in states.items() if number)
    permission = f"`chmod -R u+rwX {shlex.quote(str(store))}`"
    again = inventory.explain_recovery(root, runs)
    aside = (
        f"{_command(root)} verify sets aside what is damaged; then {again}"
        if options.dry_run
        else f"what is damaged is set aside; {again}"
    )
    if refused:
        aside = f"make the store one that you can write ({permission}), and then the same again"
    raise StageFailed(
        f"of {count} artefacts {counts}",
        where=str(store),
        cause="a disk or a copy that changed bytes, or a file that was edited" if damaged else "permissions, or a disk that fails",
        remedy=aside if damaged else f"give yourself the permission ({permission}), or see whether the disk is well",
    )  # fmt: skip


def _hash_all(store: Path) -> Iterator[StoredArtefact]:
    """All artefacts, hashed by as many threads as there are cores; by stage and key."""
    workers = min(16, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[StoredArtefact | None]] = deque()
        try:
            for artefact in itertools.chain(inventory.list_artefacts(store), itertools.repeat(None)):
                if artefact is not None:
                    waiting.append(pool.submit(inventory.check_bytes, artefact))
                elif not waiting:
                    return
                if artefact is None or len(waiting) > 4 * workers:
                    hashed = waiting.popleft().result()
                    if hashed is not None:
                        yield hashed
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


# Removing ------------------------------------------------------------------------------------------------------------


def _gc(options: argparse.Namespace, root: Path) -> int:
    keep = [usage.find_run(root, name) for name in options.keep]
    plan = cleaning.plan_removal(root, keep, options.younger, options.idle_weights)
    stages: dict[str, inventory.Space] = {}
    for artefact in plan.goes:
        stages.setdefault(artefact.stage, inventory.Space()).add(1, artefact.bytes)
    _print_table([name, f"{room.count} artefacts", size(room.bytes)] for name, room in stages.items())
    runs = [run.name for run in keep]
    print(escape_unprintable(f"kept: {plan.kept} artefacts that {join_few(runs, 5)} used" + (f"; {plan.young} younger than {options.younger:g} hours" if plan.young else "")))  # fmt: skip
    if plan.idle:
        print(f"kept: {plan.idle} trained weights that no run has used yet; --idle-weights lets them go too")
    if plan.going:
        print(escape_unprintable(f"{join_few(list(plan.going), 5)} still {'goes' if len(plan.going) == 1 else 'go'} on: what was used so far is kept; what it asks for later and finds gone, it computes again"))  # fmt: skip
    if plan.losing:
        print(
            escape_unprintable(
                f"lose results in the store (run folders and their reports stay): {join_few(list(plan.losing), 10)}"
            )
        )
    if plan.silent:
        print(escape_unprintable(f"do not say what they used, and may lose some: {join_few(list(plan.silent), 10)}"))
    print("not touched: recordings, files and selections of the store, which runs share, checkpoints, and what is set aside or being written")  # fmt: skip
    if not plan.goes:
        print("nothing is to be removed")
    elif not options.yes:
        print(f"would remove {len(plan.goes)} artefacts, {size(plan.bytes)}; nothing was removed: --yes does it")
    else:
        count, freed = cleaning.remove_artefacts(plan)
        print(f"removed {count} artefacts, {size(freed)}")
    if options.yes:
        claims.sweep_leftovers(root / "store")
    return 0


# Printing ------------------------------------------------------------------------------------------------------------


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
    print("\n".join(align_columns([[escape_unprintable(str(cell)) for cell in row] for row in rows])))


def _warn(text: str) -> None:
    print(escape_unprintable(f"warning: {text}"), file=sys.stderr)


def _command(root: Path) -> str:
    return f"voice-privacy store --root {shlex.quote(str(root))}"


# Usage ---------------------------------------------------------------------------------------------------------------


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
    actions = parser.add_subparsers(dest="action", required=True, metavar="ls|du|why|verify|gc")

    def action(name: str, text: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, parents=[common], help=text, description=f"{text[0].upper()}{text[1:]}.")

    ls = action("ls", "list artefacts: stage, key, size, date, host, label")
    ls.add_argument("stage", nargs="?", help="only of this stage")
    du = action("du", "say how much room the stages and the other things in the store take")
    why = action("why", "say what an artefact is made of, what was made from it, and which runs used it")
    why.add_argument("key", help="the first digits of its key, as many as tell it apart")
    for action_parser in (ls, du, why):
        action_parser.add_argument("--json", action="store_true", help="JSON, a line an artefact")
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
