"""Rank boundaries of a key as a value: read back, or refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from lakekeeper.core.layout.rank_boundaries import (
    buckets,
    derive,
)
from lakekeeper.core.model.boundaries import BITS, MOST, Boundaries
from lakekeeper.core.model.keys import (
    from_json_values,
)
from tests.core.layout.curve_files import HILBERT, even, files_of, key_of


def test_boundaries_are_read_back_or_refused() -> None:
    kept = derive(files_of(HILBERT, [[(i, -i), (i + 5, 3)] for i in range(40)]), HILBERT, 2)
    assert Boundaries.from_json(kept.to_json()) == kept
    assert kept.id.startswith("2-")
    assert replace(kept, columns=(kept.columns[1], kept.columns[0])).id != kept.id
    for text in (
        "",
        "[]",
        "{}",
        "null",
        "7",
        '{"columns":[[1]],"kinds":[],"key_id":"a","generation":0}',
        '{"columns":[],"kinds":[],"key_id":"a","generation":1e999}',
        kept.to_json()[:-3],
    ):
        with pytest.raises(ValueError, match="no rank boundaries"):
            Boundaries.from_json(text)


@pytest.mark.parametrize(
    "kind, value",
    [
        ("int", "a"),
        ("int", 2**70),
        ("int", [1]),
        ("int", {}),
        ("date", 2**40),
        ("timestamp", "today"),
        ("binary", "a"),
        ("binary", 7),
        ("float", "much"),
        ("decimal(9,2)", "much"),
        ("decimal(9,2)", "1e40"),
        ("string", 7),
        ("string", "\ud800"),
        ("boolean", "a"),
        ("void", 7),
    ],
)
def test_boundaries_that_are_not_of_their_kind_are_refused(kind: str, value: object) -> None:
    plain = {"key_id": "a", "generation": 0, "kinds": [kind], "columns": [[value]]}
    with pytest.raises(ValueError, match="no rank boundaries"):
        Boundaries.from_json(json.dumps(plain))


def test_boundaries_fit_their_key_and_kinds_only() -> None:
    kept = derive(files_of(HILBERT, [[(1, 2), (3, 4)]]), HILBERT)
    assert kept.fits(HILBERT)
    assert not kept.fits(key_of("zorder", "int", "int"))
    assert not kept.fits(key_of("hilbert", "int", "timestamp"))
    decimals = key_of("hilbert", "decimal(9,2)", "int")
    assert derive(files_of(decimals, []), decimals).fits(key_of("hilbert", "decimal(12,2)", "int"))


def test_the_grid_has_room_for_all_boundaries() -> None:
    top = buckets(even(1), 0, pa.array([10**9]))
    assert top.tolist() == [(1 << BITS) - 1]
    assert from_json_values(even(1).columns[0], "int").to_pylist()[-1] == MOST - 1
