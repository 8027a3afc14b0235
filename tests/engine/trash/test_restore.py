"""Rows of a dropped partition come back exactly once, after any crash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.units import HOUR_MS
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.state.leases import registered
from lakekeeper.engine.trash.entries import RESTORING
from lakekeeper.engine.trash.restore import restore
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from lakekeeper.errors import (
    AdapterError,
    Conflict,
    NotFound,
    NotSent,
    Rejected,
    Unknown,
    Unsupported,
)
from lakekeeper.spi import Commit
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.restores import MemoryRestores
from lakekeeper.testing.runner import MemoryRunner
from lakekeeper.testing.storage import MemoryStorage
from tests.engine.scene import ReadOnly, Scene
from tests.engine.trash.partitions import (
    DAY,
    Crash,
    back,
    bin_of,
    clock_of,
    crash,
    drop,
    rows,
    two_days,
)
from tests.observers import once_at

PHASES = ("before_commit", "committed")


@pytest.fixture(
    params=[Settings(), Settings(row_deletes=False, linear=False)], ids=["masks", "copies, expiring"]
)
def scene(request: pytest.FixtureRequest) -> Scene:
    return two_days(request.param)


def test_rows_come_back_though_a_vacuum_has_expired_what_is_older_than_the_drop_and_newer(
    scene: Scene,
) -> None:
    """Loss L115: the version of the drop was expired, and a restore compares it with the one before."""
    before, table = rows(scene), scene.table
    drop(scene, "k < 12")
    table.later(HOUR_MS)
    table.append([{"day": 3, "k": 30}])
    scene.run("full")
    table.later(5 * DAY + HOUR_MS)
    table.append([{"day": 3, "k": 31}])
    request = VacuumRequest(resolve({"vacuum.max-share": 1}), age_ms=5 * DAY)
    report = vacuum(MemoryAdapter(table), request, clock=clock_of(scene))
    assert report.plan is not None
    assert table.current.number - 1 in report.plan.kept
    back(scene)
    table.delete("day = 3")
    assert rows(scene) == before


@pytest.mark.parametrize("phase", PHASES)
def test_a_crashed_restore_is_run_again(scene: Scene, phase: str) -> None:
    before = rows(scene)
    drop(scene)
    with pytest.raises(Crash):
        back(scene, observer=lambda now, _: crash() if now == phase else None)
    assert [e.state for e in bin_of(scene)] == [RESTORING]
    done = back(scene)
    assert done.already == (phase == "committed")
    assert rows(scene) == before
    assert bin_of(scene) == []


@pytest.mark.parametrize("nth", range(12))
def test_a_restore_crashes_at_each_note_that_it_writes(scene: Scene, nth: int) -> None:
    """Whichever write of a note is the last one: after another run, the rows are there exactly once."""
    before = rows(scene)
    drop(scene)
    notes, calls = type(scene.adapter.notes), iter(range(100))
    with pytest.MonkeyPatch.context() as patched:
        for name in ("keep", "replace", "remove"):
            real = getattr(notes, name)

            def dying(self: Any, *args: Any, real: Callable[..., Any] = real) -> Any:
                if next(calls) == nth:
                    raise Crash
                return real(self, *args)

            patched.setattr(notes, name, dying)
        with suppress(Crash):
            back(scene)
    assert next(calls) > min(nth, 3)
    if bin_of(scene):
        back(scene)
    assert rows(scene) == before
    assert bin_of(scene) == []


@pytest.mark.parametrize("landed", [True, False])
def test_a_restore_of_unknown_outcome(scene: Scene, landed: bool) -> None:
    before = rows(scene)
    drop(scene)
    adapter = MemoryAdapter(scene.table)
    adapter.faults.outcomes.append("unknown, landed" if landed else "unknown, lost")
    [entry] = bin_of(scene)
    act = partial(restore, adapter, MemoryRunner(), entry.name, resolve(), clock=clock_of(scene))
    if landed:
        assert act().rows == 3
    else:
        with pytest.raises(Unknown, match="run it again later"):
            act()
        assert act().rows == 3
    assert rows(scene) == before
    assert bin_of(scene) == []


@pytest.mark.parametrize("landed", [True, False])
def test_reads_that_fail_while_an_outcome_is_settled_leave_it_unknown(scene: Scene, landed: bool) -> None:
    """Loss L28: the error of the read was raised, as if nothing had been committed."""
    before = rows(scene)
    drop(scene)

    class Down(MemoryAdapter):
        down = False

        def version(self) -> Snapshot:
            if self.down:
                raise AdapterError("db.t: the catalog does not answer")
            return super().version()

    adapter = Down(scene.table)
    adapter.faults.outcomes.append("unknown, landed" if landed else "unknown, lost")
    adapter.faults.races.append(lambda: setattr(adapter, "down", True))
    [entry] = bin_of(scene)
    act = partial(restore, adapter, MemoryRunner(), entry.name, resolve(), clock=clock_of(scene))
    with pytest.raises(Unknown, match="run it again later"):
        act()
    adapter.down = False
    assert act().rows == 3
    assert rows(scene) == before
    assert bin_of(scene) == []


def test_a_second_restore_between_the_copies_and_the_commit_of_the_first(scene: Scene) -> None:
    before = rows(scene)
    drop(scene)
    done = back(scene, once_at("before_commit", lambda: back(scene)))
    assert done.already
    assert rows(scene) == before
    assert bin_of(scene) == []
    assert scene.table.leftovers() == set()


def reported_lost(patched: pytest.MonkeyPatch, then: Callable[[], object] = lambda: None) -> None:
    """From now on the catalog lands the restore's commit and answers that another one won."""
    real = MemoryRestores.commit

    def commit(self: MemoryRestores, *given: Any) -> Commit:
        real(self, *given)
        then()
        raise Conflict("another commit came first")

    patched.setattr(MemoryRestores, "commit", commit)


