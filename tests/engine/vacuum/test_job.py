"""A vacuum of the memory lake: what stays readable and what is deleted, whatever fails in between."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.outcome import vacuumed
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.retention import Ref, Stream, Versions
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.state.leases import SLOTS, register, registered
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from lakekeeper.errors import AdapterError, Conflict, LostRace, RetentionError, Unsupported
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.storage import MemoryStorage
from tests.engine.scene import Scene, intent, written
from tests.engine.vacuums import DAY, WIDE, readable, run


def test_the_retention_keeps_the_version_that_was_newest_within_it(table: MemoryTable) -> None:
    report = run(table, age_ms=2 * DAY)
    # Versions 3, 4 and 5 are 2, 1 and 0 days old; 2 was the newest until 3 came, exactly at the cutoff.
    assert readable(table) == ([0, 3, 4, 5] if table.settings.linear else [3, 4, 5])
    assert report.deleted_files_count == len(table.touched.deleted) == 2
    assert report.kept_versions_count == 3


def test_the_last_versions_stay_however_old(table: MemoryTable) -> None:
    table.later(100 * DAY)
    run(table, options={"retain-last": 3}, age_ms=DAY)
    assert set(readable(table)) >= {3, 4, 5}
    assert 2 not in readable(table)


def test_without_a_setting_the_tables_own_retention_applies(table: MemoryTable) -> None:
    report = run(table)
    assert report.deleted_files_count == 0  # 168 hours
    assert len(readable(table)) == 6


def test_a_retention_under_the_floor_needs_an_explicit_override(table: MemoryTable) -> None:
    with pytest.raises(RetentionError, match=r"below the minimum of 24 h.*allow_unsafe_retention"):
        run(table, age_ms=HOUR_MS)
    assert table.touched.deleted == []
    run(table, age_ms=0, allow_unsafe=True)
    assert [v for v in readable(table) if v] == [5]


@pytest.mark.parametrize("who", ["tag", "caller", "work", "stream"])
def test_held_versions_stay(table: MemoryTable, who: str) -> None:
    table.later(30 * DAY)
    wanted: dict[str, Any] = {}
    if who == "tag":
        table.tag("monthly", 2)
    elif who == "caller":
        wanted["named"] = {2}
    elif who == "stream":
        wanted["streams"] = (Stream("/checkpoint", ((table.uuid, 2),)),)
    else:
        reading = intent(table, read_version=2)
        register(MemoryAdapter(table).notes, "t", reading, Clock(lambda: table.now_ms))
    report = run(table, age_ms=DAY, **wanted)
    assert 2 in readable(table)
    assert 1 not in readable(table)
    assert report.plan is not None
    assert 2 in report.plan.kept
    # On a linear log, versions after a kept one stay anyway. A stream reads them all; a commit is checked against them.
    assert (3 in readable(table)) is (table.settings.linear or who in ("stream", "work"))


def test_the_intent_of_a_run_that_counts_as_dead_holds_nothing(table: MemoryTable) -> None:
    reading = intent(table, read_version=2)
    register(MemoryAdapter(table).notes, "t", reading, Clock(lambda: table.now_ms))
    table.later(30 * DAY)
    run(table, age_ms=DAY)
    assert 2 not in readable(table)


@pytest.mark.parametrize("answer", ["no", "one error", "errors"])
def test_a_live_run_holds_its_version_although_its_table_is_unknown(
    table: MemoryTable, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """Loss L58: the log may no longer show whose run it is, or not respond."""
    reading = intent(table, read_version=2)
    register(MemoryAdapter(table).notes, "t", reading, Clock(lambda: table.now_ms))
    table.later(30 * DAY)
    note = next(name for name in table.notes if name.startswith("intents/"))
    table.notes[note] = replace(reading, renewed_ms=table.now_ms).to_json()
    answers: list[str] = []

    def down(what: str) -> None:
        if what == "same_table" and (answer == "errors" or not answers):
            answers.append(what)
            raise AdapterError("503")

    if answer == "no":
        monkeypatch.setattr(MemoryStorage, "same_table", lambda *_: False)
    else:
        table.before = down
    if answer == "errors":
        with pytest.raises(AdapterError):
            run(table, age_ms=DAY)
        assert table.touched.deleted == []
    else:
        run(table, age_ms=DAY)
    assert 2 in readable(table)
    assert len(answers) == {"no": 0, "one error": 1, "errors": 3}[answer]


class _Clone:
    """An adapter of a table that uses files of another one."""

    table = "db.clone"

    def __init__(self, *files: str) -> None:
        self.storage, self._files = self, set(files)

    def versions(self, since: int | None) -> None:
        """No one reads them."""

    def named(self, versions: None, paths: Collection[str]) -> set[str]:
        return {path for path in paths if path.endswith(tuple(self._files))} if self._files else set()


@pytest.mark.parametrize("trash", [False, True])
def test_files_that_a_clone_used_go_once_it_is_dropped(table: MemoryTable, *, trash: bool) -> None:
    """Loss L60: the next vacuum continued after the versions that dropped them, so that no vacuum found them."""
    [first], [second] = table.versions[1].files, table.versions[2].files
    clone: Any = _Clone(first, second)
    for day in range(4):
        report = run(table, age_ms=DAY, users=[clone], trash=trash)
        assert report.plan is not None
        assert list(report.plan.spared.values()) == ["db.clone uses it"] * 2
        assert {first, second} <= set(table.disk)
        assert len(registered(MemoryAdapter(table).notes)) == 1
        table.later(2 * DAY)
        if day:
            table.overwrite([{"k": 100 + day}])
    run(table, age_ms=DAY, users=[clone], trash=trash)
    assert len([name for name in table.notes if "/list-" in name]) == 1
    assert run(table, age_ms=DAY, users=[_Clone(second)], trash=trash).deleted_files_count == 1
    assert (first in table.disk, second in table.disk) == (False, True)
    assert run(table, age_ms=DAY, users=[_Clone()], trash=trash).deleted_files_count == 1
    assert second not in table.disk
    assert registered(MemoryAdapter(table).notes) == {}
    assert not [name for name in table.notes if "-deferred" in name]


def test_a_dry_run_lists_what_the_real_one_deletes_and_writes_nothing(table: MemoryTable) -> None:
    disk = dict(table.disk)
    preview = run(table, age_ms=DAY, dry_run=True)
    assert table.disk == disk
    assert table.notes == {}
    assert preview.plan is not None
    really = run(table, age_ms=DAY)
    assert [f.path.removeprefix("mem:/db.t/") for f in preview.plan.files] == table.touched.deleted
    assert (
        preview.deleted_bytes_count
        == really.deleted_bytes_count
        == sum(disk[path].bytes for path in table.touched.deleted)
    )


@pytest.mark.parametrize("linear", [True, False])
def test_a_dry_run_counts_the_versions_that_the_real_one_expires(linear: bool) -> None:
    """In a linear log, a version without files to delete stays readable."""
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=linear))
    for k in range(3):
        table.append([{"k": k}])
    table.later(30 * DAY)
    preview, really = (run(table, age_ms=DAY, dry_run=dry_run) for dry_run in (True, False))
    assert preview.expired_snapshots_count == really.expired_snapshots_count
    assert preview.status == ("idle" if linear else "planned")


def test_a_second_vacuum_deletes_nothing_and_no_vacuum_lists_files(table: MemoryTable) -> None:
    run(table, age_ms=DAY)
    deleted = list(table.touched.deleted)
    assert run(table, age_ms=DAY).deleted_files_count == 0
    assert table.touched.deleted == deleted
    assert table.touched.listings == 0


def test_the_brake_weighs_files_that_the_log_does_not_explain(table: MemoryTable) -> None:
    """Use A3: after one full rewrite, most bytes are garbage that the log itself names."""
    assert run(table, age_ms=DAY, options={"vacuum.max-share": 0}).deleted_files_count > 0
    left = {written(table, key=10**9) for _ in range(9)}
    table.later(30 * DAY)
    for orphans, count in ((True, 9), (False, 0)):
        if not orphans:
            assert (
                run(table, options={"vacuum.max-share": 0.1}, age_ms=100 * DAY).deleted_files_count == count
            )
            continue
        with pytest.raises(
            RetentionError, match=r"9 files of .* that the log does not explain.*is 10%.*--option"
        ):
            run(table, orphans=True, options={"vacuum.max-share": 0.1}, age_ms=100 * DAY)
        assert left <= set(table.disk)
    run(table, orphans=True, age_ms=100 * DAY)
    assert not left & set(table.disk)


def test_files_that_cannot_be_deleted_are_reported_and_retried(table: MemoryTable) -> None:
    stuck = next(iter(table.versions[1].files))
    table.stuck.add(stuck)
    report = run(table, age_ms=DAY)
    assert report.failed_files_count == 1
    assert stuck in table.disk
    table.stuck.clear()
    assert run(table, age_ms=DAY).deleted_files_count == 1
    assert table.leftovers() == set()


class _Crash(BaseException):
    pass


def test_a_crash_at_any_step_loses_nothing_and_leaves_nothing() -> None:
    for linear in (True, False):
        crashed = 0
        for k in range(100):
            table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=linear))
            for day in range(5):
                table.later(DAY)
                table.overwrite([{"k": day * 10 + i} for i in range(3)])
            kept = {v: table.rows(v) for v in (3, 4, 5)}
            calls = itertools.count()

            def crash(_what: str, calls: Iterator[int] = calls, k: int = k) -> None:
                if next(calls) == k:
                    raise _Crash

            table.before = crash
            try:
                run(table, age_ms=2 * DAY)
                break
            except _Crash:
                crashed += 1
            table.before = lambda _: None
            assert {v: table.rows(v) for v in kept} == kept
            run(table, age_ms=2 * DAY)
            assert {v: table.rows(v) for v in kept} == kept
            assert set(table.disk) == {path for v in kept for path in table.versions[v].files}
            assert run(table, age_ms=2 * DAY).deleted_files_count == 0
            table.later(2 * DAY)  # a crashed vacuum without a list may still be running until then
            run(table, age_ms=100 * DAY)
            assert registered(MemoryAdapter(table).notes) == {}
            assert not [name for name in table.notes if "list-" in name]
        assert crashed >= 5


def test_a_tag_added_between_the_plan_and_the_expiry_is_seen() -> None:
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=False))
    for day in range(5):
        table.later(DAY)
        table.overwrite([{"k": day}])
    raced: list[str] = []

    def tag(what: str) -> None:
        if what == "expire" and not raced:
            raced.append(what)
            table.tag("late", 1)

    table.before = tag
    report = run(table, age_ms=DAY)
    assert report.retries == 1
    assert table.rows(1) == [{"k": 0}]
    assert 2 not in readable(table)


def with_old_versions() -> MemoryTable:
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=False))
    for day in range(5):
        table.later(DAY)
        table.overwrite([{"k": day}])
    return table


def test_a_commit_between_the_plan_and_the_expiry_needs_no_second_plan() -> None:
    """Loss L8: a table under constant writes is vacuumed too."""
    table = with_old_versions()
    table.before = lambda what: table.append([{"k": 1}]) if what == "expire" else None
    report = run(table, age_ms=DAY)
    assert (report.retries, report.ended.code) == (0, "done")
    assert (report.deleted_files_count, report.expired_snapshots_count) == (3, 4)
    assert table.leftovers() == set()


def test_files_that_a_commit_references_again_before_the_expiry_stay() -> None:
    table = with_old_versions()
    old = dict(table.versions[1].files)

    def back(what: str) -> None:
        if what == "expire":
            table.apply("RESTORE", lambda now: replace(now, files=old))

    table.before = back
    report = run(table, age_ms=DAY)
    assert report.ended.code == "done"
    assert table.rows(table.current.number) == [{"k": 0}]
    assert report.plan is not None
    assert report.plan.spared == {
        f"mem:/db.t/{path}": "a commit made after the plan references it" for path in old
    }


@pytest.mark.parametrize("error", [LostRace, Conflict])
def test_it_gives_up_where_it_always_loses(error: type[Conflict]) -> None:
    table = with_old_versions()
    looks: list[str] = []

    def lost(what: str) -> None:
        if what == "expire":
            raise error("another commit came first")

    table.before = lost
    with pytest.raises(Conflict):
        run(
            table,
            age_ms=DAY,
            options={"commit.retry.num-retries": 2},
            observer=lambda phase, _: looks.append(phase) if phase == "planned" else None,
        )
    assert table.touched.deleted == []
    assert registered(MemoryAdapter(table).notes) == {}
    assert len(looks) == (1 if error is LostRace else 3)


def test_without_a_rename_there_is_no_trash(table: MemoryTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss L35: refused before anything is written, instead of a report of files that failed."""
    monkeypatch.setattr(
        MemoryStorage, "refuses_trash", lambda _: "its storage (s3a) renames a file by copying it"
    )
    disk, notes = dict(table.disk), dict(table.notes)
    with pytest.raises(Unsupported, match="renames a file by copying it; nothing was deleted"):
        run(table, age_ms=DAY, trash=True)
    assert (dict(table.disk), dict(table.notes)) == (disk, notes)


