"""``ranges``: every stretch of the key that is deeper than its level's average (Snowflake's automatic clustering).

    depth     ┌──┐                          AvgDepth = sum of the depths of overlapping points / their number
            ┌─┘  └┐     ┌───┐
    avg ┄┄┄┄│┄┄┄┄┄│┄┄┄┄┄│┄┄┄│┄┄┄┄┄┄┄
        ────┘     └─────┘   └──────
            batch 1     batch 2             disjoint, so they are merged side by side

The peak alone would select too few blocks to lower the average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakekeeper.core.config.options import Options
from lakekeeper.core.layout.depth import DepthCurve
from lakekeeper.core.layout.levels import Gates
from lakekeeper.core.model.blocks import Bools, Index, Snapshot
from lakekeeper.core.model.plan import Choice
from lakekeeper.core.planning.depth_selection import select_by_depth
from lakekeeper.core.planning.policy import Env


@dataclass(frozen=True, slots=True)
class Ranges:
    """Maximal runs of points deeper than the average of their level; of a flat curve, its plateau."""

    name: str = "ranges"

    def choose(self, snapshot: Snapshot, candidates: Index, options: Options, env: Env) -> Sequence[Choice]:
        return select_by_depth(
            snapshot,
            candidates,
            options,
            deeper_than_average,
            one_level=True,
        )


def deeper_than_average(curve: DepthCurve, gate: Gates) -> Bools:
    """Points deeper than the average of their level."""
    flat = gate.peak <= gate.average  # all points equally deep: none is above the average
    bar = gate.average.copy()
    bar[flat] = gate.peak[flat] - 0.5
    hot: Bools = curve.folded > bar[curve.group]
    return hot


RANGES = Ranges()
