"""Dropped partitions are restored once, completely, and under the current names of their columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier
from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper.errors import Conflict, LakekeeperError, NotFound, Rejected, Unsupported
from tests.formats.lakes import Lake
from tests.observers import once_at


class _Killed(BaseException):
    """The process is killed."""


def _die() -> None:
    raise _Killed


def three_days(lake: Lake, **properties: str) -> str:
    """Ten rows a day; two rows of day 1 were deleted before."""
    given = {k.replace("__", "."): v for k, v in properties.items()}
    name = lake.create("day INT, v STRING, s STRUCT<a: INT, b: STRING>", partitioned="day", properties=given)
    for day in range(3):
        made = f"{day} AS day", "concat('v', id) AS v", "named_struct('a', cast(id AS INT), 'b', 'x') AS s"
        lake.append(name, lake.spark.range(10).selectExpr(*made))
    return name


def test_a_drop_that_loses_leaves_nothing_to_restore(lake: Lake) -> None:
    name = three_days(lake)
    table = lake.table(name)
    keys = iter(("v", "s.a"))

    def rival(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "before_commit":
            lake.table(name).recluster(next(keys), policy="full", options={"depth-threshold": 1})

    with pytest.raises(Conflict):
        table.drop_partition("day = 1", observer=rival, options={"commit.retry.num-retries": 1})
    assert table.trash() == ()
    assert lake.spark.table(name).where("day = 1").count() == 10


def test_restoring_twice_restores_the_rows_once(lake: Lake) -> None:
    name = three_days(lake)
    table = lake.table(name)
    before = lake.fingerprint(name)
    table.drop_partition("day = 1")
    [entry] = table.trash()
    table.restore(entry.name)
    with pytest.raises(NotFound):
        table.restore(entry.name)
    assert lake.fingerprint(name) == before


def test_a_restore_whose_last_step_failed_is_finished_by_the_next(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed after the rows are restored, while the entry still exists: run it again, as the docs say."""
    name = three_days(lake)
    table = lake.table(name)
    before = lake.fingerprint(name)
    table.drop_partition("day = 1")
    [entry] = table.trash()
    kind = type(lake.adapter(name).notes)
    with monkeypatch.context() as patched:
        patched.setattr(kind, "remove", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            table.restore(entry.name)
    assert lake.fingerprint(name) == before
    assert lk.table(lake.spark, name).restore(entry.name).already
    assert lake.fingerprint(name) == before
    assert table.trash() == ()


def test_two_restores_at_once(lake: Lake) -> None:
    name = three_days(lake)
    before = lake.fingerprint(name)
    lake.table(name).drop_partition("day = 1")
    [entry] = lake.table(name).trash()
    start = Barrier(2)

    def back(_: int) -> str:
        table = lk.table(lake.spark, name)
        start.wait()
        try:
            table.restore(entry.name)
        except LakekeeperError as error:
            return type(error).__name__
        return "done"

    with ThreadPoolExecutor(2) as pool:
        ends = sorted(pool.map(back, range(2)))
    assert "done" in ends
    assert set(ends) <= {"done", "NotFound"}
    assert lake.fingerprint(name) == before


def test_a_column_that_was_renamed_keeps_its_values(lake: Lake) -> None:
    name = three_days(lake, **({} if lake.iceberg else {"delta__columnMapping__mode": "name"}))
    spark = lake.spark
    lake.table(name).drop_partition("day = 1 AND s.a >= 0")
    [entry] = lake.table(name).trash()
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN v TO w")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN s.a TO c")
    if lake.iceberg:  # Delta cannot rename a partition column
        spark.sql(f"ALTER TABLE {name} RENAME COLUMN day TO d")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN late INT")
    lake.table(name).restore(entry.name)
    day = "d" if lake.iceberg else "day"
    rows = spark.table(name).where(f"{day} = 1").select("w", "s.c", "s.b", "late").collect()
    assert sorted(map(tuple, rows), key=str) == sorted(((f"v{i}", i, "x", None) for i in range(10)), key=str)


