"""The time factor (seed 001): a threshold is lenient with a fresh block and strict with an old one.

    30 % ┤●                       τ(age) = fresh · (old / fresh)^(age / 7 d)
         │  ╲
         │    ╲                   recent writes settle before anything is done about them; what is left over,
     5 % ┼┄┄┄┄┄●                  however little, is cleaned up in the end: τ falls to 0
       0 └─────────●────────
         0     7 d    30 d

Age is time, as in the seed: a block that is never touched grows old too. A rewritten block is young again, so that a
second run at the same time finds nothing more to do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakekeeper.core.blocks import BlockSet, Bools, Index, Ints
from lakekeeper.core.policies import Env
from lakekeeper.core.retention import HOUR_MS

Floats = npt.NDArray[np.float64]
OLD_MS = 7 * 24 * HOUR_MS
"""The age at which a block counts as old (seed 001: seven days)."""
_STEPS = (("d", 86_400_000), ("h", HOUR_MS), ("min", 60_000), ("s", 1000))


@dataclass(frozen=True, slots=True, eq=False)
class Youth:
    """Of N blocks: ``age_ms``, -1 where the birth is not known. ``known`` is False without a clock: all are fresh."""

    age_ms: Ints
    known: bool

    def between(self, fresh: float, old: float) -> Floats:
        """N thresholds: ``fresh`` at birth, ``old`` at seven days, towards 0 beyond; ``fresh`` if ``old`` is not below.

        A block of unknown birth has 0. Its commit has been expired from the table's metadata, or predates the record of
        times: as a fresh block it would be left for ever.
        """
        if not self.known or old >= fresh:
            return np.full(len(self.age_ms), fresh)
        falling = fresh * (old / fresh) ** (np.maximum(self.age_ms, 0) / OLD_MS)
        return np.where(self.age_ms < 0, 0.0, falling)

    def told(self, at: Index | Bools) -> str:
        """The ages of some blocks in words: `` at an age of 2 d``; empty without a clock."""
        age = self.age_ms[at]
        if not self.known or not len(age):
            return ""
        least, most = _age(int(age[age >= 0].min(initial=1 << 62))), _age(int(age.max()))
        if age.max() < 0:
            return " at an unknown age"
        or_unknown = " or an unknown one" if age.min() < 0 else ""
        return f" at an age of {least if least == most else f'{least} to {most}'}{or_unknown}"


def youth_of(blocks: BlockSet, env: Env) -> Youth:
    """The youth of each block at ``env.now_ms``. A block born after that (clocks differ) is fresh."""
    if env.now_ms <= 0:
        return Youth(np.zeros(len(blocks), np.int64), known=False)
    born = blocks.added_at
    return Youth(np.where(born > 0, np.maximum(env.now_ms - born, 0), -1), known=True)


def _age(ms: int) -> str:
    """Rounded down to the largest unit that fits twice, so that ``2 d`` is never less than two days."""
    for unit, size in _STEPS:
        if ms >= 2 * size:
            return f"{ms // size} {unit}"
    return f"{ms // 1000} s"
