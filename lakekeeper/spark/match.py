"""Find rows again by their values: which places of a set of files hold these rows?

A row is found by a digest of a text that two rows share only if all their values are the same, bit for bit
but for NaN: −0.0 is not 0.0, NULL is not "", and maps compare whatever the order of their entries.
Equal rows are interchangeable, so the n copies that were lost take the first n places:

    lost      a a b          written   a@1 a@2 a@3 b@4        hits   a@1 a@2 b@4

PySpark is imported inside the functions: ``import lakekeeper`` comes by here and must stay free of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekeeper.spi import Held, Matched, Traces

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_NULL = "~"


def match(traces: Traces[DataFrame], most: int) -> Matched[DataFrame]:
    """See ``spi.Runner.match``. Raises TypeError for a column whose values can not be told apart.

    A rewrite keeps every row, so where the outputs hold as many rows with some value of the cheap columns (numbers,
    dates) as were lost with it, it is those: mostly the wide columns are not read at all.
    """
    cheap = _cheap(traces)
    if cheap is not None:
        matched = _match(cheap, most, all_copies=True)
        if matched.lost == 0 or matched.lost > most or matched.found == matched.lost:
            return matched
        matched.hits.unpersist()
    return _match(traces, most, all_copies=False)


def _match(traces: Traces[DataFrame], most: int, *, all_copies: bool) -> Matched[DataFrame]:
    """One look at all outputs. With ``all_copies`` a value counts only if no more of it is there than was lost."""
    from pyspark.sql import functions as F

    kind = traces.lost.schema["row"].dataType
    keyed = traces.lost.select(
        _key(F.col("row"), kind).alias("key"), _quick(F.col("row"), kind).alias("quick")
    )
    lost = keyed.groupBy("key", "quick").agg(F.count(F.lit(1)).alias("copies")).persist()
    try:
        counted = lost.agg(F.coalesce(F.sum("copies"), F.lit(0))).first()
        total = int(counted[0]) if counted else 0
        if total == 0 or total > most:
            return Matched(traces.written.select("file", "position").limit(0), total, 0)
        hits = _places(traces.written, lost, kind, all_copies=all_copies).persist()
        found = hits.agg(F.count(F.lit(1)), F.count_distinct("file", "position")).first()
    finally:
        lost.unpersist()
    rows, places = (int(found[0]), int(found[1])) if found else (0, 0)
    return Matched(hits, total, places if rows == places else -1)


def _cheap(traces: Traces[DataFrame]) -> Traces[DataFrame] | None:
    """The same traces by their columns of fixed width alone; None where there are none, or no others."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    kind = traces.lost.schema["row"].dataType
    if not isinstance(kind, T.StructType):
        return None
    fixed = (T.NumericType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType)
    names = [f.name for f in kind.fields if isinstance(f.dataType, fixed)]
    if not names or len(names) == len(kind.fields):
        return None
    row = F.struct(*[F.col("row").getField(name).alias(f"c{i}") for i, name in enumerate(names)]).alias("row")
    return Traces(traces.lost.select(row), traces.written.select(row, "file", "position"))


def _places(written: DataFrame, lost: DataFrame, kind: DataType, *, all_copies: bool) -> DataFrame:
    """The first ``copies`` places of each lost row. A cheap hash sorts most rows out before the exact text is made."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    quick = F.broadcast(lost.select("quick").distinct())
    near = written.withColumn("quick", _quick(F.col("row"), kind)).join(quick, "quick", "left_semi")
    keyed = near.select(_key(F.col("row"), kind).alias("key"), "file", "position")
    equal = keyed.join(F.broadcast(lost.select("key", "copies")), "key")
    if all_copies:
        number = F.count(F.lit(1)).over(Window.partitionBy("key"))
    else:
        number = F.row_number().over(Window.partitionBy("key").orderBy("file", "position"))
    return equal.withColumn("number", number).where("number <= copies").select("file", "position")


def hold(hits: DataFrame) -> Held[DataFrame]:
    """See ``spi.Runner.hold``."""
    kept = hits.select("file", "position").persist()
    counted = kept.groupBy("file").count().collect()
    return Held(kept, {str(r["file"]): int(r["count"]) for r in counted})


def only(held: Held[DataFrame], files: Collection[str]) -> Held[DataFrame]:
    """See ``spi.Runner.only``."""
    from pyspark.sql import functions as F

    chosen = {path: n for path, n in held.per_file.items() if path in files}
    if len(chosen) == len(held.per_file):
        return held
    return Held(held.hits.where(F.col("file").isin(list(chosen))), chosen)


def _key(row: Column, kind: DataType) -> Column:
    """What is equal for interchangeable rows and for no others."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(kind, T.LongType):
        return row
    return F.sha2(_text(row, kind).cast("binary"), 256)


def _quick(row: Column, kind: DataType) -> Column:
    """A number that is equal for equal rows, and rarely else."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if not isinstance(kind, T.StructType):
        return F.xxhash64(row)
    plain = [row.getField(f.name) for f in kind.fields if _hashes(f.dataType)]
    return F.xxhash64(*plain) if plain else F.lit(0).cast("bigint")


def _hashes(kind: DataType) -> bool:
    from pyspark.sql import types as T

    if isinstance(kind, T.StructType):
        return all(_hashes(f.dataType) for f in kind.fields)
    if isinstance(kind, T.ArrayType):
        return _hashes(kind.elementType)
    return not isinstance(kind, T.MapType | T.VariantType)


def _text(value: Column, kind: DataType) -> Column:
    """A text that tells values of one type apart; no two parts can run together, as an atom says its length."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(kind, T.StructType):
        parts = [_text(value.getField(f.name), f.dataType) for f in kind.fields]
        plain = F.concat(F.lit("("), *parts, F.lit(")"))
    elif isinstance(kind, T.ArrayType):
        element = kind.elementType
        plain = _listed(F.transform(value, lambda each: _text(each, element)))
    elif isinstance(kind, T.MapType):
        of_key, of_value = kind.keyType, kind.valueType

        def entry(each: Column) -> Column:
            return F.concat(_text(each.getField("key"), of_key), _text(each.getField("value"), of_value))

        plain = _listed(F.array_sort(F.transform(F.map_entries(value), entry)))
    else:
        spelled = _spelled(value, kind)
        plain = F.concat(F.octet_length(spelled).cast("string"), F.lit(":"), spelled)
    return F.when(value.isNull(), F.lit(_NULL)).otherwise(plain)


def _listed(parts: Column) -> Column:
    from pyspark.sql import functions as F

    return F.concat(F.lit("["), F.array_join(parts, ""), F.lit("]"))


def _spelled(value: Column, kind: DataType) -> Column:
    """An atomic value as text, without what depends on the session (its zone, its formats)."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(kind, T.BinaryType):
        return F.hex(value)
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(value).cast("string")
    if isinstance(kind, T.VariantType):
        return F.concat(F.schema_of_variant(value), F.lit("="), F.to_json(value))
    if isinstance(kind, T.StringType | T.CharType | T.VarcharType):
        return value.cast("string")
    known: tuple[Any, ...] = (T.NumericType, T.BooleanType, T.DateType, T.TimestampNTZType)
    if isinstance(kind, (*known, T.DayTimeIntervalType, T.YearMonthIntervalType)):
        return value.cast("string")
    raise TypeError(f"values of type {kind.simpleString()} can not be told apart")
