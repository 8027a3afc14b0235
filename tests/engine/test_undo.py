"""Undone runs of maintenance: the files come back as they were, and no user's commit is lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.report import UndoReport
from lakekeeper.core.model.run_name import RunName
from lakekeeper.core.units import HOUR_MS
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.state.leases import VACUUM, Intent, register, registered
from lakekeeper.engine.trash.entries import entries
from lakekeeper.engine.trash.restore_files import restore_files
from lakekeeper.engine.undo import undo
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from lakekeeper.errors import NotFound, NotSent, OptionError, Rejected, UndoError, Unknown
from lakekeeper.spi import Observer, Reversal, Undone
from lakekeeper.testing.lake import Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.undos import MemoryUndos
from tests.engine.scene import IN_PARTS, ReadOnly, Scene, groups_apart, intent, overlapping, rows
from tests.observers import once_at


@pytest.fixture(params=[Settings(), Settings(row_deletes=False, linear=False)], ids=["masks", "copies"])
def scene(request: pytest.FixtureRequest) -> Scene:
    made = overlapping(settings=request.param)
    made.table.delete("k = 7")
    return made


def undone(scene: Scene, run: str, observer: Observer | None = None, **given: Any) -> UndoReport:
    adapter, clock = MemoryAdapter(scene.table), clock_of(scene)
    options = resolve(given.pop("options", None))
    return undo(adapter, run, options, observer=observer, clock=clock, **given)


def clock_of(scene: Scene) -> Clock:
    return Clock(now_ms=lambda: scene.table.now_ms, wait=scene.pauses.append)


def refused(scene: Scene, run: str, error: type[Exception] = UndoError) -> None:
    """Assert that the run cannot be undone, and that the attempt writes and reads nothing."""

    def act() -> None:
        with pytest.raises(error):
            undone(scene, run)

    scene.untouched(act)


def files(scene: Scene) -> dict[str, object]:
    return files_at(scene, scene.table.current.number)


def files_at(scene: Scene, version: int) -> dict[str, object]:
    return dict(scene.table.version(version).files)


def two_commits(scene: Scene, between: Callable[[], object] = lambda: None) -> None:
    """An operation ``abc`` of two commits; the second merges the outputs of the first."""
    for number, largest in enumerate((20, 60), start=1):
        scene.run("full", options={"max-rows-per-file": largest})
        scene.table.versions[-1] = replace(scene.table.current, run_id=f"abc-{number}")
        if number == 1:
            between()


def swept(scene: Scene, observer: Observer | None = None, **given: Any) -> int:
    request = VacuumRequest(resolve({"retain-last": 1}), age_ms=0, allow_unsafe=True, **given)
    return vacuum(scene.adapter, request, observer=observer, clock=clock_of(scene)).deleted_files_count


def undone_by(scene: Scene) -> str:
    """The run id of the newest version."""
    return scene.table.current.run_id


def test_one_commit_undoes_all_commits_of_an_operation() -> None:
    scene = groups_apart()
    before, rows_before = files(scene), scene.table.fingerprint()
    report = scene.run("ranges", options=IN_PARTS)
    assert len(report.run_ids) > 1
    after, commits = files(scene), scene.table.touched.commits
    done = undone(scene, report.run_ids[0].partition("-")[0])
    assert files(scene) == before
    assert scene.table.fingerprint() == rows_before
    assert scene.table.touched.commits == commits + 1
    assert done.status == "done"
    assert done.restored_data_files_count == len(set(before) - set(after))
    assert done.removed_data_files_count == len(set(after) - set(before))
    assert done.version_after == scene.table.current.number
    assert scene.table.leftovers() == set()
    assert registered(scene.adapter.notes) == {}


def test_the_newest_commit_of_an_operation_can_be_undone_alone() -> None:
    scene = groups_apart()
    report = scene.run("ranges", options=IN_PARTS)
    before = files_at(scene, scene.table.current.number - 1)
    undone(scene, report.run_ids[-1])
    assert files(scene) == before


def test_where_an_operation_merged_its_own_files_again_the_first_inputs_come_back(scene: Scene) -> None:
    before, rows_before = files(scene), scene.table.fingerprint()
    two_commits(scene)
    undone(scene, "abc")
    assert files(scene) == before
    assert scene.table.fingerprint() == rows_before


def test_a_delete_between_the_commits_of_an_operation_is_not_lost() -> None:
    scene = overlapping()
    two_commits(scene, lambda: scene.table.delete("k = 3"))
    refused(scene, "abc")
    before = files_at(scene, scene.table.current.number - 1)
    undone(scene, "abc-2")
    assert files(scene) == before


def test_an_earlier_commit_whose_files_were_merged_again_cannot_be_undone(scene: Scene) -> None:
    first = scene.run("full", options={"max-rows-per-file": 20})
    scene.run("full", options={"max-rows-per-file": 60})
    refused(scene, first.run_ids[0])


def test_an_undo_can_be_undone_and_repeated(scene: Scene) -> None:
    before = files(scene)
    [run] = scene.run("full").run_ids
    merged = files(scene)
    first = undone(scene, run)
    undone(scene, first.run_id)
    assert files(scene) == merged
    undone(scene, run)
    assert files(scene) == before


def test_a_second_undo_commits_nothing(scene: Scene) -> None:
    [run] = scene.run("full").run_ids
    first = undone(scene, run)
    commits = scene.table.touched.commits
    again = undone(scene, run)
    assert (again.status, again.version_after) == ("idle", first.version_after)
    assert scene.table.touched.commits == commits


def test_the_next_pass_merges_restored_files_again(scene: Scene) -> None:
    """An undo marks nothing: to keep the layout, exclude the table or set other thresholds."""
    [run] = scene.run("ranges").run_ids
    merged = len(files(scene))
    undone(scene, run)
    again = scene.run("ranges")
    assert again.changed
    assert len(files(scene)) == merged


@pytest.mark.parametrize("rival", ["k = 3", "k >= 0"], ids=["a row", "all rows"])
def test_a_delete_between_check_and_commit_wins(scene: Scene, rival: str) -> None:
    [run] = scene.run("full").run_ids
    with pytest.raises(UndoError, match="DELETE"):
        undone(scene, run, once_at("before_commit", lambda: scene.table.delete(rival)))
    assert scene.table.current.operation == "DELETE"
    assert not [row for row in scene.table.rows() if row["k"] == 3]
    assert registered(scene.adapter.notes) == {} or all(
        intent.ended for intent in registered(scene.adapter.notes).values()
    )


def test_an_append_between_check_and_commit_stays(scene: Scene) -> None:
    [run] = scene.run("full").run_ids
    undone(scene, run, once_at("before_commit", lambda: scene.table.append(rows(99))))
    assert [row for row in scene.table.rows() if row["k"] == 99]


def test_a_commit_that_is_refused_leaves_the_layout(scene: Scene) -> None:
    [run] = scene.run("full").run_ids
    merged = files(scene)
    adapter = MemoryAdapter(scene.table)
    adapter.faults.outcomes.extend(["rejected"] * 3)  # a refusal is tried twice more
    with pytest.raises(Rejected):
        undo(adapter, run, resolve(), clock=clock_of(scene))
    assert files(scene) == merged


@pytest.mark.parametrize(
    "error, raised",
    [(NotSent("the log cannot be read"), None), (RuntimeError("connection reset"), Unknown)],
    ids=["not sent", "neither"],
)
def test_an_error_of_the_commit_is_judged_as_that_of_any_commit(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception] | None
) -> None:
    """One that occurred before the commit was sent ended the undo, and any other was raised as if nothing was sent."""
    before = files(scene)
    [run] = scene.run("full").run_ids
    real, errors = MemoryUndos.commit, [error, error]

    def commit(self: MemoryUndos, *given: Any) -> Any:
        if errors:
            raise errors.pop()
        return real(self, *given)

    monkeypatch.setattr(MemoryUndos, "commit", commit)
    if raised is None:
        undo(scene.adapter, run, resolve(), clock=clock_of(scene))
        assert files(scene) == before
    else:
        with pytest.raises(raised, match="the outcome of the undo"):
            undo(scene.adapter, run, resolve(), clock=clock_of(scene))


def test_an_outcome_that_the_log_settles_is_reported(scene: Scene) -> None:
    before = files(scene)
    [run] = scene.run("full").run_ids
    adapter = MemoryAdapter(scene.table)
    adapter.faults.outcomes.append("unknown, landed")
    assert undo(adapter, run, resolve(), clock=clock_of(scene)).version_after == scene.table.current.number
    assert files(scene) == before


def test_an_outcome_that_stays_unknown_is_reported_as_unknown(scene: Scene) -> None:
    [run] = scene.run("full").run_ids
    merged = files(scene)
    adapter = MemoryAdapter(scene.table)
    adapter.faults.outcomes.append("unknown, lost")
    with pytest.raises(Unknown, match="undo the run again"):
        undo(adapter, run, resolve(), clock=clock_of(scene))
    assert files(scene) == merged


def test_files_that_a_vacuum_deleted_cannot_come_back(scene: Scene) -> None:
    [run] = scene.run("full").run_ids
    merged = files(scene)
    if scene.table.settings.linear:
        scene.table.later(10**9)
    assert swept(scene)
    with pytest.raises(UndoError, match=r"vacuum|expired"):
        undone(scene, run)
    assert files(scene) == merged


def test_files_in_the_trash_are_restored_first() -> None:
    scene = overlapping()
    before = files(scene)
    [run] = scene.run("full").run_ids
    scene.table.later(10**9)
    assert swept(scene, trash=True)
    [entry] = entries(scene.adapter).values()
    with pytest.raises(UndoError, match=f"restore {entry.name} first"):
        undone(scene, run)
    restore_files(scene.adapter, entry.name, scene.table.now_ms)
    undone(scene, run)
    assert files(scene) == before


def test_a_vacuum_during_an_undo_leaves_its_files() -> None:
    """The undo is registered as a reader of the previous version."""
    scene = overlapping()
    before = files(scene)
    [run] = scene.run("full").run_ids
    scene.table.later(10**9)
    undone(scene, run, once_at("before_commit", lambda: swept(scene)))
    assert files(scene) == before
    assert scene.table.rows()


@pytest.mark.parametrize("rollback", [False, True])
@pytest.mark.parametrize("kind", ["deleted", "moved to the trash"])
def test_no_undo_lands_while_a_vacuum_deletes(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, kind: str, rollback: bool
) -> None:
    """Loss L59: the vacuum had checked the log, and deleted files that the undo had just brought back.

    Loss L117: an undo by a rollback did not look, and a vacuum into the trash expires no version.
    """
    find = MemoryUndos.find

    def found(self: MemoryUndos, name: RunName) -> Reversal | Undone:
        answer = find(self, name)
        return replace(answer, rollback=rollback) if isinstance(answer, Reversal) else answer

    monkeypatch.setattr(MemoryUndos, "find", found)
    [run] = scene.run("full").run_ids
    merged = files(scene)
    scene.table.later(10**9)
    reasons: list[str] = []

    def attempt() -> None:
        with pytest.raises(UndoError) as refused:
            undone(scene, run, allow_rollback=True)
        reasons.append(str(refused.value))

    assert swept(scene, observer=once_at("before_delete", attempt), trash=kind != "deleted")
    assert len(reasons) == 1
    expired = kind == "deleted" and not scene.table.settings.linear
    why = "before run .* expired" if expired else r"vacuum \w{16} is deleting .*nothing was written.*again"
    assert re.search(f"db.t: .*{why}", reasons[0])
    assert files(scene) == merged
    assert scene.table.rows()
    assert registered(scene.adapter.notes) == {}


def test_in_a_table_that_may_not_be_written_nothing_is_undone(scene: Scene) -> None:
    [run] = scene.run("full").run_ids
    scene.refused(lambda: undo(ReadOnly(scene.table), run, resolve(), clock=clock_of(scene)))


def test_a_rollback_has_to_be_allowed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    find = MemoryUndos.find

    def found(self: MemoryUndos, name: RunName) -> Reversal | Undone:
        answer = find(self, name)
        return replace(answer, rollback=True) if isinstance(answer, Reversal) else answer

    monkeypatch.setattr(MemoryUndos, "find", found)
    before = files(scene)
    [run] = scene.run("full").run_ids
    refused(scene, run)
    assert undone(scene, run, dry_run=True).version_after is None
    undone(scene, run, allow_rollback=True)
    assert files(scene) == before


def test_a_vacuum_that_planned_before_the_undo_registered_keeps_its_files(scene: Scene) -> None:
    """Loss L59: it looks again for runs once it is registered itself. The undo has checked that the files exist."""
    before = files(scene)
    [run] = scene.run("full").run_ids
    scene.table.later(10**9)
    at_the_commit, swept_all = Event(), Event()
    adapter = MemoryAdapter(scene.table)

    def pause() -> None:
        at_the_commit.set()
        assert swept_all.wait(60)

    adapter.faults.races.append(pause)
    with ThreadPoolExecutor(1) as pool:
        found: list[Future[UndoReport]] = []

        def begin() -> None:
            found.append(pool.submit(undo, adapter, run, resolve(), clock=clock_of(scene)))
            assert at_the_commit.wait(60)

        swept(scene, observer=once_at("planned", begin))
        swept_all.set()
        assert found[0].result().status == "done"
    assert files(scene) == before
    assert set(before) <= set(scene.table.disk)
    assert scene.table.rows()


def test_a_vacuum_that_began_before_the_undo_registered_is_seen(scene: Scene) -> None:
    """After the first look for vacuums: that vacuum has not seen the undo, which must see the vacuum."""
    [run] = scene.run("full").run_ids
    scene.table.later(10**9)
    merged = files(scene)

    class Meanwhile(MemoryAdapter):
        def version(self) -> Snapshot:
            begun = intent(scene.table, "v-1", kind=VACUUM)
            register(self.notes, "db.t", begun, clock_of(scene))
            return super().version()

    with pytest.raises(UndoError, match=r"vacuum v-1 is deleting files of the table; nothing was written"):
        undo(Meanwhile(scene.table), run, resolve(), clock=clock_of(scene))
    assert files(scene) == merged


class _Killed(BaseException):
    pass


def test_a_killed_vacuum_is_waited_for_and_one_that_stopped_is_not() -> None:
    scene = overlapping()
    before = files(scene)
    [run] = scene.run("full").run_ids
    scene.table.later(10**9)

    def kill() -> None:
        raise _Killed

    with pytest.raises(_Killed):
        swept(scene, observer=once_at("before_delete", kill))
    refused(scene, run)
    scene.table.later(23 * HOUR_MS)
    refused(scene, run)
    scene.table.later(HOUR_MS)
    undone(scene, run)
    undone(scene, undone_by(scene))
    scene.table.later(10**9)
    scene.table.before = lambda what: scene.table.stuck.update(before) if what == "delete" else None
    assert swept(scene) == 0
    scene.table.before = lambda _: None
    undone(scene, run)
    assert files(scene) == before
    assert scene.table.rows()


def test_an_undo_does_not_wait_for_the_vacuum_of_another_table() -> None:
    scene = overlapping()
    [run] = scene.run("full").run_ids
    other = Intent("v" * 16, VACUUM, scene.table.now_ms, "another uuid", 1, timeout_ms=10**9)
    register(scene.adapter.notes, "db.t", other, clock_of(scene))
    undone(scene, run)


def test_only_merges_are_undone(scene: Scene) -> None:
    scene.table.apply("DELETE", lambda now: now, "abc-1")
    refused(scene, "abc-1")


def test_a_reversal_that_would_only_take_files_away_is_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scene.run("full").run_ids[0]
    find = MemoryUndos.find

    def without_inputs(undos: MemoryUndos, name: RunName) -> Reversal | Undone:
        found = find(undos, name)
        return replace(found, restored={}) if isinstance(found, Reversal) else found

    monkeypatch.setattr(MemoryUndos, "find", without_inputs)
    refused(scene, run)


def test_a_change_of_the_columns_since_is_refused(scene: Scene) -> None:
    [run] = scene.run("full").run_ids
    scene.table.add_column("late", "int")
    refused(scene, run)


@pytest.mark.parametrize(
    "run, error",
    [("zzz-1", NotFound), ("zzz", NotFound), ("", OptionError), ("../x", OptionError), ("A B", OptionError)],
)
def test_a_run_that_does_not_exist(scene: Scene, run: str, error: type[Exception]) -> None:
    scene.run("full")
    refused(scene, run, error)


def test_a_dry_run_says_what_would_happen(scene: Scene) -> None:
    [run] = scene.run("full").run_ids
    found: list[UndoReport] = []
    scene.untouched(lambda: found.append(undone(scene, run, dry_run=True)))
    done = undone(scene, run)
    assert found[0].status == "planned"
    for name in ("restored_data_files_count", "restored_bytes_count", "removed_data_files_count"):
        assert getattr(found[0], name) == getattr(done, name) > 0
