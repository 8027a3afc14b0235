"""Maintenance debt: what a table or a fleet would gain from the work that is due, and what it would rewrite."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lakekeeper.core.model.blocks import Index
from lakekeeper.core.model.plan import Plan, Tasks
from lakekeeper.core.text.formatting import size
from lakekeeper.core.units import DAY_MS


@dataclass(frozen=True, slots=True)
class Debt:
    """Query-seconds that are lost each day until the work is done, and the bytes that the work rewrites."""

    query_seconds_per_day: float = 0.0
    bytes: int = 0

    def __add__(self, other: Debt) -> Debt:
        return Debt(self.query_seconds_per_day + other.query_seconds_per_day, self.bytes + other.bytes)

    def __str__(self) -> str:
        gain = f"{self.query_seconds_per_day:,.0f} query-seconds a day"
        return f"maintenance debt: {gain}, {size(self.bytes)} to rewrite"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"query_seconds_per_day": self.query_seconds_per_day, "bytes": self.bytes}


NO_DEBT = Debt()


def gain_of(plan: Plan) -> float:
    """Query-seconds a day that a plan saves; 0 where nothing was predicted."""
    return plan.prediction.worth.seconds_saved * DAY_MS / 1000 if plan.prediction else 0.0


def debt_of(plans: Iterable[Plan]) -> Debt:
    """The debt of one table, from the plans of several verbs for the same version.

    A block that several verbs would rewrite counts once; of plans that share a block, the larger gain counts.
    """
    total, taken = NO_DEBT, np.zeros(0, np.intp)
    for plan in plans:
        blocks = _blocks(plan)
        if blocks is None or plan.prediction is None:
            total += Debt(gain_of(plan), plan.input_bytes)
            continue
        new = np.setdiff1d(blocks, taken)
        size = total.bytes + int(plan.prediction.bytes[new].sum())
        gain, before = gain_of(plan), total.query_seconds_per_day
        apart = len(new) == len(blocks)
        total = Debt(before + gain if apart else max(before, gain), size)
        taken = np.union1d(taken, blocks)
    return total


def _blocks(plan: Plan) -> Index | None:
    """Positions of the blocks that a plan rewrites; None for a plan that was not made here."""
    return np.unique(plan.tasks.members) if isinstance(plan.tasks, Tasks) else None
