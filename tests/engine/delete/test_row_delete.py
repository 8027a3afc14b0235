"""Row deletes through lakekeeper: maintenance that commits first neither makes one fail nor saves a row from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.report import DeleteReport
from lakekeeper.core.planning.changes import Changes
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.delete.row_delete import delete_rows
from lakekeeper.errors import (
    AdapterError,
    Conflict,
    NotFound,
    NotSent,
    OptionError,
    Rejected,
    Unknown,
)
from lakekeeper.spi import Commit, Observer
from lakekeeper.testing.deletes import MemoryDeletes
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.runner import MemoryRunner
from lakekeeper.testing.values import fingerprint
from tests.engine.phases import At
from tests.engine.scene import ReadOnly, Scene, groups_apart, overlapping, rows


def delete(scene: Scene, where: str, observer: Observer | None = None, **options: Any) -> DeleteReport:
    resolved = resolve(options)
    return delete_rows(scene.adapter, scene.runner, where, resolved, observer=observer, clock=scene.clock)


@pytest.fixture(params=[Settings(), Settings(row_deletes=False)], ids=["masks", "copy-on-write"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return overlapping(settings=request.param)


def left(scene: Scene) -> list[int]:
    return sorted(row["k"] for row in scene.table.rows())


def test_rows_that_match_are_deleted_and_no_others(scene: Scene) -> None:
    before = scene.table.fingerprint()
    report = delete(scene, "k < 3 or k = 59")
    assert left(scene) == list(range(3, 59))
    assert (report.deleted_rows_count, report.retries, report.changed) == (4, 0, True)
    assert scene.table.fingerprint(report.version_before) == before
    assert "deleted     4 rows in 4 files" in str(report)
    assert scene.table.current.run_id == report.run_id


def test_where_no_row_matches_nothing_is_committed(scene: Scene) -> None:
    version = scene.table.current.number
    report = delete(scene, "k = 1000")
    assert (report.changed, scene.table.current.number) == (False, version)
    assert "no row matches" in str(report)


def test_files_are_not_searched_where_none_can_hold_a_match(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg refuses a scan of no files."""
    monkeypatch.setattr(MemoryDeletes, "find", lambda *_: pytest.fail("no file can match"))
    assert not len(scene.adapter.snapshot(where="k = 1000").blocks)
    scene.untouched(lambda: delete(scene, "k = 1000"))


def test_a_table_that_may_not_be_written_is_not_searched(scene: Scene) -> None:
    scene.adapter = ReadOnly(scene.table)
    scene.refused(lambda: delete(scene, "k < 3"))


def test_whole_files_are_removed(scene: Scene) -> None:
    delete(scene, "k >= 0")
    assert scene.table.rows() == []
    assert scene.table.current.files == {}


def test_a_layout_commit_before_ours_is_followed(scene: Scene) -> None:
    """Databend, case 1: our delete finds its rows in the files with which maintenance replaced the old ones."""
    rival = Scene(scene.table)
    scene.adapter.faults.races.append(rival.run)
    report = delete(scene, "k < 3")
    assert left(scene) == list(range(3, 60))
    assert (report.retries, report.followed_rows_count, report.deleted_rows_count) == (1, 3, 3)
    assert "lakekeeper run" in report.winners[0]
    assert "found again after version" in str(report)


def test_layout_appends_and_deletes_one_after_the_other(scene: Scene) -> None:
    scene.adapter.faults.races.extend(
        [
            lambda: (scene.table.append(rows(1, 100)), Scene(scene.table).run()),
            lambda: scene.table.delete("k = 2 or k = 50"),
            scene.table.rewrite_foreign,
        ]
    )
    report = delete(scene, "k < 3")
    assert left(scene) == [k for k in range(3, 60) if k != 50] + [100]
    # 0, 1 and the appended 1; another writer deleted 2
    assert report.deleted_rows_count == 3
    assert report.retries == 3


def test_an_update_before_ours_is_judged_by_its_new_values(scene: Scene) -> None:
    """The update commits before our delete: the result is the same as if we had started later."""

    def update() -> None:
        scene.table.delete("k = 1")
        scene.table.append([{"k": 1000, "v": "was 1"}])

    scene.adapter.faults.races.append(update)
    delete(scene, "k < 3")
    assert left(scene) == [*range(3, 60), 1000]


def test_only_changed_files_are_read_again() -> None:
    scene = overlapping()
    touched = scene.table.touched
    (first, *_) = scene.table.current.files
    scene.adapter.faults.races.append(lambda: scene.table.rewrite_foreign(first))
    delete(scene, "k < 6")
    assert len(touched.data_reads) == 6 + 1


