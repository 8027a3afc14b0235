"""A session reads the log once for all verbs of a pass, and never works on an older snapshot than a read would show."""

from __future__ import annotations

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.engine.merge.delete_files import merge_deletes
from lakekeeper.engine.merge.job import maintain
from lakekeeper.engine.merge.planning import plan_for
from lakekeeper.engine.table_session import TableSession
from lakekeeper.testing.contents import contents
from lakekeeper.testing.lake import Settings
from lakekeeper.testing.memory import MemoryAdapter
from tests.engine.scene import Scene, groups_apart, overlapping, rows


def one_pass(scene: Scene, session: TableSession) -> list[bool]:
    """Ranking and the verbs of an automatic pass; what each of them changed."""
    plan_for(session, scene.request("ranges"), scene.clock)
    reports = [
        maintain(session, scene.runner, scene.request(policy), clock=scene.clock)
        for policy in ("ranges", "sizes")
    ]
    reports.append(merge_deletes(session, scene.runner, scene.request("deletes"), clock=scene.clock))
    return [report.changed for report in reports]


def settled(scene: Scene) -> Scene:
    """The same once no verb finds anything to do."""
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
    # The depth afterwards is that of a whole read.
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
    assert session.snapshot().key is None, "a change of metadata needs a whole read"
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


def test_a_part_of_the_table_is_never_kept() -> None:
    scene = overlapping(2)
    session = TableSession(scene.adapter)
    assert not session.snapshot(["k"], "k = 1").complete
    assert session.snapshot(["k"]).complete


def test_what_is_kept_is_bounded_and_can_be_forgotten() -> None:
    scene = overlapping(2)
    session = TableSession(scene.adapter)
    for columns in (None, ["k"], ["v"], ["v", "k"]):
        session.snapshot(columns)
    assert session.nbytes == sum(scene.adapter.snapshot(c).blocks.nbytes for c in (["v"], ["v", "k"]))
    session.forget()
    assert session.nbytes == 0
