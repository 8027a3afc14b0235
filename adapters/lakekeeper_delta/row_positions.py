"""The position of a row: the file as the log spells its path, and the row's index in the file, from 0.

User columns can have any name, including that of a metadata column: metadata columns are accessed as metadata, and
the user's columns are kept in a struct next to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.spark.jvm import Jvm
from lakekeeper_delta.native import Log

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Paths that Spark spells as the log does: characters that a URI path may contain, and the others encoded.
_AS_SPELLED = r"^(?:[A-Za-z0-9_\-!.~'()*,;:$&+=@/]|%(?:20|22|23|25|3C|3E|3F|5B|5C|5D|5E|60|7B|7C|7D))*$"


def metadata(frame: DataFrame) -> Column:
    """The metadata struct of a scan, whatever the columns of the table."""
    return Jvm(frame.sparkSession).shim.metadata_column(frame, "_metadata")


def file_and_position(log: Log, frame: DataFrame) -> tuple[Column, Column]:
    """Columns ``file`` and ``position`` of a scan; Delta's own files are spelled as in the log, see ``located``."""
    meta = metadata(frame)
    file = below(log, meta.getField("file_path")).alias("file")
    return file, meta.getField("row_index").alias("position")


def below(log: Log, address: Column) -> Column:
    """The part of a file's address below the table's root, with which all addresses begin."""
    from pyspark.sql import functions as F

    return F.substr(address, F.lit(len(_address(log, "x"))), F.length(address))


def located(log: Log, places: DataFrame, paths: pa.Array) -> DataFrame:
    """Columns ``file`` and ``position`` with each file spelled as in ``paths``.

    Some writers encode more characters of a path than necessary, and Spark does not spell them so.
    """
    from pyspark.sql import functions as F

    odd = paths.filter(pc.invert(pc.match_substring_regex(paths, _AS_SPELLED))).to_pylist()
    other = {path: name for path, name in spelled(log, odd).items() if path != name}
    if not other:
        return places.select("file", "position")
    names = F.broadcast(small(places, spelled=list(other.values()), named=list(other)))
    joined = places.join(names, F.col("file") == F.col("spelled"), "left")
    return joined.select(F.coalesce("named", "file").alias("file"), "position")


def spelled(log: Log, paths: Iterable[str]) -> dict[str, str]:
    """Paths of the log → the same files as ``file_and_position`` spells them."""
    known = re.compile(_AS_SPELLED)
    prefix = len(_address(log, "x")) - 1
    return {path: path if known.match(path) else _address(log, path)[prefix:] for path in paths}


def small(beside: DataFrame, **columns: Sequence[str | int]) -> DataFrame:
    """A DataFrame of a few rows, in the session of ``beside``."""
    made: DataFrame = Jvm(beside.sparkSession).from_arrow(pa.table(dict(columns)))
    return made


def as_struct(names: Sequence[str]) -> Column:
    """These columns as one struct with generated names: ``c0``, ``c1`` …"""
    from pyspark.sql import functions as F

    return F.struct(*[F.col(quoted(name)).alias(f"c{i}") for i, name in enumerate(names)])


def quoted(name: str) -> str:
    """A column name as Spark SQL spells it."""
    return "`" + name.replace("`", "``") + "`"


def _address(log: Log, path: str) -> str:
    """The address of a file of the table as ``_metadata.file_path`` spells it."""
    absolute = log.singleton("util.DeltaFileOperations").absolutePath(
        str(log.log.dataPath().toString()), path
    )
    spark_path = log.jvm.object("org.apache.spark.paths.SparkPath")
    return str(spark_path.fromPath(absolute).urlEncoded())