def back_to(lake: Lake, name: str, version: int) -> None:
    """By the format's own means."""
    if lake.iceberg:
        catalog, _, rest = name.partition(".")
        lake.spark.sql(f"CALL {catalog}.system.rollback_to_snapshot('{rest}', {version})")
    else:
        lake.spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {version}")


def test_rows_come_back_though_a_vacuum_has_expired_all_that_nothing_holds(lake: Lake) -> None:
    """Loss L115: on Iceberg, the snapshot of the drop was expired, and a restore needs it."""
    name = three_days(lake)
    table, before = lake.table(name), lake.fingerprint(name)
    table.drop_partition("day = 1 OR v = 'v5'")
    for _ in range(2):
        lake.append(
            name, lake.spark.sql("SELECT 3 AS day, 'new' AS v, CAST(NULL AS STRUCT<a: INT, b: STRING>) AS s")
        )
    table.vacuum(retention_hours=0, allow_unsafe_retention=True, options={"vacuum.max-share": 1})
    [entry] = table.trash()
    table.restore(entry.name)
    table.delete("day = 3")
    assert lake.fingerprint(name) == before


@pytest.mark.parametrize("where", ["day = 1", "v = 'v5'"], ids=["file", "rows"])
def test_a_partition_of_the_first_version_outlives_a_vacuum(lake: Lake, where: str) -> None:
    """The first version of a Delta table is 0, which counted as no version: its files were deleted."""
    days, name = three_days(lake), f"{lake.create('i INT')}_of_one_commit"
    lake.spark.sql(
        f"CREATE TABLE {name} USING {'iceberg' if lake.iceberg else 'delta'} PARTITIONED BY (day) "
        f"AS SELECT * FROM {days}"
    )
    table, before = lake.table(name), lake.fingerprint(name)
    assert len(lake.versions(name)) == 1
    table.drop_partition(where)
    table.vacuum(retention_hours=0, allow_unsafe_retention=True, options={"vacuum.max-share": 1})
    table.restore(table.trash()[0].name)
    assert lake.fingerprint(name) == before


def dropped(lake: Lake, where: str) -> tuple[str, tuple[Any, ...], int, lk.TrashEntry]:
    """A table of which rows were dropped: its name, its rows and version before, and the entry in the trash."""
    name = three_days(lake)
    before, version = lake.fingerprint(name), lake.versions(name)[-1]
    lake.table(name).drop_partition(where)
    [entry] = lake.table(name).trash()
    return name, before, version, entry


@pytest.mark.parametrize("where", ["day = 1", "day = 1 AND s.a < 4"], ids=["file", "rows"])
def test_rows_that_a_rollback_brought_back_are_not_restored_again(lake: Lake, where: str) -> None:
    """Loss L82: the entry was still there, and its restore added the rows a second time."""
    name, before, version, entry = dropped(lake, where)
    back_to(lake, name, version)
    assert lake.fingerprint(name) == before
    lake.append(name, lake.spark.sql("SELECT 5 AS day, 'late' AS v, named_struct('a', 1, 'b', 'x') AS s"))
    after = lake.fingerprint(name)
    with pytest.raises(Unsupported, match="brought"):
        lake.table(name).restore(entry.name)
    assert lake.fingerprint(name) == after
    assert [each.name for each in lake.table(name).trash()] == [entry.name]


@pytest.mark.parametrize("where", ["day = 1", "day = 1 AND s.a < 4"], ids=["file", "rows"])
def test_rows_that_a_rollback_brings_back_during_a_restore_are_not_doubled(lake: Lake, where: str) -> None:
    """Loss L131: it was looked for before the copies were written, which takes minutes, and not after."""
    name, before, version, entry = dropped(lake, where)
    rollback = once_at("before_commit", lambda: back_to(lake, name, version))
    with pytest.raises((Unsupported, Rejected), match=r"brought|rolled back"):
        lake.table(name).restore(entry.name, observer=rollback)
    assert lake.fingerprint(name) == before
    assert [each.name for each in lake.table(name).trash()] == [entry.name]


