"""Compare the files that copy-on-write statements wrote with those that they replaced.

    read      a@1 a@2 b@3        left   f: a b@1 x@2        missing   a@2        gained   f: x@2

Rows are counted by all of their values, bit for bit except for NaN, as in :mod:`lakekeeper.spark.row_match`. Equal rows
are interchangeable, and the last ones are taken.

PySpark is imported inside the functions: ``import lakekeeper`` imports this module and must not import PySpark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.row_match import text_of
from lakekeeper.spi import Followed, Places, Remains

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_ROUNDS = 3  # comparisons of one group: each leaves out the files that were found to hold mostly other rows


def follow(remains: Remains[DataFrame], most: int) -> Followed:
    """See ``spi.Runner.follow``. Raises TypeError for a column whose values cannot be compared.

    One job counts equal rows on both sides; two more, which read a side again, look up the rows that it has more of.
    """
    from pyspark.sql import functions as F

    files, left = dict(remains.files), remains.left
    for _ in range(_ROUNDS):
        if not files:
            break
        odd = _odd(remains.read, left, most)
        if odd.num_rows > most or (pc.sum(pc.abs(odd["missing"])).as_py() or 0) > most:
            break
        gained = _places(left, odd, -1)
        others = [file for file, places in gained.items() if 2 * len(places) > files[file]]
        if not others:
            return Followed(tuple(sorted(files)), _places(remains.read, odd, 1), gained)
        for file in others:
            del files[file]
        left = left.where(F.col("file").isin(list(files)))
    return Followed()


def _odd(read: DataFrame, left: DataFrame, most: int) -> pa.Table:
    """The keys of rows that one side has more of, ``most`` and one at most.

    Columns ``key0`` … and ``missing``, which is negative if ``left`` has more.
    """
    from pyspark.sql import functions as F

    before = read.select(*_keys(read), F.lit(1).alias("count"))
    after = left.select(*_keys(left), F.lit(-1).alias("count"))
    names = before.columns[:-1]
    counted = before.unionAll(after).groupBy(*names).agg(F.sum("count").alias("missing"))
    return Jvm(read.sparkSession).to_arrow(counted.where("missing <> 0").limit(most + 1))


def _places(rows: DataFrame, odd: pa.Table, sign: int) -> Places:
    """The last positions of the rows of which this side has more, as many of each as it has more."""
    from pyspark.sql import functions as F

    more = pc.multiply(odd["missing"], sign)
    keys = odd.set_column(odd.num_columns - 1, "missing", more).filter(pc.greater(more, 0))
    if not keys.num_rows:
        return {}
    found = _with_keys(rows, keys)
    names = [name for name in found.columns if name.startswith("key")]
    last = F.sort_array(F.collect_list(F.struct("file", "position")), asc=False)
    places = found.groupBy(*names, "missing").agg(last.alias("places"))
    chosen = F.explode(F.slice("places", F.lit(1), F.col("missing").cast("int")))
    table = Jvm(rows.sparkSession).to_arrow(
        places.select(chosen.alias("place")).select("place.file", "place.position")
    )
    by_file: dict[str, list[int]] = {}
    for file, position in zip(table["file"].to_pylist(), table["position"].to_pylist(), strict=True):
        by_file.setdefault(file, []).append(position)
    return {file: np.sort(np.array(positions, np.int64)) for file, positions in by_file.items()}


def _with_keys(rows: DataFrame, keys: pa.Table) -> DataFrame:
    """The rows that have one of these keys, which are equal if both are NULL: keys, place, and ``missing``."""
    from pyspark.sql import functions as F

    names = [name for name in keys.column_names if name != "missing"]
    wanted = Jvm(rows.sparkSession).from_arrow(keys).toDF(*(f"odd_{name}" for name in names), "missing")
    same = [F.col(name).eqNullSafe(F.col(f"odd_{name}")) for name in names]
    place = [name for name in rows.columns if name != "row"]
    return rows.select(*_keys(rows), *place).join(wanted, same).select(*names, *place, "missing")


def _keys(rows: DataFrame) -> list[Column]:
    """Columns ``key0`` … that are equal for interchangeable rows and for no others."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    kind = rows.schema["row"].dataType
    if not isinstance(kind, T.StructType):
        raise TypeError(f"rows of type {kind.simpleString()} cannot be compared")
    row = F.col("row")
    return [_key(row.getField(f.name), f.dataType).alias(f"key{i}") for i, f in enumerate(kind.fields)]


def _key(value: Column, kind: DataType) -> Column:
    """The value itself where Spark groups by its bits, else its text: it takes 0.0 for -0.0, and groups no maps."""
    from pyspark.sql import types as T

    # Not TIMESTAMP_NTZ: on Spark 3.5, a key that comes back from Python is a TIMESTAMP of the session's zone.
    plain = (T.IntegralType, T.DecimalType, T.BooleanType, T.DateType, T.TimestampType)
    return value if isinstance(kind, (*plain, T.BinaryType)) else text_of(value, kind)
