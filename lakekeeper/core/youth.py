"""The time factor (seed 001): a threshold is lenient with a fresh block and strict with an old one.

    30 % ┤●                       τ(age) = old + (fresh - old) · 2^(-age / half-life)
         │  ╲
    17 % ┤    ●                   what is being written settles before anything is done about it, and what is
         │       ╲ ___            left over, however little it is, is cleaned up in the end
     5 % ┼┄┄┄┄┄┄┄┄┄┄┄┄●────
         0    2 d    7 d

Age is time here, as the seed has it: a block that nobody touches grows old too. What was just written is young again,
so that a second run at the same time finds nothing more to do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakekeeper.core.blocks import BlockSet, Bools, Index, Ints
from lakekeeper.core.options import Options
from lakekeeper.core.policies import Env
from lakekeeper.core.retention import HOUR_MS

Floats = npt.NDArray[np.float64]
_STEPS = (("d", 86_400_000), ("h", HOUR_MS), ("min", 60_000), ("s", 1000))


@dataclass(frozen=True, slots=True, eq=False)
class Youth:
    """Of N blocks: ``factor`` from 1 (fresh) towards 0 (old), and ``age_ms``, -1 where the birth is not known.

    ``known`` is False without a clock: then every block counts as fresh.
    """

    factor: Floats
    age_ms: Ints
    known: bool

    def between(self, fresh: float, old: float) -> Floats:
        """N thresholds, from ``fresh`` down to ``old``; all ``fresh`` where ``old`` is not below it."""
        low = min(fresh, old)
        return np.asarray(low + (fresh - low) * self.factor, np.float64)

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


def youth_of(blocks: BlockSet, options: Options, env: Env) -> Youth:
    """The youth of each block at ``env.now_ms``, halved every ``threshold-half-life-hours``.

    A block of unknown birth is old: its commit has been expired from the table's metadata, or it was there before
    anybody noted times; taken for fresh it would be let off for ever. One that is yet to be born (clocks differ) is
    fresh.
    """
    if env.now_ms <= 0:
        return Youth(np.ones(len(blocks)), np.zeros(len(blocks), np.int64), known=False)
    born = blocks.added_at
    age = np.where(born > 0, np.maximum(env.now_ms - born, 0), -1)
    half_life = options.number("threshold-half-life-hours") * HOUR_MS
    factor = np.where(born > 0, np.exp2(-np.maximum(age, 0) / half_life), 0.0)
    return Youth(factor, age, known=True)


def _age(ms: int) -> str:
    """Rounded down to the largest unit that fits twice, so that ``2 d`` is never less than two days."""
    for unit, size in _STEPS:
        if ms >= 2 * size:
            return f"{ms // size} {unit}"
    return f"{ms // 1000} s"
