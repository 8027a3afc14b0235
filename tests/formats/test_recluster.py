"""Reclustering real tables through the public API: what a user gains, and what must not change."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F

from lakekeeper.errors import OptionError
from tests.formats.lakes import Lake
from tests.oracles.spark_jobs import Phases, stages_of_group

SMALL: dict[str, Any] = {"target-file-size-bytes": 20_000}
BY_ROWS: dict[str, Any] = {"merge-engine": "spark"}


def test_right_sized_but_overlapping_files_become_shallow(lake: Lake) -> None:
    """Apache Iceberg issue 17489: a size filter selects nothing here."""
    name = lake.overlapping(8, 600)
    table = lake.table(name)
    table.cluster_by("k")
    before, rows = table.clustering_information(), lake.fingerprint(name)
    versions = {v: lake.fingerprint(name, v) for v in lake.versions(name)}
    assert before.average_depth == 8
    assert table.compact(options={"target-file-size-bytes": 10_000}).commits == 0  # no file is small

    report = table.recluster(options=SMALL)

    assert report.commits == 1
    assert report.rewritten_data_files_count == 8
    assert report.depth_after is not None
    assert report.depth_after <= 2
    after = table.clustering_information()
    assert after.levels == {1: after.total_partition_count}
    assert after.total_partition_count > 4
    assert lake.fingerprint(name) == rows
    assert {v: lake.fingerprint(name, v) for v in versions} == versions


def test_a_second_call_opens_no_data_file_and_commits_nothing(lake: Lake) -> None:
    name = lake.overlapping(5, 200)
    table = lake.table(name)
    table.cluster_by("k")
    assert table.recluster().changed
    versions, files = lake.versions(name), lake.on_disk(name)
    phases = Phases()
    for report in (
        table.recluster(observer=phases),
        table.recluster(final=True),
        table.recluster(dry_run=True),
    ):
        assert not report.changed
    assert phases.names == ["planned"]
    assert stages_of_group(lake.spark, phases.run_id) == ([], 0)
    assert lake.versions(name) == versions
    assert lake.on_disk(name) == files


@pytest.mark.parametrize(
    "kind, value",
    [
        ("string", "concat('https://www.example.com/p/', lpad(string(pmod(hash(id), 100000)), 6, '0'))"),
        ("timestamp", "timestamp_seconds(1767225600 + 3600 * pmod(id, 3))"),
    ],
    ids=["text", "hour"],
)
def test_a_compound_key_with_truncated_bounds_is_sorted_once(lake: Lake, kind: str, value: str) -> None:
    """Iceberg truncates text after 16 characters, Delta after 32 (not reached here), and times to the millisecond."""
    name = lake.create(f"id bigint, first {kind}, n int")
    made = "id", f"{value} AS first", "cast(pmod(hash(id, 7), 100000) AS int) AS n"
    lake.spark.range(0, 6 * 600, 1, numPartitions=6).selectExpr(*made).writeTo(name).append()
    lake.table(name).cluster_by("first", "n")
    often = {"target-file-size-bytes": 5_000, "queries-per-hour": 1_000_000}
    assert lake.table(name).recluster(options=often).changed
    for hours in (1, 24, 24 * 30):
        assert not lake.table(name, hours=hours).recluster(options=often).changed, hours


def test_each_input_is_read_once_without_shuffle_or_sampling(lake: Lake) -> None:
    name = lake.overlapping(6, 300)
    table = lake.table(name)
    table.cluster_by("k")
    phases = Phases()
    table.recluster(observer=phases, options=BY_ROWS)
    stages, jobs = stages_of_group(lake.spark, phases.run_id)
    reading = [s for s in stages if s.input_rows == 1800]
    assert len(reading) == 1, stages
    assert reading[0].tasks == 1
    assert reading[0].shuffle_written == 0
    if lake.iceberg:  # on Delta, a commit shuffles the entries of the log
        assert sum(s.shuffle_written for s in stages) == 0
    others = [s for s in stages if s is not reading[0]]
    assert sum(s.input_rows + s.shuffle_written for s in others) < 100  # log entries, not rows
    assert jobs <= 2, stages


def test_a_group_larger_than_a_task_is_cut_by_a_sample_of_its_key(lake: Lake) -> None:
    name = lake.overlapping(6, 3_000)
    table = lake.table(name)
    table.cluster_by("k")
    rows, phases = lake.fingerprint(name), Phases()
    size = table.plan().input_bytes
    sizes = {"single-task-bytes": size // 3, "target-file-size-bytes": size // 3}
    report = table.recluster(observer=phases, options=BY_ROWS | sizes)
    stages, _ = stages_of_group(lake.spark, phases.run_id)
    reading = sorted((s for s in stages if s.input_rows >= 1_000), key=lambda s: s.shuffle_written)
    assert [s.input_rows for s in reading] == [18_000, 18_000]
    sampled, merged = (s.shuffle_written for s in reading)
    assert 5_000 < sampled < 9_000
    assert merged == 18_000
    shares = [r.rows for r in table.blocks().collect()]
    assert len(shares) == report.added_data_files_count
    assert len(shares) in (3, 4)  # on Iceberg v3, ids of rows make short rows much longer
    assert max(shares) < 0.4 * 18_000
    assert report.depth_after is not None
    assert report.depth_after <= 2
    assert lake.fingerprint(name) == rows


def test_outputs_are_cut_at_rows_and_bytes(lake: Lake) -> None:
    name = lake.overlapping(4, 2000)
    table = lake.table(name)
    table.cluster_by("k")
    table.recluster(options={"max-rows-per-file": 1500})
    assert max(r.rows for r in table.blocks().collect()) <= 1500
    assert len(table.blocks().collect()) >= 6


def test_a_row_limit_that_a_writer_cannot_keep_loses_no_row(lake: Lake, merged_by: str) -> None:
    """Iceberg's writer checks its targets every 1,000 rows: by rows, it cannot write files of 100 rows."""
    name = lake.overlapping(3, 500)
    table = lake.table(name)
    table.cluster_by("k")
    rows, files = lake.fingerprint(name), lake.on_disk(name)
    report = table.recluster(options={"max-rows-per-file": 100})
    assert lake.fingerprint(name) == rows
    if lake.iceberg and merged_by == "by rows":
        assert [g.status for g in report.groups] == ["failed"]
        assert lake.on_disk(name) == files
    else:
        assert max(r.rows for r in table.blocks().collect()) <= 100


