"""What a call has begun to rewrite, as heard from its phases."""

from __future__ import annotations

from lakekeeper.core.scheduling.spending import Spending


def test_each_group_that_is_read_counts_and_nothing_else_does() -> None:
    spending = Spending()
    for phase, info in (
        ("planned", {"bytes": 1_000}),
        ("read", {"task": "a", "bytes": 40}),
        ("read", {"task": "b", "bytes": 2}),
        ("read", {"task": "b", "bytes": 2}),  # written again with finer cuts
        ("read", {"task": "c"}),
        ("written", {"task": "a", "bytes": 39}),
    ):
        spending(phase, info)
    assert spending.bytes == 44
