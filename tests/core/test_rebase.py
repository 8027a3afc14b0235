from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from lakekeeper.core.rebase import Changes, Output, Rewrite, Winner, rebase
from lakekeeper.testing.draws import Shape, draw_snapshot
from lakekeeper.testing.harness import task_for


def rewrites(count: int = 3) -> list[Rewrite]:
    """Rewrites of two blocks each, without deletes."""
    snapshot = next(
        s
        for s in (draw_snapshot(random.Random(i), Shape(most=30)) for i in itertools.count())
        if len(s.blocks) >= 2 * count
    )
    paths = snapshot.blocks.path.to_pylist()
    tasks = [task_for(snapshot, paths[2 * i : 2 * i + 2]) for i in range(count)]
    return [Rewrite(replace(t, delete_ids=("", "")), (Output(f"new-{t.id}", 5, 50),)) for t in tasks]


def test_what_happens_elsewhere_changes_nothing() -> None:
    made = rewrites()
    changes = Changes(9, (Winner(9, "WRITE"),), frozenset({"elsewhere"}), {"elsewhere too": "dv1"})
    assert rebase(made, changes).keep == tuple(made)


@pytest.mark.parametrize("how", ["removed", "deleted"])
def test_a_rewrite_with_a_touched_input_is_dropped_and_the_winner_named(how: str) -> None:
    made = rewrites()
    path = made[1].task.inputs[0]
    winners = (Winner(8, "WRITE"), Winner(9, "DELETE", "run-9"))
    gone = frozenset({path} if how == "removed" else ())
    found = rebase(made, Changes(9, winners, gone, {path: "dv7"} if how == "deleted" else {}))
    assert found.keep == (made[0], made[2])
    (lost,) = found.drop
    assert lost.rewrite is made[1]
    assert "1 of its inputs" in lost.reason
    assert "version 9 (DELETE, lakekeeper run run-9)" in lost.reason


def test_deletes_that_we_read_with_are_no_change() -> None:
    (made, *_) = rewrites()
    known = replace(made, task=replace(made.task, delete_ids=("dv1", "")))
    same = Changes(9, delete_ids={known.task.inputs[0]: "dv1"})
    assert rebase([known], same).keep == (known,)
    assert rebase([known], Changes(9, delete_ids={known.task.inputs[0]: "dv2"})).keep == ()


def test_an_obstacle_drops_all_with_its_reason() -> None:
    found = rebase(rewrites(), Changes(9, obstacle="the table was made anew"))
    assert (found.keep, {d.reason for d in found.drop}) == ((), {"the table was made anew"})


def test_the_order_of_rewrites_does_not_matter() -> None:
    made = rewrites()
    changes = Changes(9, (Winner(9, "DELETE"),), frozenset({made[2].task.inputs[1]}))
    kept = {frozenset(r.task.id for r in rebase(p, changes).keep) for p in itertools.permutations(made)}
    assert kept == {frozenset({made[0].task.id, made[1].task.id})}


def test_each_rewrite_is_kept_or_dropped_and_all_at_once_is_as_one_by_one() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        made = rewrites()
        inputs = [path for r in made for path in r.task.inputs]
        gone = frozenset(rng.sample(inputs, rng.randint(0, 3)))
        changes = Changes(
            9, (Winner(9, "X"),), gone, dict.fromkeys(rng.sample(inputs, rng.randint(0, 3)), "dv")
        )
        found = rebase(made, changes)
        assert [*found.keep, *(d.rewrite for d in found.drop)].count(made[0]) == 1
        assert len(found.keep) + len(found.drop) == len(made)
        assert found.replay == ()
        alone = [r for r in made if rebase([r], changes).keep]
        assert list(found.keep) == alone


def test_a_commit_of_unknown_outcome_is_found_by_its_run_id() -> None:
    changes = Changes(9, (Winner(8, "lakekeeper", "run-1"), Winner(9, "WRITE")))
    assert changes.landed("run-1") == 8
    assert changes.landed("run-2") is None
