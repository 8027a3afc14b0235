"""Random snapshots and tables from a ``random.Random``, so that a seeded loop and hypothesis draw from the same code.

The loop is for thousands of cases in seconds; hypothesis (see ``strategies``) is for small counterexamples.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.model.blocks import UNKNOWN, BlockSet, Snapshot, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.units import HOUR_MS
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.samples import SAMPLES
from lakekeeper.testing.values import Row, token

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Shape:
    """The properties of random blocks.

    most         the maximum number of blocks
    columns      the maximum number of key columns
    kinds        of the key columns
    partitions   different partitions at most; specs likewise
    levels       whether blocks have levels and key ids
    nulls, missing, blurred   chances of NULLs, of missing statistics and of truncated bounds, in each block
    """

    most: int = 12
    columns: int = 4
    kinds: tuple[str, ...] = tuple(SAMPLES)
    partitions: int = 3
    specs: int = 2
    levels: bool = True
    nulls: float = 0.2
    missing: float = 0.1
    blurred: float = 0.2


ANY = Shape()


def draw_key(rng: random.Random, shape: Shape = ANY) -> ClusterKey:
    """A key of random kinds; some columns are nested, some names have dots."""
    width = rng.randint(1, shape.columns)
    columns = []
    for i in range(width):
        path = rng.choice([(f"k{i}",), ("s", f"k{i}"), (f"k.{i}",)])
        columns.append(KeyColumn(path, rng.choice(shape.kinds), str(i + 1)))
    return ClusterKey(tuple(columns))


DRAWN_MS = 1_700_000_000_000
"""When the first of a thousand drawn blocks was added (ms since the epoch); one is added each hour."""


def draw_snapshot(rng: random.Random, shape: Shape = ANY) -> Snapshot:
    """A snapshot with random blocks."""
    key = draw_key(rng, shape)
    return as_snapshot(draw_blocks(rng, key, shape), key)


def as_snapshot(blocks: BlockSet, key: ClusterKey | None) -> Snapshot:
    """Blocks as a snapshot, version 7 of table ``t``."""
    return Snapshot("t", "memory", 7, "uuid", "0", key, blocks)


def draw_blocks(rng: random.Random, key: ClusterKey, shape: Shape = ANY) -> BlockSet:
    """Random blocks under ``key``; bounds come from few values, so that many are equal."""
    n = rng.randint(0, shape.most)
    rows = [rng.choice([1, 2, 10, 1000, 1_000_000]) for _ in range(n)]
    levels = [rng.choice([0, 0, 0, 1, 1, 2, 40]) if shape.levels else 0 for _ in range(n)]
    under = [rng.choice([key.key_id, key.key_id, "another"]) if level else "" for level in levels]
    columns: dict[str, Any] = {
        "path": [f"f{i:03d}" for i in rng.sample(range(1000), n)],
        "partition": [_partition(rng, shape) for _ in range(n)],
        "spec": [rng.randrange(shape.specs) for _ in range(n)],
        "rows": rows,
        "bytes": [rng.choice([1, MIB, 90 * MIB, 128 * MIB, 400 * MIB]) for _ in range(n)],
        "deleted_rows": [rng.choice([0, 0, 0, r // 2]) for r in rows],
        "level": levels,
        "key_id": under,
        "lo": [],
        "hi": [],
        "null_count": [],
        "exact": [],
    }
    columns["added_at"] = [DRAWN_MS + HOUR_MS * int(path[1:]) for path in columns["path"]]
    columns["delete_id"] = [f"dv{i}" if d else "" for i, d in enumerate(columns["deleted_rows"])]
    for column in key.columns:
        pool = rng.sample(SAMPLES[column.kind], min(len(SAMPLES[column.kind]), rng.randint(1, 6)))
        found = [_bounds(rng, pool, r, shape) for r in rows]
        for name, place in (("lo", 0), ("hi", 1), ("null_count", 2), ("exact", 3)):
            columns[name].append([entry[place] for entry in found])
    return make_blocks(columns, key)


def _partition(rng: random.Random, shape: Shape) -> str:
    number = rng.randrange(shape.partitions)
    return f"p={number}" if number else ""


def _bounds(rng: random.Random, pool: Sequence[Any], rows: int, shape: Shape) -> tuple[Any, Any, int, bool]:
    chance = rng.random()
    if chance < shape.missing:
        return None, None, rng.choice([UNKNOWN, 0, rows - 1]), False
    lo, hi = sorted((rng.choice(pool), rng.choice(pool)), key=token)
    exact = rng.random() >= shape.blurred
    if chance < shape.missing + shape.nulls:
        nulls = rng.choice([UNKNOWN, rows, min(1, rows - 1), rows // 2])
        return (None, None, rows, True) if nulls == rows else (lo, hi, nulls, exact)
    return lo, hi, 0, exact


def draw_table(rng: random.Random, name: str = "db.t") -> MemoryTable:
    """A table of the memory lake with a key and a history of appends and deletes.

    Keys are constant, equal, few, NULL, NaN or spread; some rows are giants.
    """
    kind = rng.choice(["int", "int", "int", "string", "float", "decimal(9,2)", "timestamp", "boolean"])
    settings = Settings(truncate=rng.choice([None, None, 2]), milliseconds=rng.random() < 0.3)
    parts = ["p"] if rng.random() < 0.3 else []
    table = MemoryTable(
        name, {"p": "int", "k": kind, "j": "int", "v": "string"}, partition_by=parts, settings=settings
    )
    table.set_key(rng.choice([["k"], ["k"], ["k", "j"], ["j", "k"]]))
    values = _key_values(rng, kind)
    for _ in range(rng.randint(0, 9)):
        table.append(_batch(rng, values), with_statistics=rng.random() < 0.95)
        if rng.random() < 0.15:
            doomed = rng.randrange(10)
            table.delete(lambda row, doomed=doomed: row["j"] == doomed)  # type: ignore[misc]  # bound at once
    return table


def _key_values(rng: random.Random, kind: str) -> Sequence[Any]:
    style = rng.choice(["constant", "few", "spread", "spread", "sequence"])
    pool: list[Any] = list(SAMPLES[kind])
    if kind == "int" and style in ("spread", "sequence"):
        pool = list(range(200))
    if kind == "string" and style == "spread":
        pool = [f"{rng.choice('abc')}{i:03d}" for i in range(100)]
    if style == "constant":
        pool = [rng.choice(pool)]
    if style == "few":
        pool = rng.sample(pool, min(3, len(pool)))
    return [*pool, None] if rng.random() < 0.3 else pool


def _batch(rng: random.Random, values: Sequence[Any]) -> list[Row]:
    size = rng.choice([1, 3, 10, 30])
    start = rng.randrange(len(values))
    near = values[start : start + rng.choice([2, 10, len(values)])]
    giants = rng.random() < 0.1
    return [
        {
            "p": rng.randrange(2),
            "k": rng.choice(near),
            "j": rng.choice([0, 1, 2, 3, 5, 8, None]),
            "v": "x" * (5000 if giants and rng.random() < 0.3 else rng.randrange(30)),
        }
        for _ in range(size)
    ]
