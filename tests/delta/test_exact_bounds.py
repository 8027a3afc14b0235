"""Bounds with more digits than a double has: no reader skips a file with a matching row; no row is deleted unread."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

import lakekeeper as lk
from lakekeeper_delta import exact_json
from tests.delta.race import VECTORS, Race
from tests.delta.scene import Scene

COLUMNS = "d DECIMAL(20,2), e DECIMAL(38,18), n BIGINT, v STRING"
LOW = {"d": "12345678901234567.89", "e": "0.0000001", "n": str(2**53 + 1)}
HIGH = {"d": "12345678901234569.91", "e": "12345678901234567890.123456789012345678", "n": str(2**63 - 1)}
NONE = {"delta.dataSkippingNumIndexedCols": "0"}
ALL = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '32')"


def row(bounds: dict[str, str], v: str) -> str:
    d, e, n = bounds["d"], bounds["e"], bounds["n"]
    return f"(cast('{d}' as decimal(20,2)), cast('{e}' as decimal(38,18)), {n}L, '{v}')"


def filled(scene: Scene, **properties: str) -> Scene:
    scene.create(COLUMNS, properties=properties)
    rows = f"{row(LOW, 'low')}, {row(HIGH, 'high')}, {row(LOW, 'gone')}, {row(HIGH, 'late')}"
    return scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}")


def bounds(scene: Scene) -> list[dict[str, Any]]:
    """The statistics that the newest commit records."""
    adds = [action["add"] for action in scene.actions() if "add" in action]
    return [json.loads(add["stats"], parse_float=Decimal) for add in adds]


def is_exact(stats: dict[str, Any]) -> bool:
    return all(
        Decimal(stats[part][name]) == Decimal(value)
        for part, ends in (("minValues", LOW), ("maxValues", HIGH))
        for name, value in ends.items()
    )


def by_spark(scene: Scene, where: str) -> list[str]:
    return sorted(
        r["v"] for r in scene.spark.read.format("delta").load(str(scene.path)).where(where).collect()
    )


def by_rust(scene: Scene, where: str) -> list[str]:
    found = (
        QueryBuilder().register("t", DeltaTable(str(scene.path))).execute(f"SELECT v FROM t WHERE {where}")
    )
    return sorted(r["v"] for r in pa.table(found.read_all()).to_pylist())


def wheres(ends: Iterable[dict[str, str]]) -> Iterable[str]:
    for end in ends:
        yield f"d = cast('{end['d']}' AS decimal(20,2))"
        yield f"e = cast('{end['e']}' AS decimal(38,18))"
        yield f"n = {end['n']}"


@pytest.mark.parametrize(
    "text",
    [
        '{"a":12345678901234567.89,"b":{"c":1E-7,"d":1.00000000000E-7}}',
        '{"n":9223372036854775807,"m":-9007199254740993,"f":[0.1,1.50,null,true]}',
        '{"s":"1.50","t":"a\\"b","u":"NaN","e":{}}',
    ],
)
def test_numbers_keep_their_text(text: str) -> None:
    assert exact_json.dumps(exact_json.loads(text)) == text


@pytest.mark.delta
def test_statistics_that_are_computed_are_exact(scene: Scene) -> None:
    filled(scene, **NONE, **{"delta.enableDeletionVectors": "false"}).run(ALL)
    assert lk.table(scene.spark, scene.sql).compute_statistics(["d", "e", "n"]).changed
    (stats,) = bounds(scene)
    assert is_exact(stats), stats
    for where in wheres([LOW]):
        assert by_spark(scene, where) == by_rust(scene, where) == ["gone", "low"], where
    for where in wheres([HIGH]):
        assert by_spark(scene, where) == by_rust(scene, where) == ["high", "late"], where


@pytest.mark.delta
def test_a_delete_by_vectors_keeps_the_bounds(scene: Scene) -> None:
    filled(scene, **{"delta.enableDeletionVectors": "true"})
    assert lk.table(scene.spark, scene.sql).delete("v = 'gone'").deleted_rows_count == 1
    (stats,) = bounds(scene)
    assert is_exact(stats), stats
    assert stats["tightBounds"] is False
    assert [by_spark(scene, where) for where in wheres([LOW, HIGH])] == [["low"]] * 3 + [["high", "late"]] * 3


@pytest.mark.delta
def test_a_replay_by_vectors_keeps_the_bounds(scene: Scene) -> None:
    scene.run(f"CREATE TABLE {{t}} (k INT, {COLUMNS}) USING delta TBLPROPERTIES ({VECTORS})")
    for number, rows in enumerate((f"{row(LOW, 'low')}, {row(HIGH, 'high')}", row(LOW, "gone"))):
        scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {number}, * FROM VALUES {rows}")
    race = Race.start(scene)
    scene.run("DELETE FROM {t} WHERE v = 'gone'")
    race.replay(most_gone=1.0)
    race.commit()
    assert all(is_exact(stats) for stats in bounds(scene)), bounds(scene)
    assert [by_spark(scene, where) for where in wheres([LOW, HIGH])] == [["low"]] * 3 + [["high"]] * 3


@pytest.mark.delta
def test_a_file_is_not_deleted_by_bounds_that_a_writer_rounded(scene: Scene) -> None:
    """delta-rs records the bounds of decimals as doubles: here the minimum is above the least value."""
    values = [Decimal(LOW["d"]), Decimal(HIGH["d"])]
    rows = {
        "d": pa.array(values, pa.decimal128(20, 2)),
        "f": pa.array([Decimal("1.25")] * 2, pa.decimal128(15, 2)),
    }
    write_deltalake(scene.path, pa.table(rows | {"v": ["low", "high"]}))
    where = "d >= 12345678901234568"
    adapter = scene.adapter()
    assert not adapter.deletes.covered(adapter.snapshot(where=where), where)
    assert adapter.deletes.covered(adapter.snapshot(where="f >= 1.25"), "f >= 1.25")
    lk.table(scene.spark, scene.sql).delete(where)
    assert by_spark(scene, "true") == by_rust(scene, "true") == ["low"]
