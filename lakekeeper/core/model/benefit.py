"""The benefit of a merge: what a query reads before and after it, the gain, the work, and one score of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, overload

import numpy as np

from lakekeeper.core.model.coefficients import Coefficients
from lakekeeper.core.units import Floats

WEEK_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class Load:
    """What a query reads on average: files, their bytes, and the cost in byte-equivalents."""

    files: float
    bytes: float
    cost: float

    def __add__(self, other: Load) -> Load:
        return Load(self.files + other.files, self.bytes + other.bytes, self.cost + other.cost)

    def __sub__(self, other: Load) -> Load:
        return Load(self.files - other.files, self.bytes - other.bytes, self.cost - other.cost)


@dataclass(frozen=True, slots=True)
class Worth:
    """The predicted benefit of one merge, or of a whole plan.

    before, after     what a query reads of the blocks concerned now, and of the outputs that replace them
    work              cost of the rewrite, in byte-equivalents
    gain_per_second   byte-equivalents saved per second, at the workload's rate
    seconds_saved     query-seconds saved per second: can be summed over tables
    score             0 to 100; 50 pays back in exactly seven days, so scores compare across tables
    """

    before: Load
    after: Load
    work: float
    gain_per_second: float
    seconds_saved: float
    score: float

    @property
    def saved(self) -> Load:
        """The reduction in what a query reads."""
        return self.before - self.after

    @property
    def pays_back_seconds(self) -> float | None:
        """Time after which the gain has covered the work; None if it never does."""
        return self.work / self.gain_per_second if self.gain_per_second > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the fields above and ``pays_back_seconds``."""
        return {**asdict(self), "pays_back_seconds": self.pays_back_seconds}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Worth:
        """Inverse of :meth:`to_dict`."""
        plain = {name: data[name] for name in ("work", "gain_per_second", "seconds_saved", "score")}
        return cls(before=Load(**data["before"]), after=Load(**data["after"]), **plain)


def worth(before: Load, after: Load, work: float, rate: float, coefficients: Coefficients) -> Worth:
    """The benefit of a change at ``rate`` queries per second."""
    gain = rate * (before.cost - after.cost)
    return Worth(before, after, work, gain, gain / coefficients.core_speed, score_of(gain, work))


class Worths(Sequence[Worth]):
    """The benefits of ``G`` changes, stored by column; each :class:`Worth` is built on access.

    before, after    what a query reads of the blocks concerned: G files, G bytes, G costs
    work             G costs of the rewrites, in byte-equivalents
    """

    def __init__(
        self,
        before: tuple[Floats, Floats, Floats],
        after: tuple[Floats, Floats, Floats],
        work: Floats,
        rate: float,
        coefficients: Coefficients,
    ) -> None:
        self._before, self._after, self._work = before, after, work
        self._rate, self._coefficients = rate, coefficients

    def __len__(self) -> int:
        return len(self._work)

    @overload
    def __getitem__(self, at: int) -> Worth: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Worth, ...]: ...
    def __getitem__(self, at: int | slice) -> Worth | tuple[Worth, ...]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(len(self))[at])
        now, then = (Load(*(float(column[at]) for column in side)) for side in (self._before, self._after))
        return worth(now, then, float(self._work[at]), self._rate, self._coefficients)

    @property
    def saved(self) -> Load:
        """The reduction in what a query reads once all changes are made."""
        files, size, cost = (_sum(now - then) for now, then in zip(self._before, self._after, strict=True))
        return Load(files, size, cost)

    @property
    def work(self) -> float:
        """The work of all changes."""
        return _sum(self._work)

    @property
    def ratio(self) -> Floats:
        """G ratios of gain per query to work: the order in which to spend a budget."""
        return np.asarray((self._before[2] - self._after[2]) / np.maximum(self._work, 1e-300))


def _sum(values: Floats) -> float:
    """A sequential sum, unlike numpy's pairwise summation: the result is the same on every machine."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


def score_of(gain_per_second: float, work: float, horizon_s: float = WEEK_S) -> float:
    """Score from 0 (no gain) to 100 (no cost); 50 where the gain covers the work in exactly the horizon."""
    if gain_per_second <= 0:
        return 0.0
    # Each step rounds a monotonic function, so the score never falls as the gain grows.
    return 100.0 / (1.0 + work / (gain_per_second * horizon_s))
