"""Labels of what a run chooses: names in tables, on the command line and of files, in any file system."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.errors import Fault

LONGEST = 64
RULE = f"a label is 1 to {LONGEST} of the letters a to z and A to Z, digits, _, - and ., and begins with a letter, a digit or _"
_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def faults(group: str, labels: Sequence[str]) -> list[Fault]:
    """What is wrong with the labels of a group: characters and lengths."""
    found = []
    for label in labels:
        shown = label if len(label) <= LONGEST else f"{label[:20]}...{label[-8:]}"
        if len(label) > LONGEST:
            found.append(Fault(f"a label of {len(label)} characters: at most {LONGEST} are taken", f"{group}.{shown}"))
        elif not _LABEL.fullmatch(label):
            found.append(Fault(RULE, f"{group}.{shown}"))
    return found
