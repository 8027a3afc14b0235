"""Columnar merges as Spark tasks: one task for each range between the cuts; rows never enter the JVM.

    range(parts) ─► mapPartitions(merge_part) ─► collect     an item in is the number of a range, one out a written file

Spark places, repeats and cancels the tasks. Each attempt writes files under names of its own, and only those of the
attempt whose result Spark accepts are returned; what the others leave is in the run's folder. The tasks are those of an
RDD: no row needs a schema, and to plan a query takes about as long as a small merge.

The worker's code travels with the task: executors need PyArrow and NumPy, but no installed ``lakekeeper``.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from lakekeeper.columnar.positions import unpack
from lakekeeper.columnar.worker import DAMAGED, DECLINED, RANGES, merge_part
from lakekeeper.core.model.file_merge import FileMerge, WrittenFile
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.errors import AdapterError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def merge_files(spark: SparkSession, merge: FileMerge) -> list[WrittenFile] | Reason:
    """The written files in the order of their ranges, or why a worker left the merge to Spark's rows."""
    parts = spark.sparkContext.parallelize(range(merge.parts), merge.parts)
    ranked = parts.mapPartitions(_task(_WORKER.pickled(), merge.to_json())).collect()
    return written_of(ranked, live_rows(merge))


def merge_each(
    spark: SparkSession, merges: Sequence[FileMerge], tasks: int
) -> list[list[WrittenFile] | Reason]:
    """What :func:`merge_files` returns for each of several merges without cuts, by one job of at most ``tasks``."""
    if not merges:
        return []
    texts = [merge.to_json() for merge in merges]
    parts = spark.sparkContext.parallelize(texts, min(len(texts), tasks))
    ranked = parts.mapPartitions(_whole_merges(_WORKER.pickled())).collect()
    return [written_of(found, live_rows(merge)) for found, merge in zip(ranked, merges, strict=True)]


def live_rows(merge: FileMerge) -> int | None:
    """The rows of the inputs that are not deleted; None if the rows of one are not known."""
    rows = [each.rows for each in merge.inputs]
    dead = sum(len(unpack(each.deleted)) for each in merge.inputs)
    return None if None in rows else sum(count or 0 for count in rows) - dead


def written_of(ranked: Sequence[str], live: int | None = None) -> list[WrittenFile] | Reason:
    """What the workers returned, in the order of their ranges; ``live`` rows are expected.

    Each worker divides the merge by the statistics in the footers: where a range of one is not that of another, because
    executors have different versions of PyArrow, rows would be lost and doubled, possibly as many of each. Where the
    bounds of a row group do not hold its rows, or its rows are not in order, no range reads those beyond. Raises
    AdapterError for a damaged input.
    """
    damaged = [text.removeprefix(DAMAGED) for text in ranked if text.startswith(DAMAGED)]
    if damaged:
        raise AdapterError(
            f"{damaged[0]} is damaged: a page does not match its checksum. Restore the file from a copy; or set "
            "merge-engine to 'spark', which copies the page as it is"
        )
    declined = [text.removeprefix(DECLINED) for text in ranked if text.startswith(DECLINED)]
    if declined:
        return Reason.of(Code.MERGED_AGAIN_BY_ROWS, cause=declined[0])
    if len({text for text in ranked if text.startswith(RANGES)}) > 1:
        return Reason.of(Code.MERGED_AGAIN_BY_ROWS, cause="executors divided the rows differently")
    files = (text for text in ranked if not text.startswith(RANGES))
    written = [WrittenFile.from_dict(json.loads(text)) for text in files]
    if live not in (None, sum(file.rows for file in written)):
        return Reason.of(
            Code.MERGED_AGAIN_BY_ROWS, cause="row groups with rows outside their bounds or out of order"
        )
    return written


class PickledWorker:
    """The worker's function with all code of this package that it needs, pickled once; groups merge in threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pickled = b""

    def pickled(self) -> bytes:
        with self._lock:
            self._pickled = self._pickled or _by_value()
            return self._pickled


def _by_value() -> bytes:
    from pyspark import cloudpickle

    own = sys.modules[__name__.partition(".")[0]]
    cloudpickle.register_pickle_by_value(own)  # type: ignore[no-untyped-call]  # PySpark's copy has no types
    try:
        return bytes(cloudpickle.dumps(merge_part))  # type: ignore[no-untyped-call]  # as above
    finally:
        cloudpickle.unregister_pickle_by_value(own)  # type: ignore[no-untyped-call]  # as above


_WORKER = PickledWorker()


def _task(worker: bytes, text: str) -> Callable[[Iterable[int]], Iterator[str]]:
    def run(parts: Iterable[int]) -> Iterator[str]:
        import pickle

        merge_one = pickle.loads(worker)  # noqa: S301 - made by the driver, and sent by Spark as any function is
        for part in parts:
            yield from merge_one(text, part)

    return run


def _whole_merges(worker: bytes) -> Callable[[Iterable[str]], Iterator[list[str]]]:
    def run(texts: Iterable[str]) -> Iterator[list[str]]:
        import pickle

        merge_one = pickle.loads(worker)  # noqa: S301 - as above
        for text in texts:
            yield merge_one(text, 0)

    return run
