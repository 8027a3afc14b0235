"""Which delete files are merged: on listings, without a JVM."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from lakekeeper_iceberg import delete_crowds
from lakekeeper_iceberg.delete_crowds import crowded
from lakekeeper_iceberg.listing import Listing

DATA = pa.table({"path": ["a", "b", "c"], "spec": [0, 0, 0], "partition": ["p", "p", "q"]})
KINDS = {
    "path": pa.string(), "content": pa.int32(), "seq": pa.int64(), "spec": pa.int32(), "partition": pa.string(),
    "rows": pa.int64(), "bytes": pa.int64(), "referenced": pa.string(), "dv_offset": pa.int64(),
    "path_low": pa.binary(), "path_high": pa.binary(),
}  # fmt: skip


def one(path: str, target: str | None = None, rows: int = 1, **more: Any) -> dict[str, Any]:
    """A small position delete file of the partition ``p``; without a target, of several data files."""
    bounds = {"path_low": (target or "a").encode(), "path_high": (target or "b").encode()}
    usual = {"content": 1, "seq": 2, "spec": 0, "partition": "p", "bytes": 100, "referenced": None}
    return {"path": path, "rows": rows, "dv_offset": None, **usual, **bounds, **more}


def chosen(
    deletes: list[dict[str, Any]],
    granularity: str = "file",
    form: int = 2,
    gone: set[str] = frozenset(),  # type: ignore[assignment]
) -> set[str]:
    schema = pa.schema(list(KINDS.items()))
    found = crowded(Listing(DATA, pa.Table.from_pylist(deletes, schema)), gone, granularity, form)
    return {d["path"] for d in found}


WIDE = [one(f"w{i}") for i in range(5)]
PAIR = [one("a1", "a"), one("a2", "a")]


@pytest.mark.parametrize("granularity, deletes, expected", [
    ("file", [], ""),
    ("file", [one("a1", "a"), one("b1", "b"), *WIDE[:4]], ""),
    ("file", [*PAIR, one("b1", "b"), *WIDE[:4]], "a1 a2"),
    ("file", [one("a1", "a"), *WIDE], "a1 w0 w1 w2 w3 w4"),
    ("file", [*PAIR[:1], one("a2", "a", bytes=48 << 20)], ""),
    ("partition", PAIR, ""),
    ("partition", [*PAIR, *WIDE[:3]], "a1 a2 w0 w1 w2"),
    ("partition", [*WIDE[:4], one("other", partition="q")], ""),
])  # fmt: skip
def test_crowds(granularity: str, deletes: list[dict[str, Any]], expected: str) -> None:
    assert chosen(deletes, granularity) == set(expected.split())


def test_equality_deletes_vectors_and_dangling_files_are_not_counted() -> None:
    others = [one("e", content=2), one("v", "a", dv_offset=4)]
    assert chosen([*WIDE[:4], *others]) == set()
    assert chosen([*WIDE, *others]) == {d["path"] for d in WIDE}
    assert chosen(WIDE, gone={"w1"}) == set()


def test_of_format_version_3_all_files_of_the_partition_are_merged_or_none() -> None:
    deletes = [*PAIR, one("large", bytes=1 << 30, rows=50), one("other", partition="q")]
    assert chosen(deletes, form=3) == {"a1", "a2", "large"}
    with patch.object(delete_crowds, "MOST_DELETED_ROWS", 51):
        assert chosen(deletes, form=3) == set()
        assert chosen(deletes, form=2) == {"a1", "a2"}


@pytest.mark.parametrize("form", [2, 3])
def test_a_merge_stays_within_its_bounds(form: int) -> None:
    rng = random.Random(form)
    for _ in range(300):
        deletes = [
            one(f"{i}", rng.choice(["a", "b", None]), rows=rng.randint(1, 30), partition=rng.choice("pq"))
            for i in range(rng.randint(2, 20))
        ]
        granularity = rng.choice(["file", "partition"])
        with (
            patch.object(delete_crowds, "MOST_DELETED_ROWS", 60),
            patch.object(delete_crowds, "MOST_PAIRS", 9),
        ):
            found = [d for d in deletes if d["path"] in chosen(deletes, granularity, form)]
        assert sum(d["rows"] for d in found) <= 60
        for partition in {d["partition"] for d in found}:
            assert len([d for d in found if d["partition"] == partition]) > 1