@pytest.mark.parametrize("phase", ["planned", "deleted"])
@pytest.mark.parametrize("restored", [False, True])
def test_files_that_are_named_again_are_not_moved_to_the_trash(
    table: MemoryTable, phase: str, *, restored: bool
) -> None:
    """Loss L87: a vacuum to the trash looked at no commit after its plan."""
    old = dict(table.versions[3].files)

    def race(at: str, _info: Any) -> None:
        if at != phase or "late" in table.refs or table.current.operation == "RESTORE":
            return
        if restored:
            table.apply("RESTORE", lambda now: replace(now, files=dict(old)))
        else:
            table.tag("late", 3)

    options = {"vacuum.max-batch-delete-size": 1, "vacuum.max-concurrent-deletes": 1}
    report = run(table, age_ms=DAY // 2, allow_unsafe=True, trash=True, observer=race, options=options)
    assert 3 in readable(table)
    assert report.deleted_files_count > 0
    assert ("stopped with" in str(report.ended)) == (phase == "deleted")


@pytest.mark.parametrize("trash", [False, True])
def test_the_trash_takes_no_file_of_a_name_that_is_due(*, trash: bool) -> None:
    """A vacuum to the trash removes no tag, so its version has to stay readable."""
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=False))
    for day in range(4):
        table.later(DAY)
        table.overwrite([{"k": day}])
    table.tag("due", 1, max_ref_age_ms=DAY)
    report = run(table, age_ms=DAY, trash=trash)
    assert report.deleted_files_count == 1
    assert report.plan is not None
    assert report.plan.expired_refs == (() if trash else ("due",))
    assert ("due" in table.refs) == trash
    assert 1 in readable(table)


