"""Blocks as drawn intervals: printed and parsed by one grammar, so that a golden's output can be its next input.

    L0  a   1----6              10MB
    L0  b      4-----9          10MB
    L1  c                12     10MB  nulls=3 part=p=1 key=other
    L0  d   ?                   1MB   rows=5 at=1000

One line is a block: level, name, ``lo----hi`` (one value where they are equal, ``?`` without statistics, ``NULL``
where all is NULL), size, and what differs from the defaults (``deleted=?``: an unknown number; ``at``: the time in
ms at which it was added). The position of the text is for readers only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from lakekeeper.core.model.blocks import UNKNOWN, Block, Snapshot, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.testing.draws import as_snapshot

_UNITS = {"GB": 10**9, "MB": 10**6, "KB": 10**3, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}
_LINE = re.compile(
    r"L(?P<level>\d+)\s+(?P<name>\S+)\s+(?P<range>\?|NULL|\w+(?:-+\w+)?)\s+(?P<size>\d+)(?P<unit>(?:[KMG]i?)?B)(?P<rest>.*)"
)
_DEFAULT_ROWS = 1000
_STEP = 3  # characters between two neighbouring values of the key


def parse_key(spelled: str) -> ClusterKey:
    """``k:int`` as a key of one column."""
    name, _, kind = spelled.partition(":")
    return ClusterKey((KeyColumn((name,), kind or "int", "1"),))


def parse_blocks(text: str, key: ClusterKey) -> Snapshot:
    """A snapshot from drawn blocks; ValueError names a line that cannot be parsed."""
    rows = [_parse_line(line, key) for line in text.splitlines() if line.strip()]
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in _NAMES}
    for name in ("lo", "hi", "null_count", "exact"):
        columns[name] = [columns[name]]
    return as_snapshot(make_blocks(columns, key), key)


_NAMES = (
    "path", "partition", "spec", "rows", "bytes", "deleted_rows", "delete_bytes", "delete_id", "level", "key_id",
    "lo", "hi", "null_count", "exact", "added_at",
)  # fmt: skip


def _parse_line(line: str, key: ClusterKey) -> dict[str, Any]:
    found = _LINE.fullmatch(line.strip())
    if found is None:
        raise ValueError(f"not a block: {line!r}")
    more = dict(word.split("=", 1) for word in found["rest"].split())
    rows, level = int(more.pop("rows", _DEFAULT_ROWS)), int(found["level"])
    lo, hi, nulls = _parse_range(found["range"], key.columns[0].kind, rows)
    deleted = more.pop("deleted", "0")
    block = {
        "path": found["name"],
        "partition": more.pop("part", ""),
        "spec": int(more.pop("spec", 0)),
        "rows": rows,
        "bytes": int(found["size"]) * _UNITS[found["unit"]],
        "deleted_rows": UNKNOWN if deleted == "?" else int(deleted),
        "delete_bytes": int(more.pop("dvbytes", 0)),
        "delete_id": more.pop("dv", ""),
        "level": level,
        "key_id": more.pop("key", key.key_id if level else ""),
        "lo": lo,
        "hi": hi,
        "null_count": int(more.pop("nulls", nulls)),
        "exact": more.pop("exact", "yes") == "yes",
        "added_at": int(more.pop("at", 0)),
    }
    if more:
        raise ValueError(f"{line!r}: unknown {', '.join(more)}")
    return block


def _parse_range(spelled: str, kind: str, rows: int) -> tuple[Any, Any, int]:
    if spelled == "?":
        return None, None, UNKNOWN
    if spelled == "NULL":
        return None, None, rows
    ends = [int(end) if kind == "int" else end for end in re.split("-+", spelled)]
    return ends[0], ends[-1], 0


def print_blocks(snapshot: Snapshot) -> str:
    """The blocks of a snapshot, drawn in their order."""
    blocks = list(snapshot.blocks)
    key_id = snapshot.key.key_id if snapshot.key else ""
    place = _places(blocks)
    drawn = [_range(block, place) for block in blocks]
    names = max((len(block.path) for block in blocks), default=0)
    width = max((len(text) for text in drawn), default=0)
    levels = max((len(str(block.level)) for block in blocks), default=0)
    return "\n".join(
        f"L{b.level:<{levels}} {b.path:<{names}} {text:<{width}} {_size(b.bytes)} {_rest(b, key_id)}".rstrip()
        for b, text in zip(blocks, drawn, strict=True)
    )


def _places(blocks: Sequence[Block]) -> dict[Any, int]:
    """The position of each bound: whole numbers close together by value, all else by rank."""
    values = sorted({end for b in blocks for end in (b.lo[0], b.hi[0]) if end is not None})
    if values and isinstance(values[0], int) and values[-1] - values[0] <= 25:
        return {value: (value - values[0]) * _STEP for value in values}
    step = max((len(str(value)) for value in values), default=0) + 2
    return {value: rank * step for rank, value in enumerate(values)}


def _range(block: Block, place: dict[Any, int]) -> str:
    lo, hi = block.lo[0], block.hi[0]
    if lo is None or hi is None:
        return "NULL" if block.null_count[0] >= block.rows else "?"
    start = " " * place[lo]
    if lo == hi:
        return f"{start}{lo}"
    return f"{start}{lo}{'-' * max(1, place[hi] - place[lo] - len(str(lo)))}{hi}"


def _size(count: int) -> str:
    unit = next(u for u in _UNITS if count % _UNITS[u] == 0)
    return f"{count // _UNITS[unit]}{unit}"


def _rest(block: Block, key_id: str) -> str:
    nulls = block.null_count[0]
    usual = (
        UNKNOWN if block.lo[0] is None and nulls < block.rows else block.rows if block.lo[0] is None else 0
    )
    parts = [
        ("rows", block.rows, _DEFAULT_ROWS),
        ("part", block.partition, ""),
        ("spec", block.spec, 0),
        ("deleted", "?" if block.deleted_rows == UNKNOWN else block.deleted_rows, 0),
        ("dv", block.delete_id, ""),
        ("dvbytes", block.delete_bytes, 0),
        ("key", block.key_id, key_id if block.level else ""),
        ("nulls", nulls, usual),
        ("exact", "yes" if block.exact[0] else "no", "yes"),
        ("at", block.added_at, 0),
    ]
    return " ".join(f"{name}={value}" for name, value, default in parts if value != default)