def test_plan_and_dry_run_write_nothing_and_predict_the_call(lake: Lake) -> None:
    name = lake.overlapping(4, 100)
    table = lake.table(name)
    table.cluster_by("k")
    files, versions = lake.on_disk(name), lake.versions(name)
    planned = table.recluster(dry_run=True)
    assert lake.on_disk(name) == files
    assert lake.versions(name) == versions
    assert planned.dry_run
    done = table.recluster()
    assert [g.id for g in planned.groups] == [g.id for g in done.groups]
    assert planned.plan is not None
    assert done.plan is not None
    for field in (
        "id",
        "inputs",
        "level",
        "policy",
        "partition",
    ):  # reasons contain the cost of waiting, which grows with time
        assert [getattr(t, field) for t in planned.plan.tasks] == [getattr(t, field) for t in done.plan.tasks]
    assert [(i.reason, list(i.paths)) for i in planned.plan.left] == [
        (i.reason, list(i.paths)) for i in done.plan.left
    ]


def test_where_selects_every_file_that_may_hold_a_match(lake: Lake) -> None:
    name = lake.create("k int, v string")
    for start in (0, 0, 1000, 1000, 2000, 2000):
        lake.append(name, lake.spark.range(start, start + 100).selectExpr("cast(id as int) k", "'x' v"))
    table = lake.table(name)
    table.cluster_by("k")
    options = {"depth-threshold": 1}
    assert table.clustering_information(where="k >= 1050 and k < 1060").total_partition_count == 2
    text, column = "k >= 1050 and k < 2010", (F.col("k") >= 1050) & (F.col("k") < 2010)
    assert table.clustering_information(where=column) == table.clustering_information(where=text)
    for verb in (table.recluster, table.compact, table.merge_deletes):
        plans = [verb(where=where, dry_run=True, options=options).plan for where in (text, column)]
        found = [
            plan
            and ([task.inputs for task in plan.tasks], [(i.reason.code, list(i.paths)) for i in plan.left])
            for plan in plans
        ]
        assert found[0] == found[1] is not None
    assert table.plan(where=column, options=options).to_dict()["tasks"] != []
    report = table.recluster(where=column, options=options)
    assert report.rewritten_data_files_count == 4
    assert {r.level for r in table.blocks().collect() if int(r.lo[0]) < 1000} == {0}


