"""Tables for the tests of the Delta adapter, and both readers of them."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.planning.rebase import Rewrite
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spi import Commit, TableName
from lakekeeper.testing.harness import merged, task_for
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
    """A Delta table at a path."""

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
        """The table's log, as an adapter opens it."""
        jvm = Jvm(self.spark)
        return Log(jvm, str(self.path), *load(jvm, self.table_name))

    def run(self, *steps: Step) -> Scene:
        """Statements in which ``{t}`` stands for the table, or functions that give a builder of it."""
        for step in steps:
            if isinstance(step, str):
                self.spark.sql(step.replace("{t}", self.sql))
            else:
                step(self).execute()
        return self

    def builder(self, verb: str = "create") -> Any:
        """Delta's own builder (``create`` or ``replace``), for what its SQL does not know at a path."""
        return getattr(DeltaTable, verb)(self.spark).location(str(self.path))

    def features(self) -> set[str]:
        """Features in force, also those that old writer versions imply."""
        detail = self.spark.sql(f"DESCRIBE DETAIL {self.sql}").first()
        assert detail is not None
        writer = detail["minWriterVersion"]
        implied = {f for v, names in _IMPLIED.items() if v <= writer < 7 for f in names}
        return set(detail["tableFeatures"]) | implied

    def spark_rows(self, version: int | None = None, columns: str = "*") -> Counter[str]:
        """All rows as canonical texts, as Spark reads them."""
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        table = reader.load(str(self.path)).selectExpr(columns).toArrow()
        return Counter(delta_log.canonical(row) for row in table.to_pylist())

    def log_rows(self, version: int | None = None) -> Counter[str]:
        """All rows as canonical texts, as the replayer of the log reads them."""
        return delta_log.rows(self.path, version)

    @property
    def version(self) -> int:
        return delta_log.versions(self.path)[-1]

    def actions(self, version: int | None = None) -> list[dict[str, Any]]:
        return delta_log.commit(self.path, self.version if version is None else version)

    def data_files(self) -> set[str]:
        """Parquet files under the table, whether a version names them or not."""
        found = self.path.rglob("*.parquet")
        return {str(p.relative_to(self.path)) for p in found if "_delta_log" not in p.parts}


def tasks_of(snapshot: Snapshot, *, level: int = 1, **changed: Any) -> list[MergeTask]:
    """One task for each partition, over all its blocks."""
    places: dict[str, list[str]] = {}
    for block in snapshot.blocks:
        places.setdefault(block.partition, []).append(block.path)
    tasks = [task_for(snapshot, paths, level=level) for paths in places.values()]
    return [replace(task, id=uuid.uuid4().hex[:12], **changed) for task in tasks]


def rewritten(adapter: Adapter, task: MergeTask, run_id: str = "run-1", *, columnar: bool = True) -> Rewrite:
    """The task's rows in new files: written by columnar workers where the adapter admits it, else by rows in Spark."""
    return merged(SparkRunner(SparkSession.active()), adapter, task, run_id, columnar=columnar)


def recluster(
    scene: Scene,
    columns: Sequence[str] | None = ("k",),
    *,
    level: int = 1,
    run_id: str = "run-1",
    columnar: bool = True,
    **changed: Any,
) -> Commit:
    """Rewrite and commit all blocks."""
    adapter = scene.adapter()
    snapshot = adapter.snapshot(columns)
    done = [
        rewritten(adapter, task, run_id, columnar=columnar)
        for task in tasks_of(snapshot, level=level, **changed)
    ]
    return adapter.commit(done, snapshot, run_id)
