"""Was the attack strong enough? What is said of it, in sentences beside the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.engine.task import Ref


@dataclass(frozen=True)
class Diagnosis:
    """What there is to judge an attack by.

    Attributes:
        identity: of the result's rows.
        training: what trained the extractor, if the run did.
        check: how well it tells held-out training speakers apart.
        check_on_original: the same of this extractor and back end with original speech, for those who know original speech.
        treatment: how much enrolment and trials were changed.
        on_original: the EER of this attacker on original speech.
        original_enrolment: the EER of this attacker with original speech enrolled in place of protected speech.
        levels: the level of the evaluated speech, and that of the training set.
        note: of the back end.
    """

    identity: Mapping[str, str]
    training: Ref | None = None
    check: Ref | None = None
    check_on_original: Ref | None = None
    treatment: Ref | None = None
    on_original: Ref | None = None
    original_enrolment: Ref | None = None
    levels: tuple[str, str] | None = None
    note: str = ""


@dataclass
class Heard:
    """What is heard of the evaluated speech, whatever the attack.

    Attributes:
        systems: artefacts of whole recordings, by the label of the system; their records count digital silence.
        same: which recordings hold one sound, of each system that is run here, by its label.
        trims: whether an extractor drops digital silence before it takes the vectors that back ends compare, by its label.
    """

    systems: dict[str, tuple[Ref, ...]] = field(default_factory=dict)
    same: dict[str, Ref] = field(default_factory=dict)
    trims: dict[str, bool] = field(default_factory=dict)