def test_a_vacuum_that_removes_a_tag_alone_has_changed_the_table() -> None:
    """It counted as idle, and the command line did not ask whether to carry it out."""
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=False))
    table.overwrite([{"k": 1}])
    table.tag("due", table.current.number, max_ref_age_ms=DAY)
    table.later(2 * DAY)
    preview = run(table, age_ms=7 * DAY, dry_run=True)
    assert (preview.status, preview.expired_refs_count, preview.deleted_files_count) == ("planned", 1, 0)
    assert "1 branch or tag would expire" in str(preview)
    done = run(table, age_ms=7 * DAY)
    assert (done.status, done.changed, done.expired_refs_count) == ("done", True, 1)
    assert "expired branches and tags: 1" in str(done)
    assert "due" not in table.refs
    assert vacuumed(done) == (
        "done",
        Reason.of(Code.VACUUMED, versions=0, files=0, bytes=0).plus(Reason.of(Code.REFS_EXPIRED, refs=1)),
    )
    assert run(table, age_ms=7 * DAY).status == "idle"


def test_a_branch_that_is_due_keeps_its_versions_from_the_trash() -> None:
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=False))
    for day in range(5):
        table.later(DAY)
        table.overwrite([{"k": day}])
    table.refs["due"] = Ref("due", 2, min_versions=2, max_ref_age_ms=DAY)
    run(table, age_ms=DAY, trash=True)
    assert "due" in table.refs
    assert readable(table) == [0, 1, 2, 4, 5]


