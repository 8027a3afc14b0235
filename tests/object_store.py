"""A local folder that Hadoop treats as an object store, under the schemes s3 and s3a: see ``ObjectFs.java``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.oracles.java_source import define

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SOURCE = Path(__file__).parent / "java" / "ObjectFs.java"


@contextmanager
def object_store(spark: SparkSession, folder: Path | None = None) -> Iterator[None]:
    """Paths of any bucket are those below ``folder``, otherwise those of the disk."""
    define(spark, _SOURCE, beside="org.apache.hadoop.fs.FileSystem")
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    given = {"fs.object.folder": "" if folder is None else str(folder)}
    for scheme in ("s3", "s3a"):
        given[f"fs.{scheme}.impl"] = "org.apache.hadoop.fs.ObjectFs"
        given[f"fs.{scheme}.impl.disable.cache"] = str(folder is not None).lower()
    for key, value in given.items():
        conf.set(key, value)
    try:
        yield
    finally:
        for key in given:
            conf.unset(key)
