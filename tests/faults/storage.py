"""Storage that fails inside the JVM: executors, Delta's log store and Iceberg's FileIO do not pass through Python.

Two small Java classes take the place of Hadoop's local file system. They are defined in the class loader that has
Hadoop, since they have to be of its package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.oracles.java_source import define

MODES = ("before", "after", "crash before", "crash after")
WRITES = "create close rename delete"
READS = "open list"
_JAVA = Path(__file__).parent / "java"
_CONTEXT = "fs.AbstractFileSystem.file.impl"


@dataclass(frozen=True)
class Storage:
    """The faulty file system of a session; without an armed fault it is the local one."""

    java: Any

    def arm(self, folder: Path, kinds: str, at: int = -1, mode: str = "") -> None:
        """Make the call with this number fail, of those of ``kinds`` below ``folder``; -1: only count."""
        self.java.arm(str(folder), kinds, at, mode)

    def block(self, folder: Path, kind: str, suffix: str, gate: Path) -> None:
        """Hold up the next call of this kind for a file below ``folder`` whose name ends so; see the Java source."""
        self.java.block(str(folder), kind, suffix, str(gate))

    def disarm(self) -> list[str]:
        """The calls that were counted."""
        return str(self.java.disarm()).splitlines()


@contextmanager
def faulty_storage(spark: SparkSession) -> Iterator[Storage]:
    """The session with a file system that can be made to fail; the former one is put back."""
    storage, restore = install(spark)
    try:
        yield storage
    finally:
        restore()


def install(spark: SparkSession) -> tuple[Storage, Callable[[], None]]:
    """Give the session a file system that can be made to fail; the second puts the former one back."""
    jvm: Any = spark._jvm
    for source in ("FaultFs.java", "FaultContext.java"):
        define(spark, _JAVA / source, beside="org.apache.hadoop.fs.FileSystem")
    java = jvm.org.apache.hadoop.fs.FaultFs
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    before, context = java.install(conf), conf.get(_CONTEXT)
    conf.set(_CONTEXT, "org.apache.hadoop.fs.FaultContext")
    level = str(jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel())
    spark.sparkContext.setLogLevel("OFF")  # each fault would be told at length

    def restore() -> None:
        java.disarm()
        spark.sparkContext.setLogLevel(level)
        conf.set(_CONTEXT, context)
        java.restore(conf, before)

    return Storage(java), restore