def test_partitions_are_never_mixed(lake: Lake) -> None:
    name = lake.create("p string, k int", partitioned="p")
    for _ in range(4):
        frame = lake.spark.range(200).selectExpr("if(id % 2 = 0, 'a b', 'ä%20+#:') p", "cast(id as int) k")
        lake.append(name, frame.sortWithinPartitions("p"))
    rows, table = lake.fingerprint(name), lake.table(name)
    table.cluster_by("k")
    report = table.recluster(options={"depth-threshold": 1})
    assert len(report.groups) == 2
    assert report.commits == 1
    assert lake.fingerprint(name) == rows
    assert table.clustering_depth() == 1
    assert len({(r.partition, r.level) for r in table.blocks().collect()}) == 2


def test_compact_packs_small_files_without_a_key(lake: Lake) -> None:
    name = lake.overlapping(7, 50)
    rows, table = lake.fingerprint(name), lake.table(name)
    report = table.compact()
    assert (report.rewritten_data_files_count, report.added_data_files_count) == (7, 1)
    assert lake.fingerprint(name) == rows
    assert not table.compact().changed


def test_no_key_and_no_columns_is_refused_before_any_write(lake: Lake) -> None:
    name = lake.overlapping(2, 10)
    table = lake.table(name)
    for call in (table.recluster, table.clustering_information, table.plan):
        with pytest.raises(OptionError, match="cluster key"):
            call()
    assert table.recluster(columns=["k"]).plan is not None


def test_deleted_rows_stay_deleted_and_their_delete_files_are_removed(lake: Lake) -> None:
    name = lake.overlapping(5, 200)
    lake.spark.sql(f"DELETE FROM {name} WHERE id % 7 = 3")
    lake.spark.sql(f"DELETE FROM {name} WHERE k < 20")
    rows, table = lake.fingerprint(name), lake.table(name)
    table.cluster_by("k")
    assert table.recluster().changed
    assert lake.fingerprint(name) == rows
    assert {r.deleted_rows for r in table.blocks().collect()} == {0}


def test_empty_table_one_file_and_all_rows_deleted(lake: Lake) -> None:
    name = lake.create("id bigint, k int, v string")
    table = lake.table(name)
    table.cluster_by("k")
    assert table.clustering_information().total_partition_count == 0
    assert not table.recluster(final=True).changed
    lake.append(name, lake.spark.range(10).selectExpr("id", "cast(id as int) k", "'' v"))
    assert table.clustering_depth() == 1
    assert not table.recluster(final=True).changed
    assert table.recluster(policy="full").changed
    lake.spark.sql(f"DELETE FROM {name} WHERE id >= 0")
    table.recluster(final=True)
    table.recluster(policy="full")
    assert lake.fingerprint(name)[0] == 0


def test_plan_prints_every_group_and_every_block_left_out(lake: Lake) -> None:
    name = lake.overlapping(3, 50)
    table = lake.table(name)
    table.cluster_by("k")
    plan = table.plan()
    assert plan.blocks == 3 == sum(len(t.inputs) for t in plan.tasks) + sum(x.blocks for x in plan.left)
    assert plan.tasks[0].id in str(plan)
    assert "depth" in str(plan)
