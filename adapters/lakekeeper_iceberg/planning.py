"""Scan tasks of the files of a merge, planned once per snapshot; and the files that a predicate may match."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from lakekeeper.spark.predicates import condition_of, referenced, unmatched
from lakekeeper_iceberg.imported import may_misread_timestamps
from lakekeeper_iceberg.native import Iceberg

# Above this number of files, scan tasks of the whole table are cached only if the JVM has the memory.
_KEPT_TASKS = 50_000
_TASK_BYTES = 2048
_SNAPSHOTS = 2
FEW = 10_000  # scan tasks that are kept by themselves
_PREDICATES = 4
_EXPRESSIONS = "org.apache.iceberg.expressions.Expressions"
_NOT_PROVEN = re.compile('"(float|double|struct)"')
_TIMESTAMP = re.compile('"timestamp(_ntz)?"')
NO_FORM = (ValueError, Py4JJavaError, PySparkException)
"""Exceptions raised for a predicate that Iceberg cannot express."""


def kept_tasks(heap_bytes: int) -> int:
    """The most files of a table whose scan tasks are cached: those of two snapshots take an eighth of the heap."""
    return max(_KEPT_TASKS, heap_bytes // 8 // (_SNAPSHOTS * _TASK_BYTES))


class Planner:
    """Scan tasks by snapshot and location. Caches the tasks of two snapshots in the JVM, until it needs the memory.

    Of a table with too many files for that, the tasks that were requested are kept: a merge requests those of its
    inputs three times. A replay alternates between the snapshot that was read and the newest one. A service keeps a
    planner for each table.
    """

    def __init__(self, jvm: Iceberg) -> None:
        self._jvm = jvm
        self._lock = threading.Lock()
        self._kept: dict[int, Any] = {}
        self._requested: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._matched: OrderedDict[tuple[int, str, str], Any] = OrderedDict()

    def tasks(self, table: Any, version: int, locations: Sequence[str]) -> list[Any]:
        """FileScanTasks, with the deletes that apply at ``version``, in the order of ``locations``.

        Raises LookupError for a file that is not live there, and Java exceptions (snapshot expired).
        """
        with self._lock:
            known = dict(self._requested.get(version, {}))
        wanted = [location for location in locations if location not in known]
        if wanted:
            index, whole = self._tasks_of(table, version, wanted)
            found = {at: task for at in wanted if (task := index.get(at)) is not None}
            known |= found
            if not whole:
                self._keep(version, found)
        missing = [location for location in locations if location not in known]
        if missing:
            raise LookupError(f"{len(missing)} files are not live in snapshot {version}, e.g. {missing[0]}")
        return [known[location] for location in locations]

    def described(self, table: Any, version: int, locations: Sequence[str]) -> list[Any]:
        """Like :meth:`tasks`, for their files and deletes alone: reading rows by them may skip some."""
        if table.snapshot(version).summary().get("total-delete-files") == "0":
            with self._lock:
                matched = [few for (at, *_), few in self._matched.items() if at == version]
            for few in matched:  # a predicate may leave out deletes, but there is no delete
                found = [few.get(location) for location in locations]
                if None not in found:
                    return found
        return self.tasks(table, version, locations)

    def matching(self, table: Any, version: int, where: str, schema_id: str = "") -> pa.Array | None:
        """Locations of the live files that may hold a match; None if the predicate cannot prune files.

        ``where`` is Spark SQL over the columns of ``table``, which is fixed at ``version``. After a rename, which makes
        no snapshot, it may mean another column: ``schema_id`` distinguishes the two.
        """
        with self._lock:
            self._matched.pop((version, schema_id, where), None)
        try:
            scan = table.newScan().filter(expression(self._jvm, table, where))
            few = self._jvm.few(scan.includeColumnStats(), FEW)
        except NO_FORM:  # then all files are kept
            return None
        if few is None:
            return pa.array(self._jvm.paths(scan), pa.string())
        with self._lock:
            self._matched[version, schema_id, where] = few
            while len(self._matched) > _PREDICATES:
                self._matched.popitem(last=False)
        return pa.array(self._jvm.texts(few.keySet()), pa.string())

    def matched(self, version: int, where: str, schema_id: str = "") -> Any:
        """The tasks that :meth:`matching` found, as a Java map, with residuals; None if it found many, or was evicted.

        They may lack deletes that cannot apply to a match.
        """
        with self._lock:
            return self._matched.get((version, schema_id, where))

    def _keep(self, version: int, found: dict[str, Any]) -> None:
        with self._lock:
            kept = self._requested.setdefault(version, {})
            kept |= found
            self._requested.move_to_end(version)
            while len(self._requested) > _SNAPSHOTS or sum(map(len, self._requested.values())) > FEW:
                self._requested.popitem(last=False)

    @cached_property
    def _most_kept(self) -> int:
        return kept_tasks(int(self._jvm.view.java.lang.Runtime.getRuntime().maxMemory()))

    def _tasks_of(self, table: Any, version: int, locations: Sequence[str]) -> tuple[Any, bool]:
        """A Java map with the tasks of these locations at least, and whether it is of the whole table."""
        scan = table.newScan().useSnapshot(version).ignoreResiduals()
        count = table.snapshot(version).summary().get("total-data-files")
        if count is None or int(count) > self._most_kept:
            return self._jvm.chosen(scan, locations), False
        with self._lock:
            kept = self._kept.pop(version, None)
            index = kept.get() if kept is not None else None
            if index is None:
                index = self._jvm.index(scan)
                kept = self._jvm.view.java.lang.ref.SoftReference(index)
                while len(self._kept) >= _SNAPSHOTS:
                    del self._kept[next(iter(self._kept))]  # the least recently used one
            self._kept[version] = kept
            return index, True


def scan_that_may_match(jvm: Iceberg, table: Any, where: str) -> Any:
    """A scan that prunes files and row groups that cannot match; of the whole table if the predicate cannot prune."""
    try:
        return table.newScan().filter(expression(jvm, table, where))
    except NO_FORM:  # then all is read
        return table.newScan()


def files_that_all_match(
    jvm: Iceberg, table: Any, where: str, locations: Collection[str], matched: Any = None
) -> frozenset[str]:
    """The files in which every row matches: a scan for rows that do not match prunes them.

    ``matched`` are tasks of the files that may hold a match, by location: then only these are looked at.

    Bounds leave out NaN, which is above every number, and the NULL counts of struct fields do not cover the struct, so
    no file is returned for predicates on such columns, nor on timestamps where their bounds may be wrong.
    """
    columns = jvm.frame_of(table.schema())
    not_proven = (_NOT_PROVEN, *((_TIMESTAMP,) if may_misread_timestamps(table) else ()))
    try:
        kinds = referenced(jvm, columns, where).values()
        if any(pattern.search(kind) for kind in kinds for pattern in not_proven):
            return frozenset()
        others = expression(jvm, table, where, others=True)
        if matched is not None and int(table.specs().size()) == 1:
            candidates = frozenset(locations) & set(jvm.texts(matched.keySet()))
            return candidates - set(jvm.that_may_match(matched.values(), table, others))
        found = jvm.chosen(table.newScan().filter(others).ignoreResiduals(), locations)
    except NO_FORM:
        return frozenset()
    return frozenset(locations) - set(jvm.texts(found.keySet()))


def expression(jvm: Iceberg, table: Any, where: str, *, others: bool = False) -> Any:
    """An Iceberg expression for a predicate over the columns of a table; ``others``: for the rows that do not match.

    Raises one of ``NO_FORM`` for a predicate that Iceberg cannot express. The expression may match more rows than the
    predicate, where Iceberg skips files that hold matching rows (:func:`widened`).
    """
    made = jvm.view.org.apache.spark.sql.execution.datasources
    schema = table.schema()
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
    found = made.SparkExpressionConverter.convertToIcebergExpression(named)
    return bound(jvm, schema, widened(jvm, table, found))


def widened(jvm: Iceberg, table: Any, condition: Any) -> Any:
    """The expression, wider where Iceberg's bounds are not ordered as Spark orders values.

    Bounds of a uuid are compared as two signed numbers (apache/iceberg#14216), and Spark orders it by unsigned bytes;
    bounds of an imported file's timestamps may be in another unit: ``alwaysTrue``. Bounds of a float leave out NaN
    (apache/iceberg#9130), which Spark orders above all numbers: ``x > 5`` becomes ``x > 5 OR is_nan(x)``. Among them,
    -0.0 is less than 0.0, which Spark takes for equal: ``x = 0`` becomes ``x >= -0.0 AND x <= 0.0``.
    """
    schema = table.schema()
    unknown = ["uuid", *(("timestamp", "timestamptz") if may_misread_timestamps(table) else ())]
    if not any(kind in str(schema) for kind in (*unknown, "float", "double")):
        return condition

    def one(part: Any) -> Any:
        kind = str(part.op())
        if kind in ("AND", "OR"):
            return jvm.static(_EXPRESSIONS, kind.lower())(one(part.left()), one(part.right()))
        if kind in ("TRUE", "FALSE"):
            return part
        name = part.ref().name()
        column = schema.findField(name)
        if column is not None and str(column.type()) in unknown:
            return jvm.static(_EXPRESSIONS, "alwaysTrue")()
        if column is None or str(column.type()) not in ("float", "double"):
            return part
        return _of_float(jvm, name, kind, part)

    return one(jvm.static(_EXPRESSIONS, "rewriteNot")(condition))


def _of_float(jvm: Iceberg, name: str, kind: str, part: Any) -> Any:
    """A comparison of a float with a number, wider by NaN and by the other zero."""

    def made(method: str, *given: Any) -> Any:
        return jvm.static(_EXPRESSIONS, method)(*given)

    if kind == "GT":
        return made("or", part, made("isNaN", name))
    if kind not in ("EQ", "IN", "GT_EQ", "LT_EQ"):
        return part
    literals = jvm.items(part.literals()) if kind == "IN" else [part.literal()]
    zero = any(literal.value() == 0 for literal in literals)
    if kind == "GT_EQ":
        return made("or", made("greaterThanOrEqual", name, -0.0) if zero else part, made("isNaN", name))
    if not zero:
        return part
    if kind == "LT_EQ":
        return made("lessThanOrEqual", name, 0.0)
    zeros = made("and", made("greaterThanOrEqual", name, -0.0), made("lessThanOrEqual", name, 0.0))
    return made("or", part, zeros)


def bound(jvm: Iceberg, schema: Any, unbound: Any) -> Any:
    """The same expression; raises a Java exception if it does not bind to the schema."""
    jvm.static("org.apache.iceberg.expressions.Binder", "bind")(schema.asStruct(), unbound, True)
    return unbound
