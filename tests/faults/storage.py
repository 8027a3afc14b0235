"""Storage that fails inside the JVM: executors, Delta's log store and Iceberg's FileIO bypass Python.

Two small Java classes replace Hadoop's local file system. They are defined in Hadoop's class loader, since they must be
in its package.
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
        """Fail call number ``at``, counting calls of ``kinds`` below ``folder``; -1: only count."""
        self.java.arm(str(folder), kinds, at, mode)

    def block(self, folder: Path, kind: str, suffix: str, gate: Path) -> None:
        """Block the next call of this kind for a file below ``folder`` with this name ending; see the Java source."""
        self.java.block(str(folder), kind, suffix, str(gate))

    def disarm(self) -> list[str]:
        """Return the counted calls."""
        return str(self.java.disarm()).splitlines()


@contextmanager
def faulty_storage(spark: SparkSession) -> Iterator[Storage]:
    """The session with a file system that can fail; the previous one is restored."""
    storage, restore = install(spark)
    try:
        yield storage
    finally:
        restore()


def install(spark: SparkSession) -> tuple[Storage, Callable[[], None]]:
    """Install a file system that can fail; return it and the function that restores the previous one."""
    jvm: Any = spark._jvm
    for source in ("FaultFs.java", "FaultContext.java"):
        define(spark, _JAVA / source, beside="org.apache.hadoop.fs.FileSystem")
    java = jvm.org.apache.hadoop.fs.FaultFs
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    before, context = java.install(conf), conf.get(_CONTEXT)
    conf.set(_CONTEXT, "org.apache.hadoop.fs.FaultContext")
    level = str(jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel())
    spark.sparkContext.setLogLevel("OFF")  # each fault would log a stack trace

    def restore() -> None:
        java.disarm()
        spark.sparkContext.setLogLevel(level)
        conf.set(_CONTEXT, context)
        java.restore(conf, before)

    return Storage(java), restore
