"""The daily slice of the cases of a parametrized JVM test: a third; of five or more, a fifth; of ten or more, a tenth.

The same applies to cases of tests without a JVM that are marked ``sampled``, the deep parts of the model. A marked test
without cases covers all of them together: it runs where all cases run. Of drawn examples, each run takes a third.

Another run on the same day takes the same cases, one on the next day the following ones, so that each case runs at
least once in ten days. Other tests, and tests that are selected by name or by marker, always run.

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
PERIODS = (10, 5, 3)
"""In a family of at least ``n`` cases, one in ``n`` runs on a day; smaller families use the last ``n``.

Of three cases, such as the kinds of tables, one runs each day.
"""
NEED_A_JVM = ("spark", "delta", "iceberg")
T = TypeVar("T")


def chosen_day() -> str:
    """The day of this run's slice, for its workers too; ``all``: every case runs."""
    return os.environ.setdefault(VARIABLE, datetime.now(timezone.utc).date().isoformat())


def sliced(tests: Iterable[tuple[T, str]], day: str, share: int | None = None) -> tuple[list[T], list[T]]:
    """(those that run on this day, those that do not) of tests, each given with its family.

    One in ``share`` runs; by default, the size of the family decides.

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
        period = share or period_of(size[family])
        (left if turn % period else taken).append(test)
    return taken, left


def period_of(cases: int) -> int:
    """The number of days in which each case of a family of this size runs once."""
    return next((period for period in PERIODS if cases >= period), PERIODS[-1])


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
    cases: dict[tuple[str, str], list[pytest.Item]] = {}
    whole = []
    for item in items:
        mark = item.get_closest_marker(MARKER)
        test, bracket, case = item.nodeid.partition("[")
        if not bracket and not (mark and mark.args):
            whole += [item] * (mark is not None)
        elif mark is not None or expensive(item):
            cases.setdefault((family(item), case or test), []).append(item)
    left = sliced([(alike, name) for (name, _), alike in cases.items()], day)[1]
    return [item for alike in left for item in alike] + whole


def expensive(item: pytest.Item) -> bool:
    """Whether a test needs a JVM."""
    return any(item.get_closest_marker(name) is not None for name in NEED_A_JVM)


def family(item: pytest.Item) -> str:
    """The function of which a test is a case, or the argument of its mark.

    Tests that share an argument run their equal cases on the same day.
    """
    mark = item.get_closest_marker(MARKER)
    return str(mark.args[0]) if mark is not None and mark.args else item.nodeid.partition("[")[0]


def fewer(examples: int) -> int:
    """How many of this number of drawn examples a run takes."""
    return examples if chosen_day() == ALL else -(-examples // PERIODS[-1])


def selects(expression: str) -> bool:
    """Whether an expression of markers (``-m``) selects marked tests; ``not spark and not delta`` leaves some out."""
    return re.sub(r"\bnot\s+\w+|\band\b|[\s()]", "", expression) != ""


def named(arguments: Sequence[str]) -> bool:
    """Whether the command line names single tests: then all of them run."""
    return any("::" in argument for argument in arguments)
