"""``merge_deletes`` on the memory adapter: dead rows and dangling delete files go, and a second call finds nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.report import MergeReport
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.policies.deletes import DELETES, Deletes
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.backoff import Backoff
from lakekeeper.engine.merge.delete_files import merge_deletes
from lakekeeper.engine.merge.request import Request
from lakekeeper.errors import AdapterError, Conflict, NotSent, Rejected, Unknown
from lakekeeper.spi import Observer, Tidied
from lakekeeper.testing.draws import draw_table
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.versions import Version
from tests.engine.scene import SMALL, ReadOnly, Scene, rows
from tests.observers import once_at


def merged(
    scene: Scene,
    *,
    observer: Observer | None = None,
    where: str | None = None,
    dry_run: bool = False,
    options: Mapping[str, Any] | None = None,
    backoff: Backoff | None = None,
    policy: Deletes = DELETES,
) -> MergeReport:
    """Merge deletes by the share of deleted rows alone: no query pays for them."""
    given = {**SMALL, "queries-per-hour": 0, **(options or {})}
    resolved = resolve(given, properties=scene.adapter.properties())
    request = Request("merge_deletes", (policy,), resolved, where=where, dry_run=dry_run, backoff=backoff)
    return merge_deletes(scene.adapter, scene.runner, request, observer=observer, clock=scene.clock)


def half_empty(files: int = 4, *, settings: Settings | None = None, keyed: bool = True) -> Scene:
    """Files of ten rows side by side, each with every other row deleted, and one file without deletes."""
    table = MemoryTable("db.t", {"k": "int", "v": "string"}, settings=settings)
    for f in range(files + 1):
        table.append(rows(*range(f * 10, f * 10 + 10)))
    odd = {k for k in range(files * 10) if k % 2}
    table.delete(lambda row: row["k"] in odd)
    if keyed:
        table.set_key(["k"])
    return Scene(table)


def test_in_a_table_that_may_not_be_written_no_delete_file_is_merged() -> None:
    scene = Scene(MemoryTable("db.t", {"k": "int", "v": "string"}))
    scene.table.append(rows(1, 2))
    scene.table.leave_dangling()
    scene.adapter = ReadOnly(scene.table)
    scene.refused(lambda: merged(scene))


@pytest.mark.parametrize("keyed", [True, False])
def test_half_empty_neighbours_become_full_files_of_the_same_level(keyed: bool) -> None:
    scene = half_empty(keyed=keyed)
    before = {v.number: scene.table.fingerprint(v.number) for v in scene.table.versions}
    report = merged(scene, options={"target-file-size-bytes": 1 << 20})
    assert (report.verb, report.commits, report.rounds) == ("merge_deletes", 1, 1)
    assert (report.rewritten_data_files_count, report.added_data_files_count) == (4, 2)
    assert (report.removed_delete_files_count, report.added_delete_files_count) == (4, 0)
    assert report.version_after == scene.table.current.number
    blocks = scene.adapter.snapshot().blocks
    assert blocks.rows.tolist() == [10, 10, 10]
    assert blocks.deleted_rows.tolist() == [0, 0, 0]
    assert set(blocks.level.tolist()) == {0}
    assert {number: scene.table.fingerprint(number) for number in before} == before
    assert scene.table.fingerprint() == before[max(before)]
    assert scene.table.leftovers() == set()
    assert report.plan is not None
    assert [left.reason.codes for left in report.plan.left] == [("no_deletes",)]
    scene.untouched(lambda: merged(scene))
    assert merged(scene).ended.code == "nothing_to_do"


def test_reclustered_files_keep_their_level_and_key() -> None:
    scene = half_empty()
    assert scene.run("full").changed
    scene.table.delete("k < 10")
    report = merged(scene)
    assert report.changed
    blocks = scene.adapter.snapshot().blocks
    assert set(blocks.level.tolist()) == {1}
    assert report.depth_after is not None
    assert report.depth_before is not None
    assert report.depth_after <= report.depth_before


def test_a_file_without_live_rows_is_removed_without_a_replacement() -> None:
    scene = half_empty(1)
    doomed = next(path for path, entry in scene.table.current.files.items() if entry.deleted)
    scene.table.apply("DELETE", lambda now: _all_masked(now, doomed))  # users' writers would remove the file
    report = merged(scene)
    assert (report.rewritten_data_files_count, report.added_data_files_count) == (1, 0)
    assert sorted(row["k"] for row in scene.table.rows()) == list(range(10, 20))
    assert doomed not in scene.table.current.files


def _all_masked(now: Version, path: str) -> Version:
    entry = now.files[path]
    dead = frozenset(range(len(entry.file.rows)))
    return replace(now, files={**now.files, path: replace(entry, deleted=dead, delete_id="all")})


def test_files_under_the_threshold_stay_and_say_so() -> None:
    scene = half_empty()
    ageless = Deletes(old_ratio=1.0)
    options = {"delete-ratio-threshold": 0.6}
    scene.untouched(lambda: merged(scene, options=options, policy=ageless))
    report = merged(scene, options=options, policy=ageless)
    assert report.plan is not None
    assert "50% of rows deleted; due at 60%" in str(report.plan)
    assert merged(scene, options={"delete-ratio-threshold": 0.5}).changed


def test_where_and_budget_limit_the_rewrites() -> None:
    scene = half_empty()
    report = merged(scene, where="k < 10")
    assert report.rewritten_data_files_count == 1
    scene = half_empty()
    single = {"single-task-bytes": 1024, "max-file-group-input-files": 2, "budget-bytes": 1}
    assert merged(scene, options=single).rewritten_data_files_count == 2


def test_a_dry_run_writes_nothing_and_says_what_the_call_then_does() -> None:
    scene = half_empty()
    scene.table.leave_dangling()
    planned: list[MergeReport] = []
    scene.untouched(lambda: planned.append(merged(scene, dry_run=True)))
    done = merged(scene)
    assert [g.id for g in planned[0].groups] == [g.id for g in done.groups]
    assert planned[0].dry_run
    assert not planned[0].changed


# ------------------------------------------------------------------------------------------------------------ tidying


def test_dangling_delete_files_are_removed_in_a_commit_of_their_own() -> None:
    scene = half_empty()
    scene.table.leave_dangling(3)
    report = merged(scene)
    assert (report.commits, report.removed_delete_files_count) == (2, 4 + 3)
    assert [v.run_id for v in scene.table.versions[-2:]] == list(report.run_ids)
    assert len({run.rpartition("-")[0] for run in report.run_ids}) == 1
    assert report.version_after == scene.table.current.number
    assert scene.table.current.dangling == ()
    scene.untouched(lambda: merged(scene))


def test_dangling_delete_files_are_removed_where_nothing_is_rewritten() -> None:
    scene = half_empty()
    scene.table.leave_dangling(2)
    before = scene.table.fingerprint()
    report = merged(scene, options={"delete-ratio-threshold": 1}, where="k = 3")
    assert (report.commits, report.rewritten_data_files_count, report.removed_delete_files_count) == (1, 0, 2)
    assert report.ended.code == "delete_files_merged"
    assert report.changed
    assert len(report.run_ids) == 1
    assert scene.table.fingerprint() == before


def rival_tidies(scene: Scene) -> Callable[[], object]:
    """Another run removes the dangling delete files just before our commit, and a writer leaves more."""

    def act() -> None:
        rival = Scene(scene.table)
        rival.adapter.deletes.tidy(rival.adapter.snapshot(), "rival")
        scene.table.leave_dangling()

    return act


def test_after_a_lost_race_the_table_is_read_again() -> None:
    scene = half_empty()
    scene.table.leave_dangling()
    scene.adapter.faults.races.extend([lambda: None, rival_tidies(scene)])
    phases: list[str] = []
    report = merged(scene, observer=lambda phase, _: phases.append(phase))
    assert (report.commits, report.conflicts) == (2, 1)
    assert phases[-4:] == ["before_commit", "conflict", "before_commit", "committed"]
    assert scene.table.current.dangling == ()
    assert scene.pauses[-1] == 0.1


class Timed(Scene):
    """A scene whose clock is the table's: its commits are recent, and only waits let time pass between them."""

    @property
    def clock(self) -> Clock:
        return Clock(now_ms=lambda: self.table.now_ms, wait=self.wait)

    def wait(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.table.later(int(seconds * 1000))


def busy(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> tuple[Timed, list[int]]:
    """The scene, just after a writer's commit, and the versions of the snapshots whose changes were read."""
    scene.table.leave_dangling()
    timed, looks = Timed(scene.table), []
    real = timed.adapter.changes_since

    def changes_since(snapshot: Snapshot) -> Changes:
        looks.append(snapshot.version or 0)
        return real(snapshot)

    monkeypatch.setattr(timed.adapter, "changes_since", changes_since)
    return timed, looks


_ONLY_TIDY = {"delete-ratio-threshold": 1, "commit.quiet-window-ms": 4000}


@pytest.mark.parametrize("lost", [False, True], ids=["first attempt", "after a lost race"])
def test_the_cleanup_waits_for_a_gap_between_the_commits_of_a_writer(
    monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    """It was committed at once, amid the statements of the writer, and without what they left."""
    scene, _ = busy(half_empty(), monkeypatch)
    before = scene.table.fingerprint()
    if lost:
        scene.adapter.faults.races.append(rival_tidies(scene))
    writes = [] if lost else [scene.table.leave_dangling]

    def writer(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "before_commit" and not info["rewrites"] and writes:
            writes.pop()()

    report = merged(scene, options=_ONLY_TIDY, observer=writer)
    assert (report.commits, report.removed_delete_files_count) == (1, 1 if lost else 2)
    assert 3 <= sum(scene.pauses) <= 2 * 4 + 0.1
    assert scene.table.current.dangling == ()
    assert scene.table.fingerprint() == before


def test_where_no_delete_file_is_to_be_removed_there_is_no_wait_and_no_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It waited for a gap between the statements of a writer, and then found nothing to do."""
    scene, looks = busy(half_empty(), monkeypatch)
    scene.adapter.deletes.tidy(scene.adapter.snapshot(), "rival")
    scene.untouched(lambda: merged(scene, options=_ONLY_TIDY))
    assert (looks, scene.pauses) == ([], [])


def test_a_cleanup_in_a_quiet_time_reads_the_log_once_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    for idle_ms, window, most in ((0, 4000, 1), (60_000, 4000, 0), (0, 0, 0)):
        scene, looks = busy(half_empty(), monkeypatch)
        scene.table.later(idle_ms)
        assert merged(scene, options={**_ONLY_TIDY, "commit.quiet-window-ms": window}).commits == 1
        assert (len(looks), scene.pauses) == (most, [])


def test_a_cleanup_waits_for_a_writer_that_never_stops_twice_the_window_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, _ = busy(half_empty(), monkeypatch)

    def wait(self: Timed, seconds: float) -> None:
        self.pauses.append(seconds)
        self.table.leave_dangling()  # a second passes with each commit

    monkeypatch.setattr(Timed, "wait", wait)
    began = scene.table.now_ms
    report = merged(scene, options=_ONLY_TIDY, observer=once_at("before_commit", scene.table.leave_dangling))
    assert report.commits == 1
    assert scene.table.now_ms - began <= 2 * 4000 + 2000
    assert scene.table.current.dangling == ()


def test_a_cleanup_that_landed_though_the_catalog_said_no_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log shows the commit only after the first look."""
    scene, looks = busy(half_empty(), monkeypatch)
    real, log = scene.adapter.deletes.tidy, scene.adapter.changes_since

    def applied(*given: Any) -> Tidied:
        real(*given)
        raise Conflict("db.t: the catalog says that it lost")

    def late(snapshot: Snapshot) -> Changes:
        seen = log(snapshot)
        return seen if len(looks) > 2 else replace(seen, winners=())

    monkeypatch.setattr(type(scene.adapter.deletes), "tidy", lambda _, *given: applied(*given))
    monkeypatch.setattr(scene.adapter, "changes_since", late)
    report = merged(scene, options=_ONLY_TIDY)
    assert (report.commits, report.version_after) == (1, scene.table.current.number)


def test_a_log_that_fails_before_the_cleanup_was_sent_leaves_no_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, _ = busy(half_empty(), monkeypatch)

    def down(_: object) -> NoReturn:
        raise AdapterError("db.t: the catalog does not answer")

    monkeypatch.setattr(scene.adapter, "changes_since", down)
    with pytest.raises(AdapterError, match="does not answer"):
        merged(scene, options=_ONLY_TIDY)
    assert len(scene.table.current.dangling) == 1


def test_retries_are_bounded_and_a_loss_after_the_rewrites_is_only_reported() -> None:
    scene = half_empty()
    scene.table.leave_dangling()
    scene.adapter.faults.races.extend([lambda: None, *[rival_tidies(scene)] * 9])
    report = merged(scene, options={"commit.retry.num-retries": 2, "commit.quiet-window-ms": 0})
    assert (report.commits, report.conflicts) == (1, 3)
    assert report.ended.codes == ("one_round", "delete_files_not_merged")
    assert "gave up after 3 attempts" in str(report.ended)
    assert "another tidying" in str(report.ended)
    assert str(report.ended) in str(report)
    assert scene.pauses == [0.1, 0.2]
    assert scene.table.leftovers() == set()


def test_the_time_for_retries_is_bounded_too() -> None:
    scene = half_empty()
    scene.table.leave_dangling()
    scene.adapter.faults.races.extend([lambda: None, *[rival_tidies(scene)] * 50])
    options = {"commit.retry.num-retries": 100, "commit.retry.total-timeout-ms": 3}
    assert merged(scene, options=options).conflicts < 5


def test_a_loss_with_nothing_committed_before_it_is_an_error() -> None:
    scene = half_empty()
    scene.table.leave_dangling()
    scene.adapter.faults.races.extend([rival_tidies(scene)] * 9)
    options = {"commit.retry.num-retries": 1, "delete-ratio-threshold": 1}
    with pytest.raises(Conflict, match="2 attempts") as lost:
        merged(scene, options=options)
    assert lost.value.winner == "another tidying"


def test_reads_that_fail_after_a_lost_race_leave_the_outcome_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss L28, after a race: a catalog may apply a commit and report that it lost, which only the log shows."""
    scene = half_empty()
    scene.table.leave_dangling()
    raced = rival_tidies(scene)

    def down(_: object) -> NoReturn:
        raise AdapterError("db.t: the catalog does not answer")

    def race() -> None:
        raced()
        monkeypatch.setattr(scene.adapter, "changes_since", down)

    scene.adapter.faults.races.append(race)
    with pytest.raises(Unknown, match="the outcome of the merge of delete files"):
        merged(scene, options={"delete-ratio-threshold": 1})


@pytest.mark.parametrize("fault, kind", [("rejected", Rejected), ("unknown, lost", Unknown)])
def test_a_cleanup_that_fails_costs_no_rewrite(fault: Any, kind: type[Exception]) -> None:
    scene = half_empty()
    scene.table.leave_dangling()
    tries = 3 if fault == "rejected" else 1
    scene.adapter.faults.outcomes.extend([None, *[fault] * tries])  # type: ignore[list-item]  # None: the rewrites land
    report = merged(scene)
    assert (report.commits, report.rewritten_data_files_count) == (1, 4)
    assert "delete_files_not_merged" in report.ended.codes
    scene.adapter.faults.outcomes.extend([fault] * tries)
    with pytest.raises(kind):
        merged(scene)
    assert merged(scene).changed


@pytest.mark.parametrize("fault", ["rejected", "not sent"])
def test_a_cleanup_that_fails_once_is_tried_again(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    scene = half_empty()
    scene.table.leave_dangling()
    kind = Rejected if fault == "rejected" else NotSent
    real, left = scene.adapter.deletes.tidy, [kind("db.t: 503")]

    def once(*given: Any) -> Tidied:
        if left:
            raise left.pop()
        return real(*given)

    monkeypatch.setattr(type(scene.adapter.deletes), "tidy", lambda _, *given: once(*given))
    report = merged(scene)
    assert (report.commits, report.ended.codes) == (2, ("one_round",))
    assert not left


def test_an_error_of_another_kind_costs_no_report_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only lakekeeper's own errors were caught: any other was raised in place of the report of the rewrites."""
    scene = half_empty()
    scene.table.leave_dangling()

    def down(*_: object) -> NoReturn:
        raise OSError("reset by peer")

    monkeypatch.setattr("lakekeeper.engine.merge.delete_files.registered_run", down)
    report = merged(scene)
    assert (report.commits, report.rewritten_data_files_count) == (1, 4)
    assert "reset by peer" in str(report.ended)
    with pytest.raises(OSError, match="reset"):
        merged(scene)


def test_a_lost_answer_is_settled_by_the_run_id() -> None:
    scene = half_empty()
    scene.table.leave_dangling()
    scene.adapter.faults.outcomes.extend([None, "unknown, landed"])  # type: ignore[list-item]  # as above
    report = merged(scene)
    assert report.commits == 2
    assert report.version_after == scene.table.current.number
    assert scene.table.current.run_id == report.run_ids[-1]
    assert scene.table.touched.attempts == 2


def test_an_observer_that_raises_during_the_cleanup_stops_it_as_a_crash_would() -> None:
    scene = half_empty()
    scene.table.leave_dangling()
    before = scene.table.fingerprint()

    def crash(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "before_commit" and not info["rewrites"]:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        merged(scene, observer=crash)
    assert scene.table.fingerprint() == before
    report = merged(scene)
    assert (report.rewritten_data_files_count, report.removed_delete_files_count) == (0, 1)


# -------------------------------------------------------------------------------------------------------------- races


@pytest.mark.parametrize("phase", ["planned", "read", "written", "before_commit"])
def test_a_concurrent_delete_is_applied_to_the_outputs_too(phase: str) -> None:
    scene = half_empty()
    left = [lambda: scene.table.delete("k = 4")]

    def rival(phases: str, _: Mapping[str, Any]) -> None:
        if phases == phase and left:
            left.pop()()

    report = merged(scene, observer=rival)
    assert [g.status for g in report.groups] == ["committed"]
    assert sorted(row["k"] for row in scene.table.rows()) == sorted(
        [k for k in range(40) if k % 2 == 0 and k != 4] + list(range(40, 50))
    )
    assert scene.table.leftovers() == set()


@pytest.mark.parametrize("seed", range(60))
def test_random_tables_lose_no_row_and_a_second_call_finds_nothing(seed: int) -> None:
    rng = random.Random(seed)
    scene = Scene(draw_table(rng))
    for _ in range(rng.randint(0, 3)):
        doomed = rng.sample([0, 1, 2, 3, 5, 8], 2)
        scene.table.delete(lambda row, doomed=doomed: row["j"] in doomed)  # type: ignore[misc]  # bound at once
    scene.table.leave_dangling(rng.randint(0, 2))
    options = {
        "delete-ratio-threshold": rng.choice([0, 0.1, 0.3, 1]),
        "max-rows-per-file": rng.choice([3, 10]),
    }
    before = {v.number: scene.table.fingerprint(v.number) for v in scene.table.versions}
    report = merged(scene, options=options)
    assert {number: scene.table.fingerprint(number) for number in before} == before
    assert scene.table.fingerprint() == before[max(before)]
    assert scene.table.leftovers() == set()
    assert all(group.status == "committed" for group in report.groups)
    blocks = scene.adapter.snapshot().blocks
    shares = [d / r for d, r in zip(blocks.deleted_rows, blocks.rows, strict=True) if d]
    assert all(share < options["delete-ratio-threshold"] for share in shares)
    scene.untouched(lambda: merged(scene, options=options))
