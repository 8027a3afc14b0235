"""The catalogs under test, each as a user configures it, and tables in them.

    sqlite, hadoop   catalogs of the session of all tests        hive             Iceberg's HiveCatalog
    rest             a server on loopback                        session-iceberg  SparkSessionCatalog on Hive
    session          Delta's, in memory                          session-delta    Delta's, on Hive
    nessie           Iceberg's NessieCatalog, on a server of the tests (make stores)

The last two of Hive are the ``spark_catalog`` of a separate session, since that name is taken.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakekeeper.spi import Adapter
from tests.catalogs.nessie import Nessie
from tests.delta.scene import Scene as DeltaScene
from tests.iceberg.scene import Scene as IcebergScene
from tests.opening import adapter_of
from tests.tables import TableUnderTest

DELTA = "catalogs"
"""The namespace of Delta's tables, beside those of other tests."""
ICEBERG = "db"
"""The namespace of Iceberg's tables, as in all tests."""
KINDS = ("sqlite", "hadoop", "rest", "hive", "session-iceberg", "session", "session-delta")
NESSIE = pytest.param("nessie", marks=pytest.mark.stores)
"""Its server is a download of 240 MB."""
_PACE = ("spark.lakekeeper.commit.quiet-window-ms", "spark.lakekeeper.queries-per-hour")


@dataclass(frozen=True)
class NamedDelta(DeltaScene):
    """A managed Delta table, by its name."""

    name: str = ""

    @property
    def sql(self) -> str:
        return f"spark_catalog.{DELTA}.{self.name}"

    def adapter(self) -> Adapter[Any]:  # type: ignore[override]  # opened as a user opens it
        return adapter_of(self.spark, self.sql)


@dataclass(frozen=True)
class Catalog:
    """A catalog of a session. ``home`` is the location of its managed tables, if Delta chooses it."""

    kind: str
    spark: SparkSession
    name: str
    home: Path

    @property
    def delta(self) -> bool:
        return self.kind in ("session", "session-delta")

    @property
    def namespace(self) -> str:
        return f"{self.name}.{DELTA if self.delta else ICEBERG}"

    @property
    def renames(self) -> bool:
        """Whether a dropped table can be kept under another name."""
        return self.kind != "hadoop"

    @property
    def shares(self) -> bool:
        """Whether other branches and tags of the catalog may need a table's files, so that a vacuum is refused."""
        return self.kind == "nessie"

    def table(self, name: str) -> TableUnderTest:
        """The table of this name, which need not exist."""
        if self.delta:
            return NamedDelta(self.spark, self.home / name, name)
        return IcebergScene(self.spark, self.name, name)


def add_catalog(spark: SparkSession, name: str, settings: Mapping[str, str]) -> str:
    """Configure an Iceberg catalog on a running session, with the namespace of the tests."""
    implementation = "SparkSessionCatalog" if name == "spark_catalog" else "SparkCatalog"
    spark.conf.set(f"spark.sql.catalog.{name}", f"org.apache.iceberg.spark.{implementation}")
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    return name


def add_nessie(spark: SparkSession, server: Nessie, home: Path, ref: str = "main") -> str:
    """Configure a NessieCatalog for one of the server's branches or tags."""
    settings = {"type": "nessie", "uri": server.address, "ref": ref, "warehouse": f"{home}/nessie"}
    return add_catalog(spark, f"nessie_{uuid.uuid4().hex[:8]}", settings)


@contextmanager
def hive_session(spark: SparkSession, metastore: str) -> Iterator[SparkSession]:
    """A session with Hive's tables beside one without, in the same application.

    Spark chooses between them by static confs, when the first session of an application is created; this one is created
    as if it were the first.
    """
    context: Any = spark.sparkContext
    confs, hadoop = context._jsc.sc().conf(), context._jsc.hadoopConfiguration()
    implementation, uris = "spark.sql.catalogImplementation", "hive.metastore.uris"
    before = confs.get(implementation)
    confs.set(implementation, "hive")
    hadoop.set(uris, metastore)
    view: Any = spark._jvm
    try:
        made = SparkSession(context, view.org.apache.spark.sql.classic.SparkSession(context._jsc.sc()))
        made.sql("SHOW NAMESPACES").collect()  # the static confs are read now
    finally:
        confs.set(implementation, before)
        hadoop.unset(uris)
    yield at_the_pace_of(spark, made)
    activate(spark)


def at_the_pace_of(spark: SparkSession, made: SparkSession) -> SparkSession:
    """A session with the confs of the tests' session that differ from the defaults."""
    for key in _PACE:
        made.conf.set(key, str(spark.conf.get(key)))
    return made


def activate(spark: SparkSession) -> None:
    """Make this the session of calls that take none, such as Iceberg's own."""
    java: Any = spark._jsparkSession
    view: Any = spark._jvm
    view.org.apache.spark.sql.classic.SparkSession.setActiveSession(java)
