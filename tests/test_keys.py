"""Which settings reach which artefacts, and whether a stage changed without its version."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from tests import key_table, stage_sources

HERE = Path(__file__).parent


def test_each_setting_reaches_the_stages_of_the_committed_table() -> None:
    with (HERE / "key_table.csv").open() as stream:
        committed = {row["setting"]: row["stages"] for row in csv.DictReader(stream)}
    found = key_table.table()
    differ = {leaf: (committed.get(leaf), found.get(leaf)) for leaf in {*committed, *found}
              if committed.get(leaf) != found.get(leaf)}  # fmt: skip
    assert not differ, "look at the difference; python -m tests.key_table > tests/key_table.csv writes the new table"


def test_runtime_settings_reach_no_key() -> None:
    table = key_table.table()
    for leaf in ("paths.root", "paths.models", "runtime.device", "runtime.threads", "dataset.root", "dataset.label"):
        assert table[leaf] == "-"


def test_a_stage_does_not_change_without_its_version() -> None:
    """The digest of each stage's source stands beside its version.

    If this fails: either the numbers change, then raise the version; or they do not, and you say so by committing the new
    digest. In both cases ``python -m tests.stage_sources > tests/stage_sources.json`` writes the file.
    """
    committed = json.loads((HERE / "stage_sources.json").read_text())
    assert stage_sources.table() == committed
