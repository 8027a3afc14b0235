"""Text of others cannot move the cursor, break a line or turn its direction."""

from __future__ import annotations

import pytest

from lakekeeper.core.text.controls import visible


@pytest.mark.parametrize(
    "text, shown",
    [
        ("x\x1b[2J\x07", r"x\x1b[2J\x07"),
        ("a\nb\tc\rd", r"a\x0ab\x09c\x0dd"),
        ("a\x0bb\x85c\x9bd\x7f", r"a\x0bb\x85c\x9bd\x7f"),
        ("a\u2028b\u202ec\u2066d\u200fe\u061cf", r"a\u2028b\u202ec\u2066d\u200fe\u061cf"),
        ("Größe → 5 表 👍 é", "Größe → 5 表 👍 é"),
    ],
)
def test_control_characters_are_shown_by_their_code(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert len(visible(text).splitlines()) == 1


def test_kept_characters_are_not_replaced() -> None:
    assert visible("a\nb\tc\x1b", keep="\n\t") == "a\nb\tc\\x1b"
