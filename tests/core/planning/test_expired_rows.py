"""Which rows a rule expires: at the start of a day in UTC, never NULL, and never more than the bounds prove."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.model.blocks import Snapshot, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.planning.expired_rows import LATE_MS, ExpiredRows, before, cutoff_ms, expired_rows
from lakekeeper.core.units import DAY_MS, HOUR_MS
from lakekeeper.errors import OptionError

CUTOFF = int(datetime(2026, 3, 1, tzinfo=timezone.utc).timestamp() * 1000)


def column(kind: str = "date", name: str = "d") -> KeyColumn:
    return KeyColumn((name,), kind, "1")


def snapshot(*blocks: tuple[Any, Any, int], kind: str = "date", **more: Any) -> Snapshot:
    """Blocks of ten rows and 100 bytes, each with its least and greatest value and its number of NULLs."""
    lo, hi, nulls = zip(*blocks, strict=True)
    columns = {
        "path": [f"f{i}" for i in range(len(blocks))],
        "rows": [10] * len(blocks),
        "bytes": [100] * len(blocks),
        "lo": [list(lo)],
        "hi": [list(hi)],
        "null_count": [list(nulls)],
        "exact": [[True] * len(blocks)],
        **more,
    }
    key = ClusterKey((column(kind),))
    return Snapshot("db.t", "memory", 7, "uuid", "0", key, make_blocks(columns, key))


def test_the_cutoff_is_the_start_of_a_day_in_utc() -> None:
    noon = CUTOFF + 12 * HOUR_MS
    assert cutoff_ms(0, noon) == CUTOFF
    assert cutoff_ms(90 * DAY_MS, noon) == CUTOFF - 90 * DAY_MS
    assert cutoff_ms(DAY_MS, CUTOFF) == CUTOFF - DAY_MS
    assert cutoff_ms(DAY_MS, CUTOFF - 1) == CUTOFF - 2 * DAY_MS


@given(st.integers(0, 2**41), st.integers(DAY_MS, 10_000 * DAY_MS))
def test_no_row_expires_early(now_ms: int, retain_ms: int) -> None:
    cutoff = cutoff_ms(retain_ms, now_ms)
    assert cutoff % DAY_MS == 0
    assert 0 <= (now_ms - retain_ms) - cutoff < DAY_MS


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("date", "d < DATE '2026-03-01'"),
        ("timestamp", "d < TIMESTAMP '2026-03-01 00:00:00+00:00'"),
        ("timestamp_ntz", "d < TIMESTAMP_NTZ '2026-03-01 00:00:00'"),
    ],
)
def test_the_predicate_names_its_zone(kind: str, expected: str) -> None:
    assert before(column(kind), CUTOFF) == expected
    assert before(column(kind, "a b"), CUTOFF).startswith("`a b` <")


@pytest.mark.parametrize("kind", ["int", "string", "float", "decimal(10,2)"])
def test_a_number_or_a_text_has_no_age(kind: str) -> None:
    with pytest.raises(OptionError, match="a date or a timestamp"):
        before(column(kind), CUTOFF)


def test_files_are_expired_by_their_bounds() -> None:
    old, last, new = date(2026, 1, 1), date(2026, 2, 28), date(2026, 3, 1)
    found = expired_rows(
        snapshot(
            (old, last, 0),  # as a whole
            (old, last, 3),  # all but the NULLs
            (old, new, 0),  # partly
            (new, new, 0),  # not at all
            (None, None, 10),  # NULL only
            (None, None, -1),  # without statistics
        ),
        CUTOFF,
    )
    assert found == ExpiredRows(files=4, bytes=400, whole_files=1, rows=40)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_timestamp_at_the_cutoff_stays(kind: str) -> None:
    at = datetime(2026, 3, 1, tzinfo=timezone.utc if kind == "timestamp" else None)
    earlier = at.replace(year=2025)
    found = expired_rows(snapshot((at, at, 0), (earlier, earlier, 0), kind=kind), CUTOFF)
    assert (found.files, found.whole_files) == (1, 1)


def test_the_number_of_rows_is_unknown_where_that_of_deletes_is() -> None:
    day = date(2026, 1, 1)
    assert expired_rows(snapshot((day, day, 0), deleted_rows=[-1]), CUTOFF).rows is None


def test_after_a_search_only_later_files_count() -> None:
    day = date(2026, 1, 1)
    times = [1_000, CUTOFF - LATE_MS, CUTOFF - LATE_MS + 1, 0]
    files = snapshot(*[(day, day, 0)] * 4, added_at=times)
    assert expired_rows(files, CUTOFF).files == 4
    # The file that may be committed late, and the file of unknown age.
    assert expired_rows(files, CUTOFF, CUTOFF).files == 2


def test_a_table_without_files_has_nothing_to_expire() -> None:
    key = ClusterKey((column(),))
    empty: dict[str, list[Any]] = {
        "path": [],
        "rows": [],
        "bytes": [],
        "lo": [[]],
        "hi": [[]],
        "null_count": [[]],
        "exact": [[]],
    }
    assert (
        expired_rows(Snapshot("t", "memory", None, "u", "0", key, make_blocks(empty, key)), 0)
        == ExpiredRows()
    )
