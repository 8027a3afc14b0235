from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.changes import Changes, Winner
from lakekeeper.core.planning.rebase import applied_now, rebase
from lakekeeper.core.planning.rewrites import Output, Rewrite
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


def test_changes_to_other_files_change_nothing() -> None:
    made = rewrites()
    changes = Changes(9, (Winner(9, "WRITE"),), frozenset({"elsewhere"}), {"elsewhere too": "dv1"})
    assert rebase(made, changes).keep == tuple(made)


@pytest.mark.parametrize("how", ["removed", "deleted"])
def test_a_rewrite_with_a_touched_input_is_replayed(how: str) -> None:
    made = rewrites()
    path = made[1].task.inputs[0]
    gone = frozenset({path} if how == "removed" else ())
    changes = Changes(9, (Winner(9, "DELETE"),), gone, {path: "dv7"} if how == "deleted" else {})
    found = rebase(made, changes)
    assert found.keep == (made[0], made[2])
    assert found.replay == (made[1],)
    assert found.drop == ()
    assert applied_now(made[1].task, changes) == ((None if how == "removed" else "dv7"), "")


def test_a_rewrite_that_lost_most_of_its_inputs_is_dropped_and_the_winner_named() -> None:
    made = rewrites()
    winners = (Winner(8, "WRITE"), Winner(9, "DELETE", "run-9"))
    found = rebase(made, Changes(9, winners, frozenset(made[1].task.inputs)))
    assert found.keep == (made[0], made[2])
    (lost,) = found.drop
    assert lost.rewrite is made[1]
    assert (lost.reason.code, lost.reason["removed"]) == ("inputs_removed", 2)
    assert lost.reason["winners"] == ("version 8 (WRITE)", "version 9 (DELETE, lakekeeper run run-9)")


def test_a_replay_keeps_the_deletes_it_applied_and_replays_later_ones() -> None:
    (made, *_) = rewrites()
    first, second = made.task.inputs
    masked = replace(made, applied=("dv7", None), unmasked=made)
    same = Changes(9, removed=frozenset({second}), delete_ids={first: "dv7"})
    assert rebase([masked], same).keep == (masked,)
    later = replace(same, delete_ids={first: "dv8"})
    assert rebase([masked], later).replay == (masked,)
    undone = replace(same, delete_ids={})
    assert rebase([masked], undone).replay == (masked,), "the deletes were undone"
    back = replace(same, removed=frozenset())
    assert rebase([masked], back).replay == (masked,), "a removed file is back"


def test_deletes_that_the_plan_read_are_no_change() -> None:
    (made, *_) = rewrites()
    known = replace(made, task=replace(made.task, delete_ids=("dv1", "")))
    same = Changes(9, delete_ids={known.task.inputs[0]: "dv1"})
    assert rebase([known], same).keep == (known,)
    assert rebase([known], Changes(9, delete_ids={known.task.inputs[0]: "dv2"})).replay == (known,)


def test_an_obstacle_drops_all_with_its_reason() -> None:
    recreated = Reason.of(Code.TABLE_RECREATED)
    found = rebase(rewrites(), Changes(9, obstacle=recreated))
    assert (found.keep, {d.reason for d in found.drop}) == ((), {recreated})


def test_the_order_of_rewrites_does_not_matter() -> None:
    made = rewrites()
    changes = Changes(9, (Winner(9, "DELETE"),), frozenset({made[2].task.inputs[1]}))
    found = [rebase(p, changes) for p in itertools.permutations(made)]
    assert {frozenset(r.task.id for r in f.keep) for f in found} == {
        frozenset({made[0].task.id, made[1].task.id})
    }
    assert {tuple(r.task.id for r in f.replay) for f in found} == {(made[2].task.id,)}


def test_each_rewrite_is_kept_replayed_or_dropped_and_a_batch_equals_one_by_one() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        made = rewrites()
        inputs = [path for r in made for path in r.task.inputs]
        gone = frozenset(rng.sample(inputs, rng.randint(0, 3)))
        changes = Changes(
            9, (Winner(9, "X"),), gone, dict.fromkeys(rng.sample(inputs, rng.randint(0, 3)), "dv")
        )
        found = rebase(made, changes)
        everywhere = [*found.keep, *found.replay, *(d.rewrite for d in found.drop)]
        assert sorted(r.task.id for r in everywhere) == sorted(r.task.id for r in made)
        for got, of in ((found.keep, "keep"), (found.replay, "replay")):
            assert list(got) == [r for r in made if getattr(rebase([r], changes), of)]
