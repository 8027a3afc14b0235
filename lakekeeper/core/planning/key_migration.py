"""A change of the cluster key in steps: each round takes in a bounded share of the blocks of another key or layout.

These blocks count as level 0 under the new key, and all of them overlap there: without a bound, the first run after
``cluster_by`` would rewrite the whole table, whether or not a user wants that.

    round 1   ████░░░░░░░░░░░░   a share of the table's bytes, and whatever is new
    round 2   ▒▒▒▒████░░░░░░░░   the next; what is done already waits at level 1

Only policies that cluster data are held back. The policies that purge deleted rows or pack small files choose a block
for its content, whatever key it was clustered by, and few blocks are due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.blocks import Bools, Index, Snapshot
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.policy import Policy, converges, lays_out
from lakekeeper.core.units import Ints


@dataclass(slots=True)
class Share:
    """The bytes of other keys that one round may still rewrite; ``most`` bounds a single group."""

    foreign: Bools
    size: Ints
    most: int
    left: int

    @property
    def reason(self) -> Reason:
        """Why a block waits."""
        return Reason.of(Code.KEY_CHANGE, round_bytes=self.most)

    def needed(self, every: Index, starts: Ints) -> list[int]:
        """The bytes of other keys in each of several consecutive groups of blocks in ``every``."""
        if not self.foreign.any():
            return [0] * len(starts)
        sums: list[int] = np.add.reduceat(np.where(self.foreign[every], self.size[every], 0), starts).tolist()
        return sums

    def takes(self, policy: Policy, needed: int) -> bool:
        """Whether a merge with these bytes of other keys fits; if so, uses up the room.

        The first always fits, and so does a merge without any.
        """
        if not lays_out(policy):
            return True
        if needed and needed > self.left and self.left < self.most:
            return False
        self.left -= needed
        return True


def share_of(snapshot: Snapshot, policies: Sequence[Policy], options: Options) -> Share:
    """The share of a round; without other keys, or with a policy that does not converge, everything fits."""
    blocks = snapshot.blocks
    foreign: Bools = blocks.key_id >= 0
    if snapshot.key is not None and snapshot.key.key_id in blocks.key_ids:
        foreign = foreign & (blocks.key_id != blocks.key_ids.index(snapshot.key.key_id))
    if snapshot.key is None or not all(map(converges, policies)):
        foreign = np.zeros(len(blocks), dtype=np.bool_)
    if not foreign.any():
        return Share(foreign, blocks.bytes, 1 << 62, 1 << 62)
    wanted = int(options.planning.key_change_ratio * int(blocks.bytes.sum()))
    most = max(wanted, options.groups.single_task_bytes)
    return Share(foreign, blocks.bytes, most, most)


def bounded(options: Options, share: Share, policy: Policy) -> Options:
    """Options for this policy whose groups are no larger than the share."""
    if not lays_out(policy) or not share.foreign.any() or share.most >= options.groups.max_bytes:
        return options
    return replace(options, groups=replace(options.groups, max_bytes=share.most))
