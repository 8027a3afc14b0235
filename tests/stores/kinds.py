"""The kinds of tables on S3, HDFS, Azure and Google Cloud Storage: a format, the client of the store, and the catalog.

Rows are read by Spark and by a reader without Spark, which reaches the store past a relay.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spi import Adapter
from lakekeeper.testing.values import Row, text
from lakekeeper_iceberg.native import Iceberg
from tests.delta.scene import Scene as LocalDelta
from tests.iceberg.scene import Scene as IcebergScene
from tests.opening import adapter_of
from tests.oracles import delta_log, iceberg_log
from tests.stores.bucket import IMPATIENT, LAKE, Bucket
from tests.stores.store import Store


@dataclass(frozen=True)
class Kind:
    """One kind. ``catalog`` is empty for Delta; ``root`` names the store in place of its own."""

    name: str
    catalog: str = ""
    format_version: int = 0
    bucket: str = LAKE
    root: str = ""

    @property
    def delta(self) -> bool:
        return not self.catalog

    @property
    def store(self) -> str:
        """``s3``, ``hdfs``, ``azure`` or ``gcs``, by the name."""
        first = self.name.partition("-")[0]
        return first if first in ("hdfs", "azure", "gcs") else "s3"

    def table(self, spark: SparkSession, store: Store, name: str) -> StoreTable:
        """The table of this name, which need not exist; a bucket names the server."""
        if isinstance(store, Bucket):
            store = replace(store, name=self.bucket)
        if self.delta:
            return DeltaInStore(spark, store, name, self.root or store.root)
        return IcebergInStore(spark, store, name, self.catalog, self.format_version)


def _by_name(*kinds: Kind) -> dict[str, Kind]:
    return {kind.name: kind for kind in kinds}


ON_S3 = _by_name(
    Kind("delta"),
    Kind("iceberg-jdbc", "ice", 3),
    Kind("iceberg-s3a", "hio", 2),
    Kind("iceberg-rest", "rest", 2),
    Kind("iceberg-glue", "glue", 2),
)
"""By S3A; by S3FileIO under a SQLite catalog; by S3A under one; by ResolvingFileIO under a REST
catalog; by S3FileIO under Glue."""

ON_HDFS = _by_name(
    Kind("hdfs-delta"),
    Kind("hdfs-delta-plain", root="/"),
    Kind("hdfs-iceberg-jdbc", "nn", 3),
    Kind("hdfs-iceberg-hadoop", "nnh", 2),
    Kind("hdfs-iceberg-plain", "nnp", 3),
)
"""By addresses of the NameNode, and by plain paths; by HadoopFileIO under a SQLite catalog and a Hadoop catalog, the
last one with a plain path for a warehouse."""

ONE_OF_EACH_ON_HDFS = {name: ON_HDFS[name] for name in ("hdfs-delta", "hdfs-iceberg-hadoop")}
"""One of each format, for tests that take long."""

ON_GCS = _by_name(Kind("gcs-delta"), Kind("gcs-iceberg-jdbc", "gc", 3))
"""By Google's connector for Hadoop, and by HadoopFileIO on it under a SQLite catalog."""

ON_AZURE = _by_name(
    Kind("azure-delta"),
    Kind("azure-iceberg-jdbc", "az", 3),
    Kind("azure-iceberg-hadoop", "azh", 2),
)
"""By ABFS on the Blob endpoint; by HadoopFileIO on it under a SQLite catalog and a Hadoop catalog."""

BY_ADLS = _by_name(Kind("azure-iceberg-adls", "azf", 3))
"""By ADLSFileIO, whose listings Azurite does not answer: for tests that list nothing."""

KINDS = ON_S3 | ON_HDFS | ON_AZURE | ON_GCS

TRIED_ONCE = _by_name(
    Kind("delta, no retries", bucket=IMPATIENT), Kind("iceberg-jdbc, no retries", "quick", 3, IMPATIENT)
)
"""Kinds whose clients do not retry, so that each fault reaches lakekeeper."""


def of_kinds(kinds: Mapping[str, Kind]) -> pytest.MarkDecorator:
    """Runs a test for these kinds, by its argument ``kind``."""
    return pytest.mark.parametrize("kind", list(kinds.values()), ids=list(kinds))


