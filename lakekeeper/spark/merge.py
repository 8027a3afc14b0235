"""The merge on Spark: sort rows by the key, in one task or in ranges.

A group that one task can sort in memory is sorted without a shuffle. A larger one is cut into ranges, which are sorted
side by side:

    one task     scan ─► coalesce(1) ─► sort ─► write
    ranges       sample of the key ─► cuts
                 scan ─► range of each row ─► repartitionById ─► sort each ─► write

A key that follows a curve adds a temporary column: each row's curve position, by which rows are cut and sorted.

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
from lakekeeper.spark import columnar_merge, copied_rows, row_match
from lakekeeper.spark.curve import PLACE, with_place
from lakekeeper.spark.jvm import require_classic
from lakekeeper.spark.sampled_cuts import Cut, sampled_cuts
from lakekeeper.spark.shims import shim
from lakekeeper.spi import Followed, Held, Matched, Remains, Traces

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
        cuts = sampled_cuts(rows, task, task.key)
        by = [(F.col(column.name), column.kind) for column in task.key.columns]
        if task.boundaries is not None:
            by = [(F.col(PLACE), "int"), *by]
            rows = with_place(rows, task.key, task.boundaries)
        parts = (
            shim().repartition_by_id(rows, len(cuts) + 1, _range(by, cuts, 0)) if cuts else rows.coalesce(1)
        )
        return parts.sortWithinPartitions(*[column.asc_nulls_first() for column, _ in by]).drop(PLACE)

    def merge_files(self, merge: FileMerge) -> Sequence[WrittenFile] | Reason:
        """Files merged by columnar workers; see :mod:`lakekeeper.spark.columnar_merge`."""
        return columnar_merge.merge_files(self._spark, merge)

    def match(self, traces: Traces[DataFrame], most: int) -> Matched[DataFrame]:
        """Positions of the lost rows; see :mod:`lakekeeper.spark.row_match`."""
        return row_match.match(traces, most)

    def follow(self, remains: Remains[DataFrame], most: int) -> Followed:
        """What successors lack and have gained; see :mod:`lakekeeper.spark.copied_rows`."""
        return copied_rows.follow(remains, most)

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


def _range(by: Sequence[tuple[Column, str]], cuts: Sequence[Cut], first: int) -> Column:
    """Number of cuts at or below a row, by a balanced tree of comparisons."""
    from pyspark.sql import functions as F

    if not cuts:
        return F.lit(first)
    middle = len(cuts) // 2
    above = _range(by, cuts[middle + 1 :], first + middle + 1)
    below = _range(by, cuts[:middle], first)
    return F.when(_reaches(by, cuts[middle]), above).otherwise(below)


def _reaches(by: Sequence[tuple[Column, str]], cut: Cut) -> Column:
    """Whether a row is at or above a cut, column by column, with NULL first; NULL counts as false."""
    from pyspark.sql import functions as F

    (column, kind), value = by[0], cut[0]
    if value is None:
        return F.lit(True) if len(cut) == 1 else column.isNotNull() | _reaches(by[1:], cut[1:])
    bound = _literal(value, kind)
    if len(cut) == 1:
        return column >= bound
    return (column > bound) | ((column == bound) & _reaches(by[1:], cut[1:]))


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
