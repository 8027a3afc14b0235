"""Races, driven through the observer: users win, groups they touch are dropped, all the others land."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from lakekeeper.errors import Conflict
from lakekeeper.testing.memory import MemoryAdapter
from tests.engine.phases import BEFORE_COMMIT, At
from tests.engine.scene import IN_PARTS, Scene, groups_apart, overlapping, rows


@pytest.mark.parametrize("phase", [*BEFORE_COMMIT, "committed"])
def test_a_concurrent_append_at_every_phase_is_no_conflict(phase: str) -> None:
    scene = groups_apart()
    before = scene.table.rows()
    observer = At(phase, lambda: scene.table.append(rows(5, 2005)))
    report = scene.run(observer=observer)
    assert phase in observer.seen
    assert (report.commits, report.conflicts) == (1, 0)
    assert {group.status for group in report.groups} == {"committed"}
    assert _same(scene, [*before, *rows(5, 2005)])
    assert scene.table.leftovers() == set()


@pytest.mark.parametrize("phase", BEFORE_COMMIT)
@pytest.mark.parametrize("where", ["k = 3", "k < 1000"], ids=["a row", "all files of the group"])
def test_a_concurrent_delete_is_replayed_or_drops_only_its_group(phase: str, where: str) -> None:
    scene = groups_apart(4)
    expected: list[Any] = []

    def rival() -> None:
        scene.table.delete(where)
        expected.extend(scene.table.rows())

    observer = At(phase, rival)
    report = scene.run(observer=observer)
    assert phase in observer.seen
    assert "conflict" in observer.seen
    assert (len(report.groups), report.commits, report.conflicts) == (4, 1, 1)
    (raced,) = (group for group in report.groups if group.detail)
    if where == "k = 3":
        assert (raced.status, raced.replayed_rows, report.replayed_rows_count) == ("committed", 1, 1)
    else:
        assert (raced.status, raced.replayed_rows) == ("dropped", 0)
        assert raced.detail is not None
        assert raced.detail.code == "inputs_removed"
        assert "DELETE" in str(raced.detail["winners"])
    assert _same(scene, expected)
    assert scene.table.leftovers() == set()


def test_a_delete_after_our_commit_deletes_rows_of_our_files() -> None:
    """The other order: we commit first, the user second."""
    scene = groups_apart(4)
    report = scene.run(observer=At("committed", lambda: scene.table.delete("k = 3")))
    assert {group.status for group in report.groups} == {"committed"}
    assert sorted(row["k"] for row in scene.table.rows() if row["k"] < 10) == [0, 1, 2, *range(4, 10)]
    assert scene.table.leftovers() == set()


@pytest.mark.parametrize("where", ["k = 3", "k >= 0"], ids=["a row", "all rows"])
def test_a_delete_just_before_the_commit_is_found_by_the_commit(where: str) -> None:
    """After every check of the engine: the commit raises Conflict, and the other groups are committed again."""
    scene = groups_apart(4)
    scene.adapter.faults.races.append(lambda: scene.table.delete(where))
    report = scene.run()
    lost = [group for group in report.groups if group.status == "dropped"]
    all_gone = where == "k >= 0"
    assert len(lost) == (4 if all_gone else 0)
    assert report.replayed_rows_count == (0 if all_gone else 1)
    assert report.commits == (0 if all_gone else 1)
    assert report.conflicts >= 1
    assert scene.pauses == ([0.1] if all_gone else []), "no wait before a replay"
    assert _same(scene, scene.table.rows(scene.table.current.number - report.commits))
    assert scene.table.leftovers() == set()


def test_two_runs_on_one_table_lose_no_row_and_no_file() -> None:
    """Another of our runs wins meanwhile: all our groups are dropped, in either order."""
    scene = groups_apart(3)
    before = scene.table.fingerprint()
    rival = Scene(scene.table)
    ours = scene.run(observer=At("before_commit", rival.run))
    assert {group.status for group in ours.groups} == {"dropped"}
    assert all("lakekeeper run" in str(group.detail) for group in ours.groups)
    assert ours.commits == 0
    assert scene.table.fingerprint() == before
    assert scene.table.leftovers() == set()
    assert scene.run().ended.code == "nothing_to_do"


def test_a_foreign_rewrite_of_inputs_wins() -> None:
    scene = overlapping()
    before = scene.table.fingerprint()
    report = scene.run(observer=At("written", scene.table.rewrite_foreign))
    assert [group.status for group in report.groups] == ["dropped"]
    assert scene.table.fingerprint() == before
    assert scene.table.leftovers() == set()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda scene: scene.table.add_column("n", "int"), id="column added"),
        pytest.param(lambda scene: scene.table.rename_column("v", "w"), id="column renamed"),
        pytest.param(lambda scene: scene.table.drop_column("v"), id="column dropped"),
        pytest.param(lambda scene: scene.table.repartition("v"), id="partitioning"),
    ],
)
@pytest.mark.parametrize("phase", ["planned", "before_commit"])
def test_a_concurrent_schema_change_drops_all_groups_and_is_reported(
    phase: str, change: Callable[[Scene], object]
) -> None:
    scene = groups_apart(2)
    report = scene.run(observer=At(phase, lambda: change(scene)))
    assert {group.status for group in report.groups} == {"dropped"}
    assert {group.detail and group.detail.code for group in report.groups} == {"schema_changed"}
    assert scene.table.leftovers() == set()
    assert len(scene.table.rows()) == 48


def test_retries_are_bounded_and_the_error_names_the_winner() -> None:
    scene = groups_apart(8)
    # Before each attempt, a delete touches another group at the last instant.
    scene.adapter.faults.races.extend(_delete_one(scene, group) for group in range(8))
    with pytest.raises(Conflict) as error:
        scene.run(options={"commit.retry.num-retries": 2})
    assert scene.table.touched.attempts == 3
    assert "3 attempts" in str(error.value)
    assert "DELETE" in str(error.value)
    assert str(scene.table.current.number) in error.value.winner
    assert scene.table.current.operation == "DELETE"
    assert scene.table.leftovers() == set()


def test_the_time_for_retries_is_bounded_too() -> None:
    scene = groups_apart(8)
    scene.adapter.faults.races.extend(_delete_one(scene, group) for group in range(8))
    with pytest.raises(Conflict):
        scene.run(options={"commit.retry.num-retries": 100, "commit.retry.total-timeout-ms": 3})
    assert scene.table.touched.attempts < 5
    assert scene.table.leftovers() == set()


def test_pauses_double_up_to_the_longest() -> None:
    """The swap was lost to an unrelated commit: nothing must be replayed, and the rival gets time."""
    scene = groups_apart(8)
    scene.adapter.faults.races.extend([_lost_swap] * 7)
    report = scene.run(options={"commit.retry.num-retries": 7})
    assert scene.pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert (report.commits, report.conflicts, report.replayed_rows_count) == (1, 7, 0)


def test_a_conflict_that_a_replay_resolves_causes_no_pause() -> None:
    scene = groups_apart(8)
    races = [_delete_one(scene, 0), _lost_swap, _delete_one(scene, 1), lambda: scene.table.delete("k = 1")]
    scene.adapter.faults.races.extend(races)
    report = scene.run()
    assert scene.pauses == [0.2], "only after the second attempt"
    assert sorted(g.replayed_rows for g in report.groups) == [0] * 6 + [1, 2]
    assert report.commits == 1


def _lost_swap() -> None:
    raise Conflict("the swap was lost to a commit elsewhere", "version 9 (WRITE)")


@pytest.mark.parametrize("maintenance_first", [True, False])
def test_two_adapters_commit_in_both_orders(maintenance_first: bool) -> None:
    """Groups that do not conflict: in either order, both land and the table is the same."""
    scene = groups_apart(2)
    plan = scene.plan()
    first, second = MemoryAdapter(scene.table), MemoryAdapter(scene.table)
    snapshot = first.snapshot()
    made = [
        adapter.write(scene.runner.merge(adapter.read(task), task), task, "run-1")
        for adapter, task in zip((first, second), plan.tasks, strict=True)
    ]
    pairs = list(zip((first, second), made, strict=True))
    before = scene.table.fingerprint()
    for adapter, rewrite in pairs if maintenance_first else reversed(pairs):
        adapter.commit([rewrite], snapshot, f"run-{id(adapter)}")
    assert scene.table.fingerprint() == before
    assert scene.table.leftovers() == set()
    assert scene.plan().tasks == ()


@pytest.mark.parametrize("partial", [True, False])
def test_partial_progress_commits_groups_as_they_finish(partial: bool) -> None:
    scene = groups_apart(6)
    options = {"partial-progress.max-commits": 3 if partial else 1, **IN_PARTS}
    before = scene.table.fingerprint()
    report = scene.run(options=options)
    assert report.commits == (3 if partial else 1)
    assert len(set(report.run_ids)) == report.commits
    assert scene.table.fingerprint() == before


def test_with_partial_progress_a_delete_drops_only_one_group() -> None:
    scene = groups_apart(6)
    observer = At("committed", lambda: scene.table.delete("k >= 0 and k != 1"))
    report = scene.run(observer=observer, options=IN_PARTS)
    assert "dropped" in {group.status for group in report.groups}
    assert [row["k"] for row in scene.table.rows()] == [1]
    assert scene.table.leftovers() == set()


def test_a_batch_that_gives_up_keeps_the_report_of_the_earlier_ones() -> None:
    scene = groups_apart(4)
    options = {
        **IN_PARTS,
        "partial-progress.max-commits": 4,
        "commit.retry.num-retries": 0,
    }
    scene.adapter.faults.races.extend([lambda: None, *(_delete_all(scene, group) for group in range(4))])
    report = scene.run(options=options | {"max-concurrent-file-group-rewrites": 1})
    assert report.commits >= 1
    assert {g.status for g in report.groups} == {"committed", "dropped"}
    assert any("gave up after 1 attempts" in str(g.detail) for g in report.groups)
    assert any(
        re.search(r"were removed \(groups: \d+, files: [1-9]\d*, bytes: ", str(g.detail))
        for g in report.groups
    )
    assert scene.table.leftovers() == set()


def _delete_all(scene: Scene, group: int) -> Callable[[], int]:
    """One row of each group except the first: whichever commits next loses."""
    return lambda: scene.table.delete(lambda row: row["k"] % 1000 == group + 1)


def _delete_one(scene: Scene, group: int) -> Callable[[], int]:
    return lambda: scene.table.delete(f"k = {1000 * group}")


def _same(scene: Scene, expected: list[Any]) -> bool:
    return sorted(map(str, scene.table.rows())) == sorted(map(str, expected))
