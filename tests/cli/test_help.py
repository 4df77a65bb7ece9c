"""``help``: every component and field is in it, with type, default, role and meaning."""

from __future__ import annotations

import pytest
import yaml

from pipeline import cli
from pipeline.cli import help as verb
from pipeline.contracts import ComponentSettings
from pipeline.files import find_assets
from pipeline.registry import component, list_names, list_own_names

COMPONENTS = [f"{group}.{name}" for group, kind in verb.KINDS.items() for name in sorted(list_own_names(kind))]


def settings(topic: str) -> type[ComponentSettings]:
    group, _, name = topic.partition(".")
    return component(verb.KINDS[group], name).Settings if name else verb.PARTS[group]


@pytest.mark.parametrize("topic", [*COMPONENTS, *verb.PARTS])
def test_every_field_stands_there_with_all_that_is_to_be_known(topic: str) -> None:
    text = "\n".join(verb.describe(topic))
    for field in verb.list_fields(topic.replace(".", " "), settings(topic)):
        assert f"  {field.name}: " in text
        assert field.default and field.values and field.role in ("numeric", "runtime")
        assert field.meaning, f"no docstring says what {topic}.{field.name} means"


def test_everything_is_listed() -> None:
    text = "\n".join(verb.list_all())
    for group, kind in verb.KINDS.items():
        assert all(f"  {group}.{name}" in text for name in list_names(kind))
        assert all(f" {option.name}" in text for option in verb.list_options(group))
    top = yaml.safe_load((find_assets("conf") / "config.yaml").read_text())
    assert {*top} - {*verb.PARTS, *verb.list_flags()} == {"defaults", "config_version"}


def test_fields_are_as_a_person_reads_them_in_the_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["help", "system.mcadams"]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("  alpha: number > 0, ≤ 1.5, or null; by default null; numeric")
    assert lines[place + 1].strip() == "the coefficient at level 'fixed' (0.8 unless given)."
    assert "  level: `fixed`, `speaker`, `utterance`; by default fixed; numeric" in lines
    assert cli.run(["help", "metric.zebra"]) == 0
    assert "bootstraps over" in capsys.readouterr().out, "the meaning of an inherited field"
    assert cli.run(["help", "system"]) == 0
    assert "sets alpha=0.8, level=fixed" in capsys.readouterr().out


def test_a_misspelt_topic_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["help", "extractor.camplus"]) == 2
    assert "did you mean extractor.campplus" in capsys.readouterr().err
