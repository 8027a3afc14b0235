"""Dropped partitions: what is in the trash at each moment, and that rows come back once whatever died in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.report import DeleteReport, RestoreReport
from lakekeeper.core.units import HOUR_MS
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.state.leases import registered
from lakekeeper.engine.trash.drop_partition import drop_rows, settle
from lakekeeper.engine.trash.entries import DROPPED, PENDING, RESTORING, TrashEntry, entries
from lakekeeper.engine.trash.restore import restore
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from lakekeeper.errors import (
    AdapterError,
    Conflict,
    LakekeeperError,
    NotFound,
    Rejected,
    Unknown,
    Unsupported,
)
from lakekeeper.spi import Commit, Observer
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.restores import MemoryRestores
from lakekeeper.testing.runner import MemoryRunner
from lakekeeper.testing.values import fingerprint
from tests.engine.scene import Scene

DAY = 24 * HOUR_MS


class Crash(BaseException):
    """The process is gone."""


def crash(*_: Any) -> None:
    raise Crash


def once_at(phase: str, act: Callable[[], object]) -> Observer:
    """Acts the first time that it is told ``phase``."""
    left = [act]

    def observe(told: str, _: Mapping[str, Any]) -> None:
        if told == phase and left:
            left.pop()()

    return observe


def two_days(settings: Settings | None = None) -> Scene:
    """Rows k of two days; one row of the first was deleted before."""
    table = MemoryTable("db.t", {"day": "int", "k": "int"}, partition_by=["day"], settings=settings)
    for day in (1, 2):
        table.append([{"day": day, "k": 10 * day + i} for i in range(4)])
    table.delete("k = 13")
    return Scene(table)


@pytest.fixture(
    params=[Settings(), Settings(row_deletes=False, linear=False)], ids=["masks", "copies, expiring"]
)
def scene(request: pytest.FixtureRequest) -> Scene:
    return two_days(request.param)


def drop(
    scene: Scene, where: str = "day = 1", observer: Observer | None = None, **options: Any
) -> DeleteReport:
    return drop_rows(
        scene.adapter, scene.runner, where, resolve(options), observer=observer, clock=clock_of(scene)
    )


def back(scene: Scene, observer: Observer | None = None, **options: Any) -> RestoreReport:
    [entry] = bin_of(scene)
    adapter, runner = MemoryAdapter(scene.table), MemoryRunner()
    return restore(adapter, runner, entry.name, resolve(options), observer=observer, clock=clock_of(scene))


def clock_of(scene: Scene) -> Clock:
    return Clock(now_ms=lambda: scene.table.now_ms, wait=scene.pauses.append)


def bin_of(scene: Scene) -> list[TrashEntry]:
    return list(entries(scene.adapter).values())


def rows(scene: Scene) -> tuple[str, ...]:
    return fingerprint(scene.table.rows())


@pytest.mark.parametrize("where", ["day = 1", "k < 12", "day = 1 or k = 20"])
def test_rows_leave_and_come_back(scene: Scene, where: str) -> None:
    before = rows(scene)
    report = drop(scene, where)
    [entry] = bin_of(scene)
    assert (entry.state, entry.dropped, entry.rows) == (
        DROPPED, report.version_after, report.deleted_rows_count
    )  # fmt: skip
    done = back(scene)
    assert rows(scene) == before
    assert (done.rows, done.version, done.already) == (entry.rows, scene.table.current.number, False)
    assert bin_of(scene) == []
    assert scene.table.leftovers() == set()


def test_what_came_between_the_look_and_the_drop_comes_back_too(scene: Scene) -> None:
    drop(scene, observer=once_at("before_commit", lambda: scene.table.append([{"day": 1, "k": 99}])))
    assert not any(row["day"] == 1 for row in scene.table.rows())
    back(scene)
    assert sorted(row["k"] for row in scene.table.rows() if row["day"] == 1) == [10, 11, 12, 99]


@pytest.mark.parametrize(
    "fault, error", [("rejected", Rejected), ("conflict", Conflict), ("nothing matches", None)]
)
def test_what_is_known_not_to_have_happened_leaves_no_entry(
    scene: Scene, fault: str, error: type[Exception] | None
) -> None:
    where = "day = 1"
    if fault == "rejected":
        scene.adapter.faults.outcomes.append("rejected")
    elif fault == "conflict":
        scene.adapter.faults.races.extend(partial(scene.table.delete, f"k = {k}") for k in (10, 11, 12))
    else:
        where = "day = 7"
    if error is None:
        drop(scene, where)
    else:
        with pytest.raises(error):
            drop(scene, where, commit_retry_num_retries=1)
    assert bin_of(scene) == []
    assert scene.table.leftovers() == set()


def test_a_full_bin_is_told_before_anything_is_deleted(scene: Scene) -> None:
    for number in range(64):
        scene.table.notes[f"trash/{number:02d}.json"] = "{}"
    before = rows(scene)
    with pytest.raises(AdapterError, match="holds 64 entries"):
        drop(scene)
    assert rows(scene) == before


@pytest.mark.parametrize("landed", [True, False])
def test_an_unknown_outcome_leaves_a_pending_entry_until_the_log_tells(scene: Scene, landed: bool) -> None:
    before = rows(scene)
    # The log does not show it within the call: a store may be late.
    hidden = _Hidden(scene)
    scene.adapter.faults.outcomes.append("unknown, landed" if landed else "unknown, lost")
    with pytest.raises(Unknown):
        drop(hidden)
    [entry] = bin_of(scene)
    assert entry.state == PENDING
    if not landed:
        with pytest.raises(Unknown, match="is not known"):
            back(scene)
        scene.table.later(23 * HOUR_MS)
        settle(scene.adapter, resolve(), scene.table.now_ms)
        assert [e.state for e in bin_of(scene)] == [PENDING]
        scene.table.later(2 * HOUR_MS)
        settle(scene.adapter, resolve(), scene.table.now_ms)
        assert bin_of(scene) == []
        assert rows(scene) == before
        return
    settle(scene.adapter, resolve(), scene.table.now_ms)
    assert [e.state for e in bin_of(scene)] == [DROPPED]
    back(scene)
    assert rows(scene) == before


class _Hidden(Scene):
    """Looks at the log fail."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.table)
        self.adapter = scene.adapter
        adapter = MemoryAdapter(scene.table)
        adapter.faults = scene.adapter.faults
        adapter.changes_since = _down  # type: ignore[method-assign, assignment]  # this one adapter's
        self.adapter = adapter


