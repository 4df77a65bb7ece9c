"""Records that show whether they are what was written: JSON with a digest over all of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

_CHECK = "check"


def text(record: Mapping[str, Any]) -> str:
    """A record of plain JSON values as text; :func:`read` reads it."""
    return json.dumps({**record, _CHECK: _check(record)}, indent=1) + "\n"


def read(content: bytes) -> dict[str, Any]:
    """What :func:`text` was given. A record without a digest, of an earlier version or another program, is taken as it is.

    Raises:
        ValueError: it is no JSON, no mapping, or not what was written.
    """
    try:
        found = json.loads(content.decode("utf-8"))
    except RecursionError:
        raise ValueError("it is no JSON of ours") from None
    if not isinstance(found, dict):
        raise ValueError("it is no mapping")
    check = found.pop(_CHECK, None)
    # Where a bit of the name of the digest has changed, the digest stands there by another name.
    nameless = any(isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) for value in found.values())
    if nameless if check is None else check != _check(found):
        raise ValueError("its bytes are not those that were written")
    return found


def _check(record: Mapping[str, Any]) -> str:
    # As it is read again: tuples are lists by then, and all keys are texts.
    plain = json.loads(json.dumps(record))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
