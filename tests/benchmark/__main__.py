"""``python -m tests.benchmark [NAME...]``: runs benchmarks (all but the long ones by default) and records them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from pipeline import host
from tests.benchmark import (
    audio,
    chaos,
    demo,
    embeddings,
    extraction,
    harness,
    planning,
    plda,
    processes,
    report,
    scores,
    simulation,
    surveying,
    training,
)
from tests.benchmark.harness import Row, Skipped

BENCHMARKS: dict[str, Callable[[], list[Row]]] = {
    "metrics_1e6": scores.metrics_1e6,
    "metrics_1e7": scores.metrics_1e7,
    "vsm_5328": scores.vsm_5328,
    "replicates": scores.replicates,
    "reading": scores.reading,
    "plda": plda.plda,
    "ge2e": audio.ge2e,
    "pyin": audio.pyin,
    "mcadams": audio.mcadams,
    "embeddings": embeddings.embeddings,
    "campplus": embeddings.campplus,
    "training": training.training,
    "together": extraction.together,
    "memory": extraction.memory,
    "survey": surveying.survey,
    "two_processes": processes.two_processes,
    "scheduling": processes.scheduling,
    "planning": planning.planning_many,
    "report_six": report.report_six,
    "demo": demo.demo,
}
# Many minutes each: run when named.
LONG: dict[str, Callable[[], list[Row]]] = {
    "coverage": simulation.coverage,
    "null_band": simulation.null_band,
    "chaos": chaos.chaos,
    "planning_100k": planning.planning_100k,
}


def main(names: list[str]) -> int:
    """Runs the benchmarks named; 1 if a limit is missed, 2 for a name that does not exist."""
    known = BENCHMARKS | LONG
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    host.use_cache_folder(host.find_cache_folder())
    missed = 0
    for name in names or BENCHMARKS:
        where, begin = harness.machine(), time.perf_counter()
        try:
            rows = known[name]()
        except Skipped as reason:
            print(f"{name}: skipped: {reason}", file=sys.stderr)
            continue
        harness.record(rows, where)
        for measured in rows:
            ratio = "" if measured.ratio is None else f", ratio {measured.ratio:.3g}"
            limit = f" ({measured.limit}: {'met' if measured.met else 'MISSED'})" if measured.limit else ""
            print(f"{measured.name}: {measured.value:.4g} {measured.unit}{ratio}{limit}", flush=True)
            missed += measured.met is False
        print(f"{name}: took {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
