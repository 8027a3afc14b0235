"""Undone runs on real tables: files, deletes, rows and row ids are restored, for every reader."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.errors import NotFound, UndoError
from lakekeeper_iceberg.native import Iceberg
from tests.formats.lakes import Lake
from tests.observers import once_at


def deleted_from(lake: Lake) -> str:
    """Four overlapping files; two commits deleted rows of two of them."""
    properties = {} if lake.iceberg else {"delta.enableRowTracking": "true"}
    name = lake.create("id BIGINT, k INT, v STRING", properties=properties)
    for number in range(4):
        ids = lake.spark.range(number * 50, number * 50 + 50)
        lake.append(name, ids.selectExpr("id", "cast(pmod(hash(id), 1000) as int) k", "cast(id as string) v"))
    lake.spark.sql(f"DELETE FROM {name} WHERE id IN (3, 4, 60)")
    lake.spark.sql(f"DELETE FROM {name} WHERE id = 5")
    return name


def layout(lake: Lake, name: str) -> set[tuple[Any, ...]]:
    """Each file with its deletes and bounds, read by a newly opened table."""
    blocks = lake.adapter(name).snapshot(["k"]).blocks
    return {
        (b.path, b.delete_id, b.rows, b.deleted_rows, b.bytes, b.level, b.key_id, str(b.lo), str(b.hi))
        for b in blocks
    }


def merged(lake: Lake, name: str) -> str:
    """Recluster; return the run id of its commit."""
    [run] = lake.table(name).recluster("k", policy="full").run_ids
    return run


def test_an_undo_restores_files_deletes_rows_and_ids(lake: Lake) -> None:
    name = deleted_from(lake)
    before, rows, ids = layout(lake, name), lake.fingerprint(name), lake.row_ids(name)
    known = {version: lake.rows(name, version) for version in lake.versions(name)}
    run = merged(lake, name)
    assert layout(lake, name) != before
    done = lake.table(name).undo(run, allow_rollback=True)
    assert layout(lake, name) == before
    assert lake.fingerprint(name) == rows
    assert lake.row_ids(name) == ids
    assert done.restored_data_files_count == len(before)
    assert done.version_after is not None
    last = max(known, key=list(known).index)
    assert lake.rows(name, done.version_after) == known[last]
    assert {version: lake.rows(name, version) for version in known} == known
    assert (done.rollback_to == last) == lake.iceberg
    again = lake.table(name).undo(run, allow_rollback=True)
    assert (again.status, again.version_after) == ("idle", done.version_after)
    assert lake.table(name).recluster("k", policy="full").changed


@pytest.mark.parametrize("deleted", ["id = 77", "id >= 0"], ids=["a row", "all rows"])
def test_a_delete_between_check_and_commit_wins(lake: Lake, deleted: str) -> None:
    name = deleted_from(lake)
    run = merged(lake, name)
    rival = once_at("before_commit", lambda: lake.spark.sql(f"DELETE FROM {name} WHERE {deleted}"))
    with pytest.raises(UndoError, match="nothing was written"):
        lake.table(name).undo(run, allow_rollback=True, observer=rival)
    assert lake.spark.table(name).where(deleted).count() == 0


def test_an_append_between_check_and_commit_is_kept(lake: Lake) -> None:
    name = deleted_from(lake)
    run = merged(lake, name)
    after = layout(lake, name)
    rival = once_at("before_commit", lambda: lake.spark.sql(f"INSERT INTO {name} VALUES (999, 1, 'late')"))
    if lake.iceberg:
        with pytest.raises(UndoError, match="1 commit of others"):
            lake.table(name).undo(run, allow_rollback=True, observer=rival)
        assert after < layout(lake, name)
    else:
        lake.table(name).undo(run, observer=rival)
        assert len(layout(lake, name)) == 5
    assert lake.spark.table(name).where("id = 999").count() == 1
    assert lake.spark.table(name).count() == 197


def test_a_rollback_must_be_allowed(lake: Lake) -> None:
    name = deleted_from(lake)
    run = merged(lake, name)
    versions, after = lake.versions(name), layout(lake, name)
    planned = lake.table(name).undo(run, dry_run=True)
    assert (planned.status, planned.restored_data_files_count) == ("planned", 4)
    assert (planned.rollback_to is not None) == lake.iceberg
    if lake.iceberg:
        with pytest.raises(UndoError, match="allow_rollback"):
            lake.table(name).undo(run)
    assert (lake.versions(name), layout(lake, name)) == (versions, after)


def test_the_formats_own_vacuum_keeps_restored_files(lake: Lake, confs: RuntimeConfig) -> None:
    """Iceberg's expiry deletes files that an expired snapshot removed, even if a later one added them again."""
    name = deleted_from(lake)
    rows = lake.fingerprint(name)
    lake.table(name).undo(merged(lake, name), allow_rollback=True)
    if lake.iceberg:
        table = Iceberg(lake.spark).load(name)
        table.refresh()
        table.expireSnapshots().expireOlderThan(time.time_ns() // 1_000_000).retainLast(1).commit()
    else:
        confs.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        lake.spark.sql(f"VACUUM {name} RETAIN 0 HOURS")
    assert lake.fingerprint(name) == rows
    assert len(lake.on_disk(name)) >= 4


def test_an_undo_after_a_vacuum_reports_the_reason(lake: Lake) -> None:
    name = deleted_from(lake)
    run = merged(lake, name)
    after = layout(lake, name)
    lake.table(name).vacuum(retention_hours=0, allow_unsafe_retention=True, options={"vacuum.max-share": 1})
    with pytest.raises(UndoError, match=r"expired|a vacuum has deleted them"):
        lake.table(name).undo(run, allow_rollback=True)
    assert layout(lake, name) == after


def test_files_in_the_trash_must_be_restored_first(lake: Lake) -> None:
    name = deleted_from(lake)
    before, rows = layout(lake, name), lake.fingerprint(name)
    run = merged(lake, name)
    lake.table(name).vacuum(
        retention_hours=0, allow_unsafe_retention=True, trash=True, options={"vacuum.max-share": 1}
    )
    [entry] = lake.table(name).trash()
    with pytest.raises(UndoError, match=f"restore {entry.name} first"):
        lake.table(name).undo(run, allow_rollback=True)
    lake.table(name).restore(entry.name)
    lake.table(name).undo(run, allow_rollback=True)
    assert (layout(lake, name), lake.fingerprint(name)) == (before, rows)


def test_a_delete_cannot_be_undone_and_an_unknown_run_is_not_found(lake: Lake) -> None:
    name = deleted_from(lake)
    report = lake.table(name).delete("id = 100")
    with pytest.raises(UndoError, match="changed rows"):
        lake.table(name).undo(report.run_id, allow_rollback=True)
    with pytest.raises(NotFound):
        lake.table(name).undo("feedfeedfeedfeed-1")


def test_an_operation_is_undone_by_the_id_that_the_history_gives(
    lake: Lake, confs: RuntimeConfig, tmp_path: Path
) -> None:
    confs.set("spark.lakekeeper.history.path", str(tmp_path / "history.db"))
    name = deleted_from(lake)
    before = layout(lake, name)
    merged(lake, name)
    [merge] = lake.table(name).history().operations
    planned = lake.table(name).undo(merge.operation_id, dry_run=True, allow_rollback=True)
    statement = f"CALL lakekeeper.system.undo('{name}', '{merge.operation_id}', allow_rollback => true)"
    row = lk.sql(lake.spark, statement).collect()[0]
    assert (row["status"], row["restored_data_files_count"]) == ("done", 4)
    for counted in ("restored_data_files_count", "restored_bytes_count", "removed_data_files_count"):
        assert row[counted] == getattr(planned, counted)
    assert layout(lake, name) == before
    recorded = lake.table(name).history().operations[0]
    assert (recorded.operation_type, recorded.operation_status) == ("undo", "done")
    assert str(recorded.reason) == f"run {merge.operation_id} undone"
    assert recorded.version_after == row["version_after"]
    assert recorded.operation_metrics["restored_bytes_count"] == row["restored_bytes_count"]
