"""Footers of Parquet files, read as Delta reads them: with the Hadoop configuration of the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakekeeper_delta.native import Log


@contextmanager
def opened(log: Log, path: str) -> Iterator[Any]:
    """A ParquetFileReader of a file, named as in the log. Java exceptions propagate."""
    parquet = log.jvm.view.org.apache.parquet.hadoop
    place = log.singleton("util.DeltaFileOperations").absolutePath(str(log.log.dataPath().toString()), path)
    source = parquet.util.HadoopInputFile.fromPath(place, log.log.newDeltaHadoopConf())
    reader = parquet.ParquetFileReader.open(source)
    try:
        yield reader
    finally:
        reader.close()
