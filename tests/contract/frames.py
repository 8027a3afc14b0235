"""Rows of the contract as DataFrames, and its kinds as types of Spark SQL and Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakekeeper.core.model.keys import arrow_type, quote
from lakekeeper.spark.shims import shim
from lakekeeper.testing.values import Row
from lakekeeper.testing.versions import Kinds

_SQL = {"int": "BIGINT", "float": "DOUBLE"}


def sql_type(kind: str | Kinds) -> str:
    """A kind as Spark SQL spells its type; a mapping is a struct."""
    if isinstance(kind, Mapping):
        return "STRUCT<" + ", ".join(f"{quote(n)}: {sql_type(k)}" for n, k in kind.items()) + ">"
    return _SQL.get(kind, kind.upper())


def columns(kinds: Kinds) -> str:
    """The columns of a CREATE TABLE."""
    return ", ".join(f"{quote(name)} {sql_type(kind)}" for name, kind in kinds.items())


def _arrow(kind: str | Kinds) -> pa.DataType:
    if isinstance(kind, Mapping):
        return pa.struct([(n, _arrow(k)) for n, k in kind.items()])
    return arrow_type(kind)


def frame(spark: SparkSession, kinds: Kinds, rows: Sequence[Row]) -> DataFrame:
    """Rows as one partition."""
    schema = pa.schema([(n, _arrow(k)) for n, k in kinds.items()])
    made = shim().from_arrow(spark, pa.Table.from_pylist(list(rows), schema)).coalesce(1)
    # PySpark 4.0 and 3.5 read a timestamp without a time zone as one in the session's.
    return made.select(*[made[quote(name)].cast(sql_type(kind)).alias(name) for name, kind in kinds.items()])
