"""Iceberg's Java API through py4j: the calls that need a workaround, each with its reason.

A py4j call takes about 0.1 ms, so data about many files is read through metadata tables and Arrow, never with a call
per file; Java objects are fetched only for the files of a task, from an index in the JVM.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from lakekeeper.errors import AdapterError
from lakekeeper.spi import TableName
from lakekeeper_iceberg import executors
from lakekeeper_iceberg.handles import GUAVA, BulkJvm
from lakekeeper_iceberg.imported import may_misread_timestamps

_ICEBERG = "org.apache.iceberg."
_INDEX = _ICEBERG + "deletes.PositionDeleteIndex"
_CONSUMER = "java.util.function.LongConsumer"
_FUNCTION = "java.util.function.Function"
_BUFFER = "java.nio.ByteBuffer"
NESSIE = "NessieTableOperations"
_JDBC = _ICEBERG + "jdbc."
_DIRECTORY = _ICEBERG + "hadoop.HadoopTableOperations"
_METADATA = "__metadata_col"  # Spark's marker of a metadata column


class Iceberg(BulkJvm):
    """The JVM of a session, with access to Iceberg's classes. Holds no table."""

    def __init__(self, spark: Any) -> None:
        super().__init__(spark)
        self.api = self.view.org.apache.iceberg

    @property
    def table_cache(self) -> Any:
        """Tables by group id, where Iceberg's Spark source looks them up."""
        # `get()` has an instance overload `get(String)`, which hides the static one from py4j.
        return self.static(_ICEBERG + "spark.SparkTableCache", "get")()

    @property
    def task_sets(self) -> Any:
        """Scan tasks by (table, group id)."""
        return self.api.spark.ScanTaskSetManager.get()

    @property
    def new_files(self) -> Any:
        """Files written by (table, group id)."""
        return self.api.spark.FileRewriteCoordinator.get()

    def staged_rows(self, group: str, table: Any, *, split_bytes: int | None = None) -> Any:
        """The rows of staged scan tasks of a table, by their group id.

        Iceberg for Spark 4.1 knows a group by its id. Earlier ones would read the whole table without the option.
        """
        reader = self.spark.read.format("iceberg").option("file-open-cost", "0")
        reader = reader.option("scan-task-set-id", group)
        if split_bytes is not None:
            reader = reader.option("split-size", str(split_bytes))
        if may_misread_timestamps(table):
            reader = reader.option("vectorization-enabled", "false")
        with self.active():
            return reader.load(group)

    def load(self, sql_name: str) -> Any:
        """The table with a quoted name, through Spark's catalog; Java exceptions propagate."""
        return self.api.spark.Spark3Util.loadIcebergTable(self.session, sql_name)

    def reload(self, name: TableName) -> Any:
        """The table as currently in its catalog, bypassing caches; Java exceptions propagate."""
        catalog = self.session.sessionState().catalogManager().catalog(name.catalog)
        namespace = self.array(self.view.java.lang.String, name.namespace)
        catalog.invalidateTable(
            self.view.org.apache.spark.sql.connector.catalog.Identifier.of(namespace, name.name)
        )
        return self.load(name.sql)

    def is_replaced(self, table: Any) -> bool:
        """Whether a table in a Hadoop catalog was created again under its name, with as many versions.

        HadoopTableOperations reads a version by its number alone, and so goes on with that of the old table.
        """
        operations = table.operations()
        if str(operations.getClass().getName()) != _DIRECTORY:
            return False
        current, parser = operations.current(), self.static(_ICEBERG + "TableMetadataParser", "read")
        return str(parser(table.io(), str(current.metadataFileLocation())).uuid()) != str(current.uuid())

    def has_missed_a_version(self, operations: Any) -> bool:
        """Whether a Hadoop catalog's table operations skipped a version that they failed to read.

        HadoopTableOperations records a version number before reading that version. After an error, they treat the
        previous version as the newest, and a commit based on it would overwrite the version that was not read.
        """
        if str(operations.getClass().getName()) != _DIRECTORY:
            return False
        current = operations.current()
        named = re.search(r"/v(\d+)\.[^/]*$", str(current.metadataFileLocation()) if current else "")
        return named is None or int(named[1]) != self.hidden_field(operations, _DIRECTORY, "version")

    def refuse_missed_version(self, name: str, operations: Any) -> None:
        """Raise AdapterError for table operations that have skipped a version (:meth:`has_missed_a_version`)."""
        if self.has_missed_a_version(operations):
            raise AdapterError(
                f"{name}: the catalog skipped a metadata version that it could not read: retry in a new session"
            )

    def over_http(self, table: Any) -> bool:
        """Whether commits to the table go over HTTP: in a REST catalog or in Nessie.

        A gateway may retry a commit whose response was lost, and return the 409 of the retry, or an error of its own,
        which Nessie's client passes on as it is. Iceberg's own actions then delete files of a commit that succeeded
        (apache/iceberg 12818), so they are not used with these catalogs.
        """
        return str(table.operations().getClass().getSimpleName()) in ("RESTTableOperations", NESSIE)

    def repeats_commits(self, table: Any) -> bool:
        """Whether a commit to the table may be sent twice, and the second answer be that it lost: over HTTP or by JDBC.

        The client of a JDBC catalog repeats an UPDATE after a broken connection, though the first one may have landed.
        SQLite, which is a file, has no connection.
        """
        operations = table.operations()
        if str(operations.getClass().getSimpleName()) != "JdbcTableOperations":
            return self.over_http(table)
        pool = self.hidden_field(operations, _JDBC + "JdbcTableOperations", "connections")
        return not str(self.hidden_field(pool, _JDBC + "JdbcClientPool", "dbUrl")).startswith("jdbc:sqlite:")

    def keeps_row_ids(self) -> bool:
        """Whether Spark's view of a file has its first row id; before Iceberg 1.12 it has none."""
        declared = self.handles.java_class(_ICEBERG + "spark.SparkContentFile").getDeclaredMethods()
        return any(str(method.getName()) == "firstRowId" for method in declared)

    def pinned(self, table: Any, properties: Mapping[str, str] | None = None) -> Any:
        """A table object fixed at the current metadata of ``table``, with additional ``properties``.

        Catalogs return one shared object per table, which any thread may refresh. The properties exist in this object
        only: no commit can write them to the table.
        """
        metadata, io, place = table.operations().current(), table.io(), table.locationProvider()
        if properties:
            own = self.view.java.util.HashMap()
            for key, value in properties.items():
                own.put(key, value)
            made = self.api.TableMetadata.buildFrom(metadata).setProperties(own).discardChanges()
            metadata = made.withMetadataLocation(metadata.metadataFileLocation()).build()
            place = self.static(_ICEBERG + "LocationProviders", "locationsFor")(
                metadata.location(), metadata.properties()
            )
        operations = self.api.StaticTableOperations(metadata, io, place)
        return self.api.BaseTable(operations, table.name())

    def as_of(self, table: Any, version: int, schema: int) -> Any:
        """A table object fixed at a snapshot and a schema, as if both were current.

        A time-travel scan of the table itself would use the schema of the snapshot.
        """
        metadata = table.operations().current()
        # The location first: it resets the last-updated time to that of `metadata`. If `main` were changed before it,
        # its time would be later, and Iceberg refuses a difference of more than a minute.
        made = self.api.TableMetadata.buildFrom(metadata).withMetadataLocation(
            metadata.metadataFileLocation()
        )
        made = made.setBranchSnapshot(version, "main")
        if schema != int(metadata.currentSchemaId()):
            made = made.setCurrentSchema(schema)
        made = made.discardChanges().build()
        operations = self.api.StaticTableOperations(made, table.io(), table.locationProvider())
        return self.api.BaseTable(operations, table.name())

    def frame_of(self, schema: Any) -> Any:
        """A DataFrame with the columns of a schema; it is empty, but the optimizer does not know that."""
        columns = self.static(_ICEBERG + "spark.SparkSchemaUtil", "convert")(schema)
        nothing = self.spark.sparkContext._jsc.emptyRDD()
        return self.dataframe(self.session.createDataFrame(nothing, columns))

    def metadata_table(self, table: Any, kind: str) -> Any:
        """A metadata table (``ENTRIES``, ``SNAPSHOTS``) of this table object, as a DataFrame.

        A lookup by name would use Spark's catalog, whose cached table may be older than this object.
        """
        of_kind = getattr(self.api.MetadataTableType, kind)
        return self.dataframe(self.api.spark.SparkTableUtil.loadMetadataTable(self.session, table, of_kind))

    def paths(self, scan: Any) -> list[str]:
        """Locations of the data files that a scan plans."""
        planned = scan.planFiles()
        try:
            places = self.collect.Iterables.transform(planned, self._location_of_task())
            text = str(self.static("java.lang.String", "join")("\0", places))
        finally:
            planned.close()
        return text.split("\0") if text else []

    def index(self, scan: Any) -> Any:
        """A Java map from location to FileScanTask; IllegalArgumentException for a file listed twice."""
        planned = scan.planFiles()
        try:
            return self.collect.Maps.uniqueIndex(planned, self._location_of_task())
        finally:
            planned.close()

    def few(self, scan: Any, most: int) -> Any:
        """Like :meth:`index`; None if a scan plans more than ``most`` files."""
        planned = scan.planFiles()
        try:
            found = self.collect.Maps.uniqueIndex(
                self.collect.Iterables.limit(planned, most + 1), self._location_of_task()
            )
        finally:
            planned.close()
        return found if int(found.size()) <= most else None

    def that_may_match(self, tasks: Any, table: Any, condition: Any) -> list[str]:
        """The locations of those scan tasks whose files may hold a match, as planning decides it; for one spec.

        The files must have their column statistics.
        """
        expressions, spec = _ICEBERG + "expressions.", table.spec()
        projected = self.static(expressions + "Projections", "inclusive")(spec).project(condition)
        made = self.view.org.apache.iceberg.expressions
        by_partition = made.Evaluator(spec.partitionType(), projected)
        by_metrics = made.InclusiveMetricsEvaluator(table.schema(), condition)
        of, content = self.handles, _ICEBERG + "ContentFile"
        partition = of.method(content, "partition", _ICEBERG + "StructLike")
        evaluate = of.method(expressions + "Evaluator", "eval", "boolean", _ICEBERG + "StructLike")
        metrics = of.method(expressions + "InclusiveMetricsEvaluator", "eval", "boolean", content)
        file = of.method(_ICEBERG + "ContentScanTask", "file", content)
        found = tasks
        for test in (
            of.invoke.filterReturnValue(partition, evaluate.bindTo(by_partition)),
            metrics.bindTo(by_metrics),
        ):
            keep = of.proxy(GUAVA + "base.Predicate", of.invoke.filterReturnValue(file, test))
            found = self.collect.Iterables.filter(found, keep)
        return self.texts(self.collect.Iterables.transform(found, self._location_of_task()))

    def chosen(self, scan: Any, locations: Iterable[str]) -> Any:
        """Like :meth:`index`, but for these locations only, so that memory does not grow with the table."""
        wanted = self.view.java.util.HashSet(self.strings(locations))
        invoke = self.handles.invoke
        contains = self.handles.method("java.util.Set", "contains", "boolean", "java.lang.Object").bindTo(
            wanted
        )
        location = self._location_handle()
        named = contains.asType(self.handles.type("boolean", "java.lang.String"))
        keep = self.handles.proxy(GUAVA + "base.Predicate", invoke.filterReturnValue(location, named))
        planned = scan.planFiles()
        try:
            few = self.collect.Iterables.filter(planned, keep)
            return self.collect.Maps.uniqueIndex(few, self._location_of_task())
        finally:
            planned.close()

    def path_key(self, pattern: str) -> Any:
        """A Java function on paths that removes the first match of a pattern, and then steps that change nothing."""
        compiled = self.view.java.util.regex.Pattern.compile(pattern)
        matcher = self.handles.method(
            "java.util.regex.Pattern", "matcher", "java.util.regex.Matcher", "java.lang.CharSequence"
        ).bindTo(compiled)
        replace = self.handles.method(
            "java.util.regex.Matcher", "replaceFirst", "java.lang.String", "java.lang.String"
        )
        invoke = self.handles.invoke
        cut = invoke.insertArguments(replace, 1, self.handles.objects([""]))
        clean = self.handles.static(
            GUAVA + "io.Files", "simplifyPath", "java.lang.String", "java.lang.String"
        )
        key = invoke.filterReturnValue(invoke.filterReturnValue(matcher, cut), clean)
        return self.handles.proxy(GUAVA + "base.Function", key)

    def maker(self, cls: str, takes: str) -> Any:
        """A Java function that calls a constructor of a class with its argument."""
        return self.handles.proxy(GUAVA + "base.Function", self.handles.constructor(cls, takes))

    def bound(self, item: Any, cls: str, method: str, returns: str, takes: str) -> Any:
        """A method bound to this Java object, as a Java function of its argument."""
        method_of_item = self.handles.method(cls, method, returns, takes).bindTo(item)
        return self.handles.proxy(GUAVA + "base.Function", method_of_item)

    def equality(self, delete: Any) -> bool:
        """Whether this is an equality delete file."""
        return bool(self._equality().apply(delete))

    def equality_deletes(self, files: Any) -> list[Any]:
        """The equality delete files in an Iterable of DeleteFile, copied so that they outlive the reader."""
        return self._copies(files, self._equality())

    def equality_deletes_of(self, manifest: Any, io: Any, specs: Any) -> list[Any]:
        """The equality delete files of a delete manifest."""
        reader = self.api.ManifestFiles.readDeleteManifest(manifest, io, specs)
        try:
            return self.equality_deletes(reader)
        finally:
            reader.close()

    @contextmanager
    def live_paths(self, manifest: Any, io: Any, specs: Any) -> Iterator[Any]:
        """A Java Iterable of the paths of all live files in a manifest; reads the file while it is iterated.

        ``ManifestFiles.readPaths`` of Iceberg 1.11, the last one for Spark 4.0, refuses delete manifests.
        """
        files = self.api.ManifestFiles
        if str(manifest.content()) == "DATA":
            opened = paths = files.readPaths(manifest, io, specs)
        else:
            opened = files.readDeleteManifest(manifest, io, specs).select(self.array_list(["file_path"]))
            location = self.handles.getter(_ICEBERG + "ContentFile", "location", "java.lang.String")
            paths = self.collect.Iterables.transform(opened, location)
        try:
            yield paths
        finally:
            opened.close()

    def _equality(self) -> Any:
        def make() -> Any:
            of = self.handles
            content = of.method(_ICEBERG + "ContentFile", "content", _ICEBERG + "FileContent")
            equals = of.method("java.lang.Object", "equals", "boolean", "java.lang.Object")
            same = equals.bindTo(self.api.FileContent.EQUALITY_DELETES)
            same = same.asType(of.type("boolean", _ICEBERG + "FileContent"))
            return of.proxy(GUAVA + "base.Predicate", of.invoke.filterReturnValue(content, same))

        return self.handles.once(make, "equality")

    def delete_files(self, table: Any, snapshot: Any, locations: Iterable[str]) -> list[Any]:
        """The live delete files of a snapshot at these locations; of a Puffin file, all deletion vectors."""
        wanted = self.view.java.util.HashSet(self.strings(locations))
        contains = self.handles.method("java.util.Set", "contains", "boolean", "java.lang.Object").bindTo(
            wanted
        )
        named = contains.asType(self.handles.type("boolean", "java.lang.String"))
        location = self.handles.method(_ICEBERG + "ContentFile", "location", "java.lang.String")
        handle = self.view.java.lang.invoke.MethodHandles.filterReturnValue(location, named)
        found: list[Any] = []
        for manifest in self.items(snapshot.deleteManifests(table.io())):
            reader = self.api.ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs())
            try:
                found += self._copies(reader, self.handles.proxy(GUAVA + "base.Predicate", handle))
            finally:
                reader.close()
        return found

    def with_metadata(self, rows: Any) -> tuple[Any, int]:
        """(DataFrame of a staged scan with Iceberg's metadata columns after the table's columns, number of the latter).

        On tables with row ids, the scan returns these as data columns, and Spark then hides all metadata columns, so
        the relation is rebuilt without them.
        """
        relation = rows._jdf.queryExecution().analyzed()
        own = [a for a in self.python_list(relation.output()) if not a.metadata().contains(_METADATA)]
        bare = self.shim.with_output(relation, self.seq(own))
        return self.dataframe(self.rows_of_plan(bare.withMetadataColumns())), len(own)

    def positions(self, numbers: Any) -> Any:
        """A PositionDeleteIndex of a Java collection of Longs."""
        nothing = self.view.java.io.ByteArrayInputStream(bytearray())  # `combine` needs something to close
        closeable = self.static(_ICEBERG + "io.CloseableIterable", "combine")(numbers, nothing)
        return self.static(_ICEBERG + "deletes.Deletes", "toPositionIndex")(closeable)

    def no_positions(self) -> Any:
        """A new, empty PositionDeleteIndex."""
        nothing = self.handles.once(self.static(_ICEBERG + "io.CloseableIterable", "empty"), "nothing")
        return self.static(_ICEBERG + "deletes.Deletes", "toPositionIndex")(nothing)

    def rows_of(self, indexes: Sequence[Any]) -> list[npt.NDArray[np.int64]]:
        """The positions of each PositionDeleteIndex, ascending; read from the JVM at once."""
        if not indexes:
            return []
        listed = self.array_list(indexes)
        sizes = [int(size) for size in self.values_of(listed, _INDEX, "cardinality", "long")]
        room = self.view.java.nio.ByteBuffer.allocate(8 * sum(sizes))
        put = self.handles.method(_BUFFER, "putLong", _BUFFER, "long").bindTo(room)
        each = self.handles.method(_INDEX, "forEach", "void", _CONSUMER)
        consumer = self.array(self.view.java.lang.Object, [self.handles.proxy(_CONSUMER, put)])
        all_of = self.handles.invoke.insertArguments(each, 1, consumer)
        listed.forEach(self.handles.proxy("java.util.function.Consumer", all_of))
        rows = np.frombuffer(bytes(room.array()), ">i8").astype(np.int64)
        return np.split(rows, np.cumsum(sizes)[:-1])

    def union(self, index: Any, other: Any = None) -> Any:
        """The positions of one or two PositionDeleteIndexes, as a new one."""
        made = self.no_positions()
        made.merge(index)
        if other is not None:
            made.merge(other)
        return made

    def index_of(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> Any:
        """A PositionDeleteIndex of these positions."""
        made = self.no_positions()
        numbers = self.view.java.util.Arrays.stream(self.longs(rows))
        delete = self.handles.method(_INDEX, "delete", "void", "long")
        numbers.forEach(self.handles.proxy(_CONSUMER, delete.bindTo(made)))
        return made

    def all_rows(self, count: int) -> Any:
        """A PositionDeleteIndex of the positions 0 to ``count`` - 1."""
        made = self.no_positions()
        made.delete(0, count)
        return made

    def without(self, index: Any, others: Any) -> Any:
        """The positions of one PositionDeleteIndex that are not in another, as a new one; the loop runs in the JVM."""
        made, of = self.no_positions(), self.handles
        known = of.method(_INDEX, "isDeleted", "boolean", "long").bindTo(others)
        add = of.method(_INDEX, "delete", "void", "long").bindTo(made)
        skip = of.once(lambda: of.invoke.empty(of.type("void", "long")), "skip")
        index.forEach(of.proxy(_CONSUMER, of.invoke.guardWithTest(known, skip, add)))
        return made

    def delete_loader(self, table: Any) -> Any:
        """A reader of delete files with the FileIO of a table."""
        open_file = self.handles.method(
            _ICEBERG + "io.FileIO", "newInputFile", _ICEBERG + "io.InputFile", _ICEBERG + "DeleteFile"
        ).bindTo(table.io())
        function = self.handles.proxy(_FUNCTION, open_file)
        if executors.on_local_disk(self, table):
            return self.api.data.BaseDeleteLoader(function, executors.calling_thread(self))
        return self.api.data.BaseDeleteLoader(function)

    def deleted_positions(self, loader: Any, deletes: Iterable[Any], location: str) -> Any:
        """A PositionDeleteIndex of the position deletes of one data file; it keeps a reference to ``deletes``."""
        return loader.loadPositionDeletes(self.array_list(deletes), location)

    def positions_by_file(self, loader: Any, delete: Any) -> Any:
        """All of a position delete file: a Java map from data file to PositionDeleteIndex.

        The public call reads the file once for each data file.
        """
        kind = (_ICEBERG + "DeleteFile", delete)
        return self.hidden_call(loader, _ICEBERG + "data.BaseDeleteLoader", "readPosDeletes", kind)

    def lookup(self, values: Mapping[str, Any]) -> Any:
        """A java.util.function.Function that looks up its argument; null for an unknown one."""
        known = self.view.java.util.HashMap()
        for key, value in values.items():
            known.put(key, value)
        get = self.handles.method("java.util.Map", "get", "java.lang.Object", "java.lang.Object").bindTo(
            known
        )
        return self.handles.proxy(_FUNCTION, get)

    def write_positions(self, writer: Any, location: str, index: Any) -> None:
        """Write all positions of an index, ascending, to a PositionDeleteWriter; the loop runs in the JVM."""
        delete = _ICEBERG + "deletes.PositionDelete"
        set_both = self.handles.method(delete, "set", delete, "java.lang.CharSequence", "long")
        first = self.array(self.view.java.lang.Object, [self.api.deletes.PositionDelete.create(), location])
        invoke = self.handles.invoke
        write = self.handles.method(_ICEBERG + "deletes.PositionDeleteWriter", "write", "void", delete)
        both = invoke.filterReturnValue(invoke.insertArguments(set_both, 0, first), write.bindTo(writer))
        index.forEach(self.handles.proxy(_CONSUMER, both))

    def _copies(self, files: Any, keep: Any) -> list[Any]:
        """The files of a manifest reader that satisfy ``keep``, as objects that outlive it."""
        # Readers reuse one object: copy it before the next one is read.
        copy = self.handles.getter(_ICEBERG + "ContentFile", "copy", "java.lang.Object")
        kept = self.collect.Iterables.transform(self.collect.Iterables.filter(files, keep), copy)
        return self.items(self.collect.Lists.newArrayList(kept))

    def _location_of_task(self) -> Any:
        def make() -> Any:
            return self.handles.proxy(GUAVA + "base.Function", self._location_handle())

        return self.handles.once(make, "location of task")

    def _location_handle(self) -> Any:
        file = self.handles.method(_ICEBERG + "ContentScanTask", "file", _ICEBERG + "ContentFile")
        location = self.handles.method(_ICEBERG + "ContentFile", "location", "java.lang.String")
        return self.view.java.lang.invoke.MethodHandles.filterReturnValue(file, location)
