"""Cuts that divide rows into ranges of about the same size, from a sample of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakekeeper.columnar.sorting import Token, tokens

_VALUES = 4_096  # sampled from rows that are read together
_BYTES = 1 << 20

Sample = list[tuple[Token, int]]
"""Values, each with the number of rows that it was taken from."""


def sampled(values: pa.Array, most: int = _VALUES) -> Sample:
    """About ``most`` of the values, with the number of rows between two of them; NULL is left out."""
    found = values.drop_null()
    step = max(1, len(found) // most, found.nbytes // _BYTES)
    return [(value, step) for value in tokens(found[::step]) if value is not None]


def quantiles(sample: Sample, parts: int) -> list[Token]:
    """Ascending values that cut the rows of a sample into about equal parts, of which none is empty."""
    if not sample:
        return []
    sample.sort()
    ends = np.cumsum([rows for _, rows in sample])
    at = np.searchsorted(ends, [ends[-1] * i / parts for i in range(1, parts)], side="right")
    least = sample[0][0]
    return sorted({cut for i in at if (cut := sample[i][0]) > least})
