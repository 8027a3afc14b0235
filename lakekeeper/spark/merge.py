"""The merge on Spark: sort rows by the key, in one task or in ranges cut by the block statistics.

Each input is read once. A group that fits one task is sorted without a shuffle. A larger group is cut at bounds that
the planner took from the blocks' own statistics, so that no sampling job reads it first:

    one task     scan ─► coalesce(1) ─► sort ─► write
    ranges       scan ─► bucket(key) ─► repartitionById ─► sort each ─► write

A key that follows a curve adds a temporary column: each row's curve position, by which rows are bucketed and sorted.

PySpark is imported inside the functions: ``import lakekeeper`` imports this module and must not import PySpark.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from lakekeeper.core.model.file_merge import FileMerge, WrittenFile
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.spark import columnar_merge, row_match
from lakekeeper.spark.curve import PLACE, with_place
from lakekeeper.spark.jvm import require_classic
from lakekeeper.spark.shims import shim
from lakekeeper.spi import Held, Matched, Traces

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

POOL = "lakekeeper"
_OF_THE_THREAD = (
    "spark.jobGroup.id",
    "spark.job.description",
    "spark.job.interruptOnCancel",
    "spark.job.tags",
    "spark.scheduler.pool",
)


class SparkRunner:
    """Implements ``spi.Runner`` with DataFrames; safe to use from several driver threads."""

    def __init__(self, spark: SparkSession) -> None:
        require_classic(spark)
        self._spark = spark

    def merge(self, rows: DataFrame, task: MergeTask) -> DataFrame:
        """Sort rows by the key (NULLs first), or along the key's curve; without a key, keep the input order."""
        from pyspark.sql import functions as F

        if task.key is None:
            return rows.coalesce(1)
        order = [F.col(column.name).asc_nulls_first() for column in task.key.columns]
        if task.boundaries is not None:
            placed = with_place(rows, task.key, task.boundaries)
            return _sorted(placed, F.col(PLACE), [F.lit(c) for c in task.cuts], [F.col(PLACE), *order]).drop(
                PLACE
            )
        column = task.key.columns[task.cut_column]
        cuts = [_literal(cut, column.kind) for cut in task.cuts]
        return _sorted(rows, F.col(column.name), cuts, order)

    def merge_files(self, merge: FileMerge) -> Sequence[WrittenFile] | Reason:
        """Files merged by columnar workers; see :mod:`lakekeeper.spark.columnar_merge`."""
        return columnar_merge.merge_files(self._spark, merge)

    def match(self, traces: Traces[DataFrame], most: int) -> Matched[DataFrame]:
        """Positions of the lost rows; see :mod:`lakekeeper.spark.row_match`."""
        return row_match.match(traces, most)

    def hold(self, hits: DataFrame) -> Held[DataFrame]:
        """Positions, cached on the executors, and their number per file."""
        return row_match.hold(hits)

    def only(self, held: Held[DataFrame], files: Collection[str]) -> Held[DataFrame]:
        """The positions in these files."""
        return row_match.only(held, files)

    def release(self, kept: Matched[DataFrame] | Held[DataFrame]) -> None:
        """Drop the cached rows."""
        with suppress(Exception):  # memory that is not freed must not hide the outcome of a commit
            kept.hits.unpersist()

    @contextmanager
    def working(self, run_id: str, what: str) -> Iterator[None]:
        """Assign jobs of this thread to the run's job group, so that they show in the UI and can be cancelled.

        Afterwards the thread has its previous group, description and pool: a replay runs in the caller's thread.
        """
        context = self._spark.sparkContext
        before = {name: context.getLocalProperty(name) for name in _OF_THE_THREAD}
        context.setJobGroup(run_id, f"lakekeeper {what}", interruptOnCancel=True)
        context.addJobTag(run_id)  # an action of a format may set a job group of its own
        context.setLocalProperty("spark.scheduler.pool", POOL)
        try:
            yield
        finally:
            for name, value in before.items():
                context.setLocalProperty(name, value)  # type: ignore[arg-type]  # None clears it

    def cancel(self, run_id: str) -> None:
        """Cancel the run's jobs, including those that its threads might still start."""
        shim().cancel_group(self._spark.sparkContext._jsc.sc(), run_id)


def _sorted(rows: DataFrame, by: Column, cuts: Sequence[Column], order: Sequence[Column]) -> DataFrame:
    """Rows sorted as a whole by one task, or in ranges of ``by`` between the cuts, one task each."""
    if not cuts:
        return rows.coalesce(1).sortWithinPartitions(*order)
    placed = shim().repartition_by_id(rows, len(cuts) + 1, _bucket(by, cuts, 0))
    return placed.sortWithinPartitions(*order)


def _bucket(key: Column, cuts: Sequence[Column], first: int) -> Column:
    """Number of cuts at or below the key, by a balanced tree of comparisons; NULL is in the first range."""
    from pyspark.sql import functions as F

    if not cuts:
        return F.lit(first)
    middle = len(cuts) // 2
    above = _bucket(key, cuts[middle + 1 :], first + middle + 1)
    below = _bucket(key, cuts[:middle], first)
    return F.when(key >= cuts[middle], above).otherwise(below)


def _literal(cut: Any, kind: str) -> Column:
    """A cut in JSON form (see ``keys.to_json_value``) as a column of the key's type."""
    from pyspark.sql import functions as F

    if kind == "date":
        return F.date_from_unix_date(F.lit(cut))
    if kind == "timestamp":
        return F.timestamp_micros(F.lit(cut))
    if kind == "timestamp_ntz":
        # Days and time of day, by interval arithmetic, so that no time zone is applied.
        start = F.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
        days, micros = divmod(cut, 86_400_000_000)
        return start + F.make_dt_interval(F.lit(days), secs=F.lit(micros / 1e6).cast("decimal(18,6)"))
    if kind == "binary":
        return F.lit(base64.b64decode(cut))
    if kind == "float":
        return F.lit(float(cut))
    return F.lit(cut).cast(kind) if kind.startswith("decimal") else F.lit(cut)
