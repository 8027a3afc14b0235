"""The order of rows against Python's stable sort."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from lakekeeper.columnar.sorting import permutation

LEAST, MOST = -(2**63), 2**63 - 1


@given(
    seed=st.integers(0, 2**32),
    least=st.integers(LEAST, MOST),
    width=st.integers(0, 64),
    rows=st.integers(1, 700),
    run=st.sampled_from([1, 2, 50, 1_000]),
    nulls=st.booleans(),
)
@example(seed=1, least=LEAST, width=64, rows=700, run=1, nulls=False)  # no bit is left for positions
@example(seed=1, least=LEAST, width=54, rows=700, run=1, nulls=False)  # every bit is used
@example(seed=1, least=-5, width=3, rows=700, run=1, nulls=True)  # many rows of one key
def test_rows_of_one_key_stay_in_their_order(
    seed: int, least: int, width: int, rows: int, run: int, nulls: bool
) -> None:
    rng = np.random.default_rng(seed)
    most = min(MOST, least + 2**width - 1)
    values = rng.integers(least, most, rows, dtype=np.int64, endpoint=True)
    for start in range(0, rows, run):
        values[start : start + run].sort()
    gone = rng.random(rows) < 0.1 if nulls else np.zeros(rows, np.bool_)
    key = pa.array(values, mask=gone)
    plain = key.to_pylist()
    expected = sorted(range(rows), key=lambda i: (plain[i] is not None, plain[i] or 0))
    found = permutation([key])
    assert (list(range(rows)) if found is None else found.tolist()) == expected
    assert found is not None or expected == list(range(rows))
