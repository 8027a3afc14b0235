"""A log that was rolled back, or replaced by a copy that another writer continued, under the same table id."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import lakekeeper as lk
from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.reason_code import Code
from lakekeeper.engine.delete.row_delete import delete_rows
from lakekeeper.engine.table_session import TableSession
from lakekeeper.errors import Conflict
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.testing.contents import contents
from lakekeeper_delta import known_state
from lakekeeper_delta.known_state import all_files, parts_of
from lakekeeper_delta.log_lineage import follows
from tests.delta.scene import Scene
from tests.faults.storage import faulty_storage
from tests.rewrites import rewritten, tasks_of

pytestmark = pytest.mark.delta

LOG = "_delta_log"
REFUSED = "rolled back or replaced|does not show what changed"
Way = Callable[[Scene], None]


def insert(scene: Scene, low: int, rows: int = 3) -> Scene:
    return scene.run(
        f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ id, 'v', now() FROM range({low}, {low + rows})"
    )


def checkpoint(scene: Scene) -> None:
    log = scene.log()
    log.log.checkpoint(log.latest().snapshot, log.jvm.none())


def keys(scene: Scene) -> list[int]:
    """The keys of all rows, as two readers see them."""
    by_spark = sorted(row["k"] for row in scene.spark_records(columns="k"))
    rust = QueryBuilder().register("t", DeltaTable(str(scene.path))).execute("SELECT k FROM t ORDER BY k")
    assert by_spark == pa.table(rust.read_all())["k"].to_pylist()
    return by_spark


@dataclass
class Two:
    """Version 3 of a table, and a copy of its version 2 that goes on by itself."""

    table: Scene
    copy: Scene

    def replace(self, way: Way, *more: str) -> None:
        """Replace the table's log by that of the copy, with the times of its files, after the copy went its way."""
        way(self.copy)
        self.copy.run(*more)
        shutil.copytree(
            self.copy.path, self.table.path, ignore=shutil.ignore_patterns(LOG), dirs_exist_ok=True
        )
        shutil.rmtree(self.table.path / LOG)
        shutil.copytree(self.copy.path / LOG, self.table.path / LOG)
        if way is cleaned:
            for version in range(4):
                (self.table.path / LOG / f"{version:020}.json").unlink()


@pytest.fixture(params=["", "with vectors"])
def two(request: pytest.FixtureRequest, scene: Scene) -> Two:
    properties = {"delta.enableDeletionVectors": "true"} if request.param else {}
    return _two(scene, properties)


@pytest.fixture
def plain(scene: Scene) -> Two:
    return _two(scene, {"delta.enableDeletionVectors": "true"})


def _two(scene: Scene, properties: dict[str, str]) -> Two:
    scene.create(
        "k BIGINT, v STRING, at TIMESTAMP", properties={"delta.checkpointInterval": "100", **properties}
    )
    insert(insert(scene, 0), 10)
    checkpoint(scene)
    copy = Scene(scene.spark, scene.path.with_name("copy"))
    shutil.copytree(scene.path, copy.path)
    return Two(insert(scene, 20), copy)


def same_version(copy: Scene) -> None:
    insert(copy, 30)


def behind(copy: Scene) -> None:
    """The copy stays at version 2."""


def ahead(copy: Scene) -> None:
    for low in (30, 40, 50):
        insert(copy, low)


def ahead_of_a_checkpoint(copy: Scene) -> None:
    insert(copy, 30)
    insert(copy, 40)
    checkpoint(copy)
    insert(copy, 50)


def cleaned(copy: Scene) -> None:
    """The same, and log cleanup then removes the commits before the checkpoint."""
    ahead_of_a_checkpoint(copy)


