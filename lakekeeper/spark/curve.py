"""Curve positions as Spark columns, without a Python worker on any executor.

    values ─► bucket of each column: binary search in a literal array of boundaries
           ─► curve position: lookups in a table of the curve's state machine, a few bits of every column at a time

Both steps are higher-order functions over literals, one projection each, so that nothing is computed twice. A literal
is one node regardless of its length; a thousand expressions instead would take the analyzer half a minute. For every
kind of value, the columns equal the results of ``core.layout.rank_boundaries`` on the driver; a test compares them.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from lakekeeper.core.layout.space_filling_curve import machine
from lakekeeper.core.model.boundaries import BITS, Boundaries
from lakekeeper.core.model.keys import ClusterKey
from lakekeeper.spark.jvm import Jvm

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PLACE = "__lakekeeper_place"
_BUCKET = "__lakekeeper_bucket_"
# By kind, if not the value itself: the expression to compare, and the type of the boundaries.
_COMPARED = {
    "int": ("cast({} as bigint)", "bigint"),
    "float": ("cast({} as double)", "double"),
    "date": ("unix_date({})", "bigint"),
    "timestamp": ("unix_micros({})", "bigint"),
}
_STATE_BITS = 6  # four columns have 64 states, no layout has more
_STEPS = {2: 5, 3: 2, 4: 1}  # bits of each column that one lookup consumes, by the number of columns


def with_place(rows: DataFrame, key: ClusterKey, boundaries: Boundaries) -> DataFrame:
    """Rows with an additional column ``PLACE``: their position on the curve of ``key`` (bigint, never NULL)."""
    jvm = Jvm(rows.sparkSession)
    names = [f"{_BUCKET}{i}" for i in range(len(key.columns))]
    described = zip(names, key.columns, boundaries.columns, strict=True)
    searched = rows.withColumns({name: _bucket(jvm, c.name, c.kind, at) for name, c, at in described})
    return searched.withColumn(PLACE, _place(jvm, key.layout, names)).drop(*names)


def _bucket(jvm: Jvm, column: str, kind: str, boundaries: Sequence[Any]) -> Column:
    """0 for NULL, else 1 + the number of boundaries at or below the value."""
    from pyspark.sql import functions as F

    at = F.col(column)
    if not boundaries:
        return F.when(at.isNull(), F.lit(0)).otherwise(F.lit(1))
    compared, of_type = _COMPARED.get(kind, ("{}", kind))
    value, array = F.expr(compared.format(column)), _boundary_array(jvm, kind, of_type, boundaries)
    steps = F.array(*[F.lit((1 << BITS) >> i) for i in range(1, BITS + 1)])

    def narrowed(i: Column, step: Column) -> Column:
        above = value >= F.get(array, i + step - 1)  # NULL beyond the last boundary: not above it
        return F.when(above, i + step).otherwise(i)

    return F.when(at.isNull(), F.lit(0)).otherwise(F.aggregate(steps, F.lit(0), narrowed) + 1)


def _boundary_array(jvm: Jvm, kind: str, of_type: str, boundaries: Sequence[Any]) -> Column:
    """Boundaries (JSON form, see ``keys.to_json_value``) as one array of ``of_type``."""
    from pyspark.sql import functions as F

    if kind == "binary":
        return F.array(*[F.lit(base64.b64decode(b)) for b in boundaries])
    if kind == "string":
        return _literal_array(jvm, boundaries, "string")
    if kind == "timestamp_ntz":  # as text, so that no time zone is applied
        return _literal_array(jvm, [str(np.datetime64(b, "us")) for b in boundaries], of_type)
    return _literal_array(jvm, [str(b).lower() for b in boundaries], of_type)


def _literal_array(jvm: Jvm, texts: Sequence[str], of_type: str) -> Column:
    """An array literal built by Java's own split: py4j would need one call per text."""
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    mark = next((c for c in ",\x1f\x1e\x1d\x1c" if not any(c in text for text in texts)), None)
    if mark is None:
        return F.array(*map(F.lit, texts))
    split = jvm.view.java.util.regex.Pattern.compile(mark).split(mark.join(texts))
    return Column(jvm.java_class("org.apache.spark.sql.functions").lit(split)).cast(f"array<{of_type}>")


def _place(jvm: Jvm, layout: str, buckets: Sequence[str]) -> Column:
    """The curve position of a cell. The accumulator holds the position so far in the bits above the machine's state."""
    from pyspark.sql import functions as F

    columns, bits = len(buckets), _STEPS[len(buckets)]
    own, mask = columns * bits, (1 << bits) - 1
    table = _literal_array(jvm, [str(entry) for entry in _table(layout, columns, bits)], "bigint")
    shifts = F.array(*[F.lit(s) for s in range(BITS - bits, -1, -bits)])

    def deeper(so_far: Column, shift: Column) -> Column:
        at = F.shiftleft(so_far.bitwiseAND(F.lit((1 << _STATE_BITS) - 1)), own).cast("int")
        for k, name in enumerate(buckets):
            part = F.call_function("shiftright", F.col(name), shift).bitwiseAND(F.lit(mask))
            at = at.bitwiseOR(F.shiftleft(part, bits * (columns - 1 - k)))
        return F.shiftleft(F.shiftright(so_far, _STATE_BITS), own + _STATE_BITS) + F.get(table, at)

    return F.shiftright(F.aggregate(shifts, F.lit(0).cast("bigint"), deeper), _STATE_BITS)


@lru_cache
def _table(layout: str, columns: int, bits: int) -> tuple[int, ...]:
    """Per state and cell (2^bits per side): the cell's position among them, in the bits above the state inside it."""
    rules = machine(layout, columns)
    states = len(rules.place) >> columns
    cells = np.array(list(product(range(1 << bits), repeat=columns)), np.int64)
    entries = []
    for start in range(states):
        place, state = np.zeros(len(cells), np.int64), np.full(len(cells), start, np.int64)
        for bit in range(bits - 1, -1, -1):
            at = state
            for k in range(columns):
                at = (at << 1) | ((cells[:, k] >> bit) & 1)
            place, state = (place << columns) | rules.place[at], rules.state[at]
        entries.append((place << _STATE_BITS) | state)
    return tuple(np.concatenate(entries).tolist())
