"""Metrics that footers of columnar workers do not have as Iceberg's own writer records them.

text, bytes   a footer lacks their bounds if they are long; recorded whole, or truncated to some characters or bytes
floats        a footer lacks their bounds and counts if there are NaNs
±∞            a footer may have the largest finite number instead
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lakekeeper.core.model.file_merge import ColumnStats, FileColumn

_TRUNCATED = re.compile(r"truncate\((\d+)\)")
_SURROGATES = range(0xD800, 0xE000)
_LAST = 0x10FFFF
_FLOATS = {"float": "<f", "double": "<d"}

Bounds = tuple[bytes | None, bytes | None]


def _leaves(
    columns: Sequence[FileColumn], stats: Sequence[ColumnStats], within: str = ""
) -> Iterator[tuple[str, FileColumn, ColumnStats]]:
    """(dotted name, column, statistics) of all columns and fields of structs; a list or a map counts as one."""
    for column, found in zip(columns, stats, strict=True):
        name = f"{within}{column.name}"
        if column.kind == "struct":
            yield from _leaves(column.children, found.children, f"{name}.")
        else:
            yield name, column, found


def own_bounds(
    columns: Sequence[FileColumn], stats: Sequence[ColumnStats], mode: Callable[[str], str]
) -> Iterator[tuple[int | None, Bounds]]:
    """(field id, bounds) of text, bytes and floats, in structs too, where the metrics mode has bounds."""
    for name, column, found in _leaves(columns, stats):
        if column.kind in ("string", "binary", *_FLOATS):
            how = mode(name)
            most = _TRUNCATED.fullmatch(how)
            if most or how == "full":
                yield column.field_id, _bounds(column.kind, found, int(most[1]) if most else None)


def own_counts(
    columns: Sequence[FileColumn], stats: Sequence[ColumnStats], mode: Callable[[str], str]
) -> Iterator[tuple[int | None, int]]:
    """(field id, NULLs) of floats, in structs too, where the metrics mode has counts."""
    for name, column, found in _leaves(columns, stats):
        if column.kind in _FLOATS and mode(name) != "none":
            yield column.field_id, found.nulls


def add_counts(plain: dict[str, Any], rows: int, nulls: Mapping[int | None, int]) -> None:
    """Add the numbers of values and of NULLs that a DataFile of this number of rows lacks, in its JSON form."""
    values = plain.get("value-counts", {"keys": [], "values": []})
    lacking = [number for number in nulls if number not in values["keys"]]
    if not lacking:
        return
    known = plain.get("null-value-counts", {"keys": [], "values": []})
    for counts, added in ((values, [rows] * len(lacking)), (known, [nulls[number] for number in lacking])):
        counts["keys"] += lacking
        counts["values"] += added
    plain["value-counts"], plain["null-value-counts"] = values, known


def set_bounds(plain: dict[str, Any], bounds: Mapping[int | None, Bounds]) -> None:
    """Replace the bounds of these columns in a DataFile's JSON form."""
    for end, name in enumerate(("lower-bounds", "upper-bounds")):
        known = plain.get(name, {"keys": (), "values": ()})
        merged: dict[int | None, str] = dict(zip(known["keys"], known["values"], strict=True))
        for number, ends in bounds.items():
            bound = ends[end]
            if bound is None:
                merged.pop(number, None)
            else:
                merged[number] = bound.hex().upper()
        if merged or name in plain:
            plain[name] = {"keys": list(merged), "values": list(merged.values())}


def _bounds(kind: str, found: ColumnStats, most: int | None) -> Bounds:
    if found.lo is None:
        return None, None
    if kind in _FLOATS:
        # Both zeros, as in Parquet's footers: Iceberg looks for 0.0 only where the upper bound is not -0.0.
        lo, hi = float(found.lo) or -0.0, float(found.hi) or 0.0
        return struct.pack(_FLOATS[kind], lo), struct.pack(_FLOATS[kind], hi)
    first, last = base64.b64decode(found.lo), base64.b64decode(found.hi)
    if most is None:
        return first, last
    if kind == "binary":
        return first[:most], _bytes_above(last, most)
    try:
        above = _text_above(last.decode(), most)
        return first.decode()[:most].encode(), None if above is None else above.encode()
    except UnicodeDecodeError:
        return None, None


def _bytes_above(value: bytes, most: int) -> bytes | None:
    """An upper bound of at most this number of bytes; None if there is no such bound."""
    if len(value) <= most:
        return value
    start = value[:most].rstrip(b"\xff")
    return bytes([*start[:-1], start[-1] + 1]) if start else None


def _text_above(value: str, most: int) -> str | None:
    """An upper bound of at most this number of characters; None if there is no such bound."""
    if len(value) <= most:
        return value
    start = value[:most].rstrip(chr(_LAST))
    if not start:
        return None
    following = ord(start[-1]) + 1
    return start[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
