"""Find rows by their values: the positions of given rows in a set of files.

A row is found by a digest of a text that two rows share only if all their values are equal, bit for bit except for NaN:
−0.0 is not 0.0, NULL is not "", and maps compare regardless of the order of their entries. Equal rows are
interchangeable, so n lost copies match the first n positions:

    lost      a a b          written   a@1 a@2 a@3 b@4        hits   a@1 a@2 b@4

PySpark is imported inside the functions: ``import lakekeeper`` imports this module and must not import PySpark.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from lakekeeper.spi import Held, Matched, Traces

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_NULL = "~"
_FEW = 2  # columns of fixed width that mostly suffice to distinguish rows


def match(traces: Traces[DataFrame], most: int) -> Matched[DataFrame]:
    """See ``spi.Runner.match``. Raises TypeError for a column whose values cannot be compared.

    A rewrite keeps every row. So if the outputs contain exactly as many rows with certain values in a few columns as
    were lost with these values, they are the lost rows; usually only two columns of fixed width are read. If these do
    not suffice, all columns of fixed width are tried, and then whole rows.
    """
    names = _fixed_width(traces)
    if names:
        narrow = _only_columns(traces, names)
        lost = narrow.lost.persist()
        try:
            total, best = _most_distinct(lost, len(names))
            if total == 0 or total > most:
                return _nothing(traces, total)
            for few in (best, [f"c{i}" for i in range(len(names))])[: 1 + (len(best) < len(names))]:
                narrowed = _only_columns(Traces(lost, narrow.written), few)
                matched = _placed(narrowed, _lost_keys(narrowed, exact=False), total, exact=False)
                if matched.found == total:
                    return matched
                matched.hits.unpersist()
        finally:
            lost.unpersist()
    return _whole_rows(traces, most)


def _whole_rows(traces: Traces[DataFrame], most: int) -> Matched[DataFrame]:
    """Match by all columns. The lost rows are read once; only their keys are cached, never the rows."""
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
    """Search all outputs once for the keys of the lost rows.

    Unless ``exact``, a key matches only if the outputs contain no more rows with it than were lost.
    """
    from pyspark.sql import functions as F

    kind = traces.lost.schema["row"].dataType
    lost = keys.groupBy(*keys.columns).agg(F.count(F.lit(1)).alias("copies"))
    hits = _places(traces.written, lost, kind, exact=exact)
    with _persisted(hits):
        found = hits.agg(F.count(F.lit(1)), F.count("position")).first()
    rows, places = (int(found[0]), int(found[1])) if found else (0, 0)
    return Matched(hits, total, places if rows == places else -1)


def _fixed_width(traces: Traces[DataFrame]) -> list[str]:
    """Columns that are cheap to read and to compare; no floats, because Spark treats 0.0 and −0.0 as equal."""
    from pyspark.sql import types as T

    kind = traces.lost.schema["row"].dataType
    if not isinstance(kind, T.StructType):
        return []
    fixed = (T.IntegralType, T.DecimalType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType)
    return [f.name for f in kind.fields if isinstance(f.dataType, fixed)]


def _most_distinct(lost: DataFrame, columns: int) -> tuple[int, list[str]]:
    """The number of lost rows, and the two of the columns ``c0`` … that distinguish them best."""
    from pyspark.sql import functions as F

    distinct = [F.approx_count_distinct(F.col("row").getField(f"c{i}")) for i in range(columns)]
    total, *counts = lost.agg(F.count(F.lit(1)), *distinct).first() or [0] * (1 + columns)
    best = sorted(range(columns), key=lambda i: -counts[i])[:_FEW]
    return int(total), [f"c{i}" for i in sorted(best)]


def _only_columns(traces: Traces[DataFrame], names: Sequence[str]) -> Traces[DataFrame]:
    from pyspark.sql import functions as F

    row = F.struct(*[F.col("row").getField(name).alias(f"c{i}") for i, name in enumerate(names)]).alias("row")
    return Traces(traces.lost.select(row), traces.written.select(row, "file", "position"))


def _keys(row: Column, kind: DataType, *, exact: bool) -> list[Column]:
    """The columns to compare: a cheap hash and the exact key, or the plain values of a few columns."""
    from pyspark.sql import types as T

    if exact or not isinstance(kind, T.StructType):
        return [_quick(row, kind).alias("quick"), _key(row, kind).alias("key")]
    return [row.getField(f.name).alias(f"key{i}") for i, f in enumerate(kind.fields)]


def _places(written: DataFrame, lost: DataFrame, kind: DataType, *, exact: bool) -> DataFrame:
    """The first ``copies`` positions of each lost row; a position that occurs a second time is NULL.

    Keys are compared by ``<=>``: from ``=`` Spark infers that no key is NULL, and then computes the exact key of every
    row to check it, before the cheap hash has excluded most rows.
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
    kept = hits.select("file", "position")
    with _persisted(kept):
        counted = kept.groupBy("file").count().collect()
    return Held(kept, {str(r["file"]): int(r["count"]) for r in counted})


