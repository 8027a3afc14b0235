"""Brute force over Python values: the meaning of depth, without a rank, an array or a sort.

A block is a set of closed intervals of tuples. Its values cover the box's diagonal [(lo1, lo2 …), (hi1, hi2 …)]; inside
a tuple NULL is the least value, and NULLs in the first column beside values are a second interval over all tuples that
begin with NULL. Without statistics it covers everything. Blocks of different groups never meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakekeeper.core.model.blocks import Block
from lakekeeper.testing.values import NULL, Token, token

Point = tuple[Token, ...]
ABOVE: Token = (9, 0)  # greater than every value


@dataclass(frozen=True)
class Interval:
    lo: Point
    hi: Point

    def covers(self, point: Point) -> bool:
        return self.lo <= point <= self.hi

    def meets(self, other: Interval) -> bool:
        return self.lo <= other.hi and other.lo <= self.hi


@dataclass(frozen=True)
class Covered:
    """A block as the oracle sees it; ``intervals`` is empty where it has no statistics."""

    group: Any
    intervals: tuple[Interval, ...]

    @property
    def missing(self) -> bool:
        return not self.intervals

    def covers(self, group: Any, point: Point) -> bool:
        return self.group == group and (self.missing or any(i.covers(point) for i in self.intervals))

    def meets(self, other: Covered) -> bool:
        if self.group != other.group:
            return False
        pairs = ((a, b) for a in self.intervals for b in other.intervals)
        return self.missing or other.missing or any(a.meets(b) for a, b in pairs)


def cover(block: Block, group: Any = 0) -> Covered:
    lo: list[Token] = []
    hi: list[Token] = []
    for k, (low, high, nulls) in enumerate(zip(block.lo, block.hi, block.null_count, strict=True)):
        if low is None or high is None:
            if nulls < block.rows:
                return Covered(group, ())
            lo.append(NULL)
            hi.append(NULL)
        else:
            lo.append(NULL if k and nulls != 0 else token(low))
            hi.append(token(high))
    values = Interval(tuple(lo), tuple(hi))
    nulls = block.null_count[0]
    if nulls == 0 or nulls >= block.rows:
        return Covered(group, (values,))
    others = len(block.lo) - 1
    region = Interval((NULL,) * (others + 1), (NULL, *(ABOVE,) * others))
    return Covered(group, (values, region))


def points(blocks: list[Covered]) -> list[tuple[Any, Point]]:
    """The distinct ends of all intervals, in order, group by group."""
    ends = {(b.group, end) for b in blocks for i in b.intervals for end in (i.lo, i.hi)}
    return sorted(ends)


def depth_at(blocks: list[Covered], group: Any, point: Point) -> int:
    return sum(b.covers(group, point) for b in blocks)


def folded_at(blocks: list[Covered], group: Any, point: Point) -> int:
    """Depth where a block that ends at the point and one that starts there count as one."""
    mine = [i for b in blocks if b.group == group for i in b.intervals]
    ending = sum(i.hi == point and i.lo < point for i in mine)
    starting = sum(i.lo == point and i.hi > point for i in mine)
    return depth_at(blocks, group, point) - min(ending, starting)


def average(blocks: list[Covered]) -> float:
    """AvgDepth = Sum(DepthOfOverlapPoint) / OverlapPointsCnt."""
    depths = [depth_at(blocks, group, point) for group, point in points(blocks)]
    over = [depth for depth in depths if depth > 1]
    return sum(over) / len(over) if over else 1.0


def block_depth(blocks: list[Covered], block: Covered) -> int:
    """The deepest point under the block; without statistics, at least the depth of blocks that cover everything."""
    blind = sum(b.missing and b.group == block.group for b in blocks)
    under = [depth_at(blocks, group, point) for group, point in points(blocks) if block.covers(group, point)]
    return max([blind, *under])


def overlaps(blocks: list[Covered], index: int) -> int:
    return sum(blocks[index].meets(other) for i, other in enumerate(blocks) if i != index)
