"""The time factor of Relyt's auto table service: a threshold is lenient with a new file and stricter with an old one.

    30 % ┤●                       τ(age) = fresh · (old / fresh)^(age / 7 d)
         │  ╲
         │    ╲                   what is being written settles before anything is done about it, and what is
     5 % ┼┄┄┄┄┄●                  left over, however little it is, is cleaned up in the end: τ goes to 0
       0 └─────────●────────
         0     7 d    30 d

Age is time here: a block that is never touched grows old too. What was just written is young again, so that a second
run at the same time finds nothing more to do, and a block from which one row at a time is deleted is not rewritten for
each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakekeeper.core.model.blocks import BlockSet, Bools, Index
from lakekeeper.core.units import Floats, Ints

OLD_MS = 7 * 86_400_000
"""The age at which a block counts as old."""
_STEPS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


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

    def described(self, at: Index | Bools) -> str:
        """The ages of some blocks in words: `` at an age of 2 d``; empty without a clock."""
        age = self.age_ms[at]
        if not self.known or not len(age):
            return ""
        least, most = _age(int(age[age >= 0].min(initial=1 << 62))), _age(int(age.max()))
        if age.max() < 0:
            return " at an unknown age"
        or_unknown = " or an unknown one" if age.min() < 0 else ""
        return f" at an age of {least if least == most else f'{least} to {most}'}{or_unknown}"


def youth_of(blocks: BlockSet, now_ms: int) -> Youth:
    """The youth of each block at ``now_ms`` (ms since the epoch; 0: no clock). One yet to be born is fresh."""
    if now_ms <= 0:
        return Youth(np.zeros(len(blocks), np.int64), known=False)
    born = blocks.added_at
    return Youth(np.where(born > 0, np.maximum(now_ms - born, 0), -1), known=True)


def _age(ms: int) -> str:
    """Rounded down to the largest unit that fits twice, so that ``2 d`` is never less than two days."""
    for unit, size in _STEPS:
        if ms >= 2 * size:
            return f"{ms // size} {unit}"
    return f"{ms // 1000} s"
