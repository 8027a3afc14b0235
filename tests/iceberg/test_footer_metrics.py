"""Bounds of text, bytes and floats: never narrower than the values, and as Iceberg's writer records them."""

from __future__ import annotations

import base64
import math
import struct
from typing import Any

import pytest

from lakekeeper.core.model.file_merge import ColumnStats, FileColumn
from lakekeeper_iceberg.footer_metrics import add_counts, own_bounds, own_counts, set_bounds

LAST = "\U0010ffff"


def bounds_of(kind: str, lo: bytes, hi: bytes, mode: str = "truncate(3)") -> Any:
    stats = ColumnStats(base64.b64encode(lo).decode(), base64.b64encode(hi).decode(), 0)
    return dict(own_bounds([FileColumn("c", kind, 7)], [stats], lambda _: mode)).get(7)


@pytest.mark.parametrize(
    "kind, hi, above",
    [
        ("string", "abc", "abc"),
        ("string", "abcd", "abd"),
        ("string", "a" + LAST * 5, "b"),
        ("string", LAST * 4, None),
        ("string", LAST * 3, LAST * 3),
        ("string", "ab\ud7ffz", "ab\ue000"),
        ("string", "😀😀😀😀", "😀😀😁"),
        ("binary", b"\xff" * 4, None),
        ("binary", b"\xff" * 3, b"\xff" * 3),
        ("binary", b"a\xff\xff\x00", b"b"),
    ],
)
def test_an_upper_bound_is_not_below_the_value(kind: str, hi: Any, above: Any) -> None:
    value, wanted = (end.encode() if isinstance(end, str) else end for end in (hi, above))
    assert bounds_of(kind, b"abcd", value) == (b"abc", wanted)
    assert wanted is None or wanted >= value


def test_the_mode_of_a_column_decides() -> None:
    assert bounds_of("string", b"abcd", b"abcd", "full") == (b"abcd", b"abcd")
    assert bounds_of("string", b"abcd", b"abcd", "counts") is None
    assert bounds_of("string", b"\xff\xff", b"\xff\xff") == (None, None)  # not UTF-8


@pytest.mark.parametrize("kind, form", [("float", "<f"), ("double", "<d")])
def test_infinite_bounds_are_not_those_of_the_footer(kind: str, form: str) -> None:
    def found(lo: str, hi: str, mode: str = "truncate(16)") -> Any:
        return dict(own_bounds([FileColumn("c", kind, 7)], [ColumnStats(lo, hi, 0)], lambda _: mode)).get(7)

    assert found("-inf", "-inf") == (struct.pack(form, -math.inf),) * 2
    assert found("0.5", "inf") == (struct.pack(form, 0.5), struct.pack(form, math.inf))
    assert found("-inf", "inf", "none") is None
    for lo, hi in (("0.0", "0.0"), ("-0.0", "-0.0"), ("0.0", "-0.0")):
        assert found(lo, hi) == (struct.pack(form, -0.0), struct.pack(form, 0.0)), (
            "Iceberg distinguishes the zeros"
        )
    assert found("-1.5", "2.0") == (struct.pack(form, -1.5), struct.pack(form, 2.0)), (
        "a footer has none beside NaN"
    )


def test_counts_that_a_footer_lacks_are_added() -> None:
    inner = [FileColumn("x", "double", 3), FileColumn("y", "int", 4)]
    columns = [FileColumn("a", "float", 1), FileColumn("s", "struct", 2, children=tuple(inner))]
    stats = [
        ColumnStats(None, None, 5),
        ColumnStats(None, None, 1, children=(ColumnStats(None, None, 6),) * 2),
    ]
    assert dict(own_counts(columns, stats, lambda _: "counts")) == {1: 5, 3: 6}
    assert dict(own_counts(columns, stats, lambda name: "none" if name == "s.x" else "full")) == {1: 5}
    plain: dict[str, Any] = {
        "value-counts": {"keys": [1, 4], "values": [9, 9]},
        "null-value-counts": {"keys": [1, 4], "values": [5, 6]},
    }
    add_counts(plain, 9, {1: 5, 3: 6})
    assert plain == {
        "value-counts": {"keys": [1, 4, 3], "values": [9, 9, 9]},
        "null-value-counts": {"keys": [1, 4, 3], "values": [5, 6, 6]},
    }
    bare: dict[str, Any] = {}
    add_counts(bare, 9, {})
    assert bare == {}


def test_bounds_that_are_not_known_are_removed() -> None:
    plain = {
        "lower-bounds": {"keys": [1, 2], "values": ["00", "61"]},
        "upper-bounds": {"keys": [1, 2], "values": ["01", "62"]},
    }
    set_bounds(plain, {2: (b"A", None), 3: (b"B", b"C")})
    assert plain["lower-bounds"] == {"keys": [1, 2, 3], "values": ["00", "41", "42"]}
    assert plain["upper-bounds"] == {"keys": [1, 3], "values": ["01", "43"]}