@pytest.mark.parametrize("masks", [True, False])
@pytest.mark.parametrize(
    "where, rest",
    [
        ("k < 1012", range(1012, 1024)),
        ("k >= 12", range(12)),
        ("k >= 0", ()),
        ("k >= 3 and k < 1024", range(3)),
    ],
)
def test_what_was_prepared_in_another_kind_is_prepared_again(
    where: str, rest: Sequence[int], *, masks: bool
) -> None:
    """A user turned deletion vectors on or off between the search and the commit."""
    scene = groups_apart(2)
    scene.table.settings = replace(scene.table.settings, row_deletes=masks)
    first, *_, last = scene.table.current.files

    def turned() -> None:
        scene.table.settings = replace(scene.table.settings, row_deletes=not masks)
        scene.table.rewrite_foreign(first)

    scene.adapter.faults.races.extend([lambda: scene.table.rewrite_foreign(last), turned])
    assert delete(scene, where).deleted_rows_count == 48 - len(rest)
    assert left(scene) == list(rest)


def test_a_rewrite_of_files_without_a_match_is_not_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = groups_apart(2)
    commit, first = MemoryDeletes.delete, next(iter(scene.table.current.files))

    def second(self: MemoryDeletes, *given: Any) -> Commit:
        if first in scene.table.current.files:
            scene.table.rewrite_foreign(first)
            raise Conflict("another commit came first")
        return commit(self, *given)

    monkeypatch.setattr(MemoryDeletes, "delete", second)
    report = delete(scene, "k >= 1000")
    assert (report.deleted_rows_count, report.followed_rows_count) == (24, 0)


def test_a_rewrite_that_lost_rows_is_reported_and_nothing_is_deleted() -> None:
    scene = overlapping()
    (first, *_) = scene.table.current.files

    def broken() -> None:
        scene.table.apply("OPTIMIZE", lambda now: _without_file(now, first))

    scene.adapter.faults.races.append(broken)
    version = scene.table.current.number
    with pytest.raises(AdapterError, match="lost or doubled rows"):
        delete(scene, "k < 12")
    assert scene.table.current.number == version + 1


def _without_file(now: Any, path: str) -> Any:
    return replace(now, files={p: e for p, e in now.files.items() if p != path})


class _Renamed(MemoryAdapter):
    """As Iceberg: a change of columns makes no version, and so is neither a winner nor an obstacle."""

    def changes_since(self, snapshot: Snapshot) -> Changes:
        found = super().changes_since(snapshot)
        rewrites = tuple(winner for winner in found.winners if winner.layout)
        return replace(
            found, obstacle=None, winners=rewrites, removed=frozenset(snapshot.blocks.path.to_pylist())
        )


def test_a_rewrite_is_not_accused_after_the_predicate_has_another_meaning() -> None:
    """Columns were swapped while a delete searched, and a compaction committed: it seemed to have lost rows."""
    table = MemoryTable("db.t", {"a": "int", "b": "int"})
    table.append([{"a": 1, "b": 7}, {"a": 1, "b": 8}, {"a": 2, "b": 1}])

    def swapped() -> None:
        for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
            table.rename_column(old, new)
        table.rewrite_foreign(*table.current.files)

    observer, clock = At("before_commit", swapped), Clock(wait=lambda _: None)
    options = resolve(None)
    report = delete_rows(_Renamed(table), MemoryRunner(), "a = 1", options, observer=observer, clock=clock)
    assert report.deleted_rows_count == 1
    assert sorted((row["a"], row["b"]) for row in table.rows()) == [(7, 1), (8, 1)]


def test_retries_are_bounded_and_the_error_names_the_winner(scene: Scene) -> None:
    scene.adapter.faults.races.extend(partial(scene.table.delete, f"k = {k}") for k in range(10))
    with pytest.raises(Conflict, match="4 attempts") as error:
        delete(scene, "k < 20", commit_retry_num_retries=3)
    assert "DELETE" in error.value.winner
    assert 19 in left(scene)


def test_unknown_outcomes_are_settled_by_the_run_id(scene: Scene) -> None:
    scene.adapter.faults.outcomes.append("unknown, landed")
    report = delete(scene, "k < 3")
    assert left(scene) == list(range(3, 60))
    assert report.version_after == scene.table.current.number
    scene.adapter.faults.outcomes.append("unknown, lost")
    with pytest.raises(Unknown, match="before you delete again"):
        delete(scene, "k < 5")
    assert left(scene) == list(range(3, 60))
    scene.adapter.faults.outcomes.extend(["rejected"] * 3)
    with pytest.raises(Rejected):
        delete(scene, "k < 5")


