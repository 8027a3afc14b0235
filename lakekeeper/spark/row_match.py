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
    from collections.abc import Collection, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_NULL = "~"
_FEW = 2  # columns of fixed width that mostly tell rows apart


def match(traces: Traces[DataFrame], most: int) -> Matched[DataFrame]:
    """See ``spi.Runner.match``. Raises TypeError for a column whose values can not be told apart.

    A rewrite keeps every row, so where the outputs hold just as many rows with some values of a few columns as were
    lost with them, it is those rows: mostly two columns of fixed width are all that is read. Where they do not
    tell, all such columns are tried, and then whole rows.
    """
    names = _fixed_width(traces)
    if names:
        narrow = _only_columns(traces, names)
        lost = narrow.lost.persist()
        try:
            total, best = _told(lost, len(names))
            if total == 0 or total > most:
                return _nothing(traces, total)
            for few in (best, [f"c{i}" for i in range(len(names))])[: 1 + (len(best) < len(names))]:
                told = _only_columns(Traces(lost, narrow.written), few)
                matched = _placed(told, _lost_keys(told, exact=False), total, exact=False)
                if matched.found == total:
                    return matched
                matched.hits.unpersist()
        finally:
            lost.unpersist()
    return _whole_rows(traces, most)


def _whole_rows(traces: Traces[DataFrame], most: int) -> Matched[DataFrame]:
    """By all columns. The lost rows are read once; their keys are kept meanwhile, never the rows."""
    keys = _lost_keys(traces, exact=True).persist()
    try:
        total = keys.count()
        if total == 0 or total > most:
            return _nothing(traces, total)
        return _placed(traces, keys, total, exact=True)
    finally:
        keys.unpersist()


def _lost_keys(traces: Traces[DataFrame], *, exact: bool) -> DataFrame:
    from pyspark.sql import functions as F

    return traces.lost.select(*_keys(F.col("row"), traces.lost.schema["row"].dataType, exact=exact))


def _nothing(traces: Traces[DataFrame], total: int) -> Matched[DataFrame]:
    return Matched(traces.written.select("file", "position").limit(0), total, 0)


def _placed(traces: Traces[DataFrame], keys: DataFrame, total: int, *, exact: bool) -> Matched[DataFrame]:
    """One look at all outputs, for the keys of the lost rows.

    Unless ``exact``, a value counts only if no more of it is there than was lost.
    """
    from pyspark.sql import functions as F

    kind = traces.lost.schema["row"].dataType
    lost = keys.groupBy(*keys.columns).agg(F.count(F.lit(1)).alias("copies"))
    hits = _places(traces.written, lost, kind, exact=exact).persist()
    found = hits.agg(F.count(F.lit(1)), F.count("position")).first()
    rows, places = (int(found[0]), int(found[1])) if found else (0, 0)
    return Matched(hits, total, places if rows == places else -1)


def _fixed_width(traces: Traces[DataFrame]) -> list[str]:
    """Columns that are cheap to read and to compare; no floats, as Spark takes 0.0 for −0.0."""
    from pyspark.sql import types as T

    kind = traces.lost.schema["row"].dataType
    if not isinstance(kind, T.StructType):
        return []
    fixed = (T.IntegralType, T.DecimalType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType)
    return [f.name for f in kind.fields if isinstance(f.dataType, fixed)]


def _told(lost: DataFrame, columns: int) -> tuple[int, list[str]]:
    """How many rows were lost, and the two columns of ``c0`` … that tell them apart best."""
    from pyspark.sql import functions as F

    distinct = [F.approx_count_distinct(F.col("row").getField(f"c{i}")) for i in range(columns)]
    total, *told = lost.agg(F.count(F.lit(1)), *distinct).first() or [0] * (1 + columns)
    best = sorted(range(columns), key=lambda i: -told[i])[:_FEW]
    return int(total), [f"c{i}" for i in sorted(best)]


def _only_columns(traces: Traces[DataFrame], names: Sequence[str]) -> Traces[DataFrame]:
    from pyspark.sql import functions as F

    row = F.struct(*[F.col("row").getField(name).alias(f"c{i}") for i, name in enumerate(names)]).alias("row")
    return Traces(traces.lost.select(row), traces.written.select(row, "file", "position"))


def _keys(row: Column, kind: DataType, *, exact: bool) -> list[Column]:
    """What is compared: the exact key after a cheap hash of it, or else the plain values of a few columns."""
    from pyspark.sql import types as T

    if exact or not isinstance(kind, T.StructType):
        return [_quick(row, kind).alias("quick"), _key(row, kind).alias("key")]
    return [row.getField(f.name).alias(f"key{i}") for i, f in enumerate(kind.fields)]


def _places(written: DataFrame, lost: DataFrame, kind: DataType, *, exact: bool) -> DataFrame:
    """The first ``copies`` places of each lost row; no position where the place is named a second time.

    Keys are compared by ``<=>``: of ``=`` Spark infers that no key is NULL, and works out the exact key of every
    row to be sure, before the cheap hash has sorted most rows out.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    near = written
    if exact:
        near = written.withColumn("quick", _quick(F.col("row"), kind)).join(
            F.broadcast(lost.select("quick").distinct()), "quick", "left_semi"
        )
    keyed = near.select(*_keys(F.col("row"), kind, exact=exact), "file", "position")
    names = [name for name in lost.columns if name.startswith("key")]
    wanted = lost.select(*(F.col(name).alias(f"lost_{name}") for name in names), "copies")
    same = [F.col(name).eqNullSafe(F.col(f"lost_{name}")) for name in names]
    equal = keyed.join(F.broadcast(wanted), same, "inner").select(*names, "copies", "file", "position")
    in_order = Window.partitionBy(*names).orderBy("file", "position")
    number = F.row_number().over(in_order) if exact else F.count(F.lit(1)).over(Window.partitionBy(*names))
    place = F.struct("file", "position")
    twice = F.lag(place).over(in_order) == place
    numbered = equal.withColumn("number", number).withColumn("twice", twice)
    once = F.when(F.col("twice"), None).otherwise(F.col("position")).alias("position")
    return numbered.where("number <= copies").select("file", once)


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
