"""Tables for the tests of the Delta adapter, and the two readers of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.shims import shim
from lakekeeper.spi import TableName
from lakekeeper.testing.values import Row
from lakekeeper_delta import FORMAT
from lakekeeper_delta.native import Log
from lakekeeper_delta.opening import load
from lakekeeper_delta.table import DeltaTable as Adapter
from tests.oracles import delta_log

_IMPLIED = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}


Step = str | Callable[["Scene"], Any]


@dataclass(frozen=True)
class Scene:
    """A Delta table at a path, see ``tests.tables``."""

    spark: SparkSession
    path: Path

    @property
    def sql(self) -> str:
        return f"delta.`{self.path}`"

    @property
    def table_name(self) -> TableName:
        return TableName(str(self.path), "delta", self.sql, path=str(self.path))

    def adapter(self) -> Adapter:
        return FORMAT.open(self.spark, self.table_name)

    def log(self) -> Log:
        """The table's log, opened as an adapter opens it."""
        jvm = Jvm(self.spark)
        return Log(jvm, str(self.path), *load(jvm, self.table_name))

    def create(self, columns: str, *, more: str = "", properties: Mapping[str, str] | None = None) -> Scene:
        """An empty table; ``more`` follows the columns (PARTITIONED BY …)."""
        listed = ", ".join(f"'{k}'='{v}'" for k, v in (properties or {}).items())
        given = f"TBLPROPERTIES ({listed})" if listed else ""
        return self.run(f"CREATE TABLE {{t}} ({columns}) USING delta {more} {given}")

    def run(self, *steps: Step) -> Scene:
        """Run statements, in which ``{t}`` is replaced by the table, or functions that return a builder for it."""
        for step in steps:
            if isinstance(step, str):
                self.spark.sql(step.replace("{t}", self.sql))
            else:
                step(self).execute()
        return self

    def builder(self, verb: str = "create") -> Any:
        """Delta's own builder (``create`` or ``replace``), for what SQL cannot express for a table at a path."""
        return getattr(DeltaTable, verb)(self.spark).location(str(self.path))

    def features(self) -> set[str]:
        """Features in force, including those that old writer versions imply."""
        detail = self.spark.sql(f"DESCRIBE DETAIL {self.sql}").first()
        assert detail is not None
        writer = detail["minWriterVersion"]
        implied = {f for v, names in _IMPLIED.items() if v <= writer < 7 for f in names}
        return set(detail["tableFeatures"]) | implied

    def spark_rows(self, version: int | None = None, columns: str = "*") -> Counter[str]:
        """All rows as canonical texts, read by Spark."""
        return Counter(delta_log.canonical(row) for row in self.spark_records(version, columns))

    def spark_records(self, version: int | None = None, columns: str = "*") -> list[Row]:
        """All rows, read by Spark."""
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        rows: list[Row] = shim().to_arrow(reader.load(str(self.path)).selectExpr(columns)).to_pylist()
        return rows

    def log_rows(self, version: int | None = None) -> Counter[str]:
        """All rows as canonical texts, read by the log replayer."""
        return delta_log.rows(self.path, version)

    def log_records(self, version: int | None = None) -> list[Row]:
        """All rows, read by the log replayer."""
        state = delta_log.replay(self.path, version)
        return [
            row for add in state.adds.values() for row in delta_log.file_rows(self.path, add, state.metadata)
        ]

    def versions(self) -> list[int]:
        return delta_log.versions(self.path)

    @property
    def version(self) -> int:
        return delta_log.versions(self.path)[-1]

    def actions(self, version: int | None = None) -> list[dict[str, Any]]:
        return delta_log.commit(self.path, self.version if version is None else version)

    def data_files(self) -> set[str]:
        """Parquet files under the table, referenced by a version or not."""
        found = self.path.rglob("*.parquet")
        return {str(p.relative_to(self.path)) for p in found if "_delta_log" not in p.parts}

    def files(self) -> set[str]:
        """Full paths of data files and deletion vector files, referenced by a version or not."""
        found = [p for p in self.path.rglob("*") if p.suffix in (".parquet", ".bin")]
        return {str(p) for p in found if "_delta_log" not in p.parts}

    def unreferenced(self) -> set[str]:
        """Files that no action of any commit references."""
        named: set[str] = set()
        for version in self.versions():
            for action in delta_log.commit(self.path, version):
                for kind in ("add", "remove", "cdc"):
                    named |= delta_log.files_of(action[kind]) if kind in action else set()
        return self.files() - {str(self.path / name) for name in named}
