"""Faults as people read them: one cause, one line, five examples and a count."""

from __future__ import annotations

import pytest

from pipeline.errors import DataError, Fault


def missing(count: int, system: str = "t8") -> list[Fault]:
    return [
        Fault(
            f"utterance 'a-{n}' of s{n % 2}: no file a-{n}.ext under /x", f"system {system}: /x/wav.scp:{n}", "missing"
        )
        for n in range(count)
    ]


def lines(error: DataError) -> list[str]:
    return [line for line in str(error).splitlines() if line.startswith("  - ")]


@pytest.mark.parametrize("count", [6, 104_014])
def test_many_faults_of_one_cause_are_a_line(count: int) -> None:
    error = DataError("bad", faults=missing(count))
    (line,) = lines(error)
    assert line.startswith("  - system t8: /x/wav.scp:0: utterance 'a-0' of s0: no file a-0.ext under /x (and ")
    assert line.endswith(f"(and {count - 1} like it: 'a-1', 'a-2', 'a-3', 'a-4' and {count - 5} more)")
    assert error.is_folded and f"{count} of them in all" in str(error)
    assert len(error.paragraph(every=True).splitlines()) == 1 + count


def test_few_faults_have_a_line_each_for_they_may_hold_commands() -> None:
    error = DataError("bad", faults=missing(5))
    assert len(lines(error)) == 5 and not error.is_folded and "in all" not in str(error)


def test_what_tells_faults_apart_is_no_cause() -> None:
    """Names in quotes, numbers, what they are near to, and the line; but systems are told apart, and so are kinds and words."""
    near = [Fault(f"id 'b{n}' is unknown; did you mean 'b{n}0'?", f"/x/trials:{n}", "id") for n in range(9)]
    links = [Fault(f"a link leads to '/disk/{n}.wav'", f"/x/{n}/u.wav", "link") for n in range(9)]
    error = DataError("bad", faults=[*missing(9), *missing(9, "t9"), *near, *links, Fault("another", "/y")])
    assert len(lines(error)) == 5
    (link,) = [line for line in lines(error) if "link" in line]
    assert link.endswith("(and 8 like it: '/disk/1.wav', '/disk/2.wav', '/disk/3.wav', '/disk/4.wav' and 4 more)")


def test_no_more_causes_than_a_screen_holds_are_said() -> None:
    words = [chr(97 + n // 26) + chr(97 + n % 26) for n in range(120)]
    found = lines(DataError("bad", faults=[Fault(f"cause {one}", "", "many") for one in words]))
    assert len(found) == DataError.MOST + 1 and "  - and 70 more" in found