def test_a_delete_that_did_not_reach_the_log_is_committed_again_with_the_same_files(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failing = MemoryDeletes.delete, [NotSent("503"), NotSent("503"), Rejected("429"), NotSent("503")]
    searches = 0
    find = MemoryDeletes.find

    def counted(*given: Any) -> Any:
        nonlocal searches
        searches += 1
        return find(*given)

    def refused(self: MemoryDeletes, *given: Any) -> Any:
        if failing:
            raise failing.pop()
        return real(self, *given)

    monkeypatch.setattr(MemoryDeletes, "delete", refused)
    monkeypatch.setattr(MemoryDeletes, "find", counted)
    delete(scene, "k < 3")
    assert left(scene) == list(range(3, 60))
    assert searches == 1
    assert scene.table.leftovers() == set()


def test_rows_appended_after_the_search_are_deleted_on_serializable_tables() -> None:
    for serializable in (True, False):
        scene = overlapping(settings=Settings(serializable=serializable))
        scene.adapter.faults.races.append(partial(scene.table.append, rows(1, 100)))
        report = delete(scene, "k < 3")
        assert left(scene) == [*([] if serializable else [1]), *range(3, 60), 100]
        assert report.retries == serializable
        assert scene.pauses == []


def test_an_append_without_a_match_is_no_conflict() -> None:
    scene = overlapping()
    scene.adapter.faults.races.append(lambda: scene.table.append(rows(100, 101)))
    assert delete(scene, "k < 3").retries == 0


def test_steady_appends_are_followed_at_once_without_counting_as_retries(scene: Scene) -> None:
    reads = scene.table.touched.data_reads
    scene.adapter.faults.races.extend([lambda: scene.table.append(rows(1, 100))] * 20)
    report = delete(scene, "k < 3", commit_retry_num_retries=1)
    assert left(scene) == [*range(3, 60), *[100] * 20]
    assert (report.retries, report.deleted_rows_count) == (20, 23)
    assert scene.pauses == []
    assert len(reads) == 3 + 20


def test_steady_appends_are_followed_for_a_bounded_time() -> None:
    scene = overlapping()
    scene.adapter.faults.races.extend([lambda: scene.table.append(rows(1, 100))] * 2000)
    with pytest.raises(Conflict, match="total-timeout"):
        delete(scene, "k < 3", commit_retry_total_timeout_ms=100)
    assert scene.table.leftovers() == set()


def test_files_removed_as_a_whole_are_not_read() -> None:
    scene = overlapping()
    report = delete(scene, "k >= 0")
    assert scene.table.touched.data_reads == []
    assert (report.deleted_rows_count, report.unread_data_files_count) == (60, 6)


def test_a_file_without_live_rows_is_no_match() -> None:
    scene = overlapping(1, 3)
    scene.table.apply(
        "DELETE", lambda now: replace(now, files={p: _all_dead(e) for p, e in now.files.items()})
    )
    scene.untouched(lambda: delete(scene, "k >= 0"))


def _all_dead(entry: Any) -> Any:
    return replace(entry, deleted=frozenset(range(len(entry.file.rows))), delete_id="dv")


@pytest.mark.parametrize("error", [OSError("no route"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_files_of_a_commit_that_was_reported_lost_stay_until_the_log_confirms_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Loss: a catalog lands a commit, answers that another one won, and then does not answer any more."""
    real = MemoryDeletes.delete

    def landed_and_lost(self: MemoryDeletes, *given: Any) -> Any:
        real(self, *given)
        monkeypatch.setattr(MemoryAdapter, "refresh", unreachable)
        raise Conflict("another commit came first")

    def unreachable(*_: Any, **__: Any) -> Any:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(MemoryDeletes, "delete", landed_and_lost)
        refresh = MemoryAdapter.refresh
        with pytest.raises(Unknown if isinstance(error, Exception) else KeyboardInterrupt):
            delete(scene, "k < 3")
    monkeypatch.setattr(MemoryAdapter, "refresh", refresh)
    assert left(scene) == list(range(3, 60))


@pytest.mark.parametrize("error", [OSError("503"), NotFound("db.t", "can no longer be read")])
def test_reads_that_fail_while_an_outcome_is_settled_leave_it_unknown(scene: Scene, error: Exception) -> None:
    """The catalog that did not answer the commit does not answer the next request either."""
    changes = MemoryAdapter.changes_since
    failing = [error] * 2

    def look(self: MemoryAdapter, snapshot: Any) -> Any:
        if failing:
            raise failing.pop()
        return changes(self, snapshot)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MemoryAdapter, "changes_since", look)
        scene.adapter.faults.outcomes.append("unknown, landed")
        assert delete(scene, "k < 3").version_after == scene.table.current.number
        failing.extend([error] * 100)
        scene.adapter.faults.outcomes.append("unknown, landed")
        with pytest.raises(Unknown, match=r"run [0-9a-f]{16}-1 is not known"):
            delete(scene, "k < 5")
    assert sum(scene.pauses) < 60


def test_reads_that_fail_after_a_lost_attempt_are_repeated(scene: Scene) -> None:
    refresh, failing = MemoryAdapter.refresh, [OSError("throttled")] * 3

    def look(self: MemoryAdapter, snapshot: Any, columns: Any = None) -> Any:
        if self.store.touched.attempts and failing:
            raise failing.pop()
        return refresh(self, snapshot, columns)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MemoryAdapter, "refresh", look)
        scene.adapter.faults.races.append(lambda: scene.table.append(rows(1)))
        assert delete(scene, "k < 3").retries == 1
    assert not failing
    assert left(scene) == list(range(3, 60))


def test_a_delete_and_a_rewrite_give_the_same_rows_in_either_order() -> None:
    ends = set()
    for maintenance_first in (True, False):
        scene = overlapping()
        if maintenance_first:
            scene.adapter.faults.races.append(Scene(scene.table).run)
            delete(scene, "k < 3 or k = 33")
        else:
            scene.run(observer=At("before_commit", partial(delete, Scene(scene.table), "k < 3 or k = 33")))
        ends.add(fingerprint(scene.table.rows()))
        assert scene.table.leftovers() == set()
    assert len(ends) == 1


@pytest.mark.parametrize("landed", [False, True])
def test_a_column_that_is_renamed_between_search_and_commit_leaves_no_doubt(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    """The files can no longer be listed by the predicate, but the log says whether the attempt landed."""
    real, disk = MemoryDeletes.delete, set(scene.table.disk)

    def lost(self: MemoryDeletes, *given: Any) -> Any:
        if landed:
            real(self, *given)
        scene.table.rename_column("k", "key")
        raise Conflict("the schema changed")

    monkeypatch.setattr(MemoryDeletes, "delete", lost)
    if landed:
        assert delete(scene, "k < 3").deleted_rows_count == 3
    else:
        with pytest.raises(OptionError, match="k"):
            delete(scene, "k < 3")
        assert set(scene.table.disk) == disk
    assert sorted(row["key"] for row in scene.table.rows()) == list(range(3 if landed else 0, 60))


def test_where_neither_the_predicate_fits_nor_the_log_answers_the_outcome_is_unknown(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any) -> Any:
        scene.table.rename_column("k", "key")
        monkeypatch.setattr(MemoryAdapter, "changes_since", down)
        raise Conflict("the schema changed")

    def down(*_: Any) -> Any:
        raise OSError("503")

    monkeypatch.setattr(MemoryDeletes, "delete", lost)
    with pytest.raises(Unknown, match=r"run [0-9a-f]{16}-1 is not known"):
        delete(scene, "k < 3")
    assert scene.table.touched.discarded == []


@pytest.mark.parametrize("name", ["covered", "find", "keep"])
def test_one_failed_read_of_the_log_does_not_cost_a_search(scene: Scene, name: str) -> None:
    real, failing = getattr(MemoryDeletes, name), [OSError("503")]

    def call(self: MemoryDeletes, *given: Any) -> Any:
        if failing and scene.table.touched.attempts:
            raise failing.pop()
        return real(self, *given)

    scene.adapter.faults.races.append(scene.table.rewrite_foreign)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MemoryDeletes, name, call)
        assert delete(scene, "k < 3").retries == 1
    assert not failing
    assert left(scene) == list(range(3, 60))
    assert scene.table.leftovers() == set()


@pytest.mark.parametrize("name", ["covered", "find"])
def test_a_log_that_cannot_be_read_before_the_search_is_reported_soon(scene: Scene, name: str) -> None:
    def down(*_: Any) -> Any:
        raise OSError("503")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MemoryDeletes, name, down)
        with pytest.raises(OSError, match="503"):
            delete(scene, "k < 3")
    assert 0 < sum(scene.pauses) < 5
