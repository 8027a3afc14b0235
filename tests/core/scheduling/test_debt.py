"""Debt: bytes that several verbs would rewrite count once."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from lakekeeper.core.model.plan import Plan, Tasks
from lakekeeper.core.scheduling.debt import Debt, debt_of

SIZES = np.array([10, 20, 30, 40])


def plan(members: Sequence[int], seconds_saved: float) -> Plan:
    def make(_: int) -> Any:
        raise AssertionError("the debt needs no task")

    chosen = np.array(members, np.intp)
    size = int(SIZES[chosen].sum())
    tasks = Tasks(make, [size], chosen, np.array([0, len(members)]), np.zeros(1, np.bool_))
    prediction: Any = SimpleNamespace(worth=SimpleNamespace(seconds_saved=seconds_saved), bytes=SIZES)
    return Plan("t", 1, "k", ("sizes",), tasks, (), 4, 100, 1.0, prediction=prediction)


def test_disjoint_plans_add_up() -> None:
    assert debt_of([plan([0, 1], 0.5), plan([2], 0.25)]) == Debt(0.75 * 86_400, 60)


def test_a_block_that_two_verbs_rewrite_counts_once_with_the_larger_gain() -> None:
    assert debt_of([plan([0, 1], 0.5), plan([1, 2], 0.75)]) == Debt(0.75 * 86_400, 60)
    assert debt_of([plan([0, 1], 0.5), plan([1], 0.25)]) == Debt(0.5 * 86_400, 30)


def test_nothing_due_is_no_debt() -> None:
    assert debt_of([]) == Debt(0.0, 0)
    assert debt_of([plan([], 0.0)]) == Debt(0.0, 0)
