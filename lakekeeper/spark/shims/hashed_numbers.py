"""Numbers that Spark's hash partitioning puts into a given partition, for a Spark in which rows cannot name theirs.

``repartition(n, column)`` puts a row into partition ``pmod(murmur3(column, seed 42), n)``. Spark keeps this hash
stable: buckets of tables depend on it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

_SEED = 42
_AT_ONCE = 4  # candidates tried for each partition that is still without a number


@lru_cache(maxsize=64)
def hashed_to(count: int) -> tuple[int, ...]:
    """For each partition 0 … ``count`` - 1, an int that Spark's hash partitioning puts into it."""
    found = np.full(count, -1, np.int64)
    start = 0
    while (found < 0).any():
        tried = np.arange(start, start + _AT_ONCE * count, dtype=np.uint32)
        at = murmur3(tried).astype(np.int64) % count  # Python's remainder is Spark's pmod
        found[at[::-1]] = np.where(found[at[::-1]] < 0, tried[::-1], found[at[::-1]])
        start += len(tried)
    return tuple(map(int, found))


def murmur3(numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    """Spark's hash of ints: ``Murmur3_x86_32.hashInt(number, 42)``."""
    mixed = numbers * np.uint32(0xCC9E2D51)
    mixed = _rotated(mixed, 15) * np.uint32(0x1B873593)
    found = _rotated(mixed ^ np.uint32(_SEED), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    found = found ^ np.uint32(4)  # bytes hashed
    found = (found ^ (found >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    found = (found ^ (found >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return np.asarray(found ^ (found >> np.uint32(16)), np.uint32).view(np.int32)


def _rotated(numbers: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return np.asarray((numbers << np.uint32(bits)) | (numbers >> np.uint32(32 - bits)), np.uint32)
