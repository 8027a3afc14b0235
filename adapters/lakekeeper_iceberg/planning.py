"""Scan tasks of the files of a merge, planned once per snapshot; and the files that a predicate may match."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from lakekeeper.spark.predicates import condition_of, referenced, unmatched
from lakekeeper_iceberg.native import Iceberg

# Above this number of files, scan tasks of the whole table are cached only if the JVM has the memory.
_KEPT_TASKS = 50_000
_TASK_BYTES = 2048
_SNAPSHOTS = 2
_EXPRESSIONS = "org.apache.iceberg.expressions.Expressions"
_NOT_PROVEN = re.compile('"(float|double|struct)"')
NO_FORM = (ValueError, Py4JJavaError, PySparkException)
"""Exceptions raised for a predicate that Iceberg cannot express."""


def kept_tasks(heap_bytes: int) -> int:
    """The most files of a table whose scan tasks are cached: those of two snapshots take an eighth of the heap."""
    return max(_KEPT_TASKS, heap_bytes // 8 // (_SNAPSHOTS * _TASK_BYTES))


class Planner:
    """Scan tasks by snapshot and location. Caches the tasks of two snapshots in the JVM, until it needs the memory.

    A replay alternates between the snapshot that was read and the newest one. A service keeps a planner for each table.
    """

    def __init__(self, jvm: Iceberg) -> None:
        self._jvm = jvm
        self._lock = threading.Lock()
        self._kept: dict[int, Any] = {}

    def tasks(self, table: Any, version: int, locations: Sequence[str]) -> list[Any]:
        """FileScanTasks, with the deletes that apply at ``version``, in the order of ``locations``.

        Raises LookupError for a file that is not live there, and Java exceptions (snapshot expired).
        """
        index = self._tasks_of(table, version, locations)
        found = [index.get(location) for location in locations]
        missing = [location for location, task in zip(locations, found, strict=True) if task is None]
        if missing:
            raise LookupError(f"{len(missing)} files are not live in snapshot {version}, e.g. {missing[0]}")
        return found

    @cached_property
    def _most_kept(self) -> int:
        return kept_tasks(int(self._jvm.view.java.lang.Runtime.getRuntime().maxMemory()))

    def _tasks_of(self, table: Any, version: int, locations: Sequence[str]) -> Any:
        scan = table.newScan().useSnapshot(version).ignoreResiduals()
        count = table.snapshot(version).summary().get("total-data-files")
        if count is None or int(count) > self._most_kept:
            return self._jvm.chosen(scan, locations)
        with self._lock:
            kept = self._kept.pop(version, None)
            index = kept.get() if kept is not None else None
            if index is None:
                index = self._jvm.index(scan)
                kept = self._jvm.view.java.lang.ref.SoftReference(index)
                while len(self._kept) >= _SNAPSHOTS:
                    del self._kept[next(iter(self._kept))]  # the least recently used one
            self._kept[version] = kept
            return index


def files_that_may_match(jvm: Iceberg, table: Any, where: str) -> pa.Array | None:
    """Locations of the live files that may hold a match; None if the predicate cannot prune files.

    ``where`` is Spark SQL over the columns of ``table``.
    """
    try:
        scan = table.newScan().filter(expression(jvm, table.schema(), where)).ignoreResiduals()
        return pa.array(jvm.paths(scan), pa.string())
    except NO_FORM:  # then all files are kept
        return None


def scan_that_may_match(jvm: Iceberg, table: Any, where: str) -> Any:
    """A scan that prunes files and row groups that cannot match; of the whole table if the predicate cannot prune."""
    try:
        return table.newScan().filter(expression(jvm, table.schema(), where))
    except NO_FORM:  # then all is read
        return table.newScan()


def files_that_all_match(jvm: Iceberg, table: Any, where: str, locations: Collection[str]) -> frozenset[str]:
    """The files in which every row matches: a scan for rows that do not match prunes them.

    Bounds leave out NaN, which is above every number, and the NULL counts of struct fields do not cover the struct, so
    no file is returned for predicates on such columns.
    """
    columns = jvm.frame_of(table.schema())
    try:
        if any(_NOT_PROVEN.search(kind) for kind in referenced(jvm, columns, where).values()):
            return frozenset()
        others = expression(jvm, table.schema(), where, others=True)
        found = jvm.chosen(table.newScan().filter(others).ignoreResiduals(), locations)
    except NO_FORM:
        return frozenset()
    return frozenset(locations) - set(jvm.texts(found.keySet()))


def expression(jvm: Iceberg, schema: Any, where: str, *, others: bool = False) -> Any:
    """An Iceberg expression for a predicate over the columns of a schema; ``others``: for the rows that do not match.

    Raises one of ``NO_FORM`` for a predicate that Iceberg cannot express.
    """
    made = jvm.view.org.apache.spark.sql.execution.datasources
    frame = jvm.frame_of(schema)
    try:
        condition = condition_of(unmatched(jvm, frame, where) if others else frame.where(where))
    except LookupError:
        return jvm.static(_EXPRESSIONS, "alwaysFalse")()
    if condition is None:
        return jvm.static(_EXPRESSIONS, "alwaysTrue")()
    # Spark keeps the predicate's spelling of names; Iceberg needs that of the schema.
    output = frame._jdf.queryExecution().analyzed().output()
    strategy = jvm.object("org.apache.spark.sql.execution.datasources.DataSourceStrategy")
    [named] = jvm.python_list(strategy.normalizeExprs(jvm.seq([condition]), output))
    return bound(jvm, schema, made.SparkExpressionConverter.convertToIcebergExpression(named))


def bound(jvm: Iceberg, schema: Any, unbound: Any) -> Any:
    """The same expression; raises a Java exception if it does not bind to the schema."""
    jvm.static("org.apache.iceberg.expressions.Binder", "bind")(schema.asStruct(), unbound, True)
    return unbound
