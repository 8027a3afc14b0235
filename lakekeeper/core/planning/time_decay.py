"""The time factor of Relyt's auto table service: a threshold is lenient with a new file and stricter with an old one.

     30% ┤●                       τ(age) = fresh · (old / fresh)^(age / 7 d)
         │  ╲
         │    ╲                   what is being written settles before anything is done about it, and what is
      5% ┼┄┄┄┄┄●                  left over, however little it is, is cleaned up in the end: τ goes to 0
       0 └─────────●────────
         0     7 d    30 d

Age is time here: a block that is never touched grows old too. What was just written is young again, so that a second
run at the same time finds nothing more to do, and a block from which one row at a time is deleted is not rewritten for
each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakekeeper.core.model.blocks import BlockSet
from lakekeeper.core.units import Floats, Ints

OLD_MS = 7 * 86_400_000
"""The age at which a block counts as old."""


@dataclass(frozen=True, slots=True, eq=False)
class Youth:
    """Of N blocks: ``age_ms``, -1 where the birth is not known. ``known`` is False without a clock: all are fresh."""

    age_ms: Ints
    known: bool

    def between(self, fresh: float, old: float) -> Floats:
        """N thresholds, from ``fresh`` over ``old`` at seven days down to 0; ``fresh`` where ``old`` is not below.

        A block of unknown birth has 0: its commit has been expired from the table's metadata, so it is old; taken for
        new would exempt it forever.
        """
        if not self.known or old >= fresh:
            return np.full(len(self.age_ms), fresh)
        falls = fresh * (old / fresh) ** (np.maximum(self.age_ms, 0) / OLD_MS)
        return np.asarray(np.where(self.age_ms < 0, 0.0, falls))


def youth_of(blocks: BlockSet, now_ms: int) -> Youth:
    """The youth of each block at ``now_ms`` (ms since the epoch; 0: no clock). One added in the future is fresh."""
    if now_ms <= 0:
        return Youth(np.zeros(len(blocks), np.int64), known=False)
    added = blocks.added_at
    return Youth(np.where(added > 0, np.maximum(now_ms - added, 0), -1), known=True)
