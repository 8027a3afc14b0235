"""``peaks``: the deepest points of a level and the blocks that cover them (Databend's recluster).

Equally deep stretches make groups that are merged side by side. Each level above the threshold has groups of its own,
the lowest level first. It rewrites less per group than ``ranges``; with ``final`` both end under the same threshold.
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
class Peaks:
    """The plateau, or plateaus, of greatest depth in each level that is above its threshold."""

    name: str = "peaks"

    def choose(self, snapshot: Snapshot, candidates: Index, options: Options, env: Env) -> Sequence[Choice]:
        return select_by_depth(
            snapshot,
            candidates,
            options,
            deepest,
            one_level=False,
        )


def deepest(curve: DepthCurve, gate: Gates) -> Bools:
    """Points as deep as the deepest of their level."""
    hot: Bools = curve.folded == gate.peak[curve.group]
    return hot


PEAKS = Peaks()
