"""A block's age, counted in what it has cost: the commits that its table has seen since it was born.

    commits      |    |  |        |   |  |          a table with a commit a second and one with a commit a day
    block             ●━━━━━━━━━━━━━━━━━━►  6       behave alike: both look at a block of age 6

Wall time alone would merge the busy table too late and the quiet one too early. Only commits that bring rows or
delete some count: our own are no news, so that a second run on an unchanged table finds every age as it was.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakekeeper.core.blocks import BlockSet, Bools, Ints

Floats = npt.NDArray[np.float64]
_TRUST = 10
"""The mean rate of the known commits is believed for so many times their number: what was before is a guess."""


def ages(blocks: BlockSet, commits_ms: Ints, made_by_us: Bools) -> Floats:
    """N ages in commits. ``commits_ms`` are the known commits of writers, ascending; ``made_by_us`` marks merges.

    A writer's block has seen its own commit, so it is at least 1 old; one that a merge made starts at 0. Where no
    commit is known, the births of the writers' blocks stand for them. A birth before the first known commit counts
    at their mean rate, for a bounded number; one that nobody knows counts as that of the first.
    """
    born = blocks.added_at
    known = commits_ms if len(commits_ms) else _distinct(born[~made_by_us & (born > 0)])
    age = np.zeros(len(blocks), np.float64)
    if len(known):
        age += len(known) - np.searchsorted(known, born, side="left")
        early = (born > 0) & (born < known[0])
        if len(known) > 1 and known[-1] > known[0] and early.any():
            gap = (int(known[-1]) - int(known[0])) / (len(known) - 1)
            age[early] += np.minimum((known[0] - born[early]) / gap, (_TRUST - 1) * len(known))
    return np.maximum(age, np.where(made_by_us, 0.0, 1.0))


def _distinct(times: Ints) -> Ints:
    """Sorted. Many times faster than hashing where nearly all differ."""
    ordered = np.sort(times)
    return ordered[np.append(ordered[1:] != ordered[:-1], True)] if len(ordered) else ordered
