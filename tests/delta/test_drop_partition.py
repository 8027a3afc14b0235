"""Dropping partitions and restoring them, in the cases that only Delta has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from delta.tables import IdentityGenerator

import lakekeeper as lk
from lakekeeper.errors import Conflict, LakekeeperError, Unsupported
from lakekeeper_delta import restore
from lakekeeper_delta.commit import attempt
from lakekeeper_delta.native import Log
from tests.delta.by_hand import ByHand
from tests.delta.scene import Scene

pytestmark = pytest.mark.delta


def three_days(
    scene: Scene, properties: str = "'delta.enableDeletionVectors'='true'", more: str = ""
) -> lk.Table:
    """Three days of ten rows each."""
    scene.run(
        f"CREATE TABLE {{t}} (day INT, v BIGINT{more}) USING delta PARTITIONED BY (day) TBLPROPERTIES ({properties})",
        "INSERT INTO {t} (day, v) SELECT id % 3, id FROM range(30)",
    )
    return lk.table(scene.spark, str(scene.path))


def test_a_drop_that_is_refused_leaves_nothing_to_restore(scene: Scene) -> None:
    table = three_days(scene, "'delta.appendOnly'='true'")
    rows = scene.spark_rows()
    with pytest.raises(Unsupported):
        table.drop_partition("day = 1")
    assert table.trash() == ()
    assert scene.spark_rows() == rows


def test_a_table_whose_identity_column_takes_no_values(scene: Scene) -> None:
    scene.run(
        lambda made: (
            made.builder()
            .addColumn("n", "BIGINT", generatedAlwaysAs=IdentityGenerator())
            .addColumn("day", "INT")
            .partitionedBy("day")
        ),
        "INSERT INTO {t} (day) SELECT id % 3 FROM range(30)",
    )
    table = lk.table(scene.spark, str(scene.path))
    table.drop_partition("day = 1")
    [entry] = table.trash()
    version, files = scene.version, scene.data_files()
    with pytest.raises(Unsupported, match=r"GENERATED ALWAYS AS IDENTITY \(column n\)"):
        table.restore(entry.name)
    assert (scene.version, scene.data_files()) == (version, files)
    assert [e.name for e in table.trash()] == [entry.name]


@pytest.mark.parametrize(
    "change, said",
    [
        ("ALTER TABLE {t} DROP COLUMN s.a", r"column s\.a, which was dropped"),
        ("ALTER TABLE {t} DROP COLUMN v", "column v, which was dropped"),
        ("ALTER TABLE {t} ALTER COLUMN v TYPE BIGINT", "column v, whose type was integer and is long"),
    ],
)
def test_rows_that_would_be_restored_differently_are_refused(scene: Scene, change: str, said: str) -> None:
    scene.run(
        "CREATE TABLE {t} (day INT, v INT, s STRUCT<a: INT, b: INT>) USING delta PARTITIONED BY (day) "
        "TBLPROPERTIES ('delta.columnMapping.mode'='name', 'delta.enableTypeWidening'='true')",
        "INSERT INTO {t} SELECT id % 3, id, named_struct('a', id, 'b', id) FROM range(30)",
    )
    table = lk.table(scene.spark, str(scene.path))
    table.drop_partition("day = 1")
    [entry] = table.trash()
    scene.run(change)
    version, files = scene.version, scene.data_files()
    with pytest.raises(Unsupported, match=said):
        lk.table(scene.spark, str(scene.path)).restore(entry.name)
    assert (scene.version, scene.data_files()) == (version, files)


FEEDS = {
    "vectors": "'delta.enableDeletionVectors'='true'",
    "copies": "'delta.enableDeletionVectors'='false'",
}


@pytest.mark.parametrize("properties", FEEDS.values(), ids=FEEDS)
@pytest.mark.parametrize("where", ["day = 1", "day = 1 OR v = 2", "v < 2", "day IS NOT NULL"])
def test_the_change_feed_has_each_row_once(scene: Scene, properties: str, where: str) -> None:
    """For files that are dropped whole, files that keep other rows, and a row that was deleted before."""
    table = three_days(scene, f"{properties}, 'delta.enableChangeDataFeed'='true'")
    scene.run("DELETE FROM {t} WHERE v = 4")
    doomed = sorted((r.day, r.v) for r in scene.spark.table(scene.sql).where(where).collect())
    report = table.drop_partition(where)
    read = scene.spark.read.format("delta").option("readChangeFeed", "true")
    version = report.version_after
    rows = read.option("startingVersion", version).option("endingVersion", version).load(str(scene.path))
    assert sorted((r["_change_type"], r.day, r.v) for r in rows.collect()) == [
        ("delete", *row) for row in doomed
    ]
    assert report.deleted_rows_count == len(doomed)
    assert (report.unread_data_files_count > 0) == ("day" in where)
    assert scene.spark_rows() == scene.log_rows()


def test_constraints_and_defaults_apply_to_restored_rows(scene: Scene) -> None:
    table = three_days(scene)
    table.drop_partition("day = 1")
    [entry] = table.trash()
    scene.run("ALTER TABLE {t} ADD CONSTRAINT late CHECK (day <> 1)")
    version, files = scene.version, scene.data_files()
    with pytest.raises(LakekeeperError, match=r"(?i)constraint"):
        table.restore(entry.name)
    assert (scene.version, len(scene.data_files())) == (version, len(files))
    scene.run("ALTER TABLE {t} DROP CONSTRAINT late")
    assert table.restore(entry.name).rows == 10


def test_two_restores_that_both_found_nothing_add_the_rows_once(scene: Scene) -> None:
    """Both checked before either committed: Delta commits each application transaction once."""
    table = three_days(scene)
    rows = scene.spark_rows()
    report = table.drop_partition("day = 1")
    adapters = [scene.adapter(), scene.adapter()]
    assert report.version_after is not None
    made = []
    for adapter in adapters:
        then, _ = adapter.restores.around(report.version_after, "day = 1", report.version_after)
        whole = adapter.deletes.covered(then, "day = 1")
        made.append(adapter.restores.copy(None, whole, then, "run-1"))
    state, latest = [scene.log().latest()], Log.latest
    adapters[0].restores.commit(made[0], report.version_after, "back")
    with pytest.MonkeyPatch.context() as patched:
        # The second restore read the version before. The log then shows a commit with its run id, which is not its own.
        patched.setattr(Log, "latest", lambda log: state.pop() if state else latest(log))
        with pytest.raises(Conflict, match="ConcurrentTransaction"):
            adapters[1].restores.commit(made[1], report.version_after, "back")
    again = adapters[1].restores.commit(made[1], report.version_after, "back")
    assert (again.version, again.added) == (scene.version, ())
    assert scene.spark_rows() == rows == scene.log_rows()


def test_rows_whose_partition_would_become_null_are_not_restored(scene: Scene) -> None:
    """Delta's writer takes an empty text for NULL: the restore reported success, and `p = ''` found no row."""
    table = ByHand(scene, partition="p")
    table.commit(table.add("a.parquet", [1, 2], value=""), table.add("b.parquet", [3], value="x"))
    opened = lk.table(scene.spark, str(scene.path))
    opened.drop_partition("p <> 'y'")
    [entry] = opened.trash()
    files = scene.files()
    with pytest.raises(Unsupported, match=r"partition column p with the text .*nothing was written"):
        opened.restore(entry.name)
    assert (scene.files(), scene.spark_records()) == (files, [])
    assert [each.name for each in opened.trash()] == [entry.name]


