"""The rules of universal compaction against Paimon's picker, transcribed line by line over plain numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.config.layout_options import UniversalOptions
from lakekeeper.core.planning.sorted_runs import pick
from tests.core.planning.paimon import Paimon, Run
from tests.sampling import fewer

many = settings(max_examples=fewer(300), derandomize=True, deadline=None)


sizes = st.sampled_from([1, 5, 10, 99, 100, 101, 102, 150, 300, 1000, 5000])


fresh_runs = st.lists(sizes, max_size=9)


settled_runs = st.dictionaries(st.integers(1, 7), sizes, max_size=5)


some_options = st.builds(
    UniversalOptions,
    trigger=st.integers(2, 6),
    size_ratio=st.sampled_from([0, 1, 50]),
    max_amplification=st.sampled_from([1, 100, 200, 10_000]),
    full_interval_ms=st.sampled_from([None, None, 10]),
    total_bytes=st.sampled_from([None, None, 500]),
    incremental_bytes=st.sampled_from([None, None, 400]),
    force_up_level_0=st.booleans(),
)


@many
@given(fresh_runs, settled_runs, some_options, st.sampled_from([None, 0, 10, 11]))
def test_the_rules_pick_what_paimon_picks(
    fresh: list[int], settled: dict[int, int], options: UniversalOptions, since_full: int | None
) -> None:
    runs = [(0, size) for size in fresh] + sorted(settled.items())
    level, size = np.array([r[0] for r in runs], np.int64), np.array([r[1] for r in runs], np.int64)
    unit = pick(level, size, options, since_full)
    assert (None if unit is None else (unit.runs, unit.level)) == Paimon(options, since_full).pick(runs)


@many
@given(fresh_runs, settled_runs, some_options)
def test_units_end(fresh: list[int], settled: dict[int, int], options: UniversalOptions) -> None:
    """Each unit leaves fewer runs, or as many with fewer on level 0; never two on one level."""
    runs = [(0, size) for size in fresh] + sorted(settled.items())
    for _ in range(20):
        unit = pick(
            np.array([r[0] for r in runs], np.int64), np.array([r[1] for r in runs], np.int64), options, 0
        )
        if unit is None or (unit.runs == 1 and runs[0][0] == unit.level):
            return
        merged = (unit.level, sum(size for _, size in runs[: unit.runs]))
        after = [merged, *runs[unit.runs :]]
        assert merged[0] > 0
        assert all(level > unit.level for level, _ in after[1:])
        assert (len(after), _fresh(after)) < (len(runs), _fresh(runs))
        runs = after
    raise AssertionError("more than 20 units")


def _fresh(runs: Sequence[Run]) -> int:
    return sum(level == 0 for level, _ in runs)