def test_a_table_without_a_version_has_no_orphans(
    monkeypatch: pytest.MonkeyPatch, table: MemoryTable
) -> None:
    written(table)
    table.later(30 * DAY)
    versions = MemoryStorage.versions

    def none(self: MemoryStorage, since: int | None = None) -> Versions:
        return replace(versions(self, since), items=(), refs=())

    monkeypatch.setattr(MemoryStorage, "versions", none)
    with pytest.raises(RetentionError, match="every file would look like an orphan; nothing was deleted"):
        run(table, orphans=True)
    assert run(table).ended.code == "no_versions"
    assert table.touched.deleted == []


def test_old_orphans_that_no_version_names_are_deleted(table: MemoryTable) -> None:
    left = written(table)
    young = run(table, orphans=True)
    assert young.deleted_files_count == 0
    table.later(4 * DAY)
    fresh = written(table)
    report = run(table, orphans=True, age_ms=30 * DAY)
    assert table.touched.deleted == [left]
    assert fresh in table.disk
    assert report.deleted_by_kind["orphan"][0] == 1


def test_orphans_of_unknown_age_stay_and_stop_nothing_else(table: MemoryTable) -> None:
    left, other = written(table), written(table)
    table.made_at[left] = 0
    table.later(30 * DAY)
    report = run(table, orphans=True, age_ms=100 * DAY)
    assert table.touched.deleted == [other]
    assert report.plan is not None
    assert "does not report its age" in report.plan.spared[f"mem:/db.t/{left}"]
    assert left in str(report)


