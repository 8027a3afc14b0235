"""Dropped partitions: what the trash holds at each step, and that rows come back exactly once after any crash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.run_name import is_restore_id
from lakekeeper.core.units import HOUR_MS
from lakekeeper.engine.state.leases import register
from lakekeeper.engine.trash.drop_partition import restore_run, settle
from lakekeeper.engine.trash.empty import empty
from lakekeeper.engine.trash.entries import DROPPED, PENDING, forget
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from lakekeeper.errors import (
    AdapterError,
    Conflict,
    LakekeeperError,
    NotFound,
    OptionError,
    Rejected,
    Unknown,
)
from lakekeeper.testing.deletes import MemoryDeletes
from lakekeeper.testing.lake import Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.notes import MemoryNotes
from lakekeeper.testing.runner import MemoryRunner
from tests.engine.scene import ReadOnly, Scene, intent
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


@pytest.fixture(
    params=[Settings(), Settings(row_deletes=False, linear=False)], ids=["masks", "copies, expiring"]
)
def scene(request: pytest.FixtureRequest) -> Scene:
    return two_days(request.param)


@pytest.mark.parametrize("where", ["day = 1", "k < 12", "day = 1 or k = 20"])
def test_dropped_rows_come_back(scene: Scene, where: str) -> None:
    before = rows(scene)
    report = drop(scene, where)
    [entry] = bin_of(scene)
    assert (entry.state, entry.dropped, entry.rows) == (
        DROPPED, report.version_after, report.deleted_rows_count
    )  # fmt: skip
    assert report.trash == entry.name
    assert str(report).startswith(f"db.t: drop_partition where {where} in ")
    assert f"  trash       {entry.name}: restore('{entry.name}') brings the rows back" in str(report)
    done = back(scene)
    assert rows(scene) == before
    assert (done.rows, done.version, done.already) == (entry.rows, scene.table.current.number, False)
    assert bin_of(scene) == []
    assert scene.table.leftovers() == set()


def test_rows_appended_between_the_plan_and_the_drop_come_back_too(scene: Scene) -> None:
    drop(scene, observer=once_at("before_commit", lambda: scene.table.append([{"day": 1, "k": 99}])))
    assert not any(row["day"] == 1 for row in scene.table.rows())
    back(scene)
    assert sorted(row["k"] for row in scene.table.rows() if row["day"] == 1) == [10, 11, 12, 99]


@pytest.mark.parametrize(
    "fault, error", [("rejected", Rejected), ("conflict", Conflict), ("nothing matches", None)]
)
def test_a_drop_that_certainly_failed_leaves_no_entry(
    scene: Scene, fault: str, error: type[Exception] | None
) -> None:
    where = "day = 1"
    if fault == "rejected":
        scene.adapter.faults.outcomes.extend(["rejected"] * 3)
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


@pytest.mark.parametrize("error", [RuntimeError("CAST_INVALID_INPUT"), AdapterError("a lost executor")])
def test_a_drop_that_fails_in_spark_leaves_no_entry(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """It stayed pending for a day: after 64 of them, each drop was refused, and vacuums kept all versions since."""

    def failing(*_: Any) -> None:
        raise error

    before = rows(scene)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryRunner, "hold", failing)
        for _ in range(70):
            with pytest.raises(type(error)):
                drop(scene, "k = 10")
            assert bin_of(scene) == []
    assert rows(scene) == before
    assert drop(scene, "k = 10").changed


@pytest.mark.parametrize(
    "error", [NotFound("db.x", "no table"), OptionError("x", 1, "y"), RuntimeError("bug")]
)
def test_a_drop_whose_observer_fails_after_the_commit_can_be_restored(scene: Scene, error: Exception) -> None:
    """Loss L135: the entry was removed by the type of the error, and no restore knew of the rows."""

    def observer(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "committed":
            raise error

    before = rows(scene)
    with pytest.raises(type(error)):
        drop(scene, observer=observer)
    assert len(rows(scene)) < len(before)
    [entry] = bin_of(scene)
    assert entry.state == DROPPED
    assert back(scene).rows == 3
    assert rows(scene) == before


def test_in_a_table_that_may_not_be_written_nothing_is_dropped(scene: Scene) -> None:
    scene.adapter = ReadOnly(scene.table)
    scene.refused(lambda: drop(scene))
    assert bin_of(scene) == []


def test_full_trash_is_reported_before_anything_is_deleted(scene: Scene) -> None:
    for number in range(64):
        scene.table.notes[f"trash/{number:02d}.json"] = "{}"
    before = rows(scene)
    with pytest.raises(AdapterError, match="holds 64 entries"):
        drop(scene)
    assert rows(scene) == before


@pytest.mark.parametrize("landed", [True, False])
def test_an_unknown_outcome_leaves_a_pending_entry_until_the_log_shows_it(scene: Scene, landed: bool) -> None:
    before = rows(scene)
    # The log does not show it within the call: a store may lag behind.
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
    """Reads of the log fail."""

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
def test_a_crashed_drop(scene: Scene, phase: str) -> None:
    before = rows(scene)
    with pytest.raises(Crash):
        drop(scene, observer=lambda now, _: crash() if now == phase else None)
    assert [e.state for e in bin_of(scene)] == [PENDING]
    if phase == "before_commit":
        with pytest.raises(Unknown):
            back(scene)
    else:
        back(scene)
        assert bin_of(scene) == []
    assert rows(scene) == before


@pytest.mark.parametrize("died", ["drop", "restore"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_dry_run_of_a_vacuum_leaves_entries_in_doubt_as_they_are(
    scene: Scene, phase: str, died: str
) -> None:
    """It settled them, and so wrote notes; what they may need counts as held."""
    if died == "restore":
        drop(scene)
    table, at_phase = scene.table, once_at(phase, crash)
    with pytest.raises(Crash):
        drop(scene, observer=at_phase) if died == "drop" else back(scene, observer=at_phase)
    table.later(2 * DAY)
    table.append([{"day": 3, "k": 30}])
    notes, doubted = dict(table.notes), bin_of(scene)
    request = VacuumRequest(resolve({"vacuum.max-share": 1}), age_ms=DAY, dry_run=True)
    report = vacuum(MemoryAdapter(table), request, clock=clock_of(scene))
    assert (dict(table.notes), bin_of(scene)) == (notes, doubted)
    assert report.plan is not None
    assert {entry.version for entry in doubted} <= set(report.plan.kept)
    vacuum(MemoryAdapter(table), replace(request, dry_run=False), clock=clock_of(scene))
    assert (bin_of(scene) == doubted) == ((died, phase) == ("restore", "before_commit"))


@pytest.mark.parametrize(
    "hours, timeout",
    [((13, 12), {}), ((0, 2), {"vacuum.intent-timeout-hours": 1})],
    ids=["renewed", "of another session"],
)
def test_no_look_at_the_trash_forgets_a_drop_that_still_runs(
    monkeypatch: pytest.MonkeyPatch, hours: tuple[int, int], timeout: dict[str, int]
) -> None:
    """Loss L84: the drop then committed, no entry could restore its rows, and a vacuum deleted their files."""
    scene = two_days(Settings(linear=False))
    find, prepare = MemoryDeletes.find, MemoryDeletes.prepare

    def slow_find(self: MemoryDeletes, *given: Any, **more: Any) -> Any:
        found = find(self, *given, **more)
        scene.table.later(hours[0] * HOUR_MS)
        return found

    def slow_prepare(self: MemoryDeletes, *given: Any, **more: Any) -> Any:
        made = prepare(self, *given, **more)
        scene.table.later(hours[1] * HOUR_MS)
        settle(MemoryAdapter(scene.table), resolve(timeout), scene.table.now_ms)
        assert [each.state for each in bin_of(scene)] == [PENDING]  # if it is killed after its commit
        return made

    with monkeypatch.context() as patched:
        patched.setattr(MemoryDeletes, "find", slow_find)
        patched.setattr(MemoryDeletes, "prepare", slow_prepare)
        before = rows(scene)
        drop(scene, "k < 12")
    [entry] = bin_of(scene)
    assert (entry.state, entry.rows) == ("dropped", 2)
    back(scene)
    assert rows(scene) == before


def test_a_drop_that_died_is_forgotten_while_another_run_works(scene: Scene) -> None:
    with pytest.raises(Crash):
        drop(scene, observer=once_at("before_commit", crash))
    scene.table.later(25 * HOUR_MS)
    register(scene.adapter.notes, "db.t", intent(scene.table), clock_of(scene))
    settle(scene.adapter, resolve(), scene.table.now_ms)
    assert bin_of(scene) == []


@pytest.mark.parametrize("kind", ["drop", "restore"])
def test_two_looks_at_the_trash_settle_an_entry_at_once(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The later one failed with NotFound: trash(), restore() and expire_rows() of a service beside a notebook."""
    scene = two_days()
    if kind == "drop":
        with pytest.raises(Crash):
            drop(scene, observer=lambda now, _: crash() if now == "before_commit" else None)
        scene.table.later(25 * HOUR_MS)
    else:
        drop(scene)
        with pytest.raises(Crash):
            back(scene, observer=lambda now, _: crash() if now == "committed" else None)
    assert len(bin_of(scene)) == 1
    real, looks = MemoryAdapter.changes_since, []

    def meanwhile(self: MemoryAdapter, snapshot: Any) -> Any:
        looks.append(snapshot)
        if len(looks) == 1:
            settle(MemoryAdapter(scene.table), resolve(), scene.table.now_ms)
            assert bin_of(scene) == []
        return real(self, snapshot)

    monkeypatch.setattr(MemoryAdapter, "changes_since", meanwhile)
    settle(scene.adapter, resolve(), scene.table.now_ms)
    assert len(looks) == 2
    assert bin_of(scene) == []


