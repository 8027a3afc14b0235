"""A rewrite and its replays: which files it commits, which it leaves behind, and what it may be committed upon."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from lakekeeper.core.planning.rewrites import Output, Rewrite
from lakekeeper.testing.draws import draw_snapshot
from lakekeeper.testing.harness import task_for

MOVED = (Output("m1", 1, 10),)


@pytest.fixture
def written() -> Rewrite:
    snapshot = draw_snapshot(random.Random(1))
    task = task_for(snapshot, snapshot.blocks.path.to_pylist()[:2])
    task = replace(task, inputs=("a", "b"), delete_ids=("", "dv1"))
    return Rewrite(task, (Output("o1", 5, 50), Output("o2", 5, 50)), rows_in=10)


def first(written: Rewrite) -> Rewrite:
    """After a replay that copied one output, and moved a row of the successor of ``a``."""
    outputs = (Output("c1", 4, 40), written.outputs[1])
    return written.masked(
        outputs,
        None,
        applied=(None, "dv1"),
        rows=1,
        extra=["c1"],
        before=written,
        successors=("s",),
        moved=MOVED,
    )


def test_what_a_rewrite_may_be_committed_upon(written: Rewrite) -> None:
    assert written.inputs_now == {"a": "", "b": "dv1"}
    assert first(written).inputs_now == {"a": None, "b": "dv1", "s": ""}


def test_a_replay_adds_its_copies_and_the_moved_rows(written: Rewrite) -> None:
    once = first(written)
    assert once.added == ("c1", "o2", "m1")
    assert (once.rows_out, once.replayed, once.written) == (9, 1, written)
    assert (once.extra, once.stale) == (("c1", "m1"), ())
    assert set(once.paths) == {"c1", "o2", "m1"}


def test_files_of_an_earlier_replay_are_stale_unless_they_stay(written: Rewrite) -> None:
    once = first(written)
    outputs = (Output("c2", 3, 30), written.outputs[1])

    def again(*moved: Output) -> Rewrite:
        return once.masked(
            outputs,
            None,
            applied=(None, "dv1"),
            rows=1,
            extra=["c2"],
            before=once,
            successors=("s", "t"),
            moved=moved,
        )

    twice = again(*MOVED, Output("m2", 1, 10))
    assert (twice.extra, twice.stale, twice.replayed) == (("c2", "m1", "m2"), ("c1",), 2)
    other = again(Output("m3", 2, 20))
    assert (other.extra, other.stale) == (("c2", "m3"), ("c1", "m1"))


def test_a_replay_that_starts_over_leaves_all_earlier_files_behind(written: Rewrite) -> None:
    once = first(written)
    over = written.masked(
        written.outputs, None, applied=("", "dv1"), rows=0, extra=[], before=once, successors=(), moved=()
    )
    assert (over.added, over.replayed, over.stale) == (("o1", "o2"), 0, ("c1", "m1"))
