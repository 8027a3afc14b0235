"""What other commits did: ours among them, and how far back a stream of statements shows."""

from __future__ import annotations

import itertools

import pytest

from lakekeeper.core.planning.changes import Changes, Winner, stream_before


def test_a_commit_of_unknown_outcome_is_found_by_its_run_id() -> None:
    changes = Changes(9, (Winner(8, "lakekeeper", "run-1"), Winner(9, "WRITE")))
    assert changes.landed("run-1") == 8
    assert changes.landed("run-2") is None


def line(text: str) -> list[Winner]:
    """Commits, oldest first, a second apart: ``s`` a statement, ``a`` an append, ``m`` maintenance."""
    return [
        Winner(i, kind, layout=kind == "m", appends=kind == "a", at_ms=1000 * i)
        for i, kind in enumerate(text)
    ]


@pytest.mark.parametrize(
    "commits, seen",
    [
        ("", ""),
        ("aam", "aam"),
        ("sssammammam", "sssammammam"),
        ("sssssssss", "ssssss"),
        ("samsamsamsamsamsamsam", "samsamsamsamsamsam"),
        ("s" + "a" * 30, "a" * 21),
    ],
)
def test_a_stream_is_looked_for_as_far_back_as_it_may_show(commits: str, seen: str) -> None:
    """Six statements suffice; what is more than twenty seconds before the newest commit does not count."""
    assert "".join(w.operation for w in stream_before(reversed(line(commits)))) == seen


def test_a_log_of_many_commits_in_a_second_is_not_read_to_its_start() -> None:
    many = (Winner(-i, "a", appends=True, at_ms=0) for i in itertools.count())
    assert [w.version for w in stream_before(many)] == [-23 + i for i in range(24)]