def test_files_that_a_killed_run_left_are_found_by_its_intent() -> None:
    scene = Scene(MemoryTable("db.t", {"k": "int"}))
    table = scene.table
    for _ in range(4):
        table.append([{"k": i} for i in range(3)])
    rows = table.rows()
    clock = Clock(now_ms=lambda: table.now_ms, wait=lambda _: None)

    def kill(phase: str, _info: Mapping[str, Any]) -> None:
        if phase == "before_commit":
            raise _Crash

    from lakekeeper.engine.merge.job import maintain

    with pytest.raises(_Crash):
        maintain(scene.adapter, scene.runner, scene.request("sizes"), observer=kill, clock=clock)
    left = table.leftovers()
    assert left
    assert len(registered(scene.adapter.notes)) == 1
    table.later(DAY)
    assert run(table).deleted_files_count == 0  # no run counts as dead yet
    table.later(6 * DAY)
    report = run(table)
    assert set(table.touched.deleted) == left
    assert len(report.settled_runs) == 1
    assert registered(scene.adapter.notes) == {}
    assert table.rows() == rows


def test_a_run_that_counts_as_dead_commits_nothing() -> None:
    from lakekeeper.engine.merge.job import maintain
    from lakekeeper.errors import Rejected

    scene = Scene(MemoryTable("db.t", {"k": "int"}))
    table = scene.table
    for _ in range(4):
        table.append([{"k": i} for i in range(3)])
    rows, versions = table.rows(), len(table.versions)
    clock = Clock(now_ms=lambda: table.now_ms, wait=lambda _: None)

    def sleep(phase: str, _info: Mapping[str, Any]) -> None:
        if phase == "written":
            table.later(10 * DAY)
            run(table)

    with pytest.raises(Rejected, match=r"did not renew its registration within vacuum.intent-timeout-hours"):
        maintain(scene.adapter, scene.runner, scene.request("sizes"), observer=sleep, clock=clock)
    assert len(table.versions) == versions
    assert table.rows() == rows


def test_a_run_that_ends_well_leaves_no_intent() -> None:
    scene = Scene(MemoryTable("db.t", {"k": "int"}))
    for _ in range(4):
        scene.table.append([{"k": i} for i in range(3)])
    report = scene.run("sizes")
    assert report.commits == 1
    assert registered(scene.adapter.notes) == {}
    assert scene.table.touched.listings == 0


def test_slots_of_ended_runs_are_reused() -> None:
    table = MemoryTable("db.t", {"k": "int"})
    notes, clock = MemoryAdapter(table).notes, Clock(lambda: 0)
    for number in range(SLOTS):
        register(notes, "t", intent(table, f"r-{number}", at_ms=number, ended=number != 3), clock)
    late = register(notes, "t", intent(table, "late-1", at_ms=99), clock)
    held = {intent.run_id for intent in registered(notes).values()}
    assert late.is_registered()
    assert {"late-1", "r-3"} <= held
    assert "r-0" not in held


@pytest.mark.parametrize(
    "conf,requested,stays",
    [
        (None, 24, [0, 1, 2, 3, 4, 5]),  # the table's usual week applies
        (None, 24 * 30, [0, 1, 2, 3, 4, 5]),
        (48, 24, [3, 4, 5]),
        (48, 24 * 30, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_a_property_keeps_versions_longer_and_never_shorter(
    table: MemoryTable, conf: int | None, requested: int, stays: list[int]
) -> None:
    confs = {} if conf is None else {"spark.lakekeeper.retention-hours": str(conf)}
    options = resolve(WIDE, confs, {"lakekeeper.retention-hours": str(requested)})
    table.later(HOUR_MS)
    clock = Clock(now_ms=lambda: table.now_ms, wait=lambda _: None)
    vacuum(MemoryAdapter(table), VacuumRequest(options), clock=clock)
    kept = readable(table)
    assert kept == ([0, *stays] if table.settings.linear and 0 not in stays else stays)


def test_no_attempt_is_made_after_the_time_for_retries() -> None:
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=False))
    for _ in range(4):
        table.append([{"k": 1}])
        table.later(DAY)
    attempts = 0

    def never_rest(phase: str, _: object) -> None:
        nonlocal attempts
        if phase == "planned":
            attempts += 1
            table.later(HOUR_MS)
            table.append([{"k": 2}])

    def lose(what: str) -> None:
        if what == "expire":
            raise Conflict("look again")

    table.before = lose
    options = {**WIDE, "commit.retry.num-retries": 100, "commit.retry.total-timeout-ms": 3 * HOUR_MS}
    clock = Clock(now_ms=lambda: table.now_ms, wait=lambda _: None)
    request = VacuumRequest(resolve(options), age_ms=DAY)
    with pytest.raises(Conflict):
        vacuum(MemoryAdapter(table), request, observer=never_rest, clock=clock)
    assert attempts == 4