def test_the_run_id_of_a_restore_is_known_by_its_form(scene: Scene) -> None:
    """Delta's log keeps it as the application id of a transaction, as those of streams are."""
    drop(scene)
    [entry] = bin_of(scene)
    assert is_restore_id(restore_run(entry))
    assert is_restore_id(back(scene).run_id)


def test_a_drop_whose_entry_is_gone_gets_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = two_days()
    before = rows(scene)

    def forget_all() -> None:
        for entry in bin_of(scene):
            forget(scene.adapter, entry.name)

    drop(scene, "k < 12", observer=once_at("before_commit", forget_all))
    [entry] = bin_of(scene)
    assert (entry.state, entry.rows) == ("dropped", 2)
    back(scene)
    assert rows(scene) == before


def test_a_drop_notes_how_many_rows_each_attempt_removes(scene: Scene) -> None:
    noted: list[int] = []

    def observe(phase: str, facts: Mapping[str, Any]) -> None:
        if phase == "before_commit":
            noted.append(bin_of(scene)[0].rows)
            if len(noted) == 1:
                scene.table.append([{"day": 1, "k": 5}])
        if phase == "committed":
            crash()

    with pytest.raises(Crash):
        drop(scene, "k < 12", observer=observe)
    assert noted == [2, 3]
    assert back(scene).rows == 3


