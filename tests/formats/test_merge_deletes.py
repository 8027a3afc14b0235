"""merge_deletes on all kinds of tables removes dead rows and dangling delete files, and changes no older version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lakekeeper.errors import OptionError
from tests.formats.lakes import Lake
from tests.oracles.spark_jobs import Phases, stages_of_group

ROWS = 200
COLUMNS = "id bigint, k int, v string"


def side_by_side(lake: Lake, files: int = 5, *, partitioned: str = "") -> str:
    """Files that do not overlap in ``k``, which is ``id``; every partition value in every file."""
    name = lake.create(COLUMNS, partitioned=partitioned)
    value = "if(id % 2 = 0, 'even', 'odd') v" if partitioned else "md5(cast(id as string)) v"
    for i in range(files):
        frame = lake.spark.range(i * ROWS, (i + 1) * ROWS).selectExpr("id", "cast(id as int) k", value)
        lake.append(name, frame.sortWithinPartitions("v") if partitioned else frame)
    return name


def deleted(lake: Lake, name: str) -> dict[int, int]:
    """Deleted rows by the file's lowest key."""
    blocks = lake.table(name).blocks().collect()
    return {int(row.lo[0]) // ROWS: row.deleted_rows for row in blocks}


@pytest.mark.parametrize("keyed", [True, False])
def test_files_at_or_above_the_ratio_are_rewritten_together(lake: Lake, keyed: bool) -> None:
    name = side_by_side(lake)
    table = lake.table(name)
    if keyed:
        table.cluster_by("k")
    lake.spark.sql(f"DELETE FROM {name} WHERE id < {2 * ROWS} AND id % 2 = 0")  # half of two adjacent files
    lake.spark.sql(f"DELETE FROM {name} WHERE id >= {4 * ROWS} AND id % 10 = 0")  # a tenth of the last
    rows = lake.fingerprint(name)
    versions = {v: lake.fingerprint(name, v) for v in lake.versions(name)}
    files = {row.path for row in table.blocks().collect()}

    report = table.merge_deletes(options={"queries-per-hour": 0})

    assert report.verb == "merge_deletes"
    assert [g.status for g in report.groups] == ["committed"]
    assert (report.rewritten_data_files_count, report.added_data_files_count) == (2, 1)
    assert report.plan is not None
    due = report.plan.tasks[0].reason
    assert (due.code, due["share"]) == ("deleted_rows", 0.5)
    assert sorted(left.reason.code for left in report.plan.left) == ["few_deleted", "no_deletes"]
    assert lake.fingerprint(name) == rows
    assert {v: lake.fingerprint(name, v) for v in versions} == versions
    after = {row.path: row for row in table.blocks().collect()}
    assert len(set(after) & files) == 3
    (fresh,) = [row for path, row in after.items() if path not in files]
    assert (fresh.rows, fresh.deleted_rows, fresh.level) == (ROWS, 0, 0)
    if keyed:
        assert deleted(lake, name) == {0: 0, 2: 0, 3: 0, 4: ROWS // 10}


def test_few_deleted_rows_are_removed_once_they_have_cost_queries_enough(lake: Lake) -> None:
    """An unknown time of the deletes, and that of Iceberg's delete files, had counted as now: no rent was ever due."""
    name = side_by_side(lake, 3)
    table = lake.table(name)
    table.cluster_by("k")
    lake.spark.sql(f"DELETE FROM {name} WHERE id % 100 = 0")
    rows = lake.fingerprint(name)
    assert not table.merge_deletes(options={"queries-per-hour": 0}).changed
    report = table.merge_deletes(options={"queries-per-hour": 10**9})
    assert report.plan is not None
    assert {code for task in report.plan.tasks for code in task.reason.codes} == {
        "deleted_rows",
        "deletes_paid",
    }
    assert lake.fingerprint(name) == rows
    assert {row.deleted_rows for row in table.blocks().collect()} == {0}


def test_a_second_call_reads_no_data_and_commits_nothing(lake: Lake) -> None:
    name = side_by_side(lake, 3)
    lake.spark.sql(f"DELETE FROM {name} WHERE id % 3 > 0")
    table = lake.table(name)
    assert table.merge_deletes().changed
    versions, files, phases = lake.versions(name), lake.on_disk(name), Phases()
    report = table.merge_deletes(observer=phases)
    assert (report.changed, report.ended.code) == (False, "nothing_to_do")
    assert "read" not in phases.names
    assert "committed" not in phases.names
    assert stages_of_group(lake.spark, phases.run_id) == ([], 0)
    assert lake.versions(name) == versions
    assert lake.on_disk(name) == files


def test_no_dangling_delete_file_is_left(lake: Lake) -> None:
    name = side_by_side(lake, 3)
    for rest in (0, 1):
        lake.spark.sql(f"DELETE FROM {name} WHERE id % 3 = {rest}")
    rows, table = lake.fingerprint(name), lake.table(name)
    report = table.merge_deletes()
    assert report.removed_delete_files_count >= (3 if lake.kind == "delta" else 1)
    assert lake.fingerprint(name) == rows
    assert {row.deleted_rows for row in table.blocks().collect()} == {0}
    if lake.iceberg:
        assert lake.spark.table(f"{name}.delete_files").count() == 0


def test_a_file_whose_rows_are_all_deleted_is_removed(lake: Lake) -> None:
    name = side_by_side(lake, 2)
    for part in range(2):  # in two parts, so that the file itself is not removed at once
        lake.spark.sql(f"DELETE FROM {name} WHERE id < {ROWS} AND id % 2 = {part}")
    rows, table = lake.fingerprint(name), lake.table(name)
    table.merge_deletes()
    assert lake.fingerprint(name) == rows
    (block,) = table.blocks().collect()
    assert (block.rows, block.deleted_rows) == (ROWS, 0)
    assert not table.merge_deletes().changed


def test_where_limits_the_files_and_a_dry_run_writes_nothing(lake: Lake) -> None:
    name = side_by_side(lake, 3)
    lake.spark.sql(f"DELETE FROM {name} WHERE id % 2 = 0")
    table = lake.table(name)
    files, versions, rows = lake.on_disk(name), lake.versions(name), lake.fingerprint(name)
    planned = table.merge_deletes(where=f"k < {ROWS}", dry_run=True)
    assert (planned.dry_run, planned.changed, len(planned.groups)) == (True, False, 1)
    assert (lake.on_disk(name), lake.versions(name)) == (files, versions)
    done = table.merge_deletes(where=f"k < {ROWS}")
    assert [g.id for g in done.groups] == [g.id for g in planned.groups]
    assert done.rewritten_data_files_count == 1
    assert sorted(row.deleted_rows for row in table.blocks().collect()) == [0, ROWS // 2, ROWS // 2]
    assert lake.fingerprint(name) == rows


def test_the_level_of_reclustered_files_is_kept(lake: Lake) -> None:
    name = lake.overlapping(4, ROWS)
    table = lake.table(name)
    table.cluster_by("k")
    assert table.recluster().changed
    lake.spark.sql(f"DELETE FROM {name} WHERE k % 2 = 0")
    rows, before = lake.fingerprint(name), table.clustering_information()
    assert set(before.levels) == {1}
    assert table.merge_deletes().changed
    assert lake.fingerprint(name) == rows
    after = table.clustering_information()
    assert set(after.levels) == {1}
    assert after.average_depth <= before.average_depth


def test_partitions_are_never_mixed(lake: Lake) -> None:
    name = side_by_side(lake, 3, partitioned="v")
    lake.spark.sql(f"DELETE FROM {name} WHERE id % 4 < 2")
    rows, table = lake.fingerprint(name), lake.table(name)
    report = table.merge_deletes()
    assert (len(report.groups), report.commits >= 1) == (2, True)
    assert lake.fingerprint(name) == rows
    blocks = table.blocks().collect()
    assert len({row.partition for row in blocks}) == 2
    assert {row.deleted_rows for row in blocks} == {0}


def test_a_concurrent_delete_is_not_lost(lake: Lake) -> None:
    name = side_by_side(lake, 3)
    lake.spark.sql(f"DELETE FROM {name} WHERE id % 2 = 0")
    left = [f"DELETE FROM {name} WHERE id = 5"]

    def rival(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "written" and left:
            lake.spark.sql(left.pop())

    table = lake.table(name)
    report = table.merge_deletes(observer=rival)
    assert {g.status for g in report.groups} == {"committed"}
    found = {row.id for row in lake.spark.table(name).collect()}
    assert found == {i for i in range(3 * ROWS) if i % 2 and i != 5}


def test_a_bad_call_is_refused_before_any_write(lake: Lake) -> None:
    name = side_by_side(lake, 1)
    table, versions = lake.table(name), lake.versions(name)
    for given in ({"where": "kk = 1"}, {"policy": "deletse"}, {"options": {"delete-ratio-threshold": 2}}):
        with pytest.raises(OptionError):
            table.merge_deletes(**given)
    assert lake.versions(name) == versions