def _down(*_: Any) -> Any:
    raise OSError("503")


PHASES = ("before_commit", "committed")


@pytest.mark.parametrize("phase", PHASES)
def test_a_drop_that_died(scene: Scene, phase: str) -> None:
    before = rows(scene)
    with pytest.raises(Crash):
        drop(scene, observer=lambda told, _: crash() if told == phase else None)
    assert [e.state for e in bin_of(scene)] == [PENDING]
    if phase == "before_commit":
        with pytest.raises(Unknown):
            back(scene)
    else:
        back(scene)
        assert bin_of(scene) == []
    assert rows(scene) == before


@pytest.mark.parametrize("phase", PHASES)
def test_a_restore_that_died_is_run_again(scene: Scene, phase: str) -> None:
    before = rows(scene)
    drop(scene)
    with pytest.raises(Crash):
        back(scene, observer=lambda told, _: crash() if told == phase else None)
    assert [e.state for e in bin_of(scene)] == [RESTORING]
    done = back(scene)
    assert done.already == (phase == "committed")
    assert rows(scene) == before
    assert bin_of(scene) == []


@pytest.mark.parametrize("nth", range(12))
def test_a_restore_dies_at_each_note_it_writes(scene: Scene, nth: int) -> None:
    """Whatever call of the notes is the last one: run again, the rows are there once."""
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


def test_a_second_restore_between_the_copies_and_the_commit_of_the_first(scene: Scene) -> None:
    before = rows(scene)
    drop(scene)
    done = back(scene, once_at("before_commit", lambda: back(scene)))
    assert done.already
    assert rows(scene) == before
    assert bin_of(scene) == []
    assert scene.table.leftovers() == set()