@contextmanager
def _persisted(frame: DataFrame) -> Iterator[None]:
    """Persist a frame for the caller; after an error no caller gets it, and it would stay as long as the session."""
    frame.persist()
    try:
        yield
    except BaseException:
        with suppress(Exception):
            frame.unpersist()
        raise


def only(held: Held[DataFrame], files: Collection[str]) -> Held[DataFrame]:
    """See ``spi.Runner.only``."""
    from pyspark.sql import functions as F

    chosen = {path: n for path, n in held.per_file.items() if path in files}
    if len(chosen) == len(held.per_file):
        return held
    return Held(held.hits.where(F.col("file").isin(list(chosen))), chosen)


def _key(row: Column, kind: DataType) -> Column:
    """A key that is equal for interchangeable rows and for no others."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(kind, T.LongType):
        return row
    return F.sha2(text_of(row, kind).cast("binary"), 256)


def _quick(row: Column, kind: DataType) -> Column:
    """A number that is equal for equal rows, and rarely for others."""
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
    return not isinstance(kind, T.MapType) and not _is_variant(kind)


def _is_variant(kind: DataType) -> bool:
    """Whether a type is VARIANT, which PySpark 3.5 does not have."""
    from pyspark.sql import types as T

    return isinstance(kind, getattr(T, "VariantType", ()))


def text_of(value: Column, kind: DataType) -> Column:
    """A text that is unique per value of a type; parts cannot run together, since each atom starts with its length."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(kind, T.StructType):
        parts = [text_of(value.getField(f.name), f.dataType) for f in kind.fields]
        plain = F.concat(F.lit("("), *parts, F.lit(")"))
    elif isinstance(kind, T.ArrayType):
        element = kind.elementType
        plain = _listed(F.transform(value, lambda each: text_of(each, element)))
    elif isinstance(kind, T.MapType):
        of_key, of_value = kind.keyType, kind.valueType

        def entry(each: Column) -> Column:
            return F.concat(text_of(each.getField("key"), of_key), text_of(each.getField("value"), of_value))

        plain = _listed(F.array_sort(F.transform(F.map_entries(value), entry)))
    else:
        spelled = spelling_of(value, kind)
        plain = F.concat(F.octet_length(spelled).cast("string"), F.lit(":"), spelled)
    return F.when(value.isNull(), F.lit(_NULL)).otherwise(plain)


def _listed(parts: Column) -> Column:
    from pyspark.sql import functions as F

    return F.concat(F.lit("["), F.array_join(parts, ""), F.lit("]"))


def spelling_of(value: Column, kind: DataType) -> Column:
    """An atomic value as text that does not depend on the session (time zone, formats)."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(kind, T.BinaryType):
        return F.hex(value)
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(value).cast("string")
    if _is_variant(kind):
        return F.concat(F.schema_of_variant(value), F.lit("="), F.to_json(value))
    if isinstance(kind, T.StringType | T.CharType | T.VarcharType):
        return value.cast("string")
    known: tuple[Any, ...] = (T.NumericType, T.BooleanType, T.DateType, T.TimestampNTZType)
    if isinstance(kind, (*known, T.DayTimeIntervalType, T.YearMonthIntervalType)):
        return value.cast("string")
    raise TypeError(f"values of type {kind.simpleString()} cannot be compared")
