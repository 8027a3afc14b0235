"""What a merge is worth: what a query reads before and after it, the gain, the work, and one score of both."""

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
    """What a query reads on average: files, their bytes, and what that costs in byte-equivalents."""

    files: float
    bytes: float
    cost: float

    def __add__(self, other: Load) -> Load:
        return Load(self.files + other.files, self.bytes + other.bytes, self.cost + other.cost)

    def __sub__(self, other: Load) -> Load:
        return Load(self.files - other.files, self.bytes - other.bytes, self.cost - other.cost)


@dataclass(frozen=True, slots=True)
class Worth:
    """What one merge, or a whole plan, is predicted to bring.

    before, after     what a query reads of the blocks in question now, and of what becomes of them
    work              of the rewrite, in byte-equivalents
    gain_per_second   byte-equivalents saved per second, at the workload's rate
    seconds_saved     query-seconds saved per second: adds up over tables
    score             0 to 100; 50 pays back exactly within seven days, so it compares across tables
    """

    before: Load
    after: Load
    work: float
    gain_per_second: float
    seconds_saved: float
    score: float

    @property
    def saved(self) -> Load:
        """What a query reads less."""
        return self.before - self.after

    @property
    def pays_back_seconds(self) -> float | None:
        """After how long the gain has made up for the work; None where it never does."""
        return self.work / self.gain_per_second if self.gain_per_second > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, fields as above, and ``pays_back_seconds``."""
        return {**asdict(self), "pays_back_seconds": self.pays_back_seconds}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Worth:
        """Inverse of :meth:`to_dict`."""
        plain = {name: data[name] for name in ("work", "gain_per_second", "seconds_saved", "score")}
        return cls(before=Load(**data["before"]), after=Load(**data["after"]), **plain)


def worth(before: Load, after: Load, work: float, rate: float, coefficients: Coefficients) -> Worth:
    """The worth of a change at ``rate`` queries per second."""
    gain = rate * (before.cost - after.cost)
    return Worth(before, after, work, gain, gain / coefficients.core_speed, score_of(gain, work))


class Worths(Sequence[Worth]):
    """The worths of ``G`` changes, column by column: each one is made when it is looked at.

    before, after    what a query reads of the blocks in question: G files, G bytes, G costs
    work             G works of the rewrites, in byte-equivalents
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
        """What a query reads less once all changes are made."""
        files, size, cost = (_sum(now - then) for now, then in zip(self._before, self._after, strict=True))
        return Load(files, size, cost)

    @property
    def work(self) -> float:
        """Of all changes."""
        return _sum(self._work)

    @property
    def ratio(self) -> Floats:
        """G gains per query by work: the order in which a budget is best spent."""
        return np.asarray((self._before[2] - self._after[2]) / np.maximum(self._work, 1e-300))


def _sum(values: Floats) -> float:
    """One after another, whatever numpy would pair up: sums that do not depend on where they are taken."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


def score_of(gain_per_second: float, work: float, horizon_s: float = WEEK_S) -> float:
    """0 (brings nothing) to 100 (costs nothing); 50 where gain makes up for work exactly within the horizon."""
    if gain_per_second <= 0:
        return 0.0
    # Each step rounds a function that only grows or only falls, so the score never falls as the gain grows.
    return 100.0 / (1.0 + work / (gain_per_second * horizon_s))