def commits_after(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[str]:
    """The commits of restores, as they are made; ``act`` comes just before the first."""
    made: list[str] = []

    def commit(*given: Any, **named: Any) -> int:
        made.append("commit")
        if len(made) == 1:
            act()
        return attempt(*given, **named)

    monkeypatch.setattr(restore, "attempt", commit)
    return made


def test_a_restore_of_the_table_just_before_the_commit_is_seen_by_the_next_attempt(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loss L131: a blind append conflicts with nothing, and the rows would be there twice."""
    table = three_days(scene)
    before, version = scene.spark_rows(), scene.version
    table.drop_partition("day = 1")
    [entry] = table.trash()
    calls = commits_after(monkeypatch, lambda: scene.run(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}"))
    with pytest.raises(Unsupported, match="brought its rows back"):
        table.restore(entry.name)
    assert calls == ["commit"]
    assert scene.spark_rows() == before
    assert [e.name for e in table.trash()] == [entry.name]


@pytest.mark.parametrize("statement", ["INSERT INTO {t} (day, v) VALUES (7, 7)", "OPTIMIZE {t}"])
def test_a_restore_lands_beside_other_commits(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    table = three_days(scene)
    table.drop_partition("day = 1")
    [entry] = table.trash()
    calls = commits_after(monkeypatch, lambda: scene.run(statement))
    assert table.restore(entry.name).rows == 10
    assert len(calls) == 2
    assert scene.spark.read.format("delta").load(str(scene.path)).where("day = 1").count() == 10