@pytest.mark.parametrize("before", ["", "a compaction"])
@pytest.mark.parametrize("hidden_by", ["", "a compaction", "a vacuum", "a compaction and a vacuum"])
@pytest.mark.parametrize("where", ["day = 1", "day = 1 AND s.a < 4"], ids=["file", "rows"])
def test_a_rollback_that_other_commits_hide_is_seen(
    lake: Lake, where: str, hidden_by: str, before: str
) -> None:
    """Losses L121 and L158: a restore searched for the files that the drop had removed.

    A compaction before the drop or after the rollback has the rows in others. On Iceberg, a vacuum expires the
    snapshots that show the rollback.
    """
    name = three_days(lake, **({} if lake.iceberg else {"delta.enableDeletionVectors": "true"}))
    for _ in range(2):
        lake.append(
            name, lake.spark.sql("SELECT 1 AS day, 'early' AS v, named_struct('a', 2, 'b', 'x') AS s")
        )
    version = lake.versions(name)[-1]
    if before:
        assert lake.table(name).compact(options={"min-input-files": 2}).changed
    lake.table(name).drop_partition(where)
    [entry] = lake.table(name).trash()
    back_to(lake, name, version)
    for _ in range(2):
        lake.append(name, lake.spark.sql("SELECT 1 AS day, 'late' AS v, named_struct('a', 9, 'b', 'x') AS s"))
    if "compaction" in hidden_by:
        assert lake.table(name).compact(options={"min-input-files": 2}).changed
        for _ in range(2):
            lake.append(
                name, lake.spark.sql("SELECT 1 AS day, 'later' AS v, named_struct('a', 9, 'b', 'x') AS s")
            )
    if "vacuum" in hidden_by:
        options = {"vacuum.max-share": 1}
        lake.table(name).vacuum(
            retention_hours=0, retain_last=1, allow_unsafe_retention=True, options=options
        )
    after = lake.fingerprint(name)
    with pytest.raises(Unsupported, match="brought"):
        lake.table(name).restore(entry.name)
    assert lake.fingerprint(name) == after
    assert [each.name for each in lake.table(name).trash()] == [entry.name]


@pytest.mark.parametrize("granularity", ["file", "partition"])
@pytest.mark.parametrize("where", ["day = 1", "day = 1 AND s.a < 4"], ids=["file", "rows"])
def test_rows_that_were_added_while_a_drop_searched_are_not_doubled(
    lake: Lake, where: str, granularity: str
) -> None:
    """Losses L81 and L97: a restore read all matches of the version before the drop, the added ones included.

    A delete file for a partition changes what applies to its files, those included that were added meanwhile.
    """
    isolation = {"write.delete.isolation-level": "snapshot", "write.delete.granularity": granularity}
    name = three_days(lake, **isolation if lake.iceberg else {})
    expected: list[Counter[str]] = []

    def late() -> None:
        row = "SELECT 1 AS day, 'late' AS v, named_struct('a', 1, 'b', 'x') AS s"
        lake.append(name, lake.spark.sql(row))
        expected.append(lake.rows(name, lake.versions(name)[-1]))

    add = once_at("before_commit", late)
    table = lake.table(name)
    died = once_at("committed", _die)

    def observe(phase: str, facts: Mapping[str, Any]) -> None:
        add(phase, facts)
        if granularity == "partition":
            died(phase, facts)

    with suppress(_Killed):
        table.drop_partition(where, observer=observe)
    # Delta always searches again: open source Delta has no weaker isolation level than serializable.
    assert lake.spark.table(name).where("v = 'late'").count() == lake.iceberg
    [entry] = table.trash()
    table.restore(entry.name)
    assert [lake.rows(name, lake.versions(name)[-1])] == expected


@pytest.mark.parametrize("where", ["day = 1", "day = 1 AND s.a < 8"])
def test_a_drop_on_top_of_another_delete_is_restored_without_its_rows(lake: Lake, where: str) -> None:
    """On Iceberg, the drop is no conflict, and had counted the rows: each restore failed."""
    name = three_days(lake, **({"delta.enableDeletionVectors": "true"} if not lake.iceberg else {}))
    table = lake.table(name)
    late = once_at("before_commit", lambda: lake.table(name).delete("day = 1 AND s.a IN (3, 4)"))
    table.drop_partition(where, observer=late)
    kept = lake.spark.table(name).where("day = 1").count()
    assert kept == (0 if where == "day = 1" else 2)
    [entry] = table.trash()
    assert entry.fewer
    table.restore(entry.name)
    assert lake.spark.table(name).where("day = 1").count() == 8
    assert lake.spark.table(name).where("day = 1 AND s.a IN (3, 4)").count() == 0
    assert lake.spark.table(name).count() == 28


