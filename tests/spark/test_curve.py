"""Curve positions that Spark computes equal those of the core, value for value: otherwise ranges would be wrong."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakekeeper.core.layout.rank_boundaries import curve_index
from lakekeeper.core.layout.space_filling_curve import CURVES
from lakekeeper.core.model.boundaries import MOST, Boundaries
from lakekeeper.core.model.keys import ClusterKey, KeyColumn, arrow_type, to_json_value
from lakekeeper.spark.curve import PLACE, with_place
from lakekeeper.spark.shims import shim
from lakekeeper.testing.samples import SAMPLES
from lakekeeper.testing.values import token

pytestmark = pytest.mark.spark


def boundaries_of(kind: str) -> tuple[Any, ...]:
    held = sorted((v for v in SAMPLES[kind] if str(v) not in ("nan", "inf")), key=token)
    distinct = [v for a, v in zip([None, *held], held, strict=False) if token(a) != token(v)]
    return tuple(to_json_value(v, kind) for v in distinct[1:])


@pytest.mark.parametrize("layout", CURVES)
@pytest.mark.parametrize("kinds", [tuple(sorted(SAMPLES))[i : i + 4] for i in (0, 2, 4, 6)], ids=str)
def test_positions_of_every_type_equal_the_cores(
    spark: SparkSession, layout: str, kinds: tuple[str, ...]
) -> None:
    rng = random.Random(4)
    key = ClusterKey(tuple(KeyColumn((f"c {k}",), kind, str(k)) for k, kind in enumerate(kinds)), layout)
    kept = Boundaries(key.key_id, 0, kinds, tuple(map(boundaries_of, kinds)))
    columns = [
        pa.array([rng.choice([*SAMPLES[kind], None]) for _ in range(300)], arrow_type(kind)) for kind in kinds
    ]
    table = pa.table([*columns, pa.array(range(300))], [*(f"c {k}" for k in range(len(kinds))), "n"])
    placed = shim().to_arrow(with_place(shim().from_arrow(spark, table), key, kept).orderBy("n"))
    assert placed.column_names == [*table.column_names, PLACE]
    assert placed[PLACE].to_pylist() == curve_index(kept, layout, columns).tolist()


@pytest.mark.parametrize("layout", CURVES)
@pytest.mark.parametrize("columns", [2, 3, 4])
def test_positions_on_full_grids_equal_the_cores(spark: SparkSession, layout: str, columns: int) -> None:
    rng = random.Random(columns)
    key = ClusterKey(tuple(KeyColumn((f"c{k}",), "int", str(k)) for k in range(columns)), layout)
    kept = Boundaries(key.key_id, 0, ("int",) * columns, (tuple(range(MOST)),) * columns)
    values = [pa.array([rng.randrange(-3, MOST + 3) for _ in range(200)]) for _ in range(columns)]
    table = pa.table([*values, pa.array(range(200))], [*(f"c{k}" for k in range(columns)), "n"])
    placed = shim().to_arrow(with_place(shim().from_arrow(spark, table), key, kept).orderBy("n"))
    assert placed[PLACE].to_pylist() == curve_index(kept, layout, values).tolist()
