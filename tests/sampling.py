"""The daily slice: of a family of expensive tests that differ in one argument, each run takes a part.

    @pytest.mark.sampled(3)      every test of the family runs at least once in three days

The slice depends on the date alone, so that the workers of one run agree on it. The header of a run prints the date;
``LAKEKEEPER_SAMPLE=2026-11-24`` repeats the slice of that day, ``LAKEKEEPER_SAMPLE=all`` runs every test.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timezone
from typing import TypeVar

import pytest

VARIABLE = "LAKEKEEPER_SAMPLE"
ALL = "all"
T = TypeVar("T")


def chosen_day() -> str:
    """The day of this run's slice, for its workers too; ``all``: no slice is taken."""
    return os.environ.setdefault(VARIABLE, datetime.now(timezone.utc).date().isoformat())


def sliced(tests: Iterable[tuple[T, str, int]], day: str) -> tuple[list[T], list[T]]:
    """(those that run on this day, those that do not) of tests, each given with its family and how many share a day.

    Of a family every ``share``-th test runs, and the next ones the day after; families start at different tests, so
    that one day does not take the same argument of all.
    """
    if day == ALL:
        return [test for test, _, _ in tests], []
    at = date.fromisoformat(day).toordinal()
    seen: Counter[str] = Counter()
    taken: list[T] = []
    left: list[T] = []
    for test, family, share in tests:
        turn = seen[family] + zlib.crc32(family.encode()) + at
        seen[family] += 1
        (left if turn % share else taken).append(test)
    return taken, left


def take_slice(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the sampled tests of other days."""
    marked = [(item, item.get_closest_marker("sampled")) for item in items]
    sampled = [(item, family(item), int(mark.args[0])) for item, mark in marked if mark is not None]
    _, left = sliced(sampled, chosen_day())
    if left:
        config.hook.pytest_deselected(items=left)
        skipped = set(map(id, left))
        items[:] = [item for item in items if id(item) not in skipped]


def family(item: pytest.Item) -> str:
    """The test function that a test is one case of."""
    return item.nodeid.partition("[")[0]


def named(arguments: Sequence[str]) -> bool:
    """Whether single tests are named on the command line: then all of them run."""
    return any("::" in argument for argument in arguments)
