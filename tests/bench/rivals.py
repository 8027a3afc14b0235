"""Other tools' choices of files, as policies for the simulated tables: for comparison only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.blocks import Index, Snapshot
from lakekeeper.core.model.plan import Choice, Merge, Skip
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.planning.policy import Env


@dataclass
class Cubes:
    """Delta's liquid clustering: new files and cubes below ``least`` target files fill cubes of 1.5 times that size.

    It ignores ranges and depth. A block's level holds the number of its cube.
    """

    least: float = 100.0
    name: str = "cubes"
    made: int = field(default=0, compare=False)

    def choose(self, snapshot: Snapshot, candidates: Index, options: Options, env: Env) -> Sequence[Choice]:
        blocks = snapshot.blocks
        if not blocks.level.any():
            self.made = 0
        size = blocks.bytes / options.files.target_bytes
        cube = blocks.level.astype(np.int64)
        partial = (cube == 0) | (np.bincount(cube, size)[cube] < self.least)
        at = np.flatnonzero(partial)
        if not len(at) or (len(np.unique(cube[at])) == 1 and cube[at[0]] > 0):
            return [Skip(candidates, Reason.of("full_cube", "nothing to add to a cube"))]
        at = at[np.argsort(cube[at], kind="stable")]
        choices: list[Choice] = []
        for group in _bins(at, size, 1.5 * self.least):
            self.made += 1
            choices.append(Merge(group, self.made, 1.0, Reason.of("cube", "a cube")))
        return choices


@dataclass(frozen=True)
class SortAll:
    """Iceberg's rewrite-all sort: everything, in groups of ``most`` target-size files, in file order."""

    most: float = 100.0
    name: str = "rewrite-all"

    def choose(self, snapshot: Snapshot, candidates: Index, options: Options, env: Env) -> Sequence[Choice]:
        size = snapshot.blocks.bytes / options.files.target_bytes
        return [
            Merge(group, 1, 1.0, Reason.of("bin", "all files of a bin"))
            for group in _bins(candidates, size, self.most)
        ]


def _bins(at: Index, size: np.ndarray[tuple[int], np.dtype[np.float64]], most: float) -> list[Index]:
    """Consecutive groups, each of at most the size of this many target-size files."""
    bins: list[list[int]] = [[]]
    filled = 0.0
    for i, worth in zip(at.tolist(), size[at].tolist(), strict=True):
        if bins[-1] and filled + worth > most + 1e-9:
            bins.append([])
            filled = 0.0
        bins[-1].append(i)
        filled += worth
    return [np.array(group, dtype=np.intp) for group in bins if group]