def reported_lost(patched: pytest.MonkeyPatch, then: Callable[[], object] = lambda: None) -> None:
    """From now on a catalog lands the restore's commit and answers that another one won."""
    real = MemoryRestores.commit

    def commit(self: MemoryRestores, *given: Any) -> Commit:
        real(self, *given)
        then()
        raise Conflict("another commit came first")

    patched.setattr(MemoryRestores, "commit", commit)


@pytest.mark.parametrize("retries", [0, 3])
def test_a_restore_whose_commit_was_reported_lost_keeps_its_files(scene: Scene, retries: int) -> None:
    """Loss: the next attempt finds the rows back already, and takes its own copies for superfluous ones."""
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


def test_copies_that_another_restore_made_superfluous_go_with_a_vacuum(scene: Scene) -> None:
    """Two restores share the id of their commit: which of them landed, the log does not say."""
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


def test_a_column_that_was_renamed_keeps_its_values_and_one_that_came_is_null(scene: Scene) -> None:
    drop(scene, "day = 1 and k > 10")
    scene.table.rename_column("k", "kk")
    scene.table.add_column("n", "int")
    back(scene)
    found = [(row["kk"], row["n"]) for row in scene.table.rows() if row["day"] == 1]
    assert sorted(found) == [(10, None), (11, None), (12, None)]


def test_what_would_not_come_back_as_it_was_is_refused(scene: Scene) -> None:
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
    with pytest.raises(NotFound, match="the trash has no single entry"):
        restore(MemoryAdapter(scene.table), MemoryRunner(), entry.name, resolve({}), clock=clock_of(scene))


def test_a_vacuum_keeps_what_a_drop_is_restored_from() -> None:
    """Also of one whose outcome nobody knew: the vacuum settles it."""
    for died in (False, True):
        scene = two_days(Settings(linear=False))
        scene.table.later(DAY)
        scene.table.append([{"day": 1, "k": 50}])
        before = rows(scene)
        if died:
            with pytest.raises(Crash):
                drop(scene, observer=lambda told, _: crash() if told == "committed" else None)
        else:
            drop(scene)
        request = VacuumRequest(resolve({"vacuum.max-share": 1}), age_ms=0, allow_unsafe=True)
        vacuum(MemoryAdapter(scene.table), request, clock=clock_of(scene))
        back(scene)
        assert rows(scene) == before


@pytest.mark.parametrize("given", [{}, {"vacuum.trash-retention-hours": "2d"}], ids=["7 days", "2 days"])
def test_a_vacuum_keeps_a_drop_until_the_retention_of_the_bin_ends(given: dict[str, str]) -> None:
    scene = two_days(Settings(linear=False))
    before = rows(scene)
    drop(scene)
    scene.table.later(3 * DAY)
    scene.table.append([{"day": 3, "k": 70}])
    request = VacuumRequest(resolve({"vacuum.max-share": 1, **given}), age_ms=0, allow_unsafe=True)
    vacuum(MemoryAdapter(scene.table), request, clock=clock_of(scene))
    if given:
        with pytest.raises(LakekeeperError):
            back(scene)
    else:
        back(scene)
        assert len(rows(scene)) == len(before) + 1


def test_the_history_that_would_tell_is_gone(scene: Scene) -> None:
    """An earlier restore may have brought the rows back: in doubt nothing is added."""
    if scene.table.settings.linear:
        scene = two_days(Settings(linear=False))
    drop(scene)
    with pytest.raises(Crash):
        back(scene, observer=lambda told, _: crash() if told == "before_commit" else None)
    scene.table.append([{"day": 5, "k": 5}])
    scene.table.append([{"day": 5, "k": 6}])
    [entry] = bin_of(scene)
    scene.table.expired |= set(range(entry.since + 1, scene.table.current.number))
    version = scene.table.current.number
    with pytest.raises(Rejected, match="expired"):
        back(scene)
    assert scene.table.current.number == version
