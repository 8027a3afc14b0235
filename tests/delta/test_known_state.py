"""Of a large log, only what is new is read; the files of a version are those that Delta lists for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakekeeper.core.config.options import resolve
from lakekeeper.engine.delete.row_delete import delete_rows
from lakekeeper.engine.table_session import TableSession
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.testing.contents import contents
from lakekeeper_delta import known_state, rewrite
from lakekeeper_delta.known_state import add_files, all_files, parts_of
from tests.delta.by_hand import by_hand, changed, removed
from tests.delta.scene import Scene
from tests.rewrites import tasks_of

pytestmark = pytest.mark.delta

WHERES = ("p = 'x'", "p = 'y'", "k = 25", "k > 42 and p <> 'z'", "k < 0", "true", "v = 'v3'", "p is null")
STEPS = (
    "INSERT INTO {t} SELECT /*+ COALESCE(1) */ cast(id AS INT), 'x', concat('v', id) FROM range(40, 50)",
    "DELETE FROM {t} WHERE k = 25",
    "DELETE FROM {t} WHERE p = 'y'",
    "INSERT INTO {t} SELECT cast(id AS INT), null, concat('v', id) FROM range(5)",
    "UPDATE {t} SET v = 'v3' WHERE k = 3",
    "OPTIMIZE {t}",
    "DELETE FROM {t} WHERE p = 'x'",
)


@pytest.fixture(autouse=True)
def every_log_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_state, "LARGE_LOG", 0)


@pytest.fixture
def filled(scene: Scene) -> Scene:
    scene.create(
        "k INT, p STRING, v STRING",
        more="PARTITIONED BY (p)",
        properties={"delta.enableDeletionVectors": "true"},
    )
    for p, low in (("x", 0), ("x", 10), ("y", 20), ("z", 20)):
        values = f"SELECT cast(id AS INT), '{p}', concat('v', id) FROM range({low}, {low + 10})"
        scene.run(f"INSERT INTO {{t}} {values}")
    return scene


def test_the_files_of_each_version_are_those_that_delta_lists(filled: Scene) -> None:
    adapter, log = filled.adapter(), filled.log()
    session = TableSession(adapter)
    parts_of(log, log.latest())
    bases = {id(parts_of(log, log.latest()).base)}
    for step in ("", *STEPS):
        if step:
            filled.run(step)
        state = log.latest()
        listed = state.snapshot.allFiles().toDF()
        expected = {row["path"]: row for row in log.jvm.dataframe(listed).collect()}
        found = {row["path"]: row for row in all_files(log, state).collect()}
        assert found == expected, step
        assert {str(add.path()) for add in add_files(log, state, sorted(expected))} == expected.keys()
        bases.add(id(parts_of(log, state).base))
        for where in WHERES:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(known_state, "LARGE_LOG", 1 << 40)
                other = filled.adapter()
                snapshot = other.snapshot(None, where)
                covered = other.deletes.covered(snapshot, where)
            exact = "k" not in where and "v" not in where
            fresh = set() if exact else set(parts_of(log, state).touched.to_pylist())
            part, every = session.files(where), session.snapshot()
            paths, selected = (set(each.blocks.path.to_pylist()) for each in (part, snapshot))
            assert selected <= paths <= selected | fresh, (step, where)
            assert set(contents(snapshot)["blocks"]) <= set(contents(part)["blocks"]), (step, where)
            for blocks in (part, every):
                sure = adapter.deletes.covered(blocks, where)
                assert covered - fresh <= sure <= covered, (step, where)
    assert len(bases) == 1


@pytest.mark.parametrize("kept", ["a large log", "a session", "a session of before the vector"])
def test_a_remove_without_the_vector_of_the_file_removes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    """Loss L138: such a file was no longer seen, and its rows survived a ``delete`` that reported success."""
    if kept != "a large log":
        monkeypatch.setattr(known_state, "LARGE_LOG", 1 << 40)
    table = by_hand(spark, tmp_path / "t")
    whole, (_, (vector,)) = table.add("a.parquet", [1, 2]), table.vectors([0])
    session, log = TableSession(table.scene.adapter()), table.scene.log()
    if kept == "a session of before the vector":
        table.commit(whole)
        assert len(session.snapshot().blocks) == 1
        table.commit(removed(whole), changed(whole, deletionVector=vector))
    else:
        table.commit(changed(whole, deletionVector=vector))
        assert len(session.snapshot().blocks) == 1
    assert all_files(log, log.latest()).count() == 1
    table.commit(removed(whole), table.add("b.parquet", [2, 3]))
    assert sorted(row.k for row in spark.table(table.scene.sql).collect()) == [2, 2, 3]
    assert len(session.snapshot().blocks) == 2
    found = {row["path"] for row in all_files(log, log.latest()).collect()}
    assert found == {"a.parquet", "b.parquet"}
    delete_rows(session, SparkRunner(spark), "k = 2", resolve())
    assert sorted(row.k for row in spark.table(table.scene.sql).collect()) == [3]


def test_a_predicate_that_means_another_time_is_searched_again(scene: Scene) -> None:
    """Loss L100: files were removed that matched in the session's earlier time zone, and hold no match now."""
    scene.create("k INT, at TIMESTAMP", more="PARTITIONED BY (at)")
    for hour in (0, 6, 12, 18):
        scene.run(f"INSERT INTO {{t}} VALUES ({hour}, TIMESTAMP '2024-01-01 {hour:02}:00:00Z')")
    adapter, where = scene.adapter(), "at < '2024-01-01 09:00:00'"
    session = TableSession(adapter)
    assert len(session.files(where).blocks) == 2
    confs = scene.spark.conf
    confs.set("spark.sql.session.timeZone", "Etc/GMT-8")
    try:
        [later] = session.files(where).blocks.path.to_pylist()
        assert adapter.deletes.covered(session.snapshot(), where) == {later}
        delete_rows(session, SparkRunner(scene.spark), where, resolve())
    finally:
        confs.set("spark.sql.session.timeZone", "UTC")
    assert sorted(row.k for row in scene.spark.table(scene.sql).collect()) == [6, 12, 18]