@pytest.mark.parametrize("retries", [0, 3])
def test_a_restore_whose_commit_was_reported_lost_keeps_its_files(scene: Scene, retries: int) -> None:
    """Loss: the next attempt found the rows restored, and deleted its own copies as superfluous."""
    before = rows(scene)
    drop(scene)
    with pytest.MonkeyPatch.context() as patched:
        reported_lost(patched)
        done = back(scene, commit_retry_num_retries=retries)
    assert (done.version, done.rows) == (scene.table.current.number, 3)
    assert rows(scene) == before
    assert bin_of(scene) == []


@pytest.mark.parametrize("error", [OSError("no route"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_restore_in_doubt_keeps_its_files(scene: Scene, error: BaseException) -> None:
    before = rows(scene)
    drop(scene)

    def unreachable(*_: Any, **__: Any) -> Any:
        raise error

    with pytest.MonkeyPatch.context() as patched:
        reported_lost(patched, lambda: patched.setattr(MemoryAdapter, "changes_since", unreachable))
        with pytest.raises(Unknown if isinstance(error, Exception) else KeyboardInterrupt):
            back(scene)
    assert rows(scene) == before
    assert back(scene).already
    assert rows(scene) == before


@pytest.mark.parametrize("shown", [True, False])
def test_a_restore_reported_lost_is_not_repeated_where_the_log_may_hide_its_commit(
    scene: Scene, *, shown: bool
) -> None:
    before = rows(scene)
    drop(scene)
    real, gap = MemoryAdapter.changes_since, Reason.of(Code.LOG_INCOMPLETE, error="version 5 is missing")

    def obstructed(self: MemoryAdapter, snapshot: Snapshot) -> Changes:
        changes = real(self, snapshot)
        return replace(changes, obstacle=gap, winners=changes.winners if shown else ())

    with pytest.MonkeyPatch.context() as patched:
        reported_lost(patched, lambda: patched.setattr(MemoryAdapter, "changes_since", obstructed))
        if shown:
            assert back(scene).rows == 3
        else:
            with pytest.raises(Unknown):
                back(scene)
    assert rows(scene) == before


def test_a_vacuum_deletes_copies_that_another_restore_made_superfluous(scene: Scene) -> None:
    """Two restores share the id of their commit: the log does not show which of them landed."""
    before = rows(scene)
    drop(scene)
    real, others = MemoryRestores.commit, [lambda: back(scene)]

    def commit(self: MemoryRestores, *given: Any) -> Commit:
        if others:
            others.pop()()
            raise Conflict("another restore came first")
        return real(self, *given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MemoryRestores, "commit", commit)
        assert back(scene).already
    assert rows(scene) == before
    assert scene.table.leftovers() != set()
    scene.table.later(30 * DAY)
    vacuum(MemoryAdapter(scene.table), VacuumRequest(resolve()), clock=clock_of(scene))
    assert scene.table.leftovers() == set()
    assert rows(scene) == before


def test_a_restore_over_appends(scene: Scene) -> None:
    before = rows(scene)
    drop(scene)

    def append(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "before_commit":
            scene.table.append([{"day": 9, "k": 9}])

    back(scene, append)
    scene.table.delete("day = 9")
    assert rows(scene) == before
    assert registered(scene.adapter.notes) == {}


def test_a_restore_that_lost_an_attempt_and_landed_keeps_no_slot(scene: Scene) -> None:
    before = rows(scene)
    drop(scene)
    real, lost = MemoryRestores.commit, [Conflict("another commit came first")]

    def commit(self: MemoryRestores, *given: Any) -> Commit:
        if lost:
            raise lost.pop()
        return real(self, *given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MemoryRestores, "commit", commit)
        assert not back(scene).already
    assert rows(scene) == before
    assert registered(scene.adapter.notes) == {}


def test_a_renamed_column_keeps_its_values_and_an_added_one_is_null(scene: Scene) -> None:
    drop(scene, "day = 1 and k > 10")
    scene.table.rename_column("k", "kk")
    scene.table.add_column("n", "int")
    back(scene)
    found = [(row["kk"], row["n"]) for row in scene.table.rows() if row["day"] == 1]
    assert sorted(found) == [(10, None), (11, None), (12, None)]


def test_in_a_table_that_may_not_be_written_nothing_is_restored(scene: Scene) -> None:
    drop(scene)
    [entry] = bin_of(scene)
    scene.refused(
        lambda: restore(ReadOnly(scene.table), MemoryRunner(), entry.name, resolve(), clock=clock_of(scene))
    )
    assert bin_of(scene) == [entry]


def test_a_restore_that_would_change_rows_is_refused(scene: Scene) -> None:
    drop(scene)
    scene.table.drop_column("k")
    version = scene.table.current.number
    with pytest.raises(Unsupported, match="column k, which was dropped"):
        back(scene)
    assert scene.table.current.number == version
    assert [e.state for e in bin_of(scene)] == [RESTORING]
    assert scene.table.leftovers() == set()


def test_another_table_in_the_same_place(scene: Scene) -> None:
    drop(scene)
    [entry] = bin_of(scene)
    scene.table.uuid = "another"
    assert bin_of(scene) == []
    with pytest.raises(NotFound, match=r"the trash has no entry .*; it is empty"):
        restore(MemoryAdapter(scene.table), MemoryRunner(), entry.name, resolve({}), clock=clock_of(scene))


def test_the_history_that_would_show_an_earlier_restore_is_gone(scene: Scene) -> None:
    """An earlier restore may have brought the rows back: when unsure, nothing is added."""
    if scene.table.settings.linear:
        scene = two_days(Settings(linear=False))
    drop(scene)
    with pytest.raises(Crash):
        back(scene, observer=lambda now, _: crash() if now == "before_commit" else None)
    scene.table.append([{"day": 5, "k": 5}])
    scene.table.append([{"day": 5, "k": 6}])
    [entry] = bin_of(scene)
    scene.table.expired |= set(range(entry.since + 1, scene.table.current.number))
    version = scene.table.current.number
    with pytest.raises(Rejected, match="expired"):
        back(scene)
    assert scene.table.current.number == version


class _RolledBack(MemoryAdapter):
    """A table that was rolled back: its log shows nothing after the versions that the rollback left, as Iceberg's."""

    def __init__(self, table: MemoryTable, left: set[int]) -> None:
        super().__init__(table)
        self.left = left

    def changes_since(self, snapshot: Snapshot) -> Changes:
        found = super().changes_since(snapshot)
        winners = tuple(each for each in found.winners if each.version not in self.left)
        obstacle = Reason.of(Code.NOT_AN_ANCESTOR, read=snapshot.version or 0, current=found.version)
        return replace(found, winners=winners, obstacle=obstacle if snapshot.version in self.left else None)


@pytest.mark.parametrize("again", [False, True], ids=["at once", "killed again"])
@pytest.mark.parametrize("failed", ["refused", "killed"])
def test_rows_come_back_after_a_rollback_to_a_version_before_a_restore_that_failed(
    monkeypatch: pytest.MonkeyPatch, failed: str, again: bool
) -> None:
    """Loss: each later restore raised that the outcome of the failed one was not known, until the rows expired."""
    scene = two_days(Settings(linear=False))
    before, table = rows(scene), scene.table
    drop(scene)
    dropped = table.current.number
    table.append([{"day": 3, "k": 30}])

    def commit(*_: Any) -> Commit:
        raise Rejected("403") if failed == "refused" else Crash

    with monkeypatch.context() as patch:
        patch.setattr(MemoryRestores, "commit", commit)
        with pytest.raises((Rejected, Crash)):
            back(scene)
    left = set(range(dropped + 1, table.current.number + 1))
    table.apply("ROLLBACK", lambda now: replace(now, files=table.version(dropped).files))
    [entry] = bin_of(scene)
    adapter, clock = _RolledBack(table, left), clock_of(scene)
    act = partial(restore, adapter, MemoryRunner(), entry.name, resolve(), clock=clock)
    if again:
        with pytest.raises(Crash):
            act(observer=lambda now, _: crash() if now == "committed" else None)
    assert act().already == again
    assert rows(scene) == before
    assert bin_of(scene) == []


def test_a_restore_that_fails_does_not_hide_the_commit_of_another_one_that_died(
    monkeypatch: pytest.MonkeyPatch, scene: Scene
) -> None:
    """Its failure says nothing of the other's commit, so the entry stays in the state that shows when both began."""
    before = rows(scene)
    drop(scene)

    def other(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "before_commit":
            with pytest.raises(Crash):
                back(scene, lambda now, _: crash() if now == "committed" else None)
            monkeypatch.setattr(MemoryRestores, "commit", refused)

    def refused(*_: Any) -> Commit:
        raise Rejected("403")

    with pytest.raises(Rejected):
        back(scene, other)
    monkeypatch.undo()
    assert back(scene).already
    assert rows(scene) == before


@pytest.mark.parametrize("error", [NotSent("503"), Rejected("429")], ids=["not sent", "refused"])
def test_a_restore_is_committed_again_after_an_error_that_proves_it_was_not(
    monkeypatch: pytest.MonkeyPatch, scene: Scene, error: Exception
) -> None:
    before = rows(scene)
    drop(scene)
    real, failing = MemoryRestores.commit, [error, error]

    def commit(self: MemoryRestores, *args: Any) -> Commit:
        if failing:
            raise failing.pop()
        return real(self, *args)

    monkeypatch.setattr(MemoryRestores, "commit", commit)
    assert back(scene).rows == 3
    assert (rows(scene), bin_of(scene), scene.table.leftovers()) == (before, [], set())


def test_rows_that_came_back_by_the_formats_own_means_are_not_doubled(scene: Scene) -> None:
    version = scene.table.current.number
    drop(scene)
    scene.table.apply("RESTORE", lambda now: replace(now, files=scene.table.version(version).files))
    after = rows(scene)
    with pytest.raises(Unsupported, match="a RESTORE after the drop"):
        back(scene)
    assert (rows(scene), len(bin_of(scene)), scene.table.leftovers()) == (after, 1, set())


def test_rows_that_came_back_while_they_were_copied_are_not_doubled(scene: Scene) -> None:
    """The RESTORE of a colleague was looked for before the copies were written, which takes minutes, and not after."""
    version, before = scene.table.current.number, rows(scene)
    drop(scene)
    come_back = once_at(
        "before_commit",
        lambda: scene.table.apply(
            "RESTORE", lambda now: replace(now, files=scene.table.version(version).files)
        ),
    )
    with pytest.raises(Unsupported, match="a RESTORE after the drop"):
        back(scene, come_back)
    assert rows(scene) == before
    assert (len(bin_of(scene)), scene.table.leftovers()) == (1, set())


def test_a_restore_of_files_counts_those_that_it_moved_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reported all that the vacuum had planned to move."""
    table, move = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=False)), MemoryStorage.move
    for day in range(5):
        table.later(DAY)
        table.overwrite([{"k": day}])
    calls: list[int] = []

    def failing(storage: MemoryStorage, moves: Mapping[str, str]) -> list[str]:
        calls.append(len(moves))
        return move(storage, moves) if len(calls) == 1 else []

    clock = Clock(lambda: table.now_ms, lambda _: None)
    options = resolve({"vacuum.max-share": 1, "vacuum.max-batch-delete-size": 3})
    request = VacuumRequest(options, age_ms=0, allow_unsafe=True, trash=True)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryStorage, "move", failing)
        moved = vacuum(MemoryAdapter(table), request, clock=clock)
    assert (moved.deleted_files_count, moved.failed_files_count) == (3, 1)

    def as_on_delta(storage: MemoryStorage, moves: Mapping[str, str]) -> list[str]:
        """Files that are at their targets already count too."""
        move(storage, moves)
        return [source for source, info in zip(moves, storage.look([*moves.values()]), strict=True) if info]

    monkeypatch.setattr(MemoryStorage, "move", as_on_delta)
    report = restore(MemoryAdapter(table), MemoryRunner(), moved.trash, options, clock=clock)
    assert (report.files, report.bytes) == (3, moved.deleted_bytes_count)
