"""Named streams of commits for simulations: the same name and seed give the same keys, on every machine.

A stream is a sequence of commits to a table. Each commit has some files, and each file some keys between 0 and 1. Files
of one commit cover the same range, as files of one write usually do.

The range of a file must be that of all its rows, not that of the few keys that are kept: the latest of 4,096 rows of
``late`` is late by 300 commits, the latest of 128 by 120. So all rows are drawn, and of each file the lowest key, the
highest key and some others are kept:

    rows   │·  · ··   ·  ·· ····:::::::::::::::│
    kept   │·         ·    ·    : ·  :: · : · :│

    wide       every commit covers the whole key (a user id)
    late       a key that grows with time; 5% of the rows are late, by 50 commits on average
    windows    every commit covers a window somewhere (a tenant, a region), some places far more often
    backfill   ordered by time, but each tenth commit fills in a tenth of the past
    jitter     ordered by time, but every row is late, by two commits on average
    time       ordered by time
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from lakekeeper.core.config.layout_options import MAX_BLOCK_BYTES
from lakekeeper.core.units import Floats, Ints
from lakekeeper.errors import OptionError, nearest

KEYS_PER_FILE = 128
"""The number of keys that are kept of a commit of one file."""
_ROWS = 4096
"""Rows of a commit. Real ones have more, and their files are wider still; but no longer by much."""
_AT_ONCE = 1 << 20
"""Rows drawn in one go: a stream of 10⁵ commits has 4·10⁸."""
MAX_COMMITS = 100_000
COMMIT_MS = 60_000
"""The time between two commits unless a stream has times of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """What is written, commit by commit. Positions on the line of the key are floats.

    name           what it is, for reports
    edges          C + 1 numbers: commit ``t`` brings the blocks ``edges[t]`` to ``edges[t + 1]`` (excluded)
    lo, hi         B positions: what the blocks cover
    rows, bytes    B counts
    place          B codes into ``places``, the (partition, spec) pairs
    keys           (B, K) sorted keys of each block, or None where only the bounds are known
    level          B levels, or None where all are 0
    present        the number of first commits that are in the table already; they are not measured
    at_ms          C times of the commits, ascending; None: a commit a minute. A commit without blocks only passes time
    digits         for a compound key, the number of values of each column; a position is then the rank of the tuple, a
                   whole number: with (4, 10, 10) values, (2, 5, 1) is at 251. Empty: a key of one column
    """

    name: str
    edges: Ints
    lo: Floats
    hi: Floats
    rows: Ints
    bytes: Ints
    place: Ints
    places: tuple[tuple[str, int], ...] = (("", 0),)
    keys: Floats | None = None
    level: Ints | None = None
    present: int = 0
    at_ms: Ints | None = None
    digits: tuple[int, ...] = ()

    @property
    def commits(self) -> int:
        return len(self.edges) - 1

    def time_of(self, commit: int) -> int:
        """When a commit (numbered from 0) happens, in ms."""
        return (commit + 1) * COMMIT_MS if self.at_ms is None else int(self.at_ms[commit])

    def after(self, commit: int) -> int:
        """A time between a commit and the next one, in ms: when maintenance runs."""
        if commit + 1 == self.commits:
            return self.time_of(commit) + COMMIT_MS // 2
        return (self.time_of(commit) + self.time_of(commit + 1)) // 2

    def times_of(self, until: int) -> Ints:
        """When the first ``until`` commits brought blocks, in ms, ascending."""
        wrote = np.flatnonzero(np.diff(self.edges[: until + 1]) > 0)
        return (wrote + 1) * COMMIT_MS if self.at_ms is None else np.asarray(self.at_ms[wrote], np.int64)


def _check_seed(seed: int) -> None:
    if not 0 <= seed < 1 << 24:
        raise OptionError("seed", seed, "a whole number from 0 to 16,777,215")


