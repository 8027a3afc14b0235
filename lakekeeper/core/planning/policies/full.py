"""``full``: sorts all candidates on every call. The baseline for the other policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakekeeper.core.config.options import Options
from lakekeeper.core.layout.levels import partition_group
from lakekeeper.core.layout.overlap_groups import by_name, fill
from lakekeeper.core.layout.ranks import rank_blocks
from lakekeeper.core.model.blocks import Index, Snapshot
from lakekeeper.core.model.plan import Choice, Merge, Skip
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.policy import Env


@dataclass(frozen=True, slots=True)
class Full:
    """All blocks of a partition in one group, or in consecutive groups along the key where they exceed its bounds."""

    name: str = "full"
    converges: bool = False

    def choose(self, snapshot: Snapshot, candidates: Index, options: Options, env: Env) -> Sequence[Choice]:
        if snapshot.key is None:
            return [Skip(candidates, Reason.of(Code.NO_KEY))]
        if not len(candidates):
            return []
        blocks = snapshot.blocks.take(candidates)
        place, lo = partition_group(blocks), rank_blocks(blocks, null_region=False).lo
        order = np.lexsort((by_name(blocks.path), lo, place))
        part = fill(
            place[order],
            blocks.bytes[order],
            max_bytes=options.groups.max_bytes,
            max_files=options.groups.max_files,
        )
        level = blocks.level_under(snapshot.key)
        top = options.planning.max_level
        choices: list[Choice] = []
        for group in np.split(order, np.flatnonzero(part[1:] != part[:-1]) + 1):
            out = min(int(level[group].max()) + 1, top)
            why = Reason.of(Code.FULL_SORT, files=len(group))
            choices.append(Merge(candidates[group], out, float(len(group)), why))
        return choices


FULL = Full()