@dataclass(frozen=True)
class StoreTable(ABC):
    """A table in a store."""

    spark: SparkSession
    store: Store
    name: str

    @property
    @abstractmethod
    def sql(self) -> str:
        """The table's name in a statement, and for lakekeeper."""

    @property
    @abstractmethod
    def prefix(self) -> str:
        """The keys of the table begin so."""

    @abstractmethod
    def create(self, columns: str, *, more: str = "", properties: Mapping[str, str] | None = None) -> None:
        """An empty table."""

    @abstractmethod
    def log_rows(self) -> Counter[str]:
        """The current rows, by the reader without Spark."""

    @abstractmethod
    def leftovers(self) -> set[str]:
        """Keys of data and delete files in the store that no version names."""

    @abstractmethod
    def forget(self) -> None:
        """Make Spark read the table from the store next time."""

    @abstractmethod
    def rewrite_foreign(self) -> None:
        """The format's own compaction."""

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.spark.sql(statement.replace("{t}", self.sql))

    def rows(self, version: int | None = None) -> list[Row]:
        """Rows as Spark reads them."""
        at = "" if version is None else f" VERSION AS OF {version}"
        rows: list[Row] = self.spark.sql(f"SELECT * FROM {self.sql}{at}").toArrow().to_pylist()
        return rows

    def spark_rows(self) -> Counter[str]:
        """The current rows as texts, read from the store by Spark."""
        self.forget()
        return Counter(map(text, self.rows()))

    def table(self) -> lk.Table:
        return lk.table(self.spark, self.sql)

    def adapter(self) -> Adapter[Any]:
        return adapter_of(self.spark, self.sql)

    def delete(self, where: str) -> None:
        self.run(f"DELETE FROM {{t}} WHERE {where}")

    def set_property(self, name: str, value: str) -> None:
        self.run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{name}' = '{value}')")


@dataclass(frozen=True)
class DeltaInStore(StoreTable):
    """A Delta table at a path."""

    root: str

    @property
    def sql(self) -> str:
        return f"delta.`{self.root}{self.prefix}`"

    @property
    def prefix(self) -> str:
        return f"delta/{self.name}"

    def create(self, columns: str, *, more: str = "", properties: Mapping[str, str] | None = None) -> None:
        given = {"delta.enableDeletionVectors": "true"} | dict(properties or {})
        listed = ", ".join(f"'{k}'='{v}'" for k, v in given.items())
        self.run(f"CREATE TABLE {{t}} ({columns}) USING delta {more} TBLPROPERTIES ({listed})")

    def log_rows(self) -> Counter[str]:
        with tempfile.TemporaryDirectory() as folder:
            state = delta_log.replay(self._copied(folder))
            adds = state.adds.values()
            return Counter(
                text(row) for add in adds for row in delta_log.file_rows(Path(folder), add, state.metadata)
            )

    def leftovers(self) -> set[str]:
        with tempfile.TemporaryDirectory() as folder:
            found = LocalDelta(self.spark, self._copied(folder)).unreferenced()
            return {path.removeprefix(f"{folder}/") for path in found}

    def forget(self) -> None:
        Jvm(self.spark).view.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def rewrite_foreign(self) -> None:
        self.run("OPTIMIZE {t}")

    def _copied(self, folder: str) -> Path:
        return self.store.copy_to(self.prefix, Path(folder))


@dataclass(frozen=True)
class IcebergInStore(StoreTable):
    """An Iceberg table in a catalog of `tests.stores.session`."""

    catalog: str
    format_version: int

    @property
    def sql(self) -> str:
        return f"{self.catalog}.db.{self.name}"

    @property
    def prefix(self) -> str:
        return self.store.key(str(self.scene().java().location()))

    def create(self, columns: str, *, more: str = "", properties: Mapping[str, str] | None = None) -> None:
        self.scene().create(columns, more=more, properties=properties)

    def scene(self) -> IcebergScene:
        return IcebergScene(self.spark, self.catalog, self.name, self.format_version)

    def log_rows(self) -> Counter[str]:
        current = self._metadata()
        return iceberg_log.rows(
            str(current.metadataFileLocation()),
            int(current.currentSnapshot().snapshotId()),
            self.store.readable,
        )

    def leftovers(self) -> set[str]:
        metadata = str(self._metadata().metadataFileLocation())
        named = iceberg_log.named_files(metadata, self.store.readable)
        keys = {self.store.key(path) for path in named}
        found = self.store.keys(f"{self.prefix}/data/")
        return {key for key in found - keys if not key.endswith("/")}  # S3A marks empty folders

    def forget(self) -> None:
        Iceberg(self.spark).load(self.sql).refresh()

    def rewrite_foreign(self) -> None:
        self.scene().call("rewrite_data_files", ", options => map('rewrite-all', 'true')")

    def _metadata(self) -> Any:
        return self.scene().java().operations().current()