PAIRS = {
    "text like the number of a column": ("p = 'item#1'", "p = 'item#2'"),
    "a comma in a text": ("p IN ('a', 'b', 'c')", "p IN ('a,b', 'c')"),
    "a column's name as a text": ("p = k", "p = 'k'"),
}


@pytest.mark.parametrize("partitioned", ["PARTITIONED BY (p)", ""], ids=["partitioned", "not"])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_predicate_that_is_printed_like_another_finds_its_own_files(
    scene: Scene, pair: str, partitioned: str
) -> None:
    """Loss L106: a delete removed the partition that an earlier call had named, unread, and left its own."""
    first, second = PAIRS[pair]
    scene.create("k STRING, p STRING", more=partitioned)
    for p in ("item#1", "item#2", "a", "b", "a,b", "c", "k", "x"):
        scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ 'x', '{p}' FROM range(10)")
    expected = sorted(row.p for row in scene.spark.table(scene.sql).where(f"NOT ({second})").collect())
    session = TableSession(scene.adapter())
    session.files(first)
    delete_rows(session, SparkRunner(scene.spark), first + " AND k = 'y'", resolve())
    delete_rows(session, SparkRunner(scene.spark), second, resolve())
    assert sorted(row.p for row in scene.spark.table(scene.sql).collect()) == expected


def test_commits_that_were_read_are_not_read_again(filled: Scene) -> None:
    """Loss: after each commit, Delta read the whole log again: 20 s of CPU at 10^6 files."""
    adapter = filled.adapter()
    session = TableSession(adapter)
    before = {where: session.files(where).blocks.path.to_pylist() for where in WHERES}
    old = sorted((filled.path / "_delta_log").glob("0*.json"))
    filled.run(STEPS[0])
    for commit in old:
        seen = commit.stat()
        commit.write_text("not JSON, and not what its checksum says".ljust(seen.st_size))
        os.utime(commit, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    now = {where: session.files(where).blocks.path.to_pylist() for where in WHERES}
    assert len(now["p = 'x'"]) == len(before["p = 'x'"]) + 1
    assert set(now["k = 25"]) - set(now["p = 'x'"]) == set(before["k = 25"])
    assert now["p = 'y'"] == before["p = 'y'"]
    whole = session.files("p = 'y'")
    assert adapter.deletes.covered(whole, "p = 'y'") == set(now["p = 'y'"])
    assert adapter.deletes.find(session.files("k = 25"), "k = 25").count() == 2


def test_a_change_of_metadata_and_many_commits_begin_a_new_base(
    filled: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled.log()
    first = parts_of(log, log.latest()).base
    filled.run("ALTER TABLE {t} ADD COLUMN w INT")
    second = parts_of(log, log.latest())
    assert second.base is not first
    monkeypatch.setattr(known_state, "MOST_COMMITS", 1)
    filled.run(STEPS[1], STEPS[4])
    assert parts_of(log, log.latest()).base is not second.base


def test_a_merge_keeps_the_version_that_it_reads(scene: Scene) -> None:
    """Its commits may leave the log while the merge runs, and other commits are looked at meanwhile."""
    scene.create("k BIGINT").run(*["INSERT INTO {t} SELECT id FROM range(10)"] * 2)
    adapter, log = scene.adapter(), scene.log()
    (task,) = tasks_of(adapter.snapshot(["k"]))
    log.latest()
    rows = rewrite.read(log, task)
    for _ in range(4):
        scene.run("INSERT INTO {t} VALUES (7)")
        log.latest()
    log.log.checkpoint(log.latest().snapshot, log.jvm.none())
    for version in range(task.read_version + 1):
        (scene.path / "_delta_log" / f"{version:020d}.json").unlink()
    made = rewrite.write(log, rows, task, "run-1")
    assert (made.rows_in, sum(output.rows for output in made.outputs)) == (20, 20)


def test_a_checkpoint_is_as_large_as_its_sidecars(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss: no table with v2 checkpoints had a large log, so that Delta read the log again for each version."""
    scene.create("k BIGINT", properties={"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"})
    scene.run("INSERT INTO {t} SELECT /*+ REPARTITION(100) */ id FROM range(1000)")
    scene.run(*["INSERT INTO {t} VALUES (1)"] * 2)
    folder = scene.path / "_delta_log"
    segment = [*folder.glob("0*2.checkpoint.*"), *folder.glob("0*3.json")]
    assert list((folder / "_sidecars").glob("*.parquet"))
    monkeypatch.setattr(known_state, "LARGE_LOG", sum(file.stat().st_size for file in segment))
    log = scene.log()
    assert parts_of(log, log.latest()).kept
    assert all_files(log, log.latest()).count() == len(list(scene.path.glob("*.parquet")))
