"""A session reads the log once for all verbs of a pass, and never uses a snapshot older than a new read would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.engine.delete.row_delete import delete_rows
from lakekeeper.engine.merge.delete_files import merge_deletes
from lakekeeper.engine.merge.job import maintain
from lakekeeper.engine.merge.planning import plan_for
from lakekeeper.engine.table_session import TableSession
from lakekeeper.engine.trash.drop_partition import drop_rows
from lakekeeper.testing.contents import contents
from lakekeeper.testing.deletes import MemoryDeletes
from lakekeeper.testing.lake import Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.notes import MemoryNotes
from tests.engine.scene import Scene, groups_apart, overlapping, rows


def one_pass(scene: Scene, session: TableSession) -> list[bool]:
    """Ranking and the verbs of an automatic pass; returns which of them changed the table."""
    plan_for(session, scene.request("ranges"), scene.clock)
    reports = [
        maintain(session, scene.runner, scene.request(policy), clock=scene.clock)
        for policy in ("ranges", "sizes")
    ]
    reports.append(merge_deletes(session, scene.runner, scene.request("deletes"), clock=scene.clock))
    return [report.changed for report in reports]


def settled(scene: Scene) -> Scene:
    """The same scene once no verb finds anything to do."""
    for _ in range(20):
        if not any(one_pass(scene, TableSession(scene.adapter))):
            return scene
    raise AssertionError("the table never settles")


def test_an_idle_pass_reads_the_log_once() -> None:
    scene = settled(overlapping())
    before = scene.table.touched.snapshots
    assert one_pass(scene, TableSession(scene.adapter)) == [False, False, False]
    assert scene.table.touched.snapshots - before == 1


def test_a_merge_that_commits_reads_the_log_once() -> None:
    scene = overlapping()
    report = maintain(TableSession(scene.adapter), scene.runner, scene.request("ranges"), clock=scene.clock)
    assert report.changed
    assert scene.table.touched.snapshots == 1
    # The depth after the merge equals that of a full read.
    assert report.depth_after == scene.plan("ranges").depth


def test_a_conflict_needs_no_further_read() -> None:
    scene = groups_apart(3)
    scene.adapter.faults.races.append(lambda: scene.table.delete("k = 1001"))
    session = TableSession(scene.adapter)
    report = maintain(session, scene.runner, scene.request("ranges"), clock=scene.clock)
    assert report.changed
    assert report.conflicts
    assert scene.table.touched.snapshots == 1
    assert contents(session.snapshot()) == contents(scene.adapter.snapshot())


def test_commits_of_others_are_seen() -> None:
    scene = overlapping(2)
    session = TableSession(scene.adapter)
    assert len(session.snapshot().blocks) == 2
    scene.table.append(rows(1, 2))
    assert len(session.snapshot().blocks) == 3
    scene.table.set_key([])
    assert session.snapshot().key is None, "a change of metadata needs a full read"
    assert scene.table.touched.snapshots == 2


def test_an_adapter_that_cannot_refresh_is_read_again() -> None:
    class Plain(MemoryAdapter):
        def refresh(self, snapshot: Snapshot, columns: object = None) -> Snapshot | None:
            return None

    scene = overlapping(2, settings=Settings())
    session = TableSession(Plain(scene.table))
    first = session.snapshot()
    assert session.snapshot() is not first
    assert scene.table.touched.snapshots == 2


def test_a_part_of_the_table_is_never_cached() -> None:
    scene = overlapping(2)
    session = TableSession(scene.adapter)
    assert not session.snapshot(["k"], "k = 1").complete
    assert session.snapshot(["k"]).complete


def test_calls_on_a_part_of_the_table_read_the_log_once() -> None:
    """Loss: a delete of one key, and a merge of one range, listed every file of the table once or twice."""
    scene = overlapping()
    session = TableSession(scene.adapter)
    request = replace(scene.request("full"), where="k < 30")
    assert maintain(session, scene.runner, request, clock=scene.clock).changed
    for where in ("k = 7", "k = 8"):
        report = delete_rows(session, scene.runner, where, resolve(), clock=scene.clock)
        assert report.deleted_rows_count == 1
    drop_rows(session, scene.runner, "k > 50", resolve(), clock=scene.clock)
    assert scene.table.touched.snapshots == 1
    for where in ("k = 9", "k > 40", "k = 7"):
        assert contents(session.files(where)) == contents(scene.adapter.snapshot(where=where))


def test_a_delete_does_not_need_the_key_of_the_snapshot_that_is_kept() -> None:
    scene = overlapping()
    session = TableSession(scene.adapter)
    session.snapshot(["v", "k"])
    scene.table.drop_column("v")
    report = delete_rows(session, scene.runner, "k = 7", resolve(), clock=scene.clock)
    assert report.deleted_rows_count == 1


def test_a_look_that_fails_does_not_cost_the_snapshot_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object) -> None:
        raise OSError("throttled")

    scene = overlapping(2)
    session = TableSession(scene.adapter)
    session.snapshot()
    with monkeypatch.context() as patched:
        patched.setattr(MemoryAdapter, "refresh", unreachable)
        for _ in range(2):
            with pytest.raises(OSError):
                session.snapshot()
    session.snapshot()
    assert scene.table.touched.snapshots == 1


def test_the_cache_is_bounded_and_can_be_cleared() -> None:
    scene = overlapping(2)
    session = TableSession(scene.adapter)
    for columns in (None, ["k"], ["v"], ["v", "k"]):
        session.snapshot(columns)
    assert set(session.kept) == {("v",), ("v", "k")}
    blocks = [kept.blocks for kept in session.kept.values()]
    parts: list[Any] = [getattr(each, part.name) for each in blocks for part in fields(each)]
    arrays = [each for part in parts for each in (part if isinstance(part, tuple) else (part,))]
    # Several columns of defaults are one array.
    sizes = {id(each): each.nbytes for each in arrays if hasattr(each, "nbytes")}
    assert session.nbytes == sum(sizes.values())
    session.forget()
    assert session.nbytes == 0
    before = session.snapshot().blocks.nbytes
    plan_for(session, scene.request("adaptive"), scene.clock)
    once = session.nbytes
    assert once > before  # the indexes of a plan count, too
    plan_for(session, scene.request("adaptive"), scene.clock)
    assert session.nbytes == once


def test_one_look_reads_the_log_once_and_the_next_one_sees_later_commits() -> None:
    class Counting(MemoryAdapter):
        looks = 0

        def refresh(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> Snapshot | None:
            self.looks += 1
            return super().refresh(snapshot, columns)

        def properties(self) -> Mapping[str, str]:
            self.looks += 1
            return super().properties()

    scene = overlapping(2)
    adapter = Counting(scene.table)
    session = TableSession(adapter)
    session.snapshot()
    with session.one_look():
        seen = {len(session.snapshot().blocks)}
        scene.table.append(rows(1, 2))
        seen |= {len(session.snapshot().blocks) for _ in range(3)}
        assert session.properties() == session.properties()
    assert seen == {2}, "all plans of one look use one snapshot"
    assert adapter.looks == 2
    with session.one_look():
        assert len(session.snapshot().blocks) == 3


def test_a_pass_continues_from_the_snapshots_of_the_previous_pass() -> None:
    scene = settled(overlapping())
    first = TableSession(scene.adapter)
    one_pass(scene, first)
    before = scene.table.touched.snapshots
    second = TableSession(scene.adapter)
    second.resume(first.kept)
    assert one_pass(scene, second) == [False, False, False]
    assert scene.table.touched.snapshots == before
    scene.table.append(rows(1, 2))
    third = TableSession(scene.adapter)
    third.resume(second.kept)
    assert contents(third.snapshot()) == contents(scene.adapter.snapshot())


def test_a_snapshot_without_dangling_delete_files_is_not_cleaned_up_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The call does not even take a lease, until a commit may have changed that.

    A table whose metadata does not show it takes one lease, and no other for the same snapshot.
    """

    class Watched(MemoryAdapter):
        registered = 0

        @property
        def notes(self) -> MemoryNotes:
            self.registered += 1
            return super().notes

    scene = settled(overlapping())
    adapter = Watched(scene.table)
    session = TableSession(adapter)
    request = scene.request("deletes", options={"delete-ratio-threshold": 0.9, "queries-per-hour": 0})

    def notes_of_a_call() -> int:
        before = adapter.registered
        assert not merge_deletes(session, scene.runner, request, clock=scene.clock).changed
        return adapter.registered - before

    assert notes_of_a_call() == 0
    scene.table.delete("k = 1")
    assert notes_of_a_call() == 0
    monkeypatch.setattr(MemoryDeletes, "may_tidy", lambda *_: True)
    first, second = notes_of_a_call(), notes_of_a_call()
    assert second == 0 < first
    scene.table.append(rows(1, 2))
    assert notes_of_a_call() == first
