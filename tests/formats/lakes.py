"""One kind of table after the other, through the public API: Delta, Iceberg v2 and v3."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import lakekeeper as lk
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spi import Adapter
from tests.opening import adapter_of, table_later
from tests.oracles import delta_log, iceberg_log

_NUMBER = itertools.count()
KINDS = ("delta", "iceberg-v2", "iceberg-v3")


@dataclass(frozen=True)
class Lake:
    """Creates and writes tables of one kind, with Spark alone."""

    spark: SparkSession
    kind: str

    @property
    def iceberg(self) -> bool:
        return self.kind.startswith("iceberg")

    def create(
        self,
        columns: str,
        *,
        partitioned: str = "",
        properties: dict[str, str] | None = None,
        location: Path | None = None,
        name: str = "",
    ) -> str:
        """Create an empty table, at the catalog's location and under a new name unless given; return its name."""
        name = name or f"{'ice' if self.iceberg else 'spark_catalog'}.formats.t{next(_NUMBER)}"
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.rpartition('.')[0]}")
        given = dict(properties or {})
        if self.iceberg:
            given |= {"format-version": self.kind[-1], "write.delete.mode": "merge-on-read"}
        else:
            given = {"delta.enableDeletionVectors": "true"} | given
        listed = ", ".join(f"'{k}'='{v}'" for k, v in given.items())
        by = f"PARTITIONED BY ({partitioned})" if partitioned else ""
        provider = "iceberg" if self.iceberg else "delta"
        at = f"LOCATION '{location}'" if location else ""
        self.spark.sql(f"CREATE TABLE {name} ({columns}) USING {provider} {by} {at} TBLPROPERTIES ({listed})")
        return name

    def row_ids(self, name: str) -> list[tuple[Any, ...]]:
        """Row ids, if the table has them, with the version of each row's last change."""
        if self.kind == "iceberg-v2":
            return []
        columns = "id, _row_id, _last_updated_sequence_number"
        if not self.iceberg:
            columns = "id, _metadata.row_id, _metadata.row_commit_version"
        return sorted(map(tuple, self.spark.sql(f"SELECT {columns} FROM {name}").collect()))

    def append(self, name: str, frame: DataFrame) -> None:
        """One commit of one file (one for each partition value)."""
        frame.coalesce(1).writeTo(name).append()

    def overlapping(self, files: int, rows: int, *, columns: str = "id bigint, k int, v string") -> str:
        """``files`` files of ``rows`` rows, each over the whole domain of ``k``, written by one commit."""
        name = self.create(columns)
        made = "id", "cast(pmod(hash(id), 1000) as int) as k", "md5(cast(id as string)) as v"
        ids = self.spark.range(0, files * rows, 1, numPartitions=files)
        ids.selectExpr(*made).writeTo(name).append()
        return name

    def fingerprint(self, name: str, version: int | None = None) -> tuple[Any, ...]:
        """Rows as an order-independent value; cast to text first, so that hashing normalizes nothing."""
        at = "" if version is None else f" VERSION AS OF {version}"
        rendered = f"SELECT xxhash64(to_json(struct(*))) AS h FROM {name}{at}"
        row = self.spark.sql(
            f"SELECT count(*), sum(cast(h AS decimal(38))), bit_xor(h) FROM ({rendered})"
        ).first()
        assert row is not None
        return tuple(row)

    def versions(self, name: str) -> list[int]:
        """All readable versions, oldest first."""
        if self.iceberg:
            rows = self.spark.sql(f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at").collect()
        else:
            rows = self.spark.sql(f"DESCRIBE HISTORY {name}").select("version").orderBy("version").collect()
        return [row[0] for row in rows]

    def rows(self, name: str, version: int) -> Counter[str]:
        """Rows of a version by a reader other than Spark: from the log and the files alone."""
        if not self.iceberg:
            return delta_log.rows(self.home(name), version)
        log = self.spark.sql(
            f"SELECT file FROM {name}.metadata_log_entries ORDER BY timestamp DESC, file DESC"
        )
        [newest] = log.limit(1).collect()
        return iceberg_log.rows(newest[0], version)

    def home(self, name: str) -> Path:
        """The table's folder on disk."""
        row = self.spark.sql(f"DESCRIBE TABLE EXTENDED {name}").where("col_name = 'Location'").first()
        assert row is not None
        return Path(str(row["data_type"]).removeprefix("file:"))

    def on_disk(self, name: str) -> set[str]:
        """Base names of all parquet data files under the table's folder, in the log or not."""
        path = self.spark.sql(f"DESCRIBE TABLE EXTENDED {name}").where("col_name = 'Location'").first()
        assert path is not None
        root = Jvm(self.spark).view.org.apache.hadoop.fs.Path(path["data_type"])
        listing = root.getFileSystem(self.spark._jsparkSession.sessionState().newHadoopConf()).listFiles(
            root, True
        )
        found = set()
        while listing.hasNext():
            file = listing.next().getPath()
            if file.getName().endswith(".parquet") and "checkpoint" not in file.getName():
                found.add(file.getName())
        return found

    def table(self, name: str, *, hours: int = 0) -> lk.Table:
        """The table, opened ``hours`` from now."""
        return table_later(self.spark, name, hours) if hours else lk.table(self.spark, name)

    def adapter(self, name: str) -> Adapter[Any]:
        """The table's adapter."""
        return adapter_of(self.spark, name)
