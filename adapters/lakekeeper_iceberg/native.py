"""Iceberg's Java API through py4j: the calls that need a workaround, each with its reason.

A py4j call takes about 0.1 ms, so data about many files is read through metadata tables and Arrow, never with a call
per file; Java objects are fetched only for the files of a task, from an index in the JVM.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lakekeeper.spark.jvm import Jvm
from lakekeeper.spi import TableName

_ICEBERG = "org.apache.iceberg."
_GUAVA = _ICEBERG + "relocated.com.google.common."
_DIRECTORY = _ICEBERG + "hadoop.HadoopTableOperations"
_METADATA = "__metadata_col"  # Spark's marker of a metadata column
_PRIMITIVE = {"boolean": "Boolean", "long": "Long", "void": "Void"}


class Iceberg(Jvm):
    """The JVM of a session, with access to Iceberg's classes. Holds no table."""

    def __init__(self, spark: Any) -> None:
        super().__init__(spark)
        self.api = self.view.org.apache.iceberg
        self.collect = self.api.relocated.com.google.common.collect
        self.base = self.api.relocated.com.google.common.base

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

    def over_http(self, table: Any) -> bool:
        """Whether the table is in a REST catalog.

        A gateway may retry a commit whose response was lost, and return the 409 of the retry. Iceberg's own actions
        then delete files of a commit that succeeded (apache/iceberg 12818), so they are not used with REST catalogs.
        """
        return str(table.operations().getClass().getSimpleName()) == "RESTTableOperations"

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
            places = self.collect.Iterables.transform(planned, self._location_of_task("base.Function"))
            text = str(self.static("java.lang.String", "join")("\0", places))
        finally:
            planned.close()
        return text.split("\0") if text else []

    def index(self, scan: Any) -> Any:
        """A Java map from location to FileScanTask; IllegalArgumentException for a file listed twice."""
        planned = scan.planFiles()
        try:
            return self.collect.Maps.uniqueIndex(planned, self._location_of_task("base.Function"))
        finally:
            planned.close()

    def chosen(self, scan: Any, locations: Iterable[str]) -> Any:
        """Like :meth:`index`, but for these locations only, so that memory does not grow with the table."""
        wanted = self.view.java.util.HashSet(self.array_list(locations))
        handles = self.view.java.lang.invoke.MethodHandles
        contains = self._method("java.util.Set", "contains", "boolean", "java.lang.Object").bindTo(wanted)
        location = self._location_handle()
        named = contains.asType(self._type("boolean", "java.lang.String"))
        keep = self._proxy("base.Predicate", handles.filterReturnValue(location, named))
        planned = scan.planFiles()
        try:
            few = self.collect.Iterables.filter(planned, keep)
            return self.collect.Maps.uniqueIndex(few, self._location_of_task("base.Function"))
        finally:
            planned.close()

    def told(self, items: Any, cls: str, method: str, returns: str) -> list[str]:
        """The results of a method of many Java objects, as text (empty for null), in one call."""
        if self.collect.Iterables.isEmpty(items):
            return []
        get = self._proxy("base.Function", self._method(cls, method, returns))
        return self.texts(self.collect.Iterables.transform(items, get))

    def texts(self, items: Any) -> list[str]:
        """The values of a Java Iterable as text; null becomes an empty text."""
        joined = str(self.base.Joiner.on("\0").useForNull("").join(items))
        return joined.split("\0") if joined else [""] if self.collect.Iterables.size(items) else []

    def strings(self, texts: Iterable[str]) -> Any:
        """A Java List of texts, made in one call."""
        joined = "\0".join(texts)
        return self.base.Splitter.on("\0").splitToList(joined) if joined else self.view.java.util.ArrayList()

    def rewriter(self, pattern: str) -> Any:
        """A Java function on strings that removes the first match of a pattern."""
        compiled = self.view.java.util.regex.Pattern.compile(pattern)
        matcher = self._method(
            "java.util.regex.Pattern", "matcher", "java.util.regex.Matcher", "java.lang.CharSequence"
        ).bindTo(compiled)
        replace = self._method(
            "java.util.regex.Matcher", "replaceFirst", "java.lang.String", "java.lang.String"
        )
        handles = self.view.java.lang.invoke.MethodHandles
        cut = handles.insertArguments(replace, 1, self.array(self.view.java.lang.Object, [""]))
        return self._proxy("base.Function", handles.filterReturnValue(matcher, cut))

    def maker(self, cls: str, takes: str) -> Any:
        """A Java function that calls a constructor of a class with its argument."""
        kind = self._type("void", takes)
        handle = self.view.java.lang.invoke.MethodHandles.publicLookup().findConstructor(
            self._class(cls), kind
        )
        return self._proxy("base.Function", handle)

    def bound(self, item: Any, cls: str, method: str, returns: str, takes: str) -> Any:
        """A method bound to this Java object, as a Java function of its argument."""
        return self._proxy("base.Function", self._method(cls, method, returns, takes).bindTo(item))

    def hidden_field(self, item: Any, cls: str, name: str) -> Any:
        """The value of a non-public field of a class."""
        field = self._class(cls).getDeclaredField(name)
        field.setAccessible(True)
        return field.get(item)

    def hidden_call(self, item: Any, cls: str, name: str, *given: tuple[str, Any]) -> Any:
        """The result of a non-public method of a class; ``given`` are its arguments as (class, value)."""
        java = self.view.java.lang
        kinds = self.array(java.Class, [self._class(kind) for kind, _ in given])
        method = self._class(cls).getDeclaredMethod(name, kinds)
        method.setAccessible(True)
        return method.invoke(item, self.array(java.Object, [value for _, value in given]))

    def is_a(self, item: Any, cls: str) -> bool:
        """Whether a Java object is an instance of a class or interface."""
        return bool(self._class(cls).isInstance(item))

    def equality_deletes(self, files: Any) -> list[Any]:
        """The equality delete files in an Iterable of DeleteFile, copied so that they outlive the reader."""
        handles = self.view.java.lang.invoke.MethodHandles
        content = self._method(_ICEBERG + "ContentFile", "content", _ICEBERG + "FileContent")
        equals = self._method("java.lang.Object", "equals", "boolean", "java.lang.Object")
        same = equals.bindTo(self.api.FileContent.EQUALITY_DELETES).asType(
            self._type("boolean", _ICEBERG + "FileContent")
        )
        keep = self._proxy("base.Predicate", handles.filterReturnValue(content, same))
        return self._copies(files, keep)

    def delete_files(self, table: Any, snapshot: Any, locations: Iterable[str]) -> list[Any]:
        """The live delete files of a snapshot at these locations; of a Puffin file, all deletion vectors."""
        wanted = self.view.java.util.HashSet(self.array_list(locations))
        contains = self._method("java.util.Set", "contains", "boolean", "java.lang.Object").bindTo(wanted)
        named = contains.asType(self._type("boolean", "java.lang.String"))
        location = self._method(_ICEBERG + "ContentFile", "location", "java.lang.String")
        handle = self.view.java.lang.invoke.MethodHandles.filterReturnValue(location, named)
        found: list[Any] = []
        for manifest in snapshot.deleteManifests(table.io()):
            reader = self.api.ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs())
            try:
                found += self._copies(reader, self._proxy("base.Predicate", handle))
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
        bare = relation.copy(
            relation.table(),
            self.seq(own),
            relation.catalog(),
            relation.identifier(),
            relation.options(),
            relation.timeTravelSpec(),
        )
        of_rows = self.static("org.apache.spark.sql.classic.Dataset", "ofRows")
        return self.dataframe(of_rows(self.session, bare.withMetadataColumns())), len(own)

    def positions(self, numbers: Any) -> Any:
        """A PositionDeleteIndex of a Java collection of Longs."""
        nothing = self.view.java.io.ByteArrayInputStream(bytearray())  # `combine` needs something to close
        closeable = self.static(_ICEBERG + "io.CloseableIterable", "combine")(numbers, nothing)
        return self.static(_ICEBERG + "deletes.Deletes", "toPositionIndex")(closeable)

    def rows_of(self, index: Any) -> npt.NDArray[np.int64]:
        """The positions of a PositionDeleteIndex, ascending."""
        room = self.view.java.nio.ByteBuffer.allocate(8 * int(index.cardinality()))
        buffer = "java.nio.ByteBuffer"
        put = self._method(buffer, "putLong", buffer, "long").bindTo(room)
        index.forEach(self._java_proxy("java.util.function.LongConsumer", put))
        return np.frombuffer(bytes(room.array()), ">i8").astype(np.int64)

    def union(self, index: Any, other: Any = None) -> Any:
        """The positions of one or two PositionDeleteIndexes, as a new one."""
        made = self.index_of(())
        made.merge(index)
        if other is not None:
            made.merge(other)
        return made

    def index_of(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> Any:
        """A PositionDeleteIndex of these positions."""
        made = self.positions(self.view.java.util.ArrayList())
        numbers = self.view.java.util.Arrays.stream(self.longs(rows))
        delete = self._method(_ICEBERG + "deletes.PositionDeleteIndex", "delete", "void", "long")
        numbers.forEach(self._java_proxy("java.util.function.LongConsumer", delete.bindTo(made)))
        return made

    def all_rows(self, count: int) -> Any:
        """A PositionDeleteIndex of the positions 0 to ``count`` - 1."""
        made = self.index_of(())
        made.delete(0, count)
        return made

    def without(self, index: Any, others: Any) -> Any:
        """The positions of one PositionDeleteIndex that are not in another, as a new one; the loop runs in the JVM."""
        made = self.index_of(())
        kind = _ICEBERG + "deletes.PositionDeleteIndex"
        handles = self.view.java.lang.invoke.MethodHandles
        known = self._method(kind, "isDeleted", "boolean", "long").bindTo(others)
        add = self._method(kind, "delete", "void", "long").bindTo(made)
        unless = handles.guardWithTest(known, handles.empty(self._type("void", "long")), add)
        index.forEach(self._java_proxy("java.util.function.LongConsumer", unless))
        return made

    def deleted_positions(self, table: Any, deletes: Iterable[Any], location: str) -> Any:
        """A PositionDeleteIndex of the position deletes of one data file; it keeps a reference to ``deletes``."""
        open_file = self._method(
            _ICEBERG + "io.FileIO", "newInputFile", _ICEBERG + "io.InputFile", _ICEBERG + "DeleteFile"
        ).bindTo(table.io())
        loader = self.api.data.BaseDeleteLoader(self._java_proxy("java.util.function.Function", open_file))
        return loader.loadPositionDeletes(self.array_list(deletes), location)

    def lookup(self, values: Mapping[str, Any]) -> Any:
        """A java.util.function.Function that looks up its argument; null for an unknown one."""
        known = self.view.java.util.HashMap()
        for key, value in values.items():
            known.put(key, value)
        get = self._method("java.util.Map", "get", "java.lang.Object", "java.lang.Object").bindTo(known)
        return self._java_proxy("java.util.function.Function", get)

    def write_positions(self, writer: Any, location: str, index: Any) -> None:
        """Write all positions of an index, ascending, to a PositionDeleteWriter; the loop runs in the JVM."""
        delete = _ICEBERG + "deletes.PositionDelete"
        set_both = self._method(delete, "set", delete, "java.lang.CharSequence", "long")
        first = self.array(self.view.java.lang.Object, [self.api.deletes.PositionDelete.create(), location])
        handles = self.view.java.lang.invoke.MethodHandles
        write = self._method(_ICEBERG + "deletes.PositionDeleteWriter", "write", "void", delete)
        both = handles.filterReturnValue(handles.insertArguments(set_both, 0, first), write.bindTo(writer))
        index.forEach(self._java_proxy("java.util.function.LongConsumer", both))

    def _copies(self, files: Any, keep: Any) -> list[Any]:
        """The files of a manifest reader that satisfy ``keep``, as objects that outlive it."""
        # Readers reuse one object: copy it before the next one is read.
        copy = self._proxy(
            "base.Function", self._method(_ICEBERG + "ContentFile", "copy", "java.lang.Object")
        )
        kept = self.collect.Iterables.transform(self.collect.Iterables.filter(files, keep), copy)
        return list(self.collect.Lists.newArrayList(kept))

    def _location_of_task(self, interface: str) -> Any:
        return self._proxy(interface, self._location_handle())

    def _location_handle(self) -> Any:
        file = self._method(_ICEBERG + "ContentScanTask", "file", _ICEBERG + "ContentFile")
        location = self._method(_ICEBERG + "ContentFile", "location", "java.lang.String")
        return self.view.java.lang.invoke.MethodHandles.filterReturnValue(file, location)

    def _method(self, cls: str, name: str, returns: str, *takes: str) -> Any:
        lookup = self.view.java.lang.invoke.MethodHandles.publicLookup()
        return lookup.findVirtual(self._class(cls), name, self._type(returns, *takes))

    def _type(self, returns: str, *takes: str) -> Any:
        made = self.static("java.lang.invoke.MethodType", "methodType")(self._class(returns))
        return made.appendParameterTypes(self.array_list(self._class(t) for t in takes)) if takes else made

    def _proxy(self, interface: str, handle: Any) -> Any:
        """A Java function made of method handles: loops over files run in the JVM, without callbacks to Python."""
        return self._java_proxy(_GUAVA + interface, handle)

    def _java_proxy(self, interface: str, handle: Any) -> Any:
        return self.view.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(
            self._class(interface), handle
        )

    def _class(self, name: str) -> Any:
        if name in _PRIMITIVE:
            return getattr(self.view.java.lang, _PRIMITIVE[name]).TYPE
        # Only Spark's class loader sees the jars of --packages.
        return self.view.org.apache.spark.util.Utils.classForName(name, True, False)
