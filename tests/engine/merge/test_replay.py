"""Deletes that win a race are applied to our outputs: neither side loses, or the group is dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.engine.merge import replay
from lakekeeper.engine.merge.replay import Replayer
from lakekeeper.errors import Conflict
from lakekeeper.spi import Commit, Lost, Matched, Traces
from lakekeeper.testing.deletes import MemoryDeletes
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.values import fingerprint
from tests.engine.phases import BEFORE_COMMIT, At
from tests.engine.scene import Scene, groups_apart, overlapping, rows

KINDS = {
    "row ids, masks": Settings(),
    "values, masks": Settings(row_ids=False),
    "row ids, copy-on-write": Settings(row_deletes=False),
    "values, copy-on-write": Settings(row_ids=False, row_deletes=False),
    "scanned, row ids, masks": Settings(finds_rows=False),
    "scanned, values, masks": Settings(finds_rows=False, row_ids=False, counts_rows=False),
    "scanned, values, copy-on-write": Settings(finds_rows=False, row_ids=False, row_deletes=False),
}
SCANNED = Settings(finds_rows=False)


@pytest.fixture(params=KINDS.values(), ids=list(KINDS))
def scene(request: pytest.FixtureRequest) -> Scene:
    """Six files of ten rows, each over the whole key, and two pairs of equal rows."""
    made = overlapping(settings=request.param)
    made.table.append(rows(3, 3, 7, 7))
    return made


@pytest.mark.parametrize("phase", BEFORE_COMMIT)
def test_a_delete_is_replayed_at_every_phase(scene: Scene, phase: str) -> None:
    before = scene.table.rows()
    report = scene.run(observer=At(phase, lambda: scene.table.delete("k = 3 or k = 20")))
    (group,) = report.groups
    assert group.status == "committed"
    if scene.table.settings.row_deletes:
        assert (group.replayed_rows, report.replayed_rows_count) == (4, 4)
    left = [row for row in before if row["k"] not in (3, 20)]
    assert fingerprint(scene.table.rows()) == fingerprint(left)
    assert scene.table.leftovers() == set()
    assert "deleted rows replayed" in str(report) or not group.replayed_rows


def test_three_winners_in_a_row_are_all_applied(scene: Scene) -> None:
    before = scene.table.rows()
    races: list[Callable[[], Any]] = [
        lambda: scene.table.delete("k = 1"),
        lambda: (scene.table.append(rows(500)), scene.table.delete("k = 3")),
        lambda: scene.table.delete("k = 30 or k = 500"),
    ]
    scene.adapter.faults.races.extend(races)
    report = scene.run()
    left = [row for row in before if row["k"] not in (1, 3, 30)]
    assert fingerprint(scene.table.rows()) == fingerprint(left)
    assert (report.commits, report.replayed_rows_count) == (1, 5)
    assert scene.table.leftovers() == set(), "masks of the first replays are removed"


def test_each_replay_searches_only_for_rows_deleted_since_the_previous_one(scene: Scene) -> None:
    """Three winners in a row, each after the previous replay; equal rows are among the deleted ones."""
    looked_for: list[int] = []
    real = MemoryDeletes.lost

    def spy(self: MemoryDeletes, *args: Any) -> Lost:
        lost = real(self, *args)
        looked_for.append(sum(map(len, lost.native.values())))
        return lost

    before = scene.table.rows()
    deleted = ((1, 3), (5,), (30, 7))
    races = scene.adapter.faults.races
    races.extend(partial(scene.table.delete, " or ".join(f"k = {k}" for k in some)) for some in deleted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryDeletes, "lost", spy)
        report = scene.run()
    if scene.table.settings.row_deletes:
        assert looked_for == [4, 1, 4]
        assert report.replayed_rows_count == 9
        assert not races
    gone = {k for some in deleted[: 3 - len(races)] for k in some}
    left = [row for row in before if row["k"] not in gone]
    assert fingerprint(scene.table.rows()) == fingerprint(left)
    assert scene.table.leftovers() == set()


@pytest.mark.parametrize("first", ["k = 3", "k = 3 or k = 9"])
def test_a_row_that_is_restored_after_its_replay_is_in_the_outputs(scene: Scene, first: str) -> None:
    """The replay starts again from the outputs as written: masks of restored rows are dropped."""
    if not scene.table.settings.row_deletes:
        return  # a file that is rewritten comes back as another file
    before = scene.table.rows()

    def restore() -> None:
        scene.table.apply("RESTORE", lambda now: replace(now, files=scene.table.versions[-2].files))
        scene.table.delete("k = 9")

    scene.adapter.faults.races.extend([lambda: scene.table.delete(first), restore])
    report = scene.run()
    assert (report.commits, report.replayed_rows_count) == (1, 1)
    assert fingerprint(scene.table.rows()) == fingerprint([r for r in before if r["k"] != 9])
    assert scene.table.leftovers() == set()


def test_a_scan_that_returns_fewer_rows_than_the_log_counts_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file is missing and the session ignores that: the deleted rows in it would come back."""
    scene = overlapping(settings=SCANNED)
    real = MemoryDeletes.traces

    def blind(self: MemoryDeletes, lost: Lost) -> Traces[Any]:
        traces = real(self, lost)
        return replace(traces, lost=[part[1:] for part in traces.lost])

    monkeypatch.setattr(MemoryDeletes, "traces", blind)
    report = scene.run(observer=At("written", lambda: scene.table.delete("k = 3 or k = 4")))
    (group,) = report.groups
    assert group.status == "dropped"
    assert group.detail is not None
    assert group.detail.also == (Reason.of(Code.SCAN_DISAGREES, deleted=2, found=1),)
    assert sorted(r["k"] for r in scene.table.rows()) == [k for k in range(60) if k not in (3, 4)]
    assert scene.table.leftovers() == set()