@pytest.mark.parametrize("copies", [False, True], ids=["masks", "copies"])
def test_a_predicate_of_another_time_zone_brings_no_other_rows_back(lake: Lake, copies: bool) -> None:
    """Loss L96: as many rows match in each zone, so some came back twice, and as many not at all."""
    if copies and lake.iceberg:
        lake = Lake(lake.spark, "iceberg-v1")
    vectors = {} if lake.iceberg else {"delta.enableDeletionVectors": str(not copies).lower()}
    name = lake.create("id BIGINT, ts TIMESTAMP", properties=vectors)
    lake.append(
        name, lake.spark.range(72).selectExpr("id", "timestamp_seconds(1704067200 + id * 3600) AS ts")
    )
    before, confs = lake.fingerprint(name), lake.spark.conf
    confs.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        lake.table(name).drop_partition("ts >= '2024-01-02' AND ts < '2024-01-03'")
        confs.set("spark.sql.session.timeZone", "UTC")
        after = lake.fingerprint(name)
        [entry] = lake.table(name).trash()
        with pytest.raises(Unsupported, match="in a session with the time zone"):
            lake.table(name).restore(entry.name)
        assert lake.fingerprint(name) == after
        confs.set("spark.sql.session.timeZone", "Europe/Berlin")
        lake.table(name).restore(entry.name)
    finally:
        confs.set("spark.sql.session.timeZone", "UTC")
    assert lake.fingerprint(name) == before


def test_a_rollback_to_a_version_after_the_drop_leaves_it_restorable(lake: Lake) -> None:
    name = three_days(lake)
    before = lake.fingerprint(name)
    lake.table(name).drop_partition("day = 1 AND s.a < 4")
    [entry] = lake.table(name).trash()
    version = lake.versions(name)[-1]
    lake.append(name, lake.spark.sql("SELECT 5 AS day, 'late' AS v, named_struct('a', 1, 'b', 'x') AS s"))
    back_to(lake, name, version)
    lake.table(name).restore(entry.name)
    assert lake.fingerprint(name) == before


def test_a_rollback_between_the_drop_and_a_vacuum_leaves_it_restorable(lake: Lake) -> None:
    """On Iceberg, the vacuum has recorded a version that the table has left; those after the drop expire later."""
    name = three_days(lake)
    before = lake.fingerprint(name)
    table = lake.table(name)
    table.drop_partition("day = 1")
    late = lake.spark.sql("SELECT 5 AS day, 'late' AS v, named_struct('a', 1, 'b', 'x') AS s")
    lake.append(name, late)
    version = lake.versions(name)[-1]
    lake.append(name, late)
    options: dict[str, Any] = {"allow_unsafe_retention": True, "options": {"vacuum.max-share": 1}}
    table.vacuum(retention_hours=24, **options)
    back_to(lake, name, version)
    for _ in range(2):
        lake.append(name, late)
        table.vacuum(retention_hours=0, retain_last=1, **options)
    [entry] = table.trash()
    table.restore(entry.name)
    table.delete("day = 5")
    assert lake.fingerprint(name) == before


def test_another_partitioning_of_a_delta_table_is_refused(spark: Any) -> None:
    """Loss L83: the values of the old partition column are in the log alone, and came back as NULL."""
    lake = Lake(spark, "delta")
    name = three_days(lake)
    lake.table(name).drop_partition("day = 1")
    [entry] = lake.table(name).trash()
    rows = spark.table(name).where("day = 2").cache()
    rows.count()
    rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable(name)
    after = lake.fingerprint(name)
    with pytest.raises(Unsupported, match="partitioning by no column, which was by day"):
        lake.table(name).restore(entry.name)
    assert lake.fingerprint(name) == after
