"""Scan tasks of the files that a merge names, planned once a snapshot; and the files that a predicate may touch."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from lakekeeper_iceberg.native import Iceberg

# Above so many files, scan tasks of the whole table are not kept for the run: each costs a kilobyte or two.
KEPT_TASKS = 50_000
_SNAPSHOTS = 2


class Planner:
    """Scan tasks by snapshot and location. Keeps the tasks of two snapshots, in the JVM.

    A replay asks by turns for the snapshot that was read and for the newest one.
    """

    def __init__(self, jvm: Iceberg) -> None:
        self._jvm = jvm
        self._lock = threading.Lock()
        self._kept: dict[int, Any] = {}

    def tasks(self, table: Any, version: int, locations: Sequence[str]) -> list[Any]:
        """FileScanTasks, with the deletes that apply at ``version``, in the order of ``locations``.

        Raises LookupError for a file that is not live there, and Java's errors (snapshot expired).
        """
        index = self._tasks_of(table, version, locations)
        found = [index.get(location) for location in locations]
        missing = [location for location, task in zip(locations, found, strict=True) if task is None]
        if missing:
            raise LookupError(f"{len(missing)} files are not live in snapshot {version}, e.g. {missing[0]}")
        return found

    def _tasks_of(self, table: Any, version: int, locations: Sequence[str]) -> Any:
        scan = table.newScan().useSnapshot(version).ignoreResiduals()
        count = table.snapshot(version).summary().get("total-data-files")
        if count is None or int(count) > KEPT_TASKS:
            return self._jvm.chosen(scan, locations)
        with self._lock:
            index = self._kept.pop(version, None)
            if index is None:
                index = self._jvm.index(scan)
                while len(self._kept) >= _SNAPSHOTS:
                    del self._kept[next(iter(self._kept))]  # the one that was asked for longest ago
            self._kept[version] = index
            return index


def files_that_may_match(jvm: Iceberg, table: Any, sql_name: str, where: str) -> frozenset[str] | None:
    """Locations of the live files that may hold a match; None where the predicate says nothing about files.

    ``where`` is Spark SQL that Spark has resolved before.
    """
    try:
        scan = table.newScan().filter(_expression(jvm, sql_name, where)).ignoreResiduals()
        return frozenset(jvm.paths(scan))
    except Exception:  # not every predicate has a form that Iceberg knows: then all files stay
        return None


def scan_that_may_match(jvm: Iceberg, table: Any, sql_name: str, version: int, where: str) -> Any:
    """A scan of a snapshot whose tasks leave out files and row groups without a match, as far as one can tell."""
    scan = table.newScan().useSnapshot(version)
    try:
        return scan.filter(_expression(jvm, sql_name, where))
    except Exception:  # not every predicate has a form that Iceberg knows: then all is read
        return scan


def _expression(jvm: Iceberg, sql_name: str, where: str) -> Any:
    """An Iceberg expression; raises what Java raises for a predicate that has no such form."""
    convert = jvm.view.org.apache.spark.sql.execution.datasources.SparkExpressionConverter
    resolved = convert.collectResolvedSparkExpression(jvm.session, sql_name, where)
    return convert.convertToIcebergExpression(resolved)
