"""Commits between our read and our commit: who loses, what is reported, and that no deleted row reappears."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from delta.tables import IdentityGenerator

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.rebase import rebase, touched, why
from lakekeeper.errors import Conflict, Rejected, Unknown
from lakekeeper_delta import commit as commit_module
from lakekeeper_delta import json_commits
from lakekeeper_delta.native import Log
from lakekeeper_delta.spellings import Canonical
from lakekeeper_delta.table import DeltaTable
from tests.delta.by_hand import by_hand, removed
from tests.delta.scene import Scene, Step
from tests.rewrites import recluster, rewritten, tasks_of

pytestmark = [pytest.mark.delta, pytest.mark.usefixtures("merged_by")]


@pytest.fixture
def filled(scene: Scene) -> Scene:
    return scene.run(
        "CREATE TABLE {t} (k BIGINT, v STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true')",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id % 7, concat('v', id) FROM range(40)",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id % 7, concat('w', id) FROM range(40)",
    )


def _prepared(scene: Scene) -> tuple[DeltaTable, Any, Any]:
    adapter = scene.adapter()
    snapshot = adapter.snapshot(["k"])
    return adapter, snapshot, [rewritten(adapter, task) for task in tasks_of(snapshot)]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {t} VALUES (1, 'new')",
        "INSERT INTO {t} SELECT * FROM {t} WHERE k = 1",
        "ALTER TABLE {t} SET TBLPROPERTIES ('a.b'='c')",
    ],
)
def test_appends_and_properties_do_not_disturb(filled: Scene, statement: str) -> None:
    adapter, snapshot, done = _prepared(filled)
    filled.run(statement)
    rows = filled.spark_rows()
    changes = adapter.changes_since(snapshot)
    assert changes.obstacle is None
    assert not changes.removed
    assert not changes.delete_ids
    assert len(changes.winners) == 1
    adapter.commit(done, snapshot, "run-7")
    assert filled.spark_rows() == rows == filled.log_rows()
    assert adapter.changes_since(snapshot).landed("run-7") == filled.version


@pytest.mark.parametrize(
    "statement, operation",
    [
        ("DELETE FROM {t} WHERE v = 'v3'", "DELETE"),
        ("UPDATE {t} SET v = 'x' WHERE v = 'w5'", "UPDATE"),
        ("DELETE FROM {t} WHERE v LIKE 'v%'", "DELETE"),
        ("OPTIMIZE {t}", "OPTIMIZE"),
    ],
)
def test_a_changed_input_is_a_conflict_that_names_the_winner(
    filled: Scene, statement: str, operation: str
) -> None:
    adapter, snapshot, done = _prepared(filled)
    filled.run("INSERT INTO {t} VALUES (1, 'new')", statement)
    rows, winner = filled.spark_rows(), f"version {filled.version} ({operation})"
    with pytest.raises(Conflict, match="nothing was committed") as lost:
        adapter.commit(done, snapshot, "run-8")
    assert lost.value.winner == winner
    assert filled.spark_rows() == rows == filled.log_rows()
    changes = adapter.changes_since(snapshot)
    assert changes.landed("run-8") is None
    assert changes.removed or changes.delete_ids
    rebased = rebase(done, changes)
    assert not rebased.keep
    assert operation in str(why(*touched(done[0], changes), changes))
    assert bool(rebased.drop) == (operation == "OPTIMIZE"), "a replay would find no input left to replace"


def test_the_groups_without_a_conflict_commit(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (k BIGINT, p INT) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.enableDeletionVectors'='true')",
        "INSERT INTO {t} SELECT id, id % 3 FROM range(60)",
        "INSERT INTO {t} SELECT id, id % 3 FROM range(60)",
    )
    adapter, snapshot, done = _prepared(scene)
    scene.run("DELETE FROM {t} WHERE p = 1 AND k = 4")
    rows = scene.spark_rows()
    rebased = rebase(done, adapter.changes_since(snapshot))
    assert [r.task.partition for r in rebased.replay] == ['{"p":"1"}']
    adapter.discard(rebased.replay)
    commit = adapter.commit(rebased.keep, snapshot, "run-9")
    assert len(commit.removed) == 4 or len(commit.removed) > len(commit.added)
    assert scene.spark_rows() == rows == scene.log_rows()
    levels = {b.partition: b.level for b in adapter.snapshot(["k"]).blocks}
    assert levels == {'{"p":"0"}': 1, '{"p":"1"}': 0, '{"p":"2"}': 1}


def test_a_winner_within_the_commit_itself(filled: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The winner commits after our own check: Delta's conflict check decides."""
    adapter, snapshot, done = _prepared(filled)
    _between(monkeypatch, lambda: filled.run("DELETE FROM {t} WHERE v = 'v3'"))
    with pytest.raises(Conflict) as lost:
        adapter.commit(done, snapshot, "run-10")
    assert lost.value.winner == f"version {filled.version} (DELETE)"
    assert filled.log_rows() == filled.spark_rows()
    assert sum(filled.spark_rows().values()) == 79