WAYS = (same_version, behind, ahead, ahead_of_a_checkpoint, cleaned)
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@pytest.mark.parametrize("large", [False, True], ids=["small log", "large log"])
@each_way
def test_a_delete_after_the_log_was_replaced_finds_every_row(
    two: Two, way: Way, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loss L161: files of the new log were never searched, and the delete left their rows and reported success."""
    if large:
        monkeypatch.setattr(known_state, "LARGE_LOG", 0)
    adapter, log = two.table.adapter(), two.table.log()
    session = TableSession(adapter)
    session.snapshot(("k",), "k > 0")
    all_files(log, log.latest()).count()
    two.replace(way)
    found = session.snapshot(("k",))
    assert contents(found) == contents(two.table.adapter().snapshot(["k"]))
    state = log.latest()
    live = {row["path"] for row in log.jvm.dataframe(state.snapshot.allFiles().toDF()).collect()}
    assert {row["path"] for row in all_files(log, state).collect()} == live
    delete_rows(session, SparkRunner(two.table.spark), "k % 10 = 1", resolve())
    assert {k % 10 for k in keys(two.table)} == {0, 2}


@each_way
def test_rows_expire_by_the_new_log(plain: Two, way: Way) -> None:
    """Loss L161, as the owner of a table sees it: rows past their retention stayed."""
    rule = {"lifecycle.column": "at", "lifecycle.retain": "30d"}
    table = lk.table(plain.table.spark, plain.table.sql)
    assert not table.expire_rows(options=rule).changed
    plain.replace(way, "INSERT INTO {t} VALUES (1000, 'old', TIMESTAMP '2001-01-01 00:00:00')")
    assert table.expire_rows(options=rule).deleted_rows_count == 1
    assert max(keys(plain.table)) < 100


@each_way
def test_a_rewrite_planned_for_the_old_log_is_dropped(plain: Two, way: Way) -> None:
    adapter = plain.table.adapter()
    snapshot = adapter.snapshot(["k"])
    done = [rewritten(adapter, task) for task in tasks_of(snapshot)]
    assert adapter.changes_since(snapshot).obstacle is None
    plain.replace(way)
    before, version, files = keys(plain.table), plain.table.version, plain.table.data_files()
    for _ in range(2):
        obstacle = adapter.changes_since(snapshot).obstacle
        assert obstacle is not None
        assert obstacle.code == (Code.LOG_INCOMPLETE if way is cleaned else Code.LOG_REPLACED)
        with pytest.raises(Conflict, match=REFUSED):
            adapter.commit(done, snapshot, "run-1")
        # Another look at the same log must not make the old one fit.
        later = adapter.snapshot(["k"])
        assert adapter.changes_since(later).obstacle is None
    assert (plain.table.version, plain.table.data_files()) == (version, files)
    assert keys(plain.table) == before


def test_what_was_planned_before_the_logs_parted_is_committed(plain: Two) -> None:
    """Both logs have its commit; what the old one had after it is not counted."""
    parted = Two(plain.copy, plain.table)
    adapter = parted.table.adapter()
    snapshot = adapter.snapshot(["k"])
    done = [rewritten(adapter, task) for task in tasks_of(snapshot)]
    parted.table.run("DELETE FROM {t} WHERE k = 1")
    assert adapter.changes_since(snapshot).delete_ids
    parted.replace(ahead)
    before, changes = keys(parted.table), adapter.changes_since(snapshot)
    assert changes.obstacle is None
    assert not changes.removed | changes.delete_ids.keys()
    assert [winner.version for winner in changes.winners] == [3, 4, 5, 6]
    adapter.commit(done, snapshot, "run-1")
    assert keys(parted.table) == before


@each_way
def test_a_delete_searched_in_the_old_log_is_not_committed(two: Two, way: Way) -> None:
    """On a log that had gone back, it would also have left a gap."""
    adapter, runner = two.table.adapter(), SparkRunner(two.table.spark)
    snapshot = adapter.snapshot()
    hits = runner.hold(adapter.deletes.find(snapshot, "k % 10 = 1"))
    prepared = [adapter.deletes.prepare(hits, (), snapshot, "run-1")]
    two.replace(way)
    before, version = keys(two.table), two.table.version
    with pytest.raises(Conflict, match=REFUSED):
        adapter.deletes.delete(prepared, snapshot, "run-1", "k % 10 = 1")
    assert two.table.version == version
    assert keys(two.table) == before


def test_an_old_version_is_read_from_the_new_log(plain: Two) -> None:
    """An undo and a restore read earlier versions, and these were kept from the old log."""
    log = plain.table.log()
    before = log.latest()
    plain.replace(ahead)
    log.latest()
    old = log.at(3, before.table_uuid)
    assert old.log_mark != before.log_mark
    assert sorted(row.k for row in log.scan(old, old.snapshot.allFiles().collectAsList()).collect()) == [
        *range(3),
        *range(10, 13),
        *range(30, 33),
    ]


def test_a_refresh_without_a_commit_asks_for_no_more_than_the_newest_version(plain: Two) -> None:
    adapter, log = plain.table.adapter(), plain.table.log()
    snapshot = adapter.snapshot(["k"])

    def calls_of(act: Callable[[], object]) -> list[str]:
        storage.arm(plain.table.path, "open list status")
        act()
        return storage.disarm()

    with faulty_storage(plain.table.spark) as storage:
        log.latest()
        assert calls_of(lambda: adapter.refresh(snapshot, ["k"])) == calls_of(log.latest)
    assert adapter.refresh(snapshot, ["k"]) is snapshot


@pytest.mark.parametrize("way", [same_version, ahead, ahead_of_a_checkpoint], ids=lambda way: way.__name__)
def test_a_log_that_goes_on_is_read_on(plain: Two, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a refresh nor a large log opens what was read before."""
    monkeypatch.setattr(known_state, "LARGE_LOG", 0)
    adapter, log = plain.table.adapter(), plain.table.log()
    base = parts_of(log, log.latest()).base
    snapshot = adapter.snapshot(["k"])
    old = {path.name for path in (plain.table.path / LOG).iterdir()}
    way(plain.table)
    with faulty_storage(plain.table.spark) as storage:
        log.latest()
        storage.arm(plain.table.path, "open")
        found = adapter.refresh(snapshot, ["k"])
        assert parts_of(log, log.latest()).base is base
        opened = {Path(call.split()[-1]).name for call in storage.disarm()}
    assert found is not None
    assert contents(found) == contents(plain.table.adapter().snapshot(["k"]))
    assert not opened & old


def test_a_commit_that_is_gone_from_the_log_decides_nothing(plain: Two) -> None:
    """The whole table is read, and nothing is committed that was planned for it."""
    adapter, log = plain.table.adapter(), plain.table.log()
    snapshot = adapter.snapshot(["k"])
    done = [rewritten(adapter, task) for task in tasks_of(snapshot)]
    insert(plain.table, 30)
    checkpoint(plain.table)
    for version in range(4):
        (plain.table.path / LOG / f"{version:020}.json").unlink()
    before = keys(plain.table)
    state = log.latest()
    assert follows(log, state, state.version, state.log_mark)
    assert follows(log, state, 3, snapshot.log_mark) is None
    assert adapter.refresh(snapshot, ["k"]) is None
    with pytest.raises(Conflict, match="does not show what changed"):
        adapter.commit(done, snapshot, "run-1")
    later = adapter.snapshot(["k"])
    assert adapter.refresh(later, ["k"]) is later
    adapter.commit([rewritten(adapter, task) for task in tasks_of(later)], later, "run-2")
    assert keys(plain.table) == before
    newest = adapter.snapshot(["k"])
    insert(plain.table, 40)
    assert adapter.refresh(newest, ["k"]) is not None


def test_the_base_of_a_large_log_is_replaced_with_its_files(
    plain: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log cleanup deletes the checkpoint that the base was built from; a lookup of its files then failed."""
    monkeypatch.setattr(known_state, "LARGE_LOG", 0)
    log = plain.table.log()
    checkpoint(plain.table)
    first = parts_of(log, log.latest()).base  # nothing is read yet
    insert(plain.table, 30)
    checkpoint(plain.table)
    insert(plain.table, 40)
    for path in (plain.table.path / LOG).glob("0*"):
        if path.name < f"{3:020}.crc" or path.name.startswith(f"{3:020}.checkpoint"):
            path.unlink()
    parts = parts_of(log, log.latest())
    assert parts.base is not first
    assert all_files(log, log.latest()).count() == 5
