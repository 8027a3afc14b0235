"""A call that loses to copy-on-write statements, end to end: it lands, and can be undone."""

from __future__ import annotations

import pytest

from tests.formats.lakes import Lake
from tests.observers import once_at

STATEMENTS = {
    "delete": "DELETE FROM {t} WHERE id % 50 = 7",
    "update": "UPDATE {t} SET v = 'new' WHERE id % 50 = 7",
    "merge": (
        "MERGE INTO {t} t USING (SELECT id, 'merged' AS v FROM {t} WHERE id % 50 IN (7, 8)) s ON t.id = s.id "
        "WHEN MATCHED AND s.id % 50 = 7 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v"
    ),
}


def copied_on_write(lake: Lake, **more: str) -> str:
    """Four overlapping files of 50 rows; a statement rewrites each file that it touches."""
    modes = {f"write.{kind}.mode": "copy-on-write" for kind in ("delete", "update", "merge")}
    properties = modes if lake.iceberg else {"delta.enableDeletionVectors": "false", **more}
    name = lake.create("id BIGINT, k INT, v STRING", properties=properties)
    for number in range(4):
        ids = lake.spark.range(number * 50, number * 50 + 50)
        lake.append(name, ids.selectExpr("id", "cast(pmod(hash(id), 1000) as int) k", "cast(id as string) v"))
    return name


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_in_each_file_costs_the_call_nothing(lake: Lake, statement: str) -> None:
    name = copied_on_write(lake)
    rival = once_at("before_commit", lambda: lake.spark.sql(STATEMENTS[statement].replace("{t}", name)))
    report = lake.table(name).recluster("k", policy="full", observer=rival)
    (group,) = report.groups
    assert (group.status, report.conflicts) == ("committed", 1)
    rows = sorted(tuple(row) for row in lake.spark.table(name).select("id", "v").collect())
    expected = [(i, str(i)) for i in range(200)]
    if statement == "delete":
        expected = [row for row in expected if row[0] % 50 != 7]
    elif statement == "update":
        expected = [(i, "new" if i % 50 == 7 else v) for i, v in expected]
    else:
        expected = [(i, "merged" if i % 50 == 8 else v) for i, v in expected if i % 50 != 7]
    assert rows == expected
    levels = [block.level for block in lake.adapter(name).snapshot(["k"]).blocks]
    assert levels.count(0) <= (0 if statement == "delete" else 4)
    assert any(levels)


def test_an_undo_brings_back_the_files_of_the_statement(lake: Lake) -> None:
    name = copied_on_write(lake)
    rival = once_at("before_commit", lambda: lake.spark.sql(STATEMENTS["update"].replace("{t}", name)))
    report = lake.table(name).recluster("k", policy="full", observer=rival)
    rows = lake.fingerprint(name)
    statement = lake.versions(name)[-2]
    lake.table(name).undo(report.run_ids[0], allow_rollback=True)
    assert lake.fingerprint(name) == rows == lake.fingerprint(name, statement)
    assert all(block.level == 0 for block in lake.adapter(name).snapshot(["k"]).blocks)