def test_an_append_within_the_commit_itself(filled: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter, snapshot, done = _prepared(filled)
    _between(monkeypatch, lambda: filled.run("INSERT INTO {t} VALUES (1, 'new')"))
    assert adapter.commit(done, snapshot, "run-11").version == filled.version
    assert sum(filled.spark_rows().values()) == 81


def _between(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Run ``act`` after the inputs were checked and the transaction started, before it commits."""
    real = commit_module.operation_of

    def operation(*args: Any) -> Any:
        act()
        return real(*args)

    monkeypatch.setattr(commit_module, "operation_of", operation)


@pytest.mark.parametrize(
    "statement, obstacle",
    [
        ("ALTER TABLE {t} ADD COLUMN x INT", Code.SCHEMA_CHANGED),
        ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode'='name')", Code.SCHEMA_CHANGED),
        ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking'='true')", Code.SCHEMA_CHANGED),
        (
            lambda scene: scene.builder("replace").addColumn("k", "BIGINT").addColumn("v", "STRING"),
            Code.TABLE_RECREATED,
        ),
    ],
)
def test_obstacles(filled: Scene, statement: Step, obstacle: Code) -> None:
    adapter, snapshot, done = _prepared(filled)
    filled.run(statement)
    rows = filled.spark_rows()
    changes = adapter.changes_since(snapshot)
    assert changes.obstacle == Reason.of(obstacle)
    with pytest.raises(Conflict):
        adapter.commit(done, snapshot, "run-12")
    assert filled.spark_rows() == rows


def test_a_table_created_again_at_the_same_path(filled: Scene) -> None:
    import shutil

    adapter, snapshot, done = _prepared(filled)
    shutil.rmtree(filled.path)
    filled.run("CREATE TABLE {t} (k BIGINT, v STRING) USING delta", "INSERT INTO {t} VALUES (1, 'a')")
    assert adapter.changes_since(snapshot).obstacle == Reason.of(Code.TABLE_RECREATED)
    with pytest.raises(Conflict, match="dropped and created again"):
        adapter.commit(done, snapshot, "run-13")
    assert sum(filled.spark_rows().values()) == 1


def test_comments_and_identity_marks_are_no_obstacle(scene: Scene) -> None:
    scene.run(
        lambda scene: (
            scene.builder()
            .addColumn("i", "BIGINT", generatedAlwaysAs=IdentityGenerator())
            .addColumn("k", "BIGINT")
        ),
        "INSERT INTO {t} (k) SELECT id FROM range(30)",
    )
    adapter, snapshot, done = _prepared(scene)
    scene.run(
        "INSERT INTO {t} (k) SELECT id FROM range(30)", "ALTER TABLE {t} ALTER COLUMN k COMMENT 'hello'"
    )
    rows = scene.spark_rows()
    assert adapter.changes_since(snapshot).obstacle is None
    adapter.commit(done, snapshot, "run-14")
    assert scene.spark_rows() == rows
    assert scene.run("INSERT INTO {t} (k) VALUES (5)").spark.sql(
        f"SELECT count(DISTINCT i) = count(*) FROM {scene.sql}"
    ).first() == (True,)


def test_what_delta_refuses_is_rejected(filled: Scene) -> None:
    adapter, snapshot, done = _prepared(filled)
    doubled = [done[0], done[0]]
    with pytest.raises(Rejected, match="nothing was written"):
        adapter.commit(doubled, snapshot, "run-15")
    assert adapter.changes_since(snapshot).landed("run-15") is None


def test_an_error_after_the_log_was_written_is_unknown(
    filled: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter, snapshot, done = _prepared(filled)
    real = Log.transaction

    class Torn:
        """A transaction that commits but whose response is lost."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def commit(self, *args: Any) -> int:
            self.inner.commit(*args)
            raise OSError("connection reset")

    monkeypatch.setattr(Log, "transaction", lambda log, state: Torn(real(log, state)))
    files = filled.data_files()
    with pytest.raises(Unknown, match="may have succeeded"):
        adapter.commit(done, snapshot, "run-16")
    assert adapter.changes_since(snapshot).landed("run-16") == filled.version
    assert filled.data_files() == files
    assert filled.log_rows() == filled.spark_rows()


def test_our_own_runs_are_winners_with_their_id(filled: Scene) -> None:
    snapshot = filled.adapter().snapshot(["k"])
    recluster(filled, run_id="mine-1")
    changes = filled.adapter().changes_since(snapshot)
    assert [w.run_id for w in changes.winners] == ["mine-1"]
    assert str(changes.winners[0]) == "version 3 (OPTIMIZE, lakekeeper run mine-1)"
    assert changes.removed == set(snapshot.blocks.path.to_pylist())


def test_a_path_that_looks_like_a_pattern(spark: Any, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path / "t[1] {a,b} ä%20*")
    scene.run("CREATE TABLE {t} (k BIGINT) USING delta", "INSERT INTO {t} VALUES (1)")
    adapter, snapshot, done = _prepared(scene)
    scene.run("INSERT INTO {t} VALUES (2)")
    adapter.commit(done, snapshot, "run-17")
    assert sum(scene.spark_rows().values()) == 2
    more = [rewritten(adapter, task) for task in tasks_of(adapter.snapshot(["k"]))]
    files = scene.data_files()
    adapter.discard(more)
    assert len(files) - len(scene.data_files()) == len(more)


@pytest.mark.parametrize("large", [0, json_commits.LARGE], ids=["by a job", "by the driver"])
@pytest.mark.parametrize("spelled", ["d//a.parquet", "./d/a.parquet", "d/x/../a.parquet"])
def test_a_file_that_is_removed_under_another_spelling(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelled: str, large: int
) -> None:
    """Delta normalizes the paths of a log when it reads its state, and so must the check for conflicts."""
    monkeypatch.setattr(json_commits, "LARGE", large)
    table = by_hand(spark, tmp_path / "t")
    file = table.add("d/a.parquet", (1, 2))
    table.commit(file, table.add("b.parquet", (3, 4)))
    adapter, snapshot, done = _prepared(table.scene)
    table.commit(removed({"add": {**file["add"], "path": spelled}}))
    changes = adapter.changes_since(snapshot)
    assert changes.removed == {"d/a.parquet"}
    with pytest.raises(Conflict):
        adapter.commit(done, snapshot, "run-1")
    assert table.scene.spark_records(columns="k") == [{"k": 3}, {"k": 4}]
    assert {block.path for block in adapter.snapshot(["k"]).blocks} == {"b.parquet"}


def test_a_running_stream_sees_no_row_twice(filled: Scene, tmp_path: Path) -> None:
    target, marks = tmp_path / "copy", tmp_path / "marks"

    def pump() -> None:
        stream = filled.spark.readStream.format("delta").load(str(filled.path))
        query = (
            stream.writeStream.format("delta")
            .option("checkpointLocation", str(marks))
            .trigger(availableNow=True)
            .start(str(target))
        )
        query.awaitTermination()

    pump()
    recluster(filled)
    pump()
    filled.run("INSERT INTO {t} VALUES (1, 'new')")
    recluster(filled, level=2)
    pump()
    assert Scene(filled.spark, target).spark_rows() == filled.spark_rows()


def test_a_check_reads_only_the_commits_since_the_previous_check(
    filled: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loss L19: each check read all commits since the run began, thousands of them beside a stream."""
    adapter, read, real = filled.adapter(), [], json_commits.parsed
    snapshot = adapter.snapshot(["k"])
    adapter.changes_since(snapshot)

    def noted(version: int, text: str, canonical: Canonical) -> json_commits.Since:
        read.append(version)
        return real(version, text, canonical)

    monkeypatch.setattr(json_commits, "parsed", noted)
    first = filled.version + 1
    for n in range(3):
        filled.run(f"INSERT INTO {{t}} VALUES ({n}, 'x')")
        assert adapter.changes_since(snapshot).version == filled.version
    assert read == [first, first + 1, first + 2]
