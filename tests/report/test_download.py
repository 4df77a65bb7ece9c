"""Links that hold a whole table."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from pipeline.report.page import Download


@pytest.mark.parametrize("text", ["", 'a,b\n1,"x y"\n', "".join(map(chr, range(0x800))) + "声🎉", "%41&<>#?"])
def test_a_text_is_quoted_as_the_library_of_python_does_it(text: str) -> None:
    assert Download("name", text).uri == "data:text/csv;charset=utf-8," + quote(text, safe=",.-_:;/()+*")