def test_raced_groups_are_replayed_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = groups_apart(3)
    together = threading.Barrier(3, timeout=30)
    real = MemoryDeletes.lost

    def meet(self: MemoryDeletes, *args: Any) -> Lost:
        together.wait()
        return real(self, *args)

    monkeypatch.setattr(MemoryDeletes, "lost", meet)
    where = "k = 1 or k = 1001 or k = 2001"
    report = scene.run(observer=At("before_commit", lambda: scene.table.delete(where)))
    assert [group.replayed_rows for group in report.groups] == [1, 1, 1]
    assert scene.table.leftovers() == set()


def test_the_table_is_not_read_between_a_replay_and_its_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A delete that lands in that time would have to be replayed too."""
    scene = overlapping()
    done: list[str] = []
    real_mask, real_commit = MemoryDeletes.mask, scene.adapter.commit

    def mask(self: MemoryDeletes, lost: Lost, hits: Any) -> Rewrite:
        masked = real_mask(self, lost, hits)
        monkeypatch.setattr(
            scene.adapter, "changes_since", lambda _: pytest.fail("a read of the log after the replay")
        )
        done.append("masked")
        return masked

    def commit(rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
        monkeypatch.undo()
        done.append("commit")
        return real_commit(rewrites, snapshot, run_id)

    monkeypatch.setattr(MemoryDeletes, "mask", mask)
    monkeypatch.setattr(scene.adapter, "commit", commit)
    scene.run(
        observer=At("before_commit", lambda: scene.table.delete("k = 3")),
        options={"commit.quiet-window-ms": 0},
    )
    assert done == ["masked", "commit"]
    assert scene.pauses == []


def test_a_row_of_an_older_delete_is_not_counted_twice(scene: Scene) -> None:
    scene.table.delete("k = 3 or k = 11")
    before = scene.table.rows()
    report = scene.run(observer=At("written", lambda: scene.table.delete("k = 7 or k = 3")))
    assert fingerprint(scene.table.rows()) == fingerprint([r for r in before if r["k"] != 7])
    if scene.table.settings.row_deletes:
        assert report.replayed_rows_count == 3
    assert scene.table.leftovers() == set()


def test_an_update_is_a_delete_and_a_new_row(scene: Scene) -> None:
    before = scene.table.rows()

    def update() -> None:
        scene.table.delete("k = 7")
        scene.table.append([{"k": 7, "v": "new"}])

    scene.run(observer=At("before_commit", update))
    expected = [r for r in before if r["k"] != 7] + [{"k": 7, "v": "new"}]
    assert fingerprint(scene.table.rows()) == fingerprint(expected)


def test_rows_of_a_removed_file_are_masked(scene: Scene) -> None:
    (path, *_) = scene.adapter.snapshot().blocks.path.to_pylist()
    kept = [r for p, e in scene.table.current.files.items() if p != path for r in e.live]
    report = scene.run(observer=At("written", lambda: scene.table.drop_files(path)))
    assert report.replayed_rows_count == 10
    assert len(scene.table.rows()) == len(kept)
    assert scene.table.leftovers() == set()


def test_rows_of_an_input_that_another_writer_rewrote_are_masked_and_stay_in_its_file(scene: Scene) -> None:
    before = fingerprint(scene.table.rows())
    (path, *_) = scene.adapter.snapshot().blocks.path.to_pylist()
    report = scene.run(observer=At("written", lambda: scene.table.rewrite_foreign(path)))
    assert report.replayed_rows_count == 10
    assert fingerprint(scene.table.rows()) == before
    assert scene.table.leftovers() == set()


def test_rows_that_came_back_drop_the_group() -> None:
    scene = overlapping()
    scene.table.delete("k = 3")
    deleted = scene.table.current

    def restore() -> None:
        scene.table.apply("RESTORE", lambda now: replace(now, files=scene.table.versions[-2].files))

    report = scene.run(observer=At("written", restore))
    assert scene.table.versions[-2] == deleted
    (group,) = report.groups
    assert group.status == "dropped"
    assert group.detail is not None
    assert "not_replayed" in group.detail.codes
    assert "came back" in str(group.detail)
    assert 3 in {row["k"] for row in scene.table.rows()}
    assert scene.table.leftovers() == set()


def test_with_too_many_deleted_rows_the_group_is_planned_again() -> None:
    scene = overlapping()
    report = scene.run(observer=At("written", lambda: scene.table.delete(lambda row: row["k"] % 5 != 0)))
    (group,) = report.groups
    assert group.status == "dropped"
    assert group.detail is not None
    assert group.detail.also == (Reason.of(Code.TOO_MANY_DELETED, deleted=48, rows=60, limit=30),)
    assert len(scene.table.rows()) == 12
    assert scene.table.leftovers() == set()


@pytest.mark.parametrize("most, status", [(3, "dropped"), (12, "committed")])
def test_the_deleted_rows_of_a_large_group_are_bounded_too(
    monkeypatch: pytest.MonkeyPatch, most: int, status: str
) -> None:
    """Two million, however small a part of the group they are."""
    assert replay.MAX_ROWS == 2_000_000
    monkeypatch.setattr(replay, "MAX_ROWS", most)
    scene = overlapping()
    report = scene.run(observer=At("written", lambda: scene.table.delete(lambda row: row["k"] % 5 == 0)))
    (group,) = report.groups
    assert group.status == status
    if status == "dropped":
        assert group.detail is not None
        assert group.detail.also == (Reason.of(Code.TOO_MANY_DELETED, deleted=12, rows=60, limit=3),)
    assert len(scene.table.rows()) == 48


@pytest.mark.parametrize("found", [0, 3, -1])
def test_a_replay_that_cannot_be_proven_is_dropped(monkeypatch: pytest.MonkeyPatch, found: int) -> None:
    scene = overlapping(settings=SCANNED)
    right = scene.runner.match

    def wrong(traces: Any, most: int) -> Matched[Any]:
        return replace(right(traces, most), found=found)

    monkeypatch.setattr(scene.runner, "match", wrong)
    report = scene.run(observer=At("written", lambda: scene.table.delete("k = 3 or k = 4")))
    (group,) = report.groups
    assert group.status == "dropped"
    assert group.detail is not None
    assert group.detail.also == (Reason.of(Code.NOT_ALL_FOUND, deleted=2, found=found),)
    assert sorted(r["k"] for r in scene.table.rows()) == [k for k in range(60) if k not in (3, 4)]
    assert scene.table.leftovers() == set()


@pytest.mark.parametrize("rows", [[], [0], [0, 0]])
def test_positions_that_do_not_match_the_deleted_rows_are_not_believed(
    monkeypatch: pytest.MonkeyPatch, rows: list[int]
) -> None:
    scene = overlapping()
    monkeypatch.setattr(MemoryDeletes, "places", lambda _, lost: {lost.base.outputs[0].path: rows})
    report = scene.run(observer=At("written", lambda: scene.table.delete("k = 3 or k = 4")))
    (group,) = report.groups
    assert group.status == "dropped"
    assert group.detail is not None
    assert {"not_all_found", "mask_disagrees"} & set(group.detail.codes)
    assert sorted(r["k"] for r in scene.table.rows()) == [k for k in range(60) if k not in (3, 4)]
    assert scene.table.leftovers() == set()


def test_an_error_in_the_replay_costs_the_group_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = overlapping(settings=SCANNED)

    def fail(*_: object) -> Matched[Any]:
        raise RuntimeError("executor lost\nstack")

    monkeypatch.setattr(scene.runner, "match", fail)
    report = scene.run(observer=At("written", lambda: scene.table.delete("k = 3")))
    (group,) = report.groups
    assert group.detail is not None
    assert group.detail.also == (Reason.of(Code.NOT_REPLAYED, error="RuntimeError: executor lost"),)
    assert scene.table.leftovers() == set()


def test_after_the_last_retry_a_clear_error_and_no_leftovers(scene: Scene) -> None:
    scene.adapter.faults.races.extend(partial(scene.table.delete, f"k = {k}") for k in range(10))
    with pytest.raises(Conflict) as error:
        scene.run(options={"commit.retry.num-retries": 3})
    assert "4 attempts" in str(error.value)
    assert "DELETE" in error.value.winner
    assert scene.table.current.operation == "DELETE"
    assert scene.table.leftovers() == set()


def test_without_a_race_nothing_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = overlapping()
    monkeypatch.setattr(Replayer, "replay", lambda *_: pytest.fail("replayed without a race"))
    monkeypatch.setattr(scene.runner, "match", lambda *_: pytest.fail("matched without a race"))
    report = scene.run(observer=At("written", lambda: scene.table.append(rows(900))))
    assert report.conflicts == 0
    reads = scene.table.touched.data_reads
    assert len(reads) == len(set(reads)), "each input is read once"


def test_a_commit_of_unknown_outcome_after_a_replay_is_settled() -> None:
    scene = overlapping()
    before = scene.table.rows()
    scene.adapter.faults.races.append(lambda: scene.table.delete("k = 3"))
    scene.adapter.faults.outcomes.append("unknown, landed")
    report = scene.run()
    assert report.commits == 1
    assert fingerprint(scene.table.rows()) == fingerprint([r for r in before if r["k"] != 3])
    assert scene.table.leftovers() == set()


def test_a_masked_rewrite_keeps_the_rewrite_as_written(scene: Scene) -> None:
    """Rewrites are values: whatever replays add, ``written`` is the rewrite as it was written."""
    seen: list[Rewrite] = []
    right = scene.adapter.commit

    def spy(rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
        seen.extend(rewrites)
        return right(rewrites, snapshot, run_id)

    scene.adapter.commit = spy  # type: ignore[method-assign]  # a spy on the one instance
    scene.adapter.faults.races.extend(
        [lambda: scene.table.delete("k = 1"), lambda: scene.table.delete("k = 2")]
    )
    scene.run()
    assert len(seen) == 3
    assert all(r.written == seen[0] for r in seen)
    assert [r.written.rows_out for r in seen] == [64] * 3


def test_duplicates_are_numbered_not_merged() -> None:
    """Of three equal rows, the one at a position is deleted: two are left."""
    table = MemoryTable("db.t", {"k": "int", "v": "string"}, settings=Settings(row_ids=False))
    for _ in range(3):
        table.append(rows(1, 5, 9))
    table.set_key(["k"])
    scene = Scene(table)
    path = next(iter(table.current.files))

    def one_of_three() -> None:
        table.apply("DELETE", lambda now: _masked(now, path, 1))

    report = scene.run(observer=At("written", one_of_three))
    assert report.replayed_rows_count == 1
    assert sorted(row["k"] for row in table.rows()) == [1, 1, 1, 5, 5, 9, 9, 9]


def _masked(now: Any, path: str, position: int) -> Any:
    entry = now.files[path]
    masked = replace(entry, deleted=frozenset({position}), delete_id="dv-by-hand")
    return replace(now, files={**now.files, path: masked})