@pytest.mark.parametrize("failures", [1, 99])
def test_a_drop_whose_number_of_rows_cannot_be_noted_deletes_nothing(
    monkeypatch: pytest.MonkeyPatch, scene: Scene, failures: int
) -> None:
    """One failed write costs a pause."""
    before, left = rows(scene), iter(range(failures))
    replace = MemoryNotes.replace

    def failing(self: MemoryNotes, name: str, text: str) -> None:
        if name.startswith("trash/") and next(left, None) is not None:
            raise AdapterError("503")
        replace(self, name, text)

    monkeypatch.setattr(MemoryNotes, "replace", failing)
    if failures > 1:
        with pytest.raises(AdapterError, match="503"):
            drop(scene, "k < 12")
        assert (rows(scene), bin_of(scene), scene.table.leftovers()) == (before, [], set())
        return
    drop(scene, "k < 12")
    assert [entry.rows for entry in bin_of(scene)] == [2]


def test_a_vacuum_keeps_the_files_that_a_restore_needs() -> None:
    """Also after an unknown outcome: the vacuum settles it."""
    for died in (False, True):
        scene = two_days(Settings(linear=False))
        scene.table.later(DAY)
        scene.table.append([{"day": 1, "k": 50}])
        before = rows(scene)
        if died:
            with pytest.raises(Crash):
                drop(scene, observer=lambda now, _: crash() if now == "committed" else None)
        else:
            drop(scene)
        request = VacuumRequest(resolve({"vacuum.max-share": 1}), age_ms=0, allow_unsafe=True)
        vacuum(MemoryAdapter(scene.table), request, clock=clock_of(scene))
        back(scene)
        assert rows(scene) == before


def test_only_the_entry_names_the_dropped_partition() -> None:
    """The proof of a vacuum, which stays, quoted the predicate even after the trash had been emptied."""
    scene = two_days(Settings(linear=False))
    drop(scene)
    scene.table.append([{"day": 3, "k": 70}])
    request = VacuumRequest(resolve({"vacuum.max-share": 1}), age_ms=0, allow_unsafe=True)
    vacuum(MemoryAdapter(scene.table), request, clock=clock_of(scene))
    assert any("in_trash" in text for text in scene.table.notes.values())
    assert sum("day = 1" in text for text in scene.table.notes.values()) == 1
    assert len(list(empty(scene.adapter, None, scene.table.now_ms))) == 1
    assert not any("day = 1" in text for text in scene.table.notes.values())


@pytest.mark.parametrize("given", [{}, {"vacuum.trash-retention-hours": "2d"}], ids=["7 days", "2 days"])
def test_a_vacuum_keeps_a_drop_until_the_trash_retention_ends(given: dict[str, str]) -> None:
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
