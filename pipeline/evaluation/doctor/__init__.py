"""``doctor``: whether this machine and what is on it will do for a configuration. Nothing is computed, fetched or changed.

Where nobody said what is to be evaluated, only the machine can be at fault: other configurations need other data and models. Each room of it looks at one kind of thing: ``installation``, ``machine``, ``folders``, ``inputs``, ``cluster``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.errors import PipelineError
from pipeline.evaluation.doctor import cluster, folders, inputs, installation, machine
from pipeline.evaluation.doctor.finding import Check, Finding, fault, ok, warning
from pipeline.stages.settings import Evaluation

CHECKS: tuple[tuple[str, Check], ...] = (
    ("pipeline", installation.project),
    ("python", installation.python),
    ("packages", installation.packages),
    ("extras", installation.extras),
    ("device", machine.devices),
    ("cores", machine.cores),
    ("memory", machine.memory),
    ("open files", machine.descriptors),
    ("/tmp", machine.temporary),
    ("/dev/shm", machine.shared_memory),
    ("store", folders.store),
    ("runs", folders.runs),
    ("models", folders.models),
    ("data", inputs.data),
    ("weights", inputs.weights),
    ("programs", inputs.programs),
    ("slurm", cluster.slurm),
)
"""What is looked at, in turn; what a finding is called where the look itself fails."""


OF_A_RUN = ("data", "weights")
"""What depends on what is to be evaluated."""
NONE_NAMED = (
    "no recipe was named, so that none was looked for: `voice-privacy doctor recipe=NAME dataset.root=DIR` does"
)


def examine(asked: Evaluation, is_named: bool = True) -> Iterator[Finding]:
    """Look at everything; a look that fails is a finding, and the next one goes on.

    Args:
        asked: the configuration.
        is_named: whether its user has said what is to be evaluated.
    """
    for subject, check in CHECKS:
        for one in _found(subject, check, asked):
            yield _of_default(one) if subject in OF_A_RUN and not is_named else one


def _found(subject: str, check: Check, asked: Evaluation) -> Iterator[Finding]:
    try:
        yield from check(asked)
    except PipelineError as error:
        yield of_error(subject, error)
    except Exception as error:  # whatever a machine may be like
        yield warning(
            subject,
            f"could not be looked at: {type(error).__name__}: {error}",
            "see whether what it names is well; else it is a fault of doctor, and worth a report with this line",
        )


def _of_default(one: Finding) -> Finding:
    """What is said of data and models where nobody has asked for them."""
    if one.state != "fault":
        return one
    if one.subject == "data":
        return ok("data", NONE_NAMED)
    return warning(one.subject, f"{one.what}; the demo needs none", one.remedy)


def of_error(subject: str, error: PipelineError) -> Finding:
    """What a run would stop at, as a finding."""
    parts = [error.what, f"where: {error.where}" if error.where else "", *map(str, error.faults[:5])]
    return fault(subject, "; ".join(filter(None, parts)), error.remedy, error.status)


def status(findings: Sequence[Finding]) -> int:
    """The exit status: 0 without a fault, else that with which a run would end first."""
    return min((one.status for one in findings if one.state == "fault"), default=0)


def counts(findings: Sequence[Finding]) -> str:
    """How many findings there are of each kind, in words."""
    of = {state: sum(one.state == state for one in findings) for state in ("ok", "warning", "fault")}

    def several(word: str) -> str:
        return f"{of[word]} {word}" + ("" if of[word] == 1 else "s")

    return f"{of['ok']} ok, {several('warning')}, {several('fault')}"
