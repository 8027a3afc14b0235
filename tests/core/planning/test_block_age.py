"""The age of a block: from the time at which it was added, and where that is unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.model.coefficients import MIB
from lakekeeper.core.planning.block_age import ages, delete_ages
from tests.core.paper import BEGAN, HOUR_MS, snapshot_of


def test_an_age_is_the_time_since_the_block_was_added_whichever_writer_added_it() -> None:
    snapshot = snapshot_of([(1, 2, MIB, 1), (1, 2, MIB, 4)], level=[0, 1])
    assert ages(snapshot, BEGAN + 5 * HOUR_MS).tolist() == [4 * 3600, 3600]


def test_an_unknown_time_counts_as_the_oldest_known_and_a_future_one_as_now() -> None:
    snapshot = snapshot_of([(1, 2, MIB, 1), (1, 2, MIB, 3), (1, 2, MIB, 9)])
    blocks = replace(snapshot.blocks, added_at=np.array([0, *snapshot.blocks.added_at[1:].tolist()]))
    assert ages(replace(snapshot, blocks=blocks), BEGAN + 5 * HOUR_MS).tolist() == [2 * 3600, 2 * 3600, 0]


def test_without_a_clock_now_is_the_newest_known_time() -> None:
    snapshot = snapshot_of([(1, 2, MIB, 1), (1, 2, MIB, 3)])
    assert ages(snapshot, 0).tolist() == [2 * 3600, 0]
    later = replace(snapshot, commits_ms=np.array([BEGAN, BEGAN + 7 * HOUR_MS]))
    assert ages(later, 0).tolist() == [6 * 3600, 4 * 3600]
    assert ages(snapshot_of([]), 0).tolist() == []


def test_deletes_that_came_one_by_one_are_on_average_half_as_old_as_the_first() -> None:
    """So are deletes at an unknown time, after the block was added: taken for none, they would never be due."""
    rows = [(1, 2, MIB, 0.0)] * 3
    more: dict[str, Any] = {
        "delete_id": ["x", "y", "z"],
        "delete_files": [1, 99, 2],
        "deleted_at": [BEGAN + HOUR_MS, BEGAN + HOUR_MS, 0],
    }
    found = delete_ages(snapshot_of(rows, **more), BEGAN + 3 * HOUR_MS)
    assert found.tolist() == pytest.approx([7200, 7200 * 100 / 198, 3 * 3600 / 2])
