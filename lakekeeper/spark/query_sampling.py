"""Which queries a listener reads, so that reading them stays a small share of the time that queries take.

    a query ends ─► chance = share x mean time of a query / mean time to read one ─► read, with weight 1 / chance

The first queries are all read. Each later one is drawn by itself, so that no pattern of queries hides from the sample,
and the weights of those that were read count for the others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

SHARE = 0.0025
ALWAYS = 100
_RAREST = 0.001


@dataclass(slots=True)
class Sampling:
    """The chance by what queries and reading have taken so far. For one thread.

    share   of the time of queries that reading them may take
    always  queries that are read in any case
    draw    a number from 0 to 1, evenly distributed
    """

    share: float = SHARE
    always: int = ALWAYS
    draw: Callable[[], float] = random.random
    queries: int = 0
    read: int = 0
    queries_s: float = 0.0
    read_s: float = 0.0

    @property
    def chance(self) -> float:
        """With which the next query is read."""
        if self.queries < self.always or not self.read_s:
            return 1.0
        wanted = self.share * (self.queries_s / self.queries) / (self.read_s / self.read)
        return min(max(wanted, _RAREST), 1.0)

    def weight(self, seconds: float) -> float:
        """The number of queries that one of ``seconds`` represents; 0.0: it is not read."""
        chance = self.chance
        self.queries += 1
        self.queries_s += seconds
        return 1.0 / chance if chance == 1.0 or self.draw() < chance else 0.0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Time the reading of a query."""
        started = perf_counter()
        try:
            yield
        finally:
            self.read += 1
            self.read_s += perf_counter() - started