class Uniform:
    """Numbers between 0 and 1 by hashing a counter (splitmix64; Steele, Lea, Flood 2014): no hidden state."""

    def __init__(self, seed: int) -> None:
        _check_seed(seed)
        self._state = np.uint64(seed) << np.uint64(40)

    def __call__(self, *shape: int) -> Floats:
        count = int(np.prod(shape, dtype=np.int64))
        with np.errstate(over="ignore"):
            z = self._state + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            self._state = z[-1] if count else self._state
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z ^= z >> np.uint64(31)
        return np.asarray((z >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(shape)

    def exponential(self, *shape: int) -> Floats:
        """Exponentially distributed numbers with mean 1."""
        return np.asarray(-np.log1p(-self(*shape)))


def named_stream(
    name: str, commits: int, *, seed: int = 0, files: int = 1, file_bytes: int = 128 << 20, keys: int = 0
) -> Arrivals:
    """``commits`` of ``files`` files of ``file_bytes`` bytes each, with ``keys`` keys in a file.

    Without ``keys`` a commit has 4,096 rows, of which the keys of 128 are kept. Raises OptionError for an unknown
    stream (naming the nearest) and for counts out of range.
    """
    if name not in STREAMS:
        raise OptionError("stream", name, f"one of {', '.join(STREAMS)}{nearest(name, STREAMS)}")
    check_count("commits", commits, MAX_COMMITS)
    check_count("files", files, KEYS_PER_FILE)
    check_count("file bytes", file_bytes, MAX_BLOCK_BYTES)
    rows, count = (keys, keys) if keys else (-(-_ROWS // files), max(2, -(-KEYS_PER_FILE // files)))
    draw, step = Uniform(seed), max(1, _AT_ONCE // (rows * files))
    some = []
    for t in range(0, commits, step):
        drawn = STREAMS[name](draw, np.arange(t, min(t + step, commits)), commits, rows * files)
        drawn = drawn.reshape(-1, rows)
        if rows > count:
            drawn = np.column_stack([drawn.min(axis=1), drawn.max(axis=1), drawn[:, : count - 2]])
        some.append(np.sort(drawn, axis=1))
    parts = np.concatenate(some)
    blocks = len(parts)
    return Arrivals(
        name=f"stream {name}, seed {seed}",
        edges=np.arange(0, blocks + 1, files, dtype=np.int64),
        lo=parts[:, 0].copy(),
        hi=parts[:, -1].copy(),
        rows=np.full(blocks, count, np.int64),
        bytes=np.full(blocks, file_bytes, np.int64),
        place=np.zeros(blocks, np.int64),
        keys=parts,
    )


def check_count(name: str, value: int, top: int) -> None:
    """Raises OptionError unless ``value`` is a whole number from 1 to ``top``."""
    if not 1 <= value <= top:
        raise OptionError(name, value, f"a whole number from 1 to {top:,}")


def _wide(draw: Uniform, at: Ints, _commits: int, keys: int) -> Floats:
    return draw(len(at), keys)


def _time(draw: Uniform, at: Ints, commits: int, keys: int) -> Floats:
    return np.asarray((at[:, None] + draw(len(at), keys)) / commits)


def _late(draw: Uniform, at: Ints, commits: int, keys: int) -> Floats:
    on_time = _time(draw, at, commits, keys)
    delay = draw.exponential(len(at), keys) * 50.0 / commits
    return np.asarray(np.abs(np.where(draw(len(at), keys) < 0.05, on_time - delay, on_time)))


def _jitter(draw: Uniform, at: Ints, commits: int, keys: int) -> Floats:
    on_time = _time(draw, at, commits, keys)
    return np.asarray(np.abs(on_time - draw.exponential(len(at), keys) * 2.0 / commits))


def _windows(draw: Uniform, at: Ints, _commits: int, keys: int) -> Floats:
    # x² of a point in the unit disc has the Beta(1/2, 3/2) distribution: places near 0 are far more frequent.
    centre = draw(len(at), 1) * np.cos(2 * np.pi * draw(len(at), 1)) ** 2
    width = 0.02 * 2 ** (4 * draw(len(at), 1))
    inside = np.clip(centre + width * (draw(len(at), keys) - 0.5), 0.0, 1.0)
    return np.asarray(inside + draw(len(at), keys) * 1e-9)  # values that were clipped to an end stay distinct


def _backfill(draw: Uniform, at: Ints, commits: int, keys: int) -> Floats:
    t = at[:, None]
    past = draw(len(at), 1) * 0.9 * t / commits
    filled = past + draw(len(at), keys) * 0.1 * t / commits
    return np.asarray(np.where((t > 20) & (t % 10 == 0), filled, _time(draw, at, commits, keys)))


STREAMS: Mapping[str, Callable[[Uniform, Ints, int, int], Floats]] = MappingProxyType(
    {
        "wide": _wide,
        "late": _late,
        "windows": _windows,
        "backfill": _backfill,
        "jitter": _jitter,
        "time": _time,
    }
)
