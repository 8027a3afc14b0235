"""The daily slice: of the cases of a parametrized JVM test, each run takes a third; of five or more, a fifth.

So it is with the cases of tests without a JVM that are marked ``sampled``, the deep parts of the model. A test marked
so that has no cases looks at all of them together: it runs where they do. Of drawn examples, each run takes a third.

The next run of the day takes the same cases, the next day's the following ones, so that each case runs at least once in
five days. Other tests, and tests that are selected by name or by marker, always run.

The slice depends on the date alone: the workers of one run agree on it. The header of a run prints the date;
``LAKEKEEPER_SAMPLE=2026-11-24`` repeats the slice of that day, ``LAKEKEEPER_SAMPLE=all`` runs every case, as does
``make full``.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timezone
from typing import TypeVar

import pytest

VARIABLE = "LAKEKEEPER_SAMPLE"
ALL = "all"
MARKER = "sampled"
SMALL, LARGE = 3, 5
"""One case in so many runs on a day: in a family of fewer than LARGE cases, and in any other.

Of three cases, such as the kinds of tables, one runs each day.
"""
NEED_A_JVM = ("spark", "delta", "iceberg")
T = TypeVar("T")


def chosen_day() -> str:
    """The day of this run's slice, for its workers too; ``all``: no slice is taken."""
    return os.environ.setdefault(VARIABLE, datetime.now(timezone.utc).date().isoformat())


def sliced(tests: Iterable[tuple[T, str]], day: str, share: int | None = None) -> tuple[list[T], list[T]]:
    """(those that run on this day, those that do not) of tests, each given with its family.

    One in ``share`` runs, of every family alike if it is given.

    Families start at different cases, so that one day does not take the same argument of all.
    """
    if day == ALL:
        return [test for test, _ in tests], []
    at = date.fromisoformat(day).toordinal()
    tests = list(tests)
    size = Counter(family for _, family in tests)
    seen: Counter[str] = Counter()
    taken: list[T] = []
    left: list[T] = []
    for test, family in tests:
        turn = seen[family] + zlib.crc32(family.encode()) + at
        seen[family] += 1
        period = share or (LARGE if size[family] >= LARGE else SMALL)
        (left if turn % period else taken).append(test)
    return taken, left


def take_slice(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the cases of other days."""
    if selects(config.option.markexpr) or named(config.args):
        return
    left = of_other_days(items, chosen_day())
    if left:
        config.hook.pytest_deselected(items=left)
        skipped = set(map(id, left))
        items[:] = [item for item in items if id(item) not in skipped]


def of_other_days(items: Iterable[pytest.Item], day: str) -> list[pytest.Item]:
    """The tests that do not run on this day."""
    if day == ALL:
        return []
    cases, whole = [], []
    for item in items:
        mark = item.get_closest_marker(MARKER)
        if "[" not in item.nodeid and not (mark and mark.args):
            whole += [item] * (mark is not None)
        elif mark is not None or expensive(item):
            cases.append((item, family(item)))
    return sliced(cases, day)[1] + whole


def expensive(item: pytest.Item) -> bool:
    """Whether a test needs a JVM."""
    return any(item.get_closest_marker(name) is not None for name in NEED_A_JVM)


def family(item: pytest.Item) -> str:
    """The test function that a test is one case of, or what the argument of its mark says: these take equal slices."""
    mark = item.get_closest_marker(MARKER)
    return str(mark.args[0]) if mark is not None and mark.args else item.nodeid.partition("[")[0]


def fewer(examples: int) -> int:
    """How many of so many drawn examples a run takes."""
    return examples if chosen_day() == ALL else -(-examples // SMALL)


def selects(expression: str) -> bool:
    """Whether an expression of markers (``-m``) asks for marked tests; ``not spark and not delta`` leaves some out."""
    return re.sub(r"\bnot\s+\w+|\band\b|[\s()]", "", expression) != ""


def named(arguments: Sequence[str]) -> bool:
    """Whether single tests are named on the command line: then all of them run."""
    return any("::" in argument for argument in arguments)
