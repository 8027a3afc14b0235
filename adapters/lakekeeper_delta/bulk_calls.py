"""Bulk calls of Hadoop's FileSystem: one method on many files, in a few py4j calls.

A py4j call takes a tenth of a millisecond, and an exception that crosses to Python twenty: method handles are mapped
over the files inside the JVM, and missing files are reported without an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakekeeper.core.vacuum.vacuum_plan import FileInfo
from lakekeeper.spark.jvm import Jvm

_FS = "org.apache.hadoop.fs."
_BETWEEN = "\x00"  # no file name contains it


class BulkFiles:
    """Files of one file system. Java exceptions propagate."""

    def __init__(self, jvm: Jvm, files: Any) -> None:
        self._jvm = jvm
        self._invoke = jvm.view.java.lang.invoke
        handles = self._invoke.MethodHandles
        self._lookup = handles.publicLookup()
        path, status = self._class(_FS + "Path"), self._class(_FS + "FileStatus")
        system, void = self._class(_FS + "FileSystem"), jvm.view.java.lang.Void.TYPE
        truth, number = jvm.view.java.lang.Boolean.TYPE, jvm.view.java.lang.Long.TYPE
        text = self._class("java.lang.String")
        self._path = self._function(self._lookup.findConstructor(path, self._type(void, text)))
        seen = self._lookup.findVirtual(system, "getFileStatus", self._type(status, path)).bindTo(files)
        self._status = self._function(self._unless(seen, "java.io.FileNotFoundException", status, None))
        gone = self._lookup.findVirtual(system, "delete", self._type(truth, path, truth)).bindTo(files)
        flat = handles.insertArguments(gone, 1, jvm.array(jvm.view.java.lang.Object, [False]))
        self._delete = self._function(self._unless(flat, "java.lang.Exception", truth, False))
        self._getters = [
            self._function(self._lookup.findVirtual(status, name, self._type(kind)))
            for name, kind in (("getLen", number), ("getModificationTime", number), ("isFile", truth))
        ]
        objects, anything = self._class("java.util.Objects"), self._class("java.lang.Object")
        there = self._lookup.findStatic(objects, "nonNull", self._type(truth, anything))
        self._there = self._proxy("java.util.function.Predicate", there)
        self._is_there = self._function(there)
        self._text = self._function(self._lookup.findStatic(text, "valueOf", self._type(text, anything)))

    def seen(self, locations: Sequence[str]) -> list[tuple[FileInfo, bool] | None]:
        """Each status, with whether it is a file (else a folder); None where nothing exists."""
        if not locations:
            return []
        statuses = self._places(locations).map(self._status).collect(self._collectors.toList())
        there = [answer == "true" for answer in self._texts(statuses.stream().map(self._is_there))]
        known = statuses.stream().filter(self._there).collect(self._collectors.toList())
        columns = (
            [self._texts(known.stream().map(function)) for function in self._getters] if any(there) else []
        )
        rows = zip(*columns, strict=True)
        found: list[tuple[FileInfo, bool] | None] = []
        for location, is_there in zip(locations, there, strict=True):
            if not is_there:
                found.append(None)
                continue
            size, at, is_file = next(rows)
            found.append((FileInfo(location, int(size), int(at)), is_file == "true"))
        return found

    def delete(self, locations: Sequence[str]) -> None:
        """Try to delete each file. Failures are ignored: the caller has to check."""
        if locations:
            self._places(locations).map(self._delete).collect(self._collectors.toList())

    def paths(self, locations: Sequence[str]) -> Any:
        """A java.util.List of Hadoop Paths."""
        return self._places(locations).collect(self._collectors.toList())

    @property
    def _collectors(self) -> Any:
        return self._jvm.view.java.util.stream.Collectors

    def _places(self, locations: Sequence[str]) -> Any:
        # A location that contains the separator would be split in two.
        if any(_BETWEEN in location for location in locations):
            raise ValueError("a path has a character that no name of a file has")
        split = self._jvm.view.java.util.regex.Pattern.compile(_BETWEEN)
        return split.splitAsStream(_BETWEEN.join(locations)).map(self._path)

    def _texts(self, stream: Any) -> list[str]:
        """The elements of a stream of numbers or booleans, as text."""
        return str(stream.map(self._text).collect(self._collectors.joining(","))).split(",")

    def _unless(self, handle: Any, error: str, kind: Any, instead: Any) -> Any:
        """The handle, with a constant returned in place of an exception."""
        handles = self._invoke.MethodHandles
        constant = handles.constant(kind, instead)
        caught = self._class(error)
        return handles.catchException(
            handle, caught, handles.dropArguments(constant, 0, self._jvm.array_list([caught]))
        )

    def _function(self, handle: Any) -> Any:
        return self._proxy("java.util.function.Function", handle)

    def _proxy(self, interface: str, handle: Any) -> Any:
        return self._invoke.MethodHandleProxies.asInterfaceInstance(self._class(interface), handle)

    def _type(self, result: Any, *arguments: Any) -> Any:
        return self._invoke.MethodType.methodType(result, self._jvm.array_list(arguments))

    def _class(self, name: str) -> Any:
        return self._jvm.view.java.lang.Class.forName(name)
