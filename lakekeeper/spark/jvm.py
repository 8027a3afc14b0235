"""All py4j calls that are independent of a table format, for ``lakekeeper.spark`` and for adapters.

Java objects have the type ``Any``, since py4j offers no other.
"""

from __future__ import annotations

import io
import json
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakekeeper.errors import AdapterError
from lakekeeper.errors import causes as causes  # noqa: PLC0414 - adapters import it from here
from lakekeeper.errors import throwable as throwable  # noqa: PLC0414 - adapters import it from here
from lakekeeper.spark.prompt_acks import acknowledge_promptly
from lakekeeper.spark.shims import shim

if TYPE_CHECKING:
    from pyspark.sql import Column

CONNECT = (
    "this is a Spark Connect session; lakekeeper commits through the driver's JVM and needs a classic session: "
    "run it on the driver with spark-submit, or unset SPARK_REMOTE"
)
"""The error for a session of Spark Connect."""
_BETWEEN = "\x00"  # no path contains it
_NO_SUCH_TABLE = re.compile(r"NoSuch(Iceberg)?(Table|Namespace|Database|Object)")
"""What Spark's, Iceberg's and Hive's exceptions about missing tables are named."""


def require_classic(spark: Any) -> None:
    """Raise AdapterError on a Spark Connect session: commits go through the JVM, which it does not expose."""
    if not hasattr(spark, "_jsparkSession"):
        raise AdapterError(CONNECT)


def says_no_such_table(error: BaseException) -> bool:
    """Whether an error says that a catalog has no such table: a file or a key that is missing is something else."""
    return any(_NO_SUCH_TABLE.search(kind) for kind, _ in causes(error))


def try_cast(column: Column, kind: str) -> Column:
    """A column cast to a type, given as SQL text; NULL where the value is not one of the type."""
    return shim().try_cast(column, kind)


class Package:
    """A package of the JVM, or without a name the root: attributes in lower case are packages, all others classes.

    py4j's own package object looks up a class at each step of ``org.apache.spark.Name``, and Java searches every jar to
    find that no class ``org`` exists: up to half of a driver's time on small tables. Raises AdapterError for a class
    that does not exist.
    """

    def __init__(self, view: Any, name: str = "") -> None:
        self._view = view
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # attributes that Python and its tools look up on any object
            raise AttributeError(name)
        full = f"{self._name}.{name}" if self._name else name
        return Package(self._view, full) if name[0].islower() else _class(self._view, full)


@cache
def _class(view: Any, name: str) -> Any:
    from py4j.java_gateway import JavaClass

    found = getattr(view, name)
    if not isinstance(found, JavaClass):
        raise AdapterError(
            f"the JVM cannot load class {name}: add its jar to the session, in a tested version"
        )
    return _class_type()(found._fqn, found._gateway_client)


@cache
def _class_type() -> Any:
    """py4j's JavaClass, but it asks the JVM for each static method once, not at each call."""
    from py4j.java_gateway import JavaClass, JavaMember

    class Class(JavaClass):  # type: ignore[misc]  # py4j has no types
        def __getattr__(self, name: str) -> Any:
            found = super().__getattr__(name)
            if isinstance(found, JavaMember):
                self.__dict__[name] = found
            return found

    return Class


@cache
def _singleton(view: Any, name: str) -> Any:
    return getattr(_class(view, name + "$"), "MODULE$")


@cache
def _new(view: Any, name: str) -> Any:
    """One object of a class that holds no state of its callers."""
    return _class(view, name)()


class Jvm:
    """A session's JVM, with conversions to and from Scala and Java types."""

    def __init__(self, spark: Any) -> None:
        require_classic(spark)
        acknowledge_promptly(spark._jvm._gateway_client)
        self.spark = spark
        self.view = Package(spark._jvm)
        self.session = spark._jsparkSession
        self.shim = shim()
        self._python = self.view.org.apache.spark.api.python.PythonUtils

    def seq(self, items: Iterable[Any]) -> Any:
        """A Scala Seq."""
        return self._python.toSeq(self.array_list(items))

    def array_list(self, items: Iterable[Any]) -> Any:
        """A java.util.ArrayList."""
        made = self.view.java.util.ArrayList()
        for item in items:
            made.add(item)
        return made

    def text_list(self, texts: Collection[str]) -> Any:
        """A java.util.List of texts, in a few calls whatever their number. No text may contain a NUL character."""
        if not texts:
            return self.view.java.util.ArrayList()
        split = self.view.java.util.regex.Pattern.compile(_BETWEEN).splitAsStream(_BETWEEN.join(texts))
        return split.collect(self.view.java.util.stream.Collectors.toList())

    def map(self, items: Mapping[str, Any]) -> Any:
        """An immutable Scala Map."""
        made = self.view.java.util.HashMap()
        for key, value in items.items():
            made.put(key, value)
        return self._python.toScalaMap(made)

    def items(self, collection: Any) -> list[Any]:
        """The elements of a java.util.Collection.

        A Python loop over a Java collection ends with a Java exception, and PySpark makes some 80 calls to see which.
        """
        array = collection.toArray()
        return [array[number] for number in range(len(array))]

    def text_map(self, java_map: Any) -> dict[str, str]:
        """A java.util.Map from text to text, in one call whatever its size."""
        mapper = _new(self.spark._jvm, "com.fasterxml.jackson.databind.ObjectMapper")
        plain: dict[str, str] = json.loads(str(mapper.writeValueAsString(java_map)))
        return plain

    def python_list(self, scala: Any) -> list[Any]:
        """The elements of a Scala collection."""
        return self.items(self.shim.java_collection(self, scala))

    def python_map(self, scala: Any) -> dict[str, str]:
        """A Scala Map of texts."""
        return self.text_map(self.shim.java_map(self, scala))

    def scala_seq(self, items: Any) -> Any:
        """A java.util.List as a Scala Seq."""
        return self.shim.scala_seq(self, items)

    def some(self, value: Any) -> Any:
        """Scala's Some(value), or its None for a null."""
        return self.view.scala.Option.apply(value)

    def none(self) -> Any:
        """Scala's None."""
        return self.view.scala.Option.empty()

    def java_class(self, name: str) -> Any:
        """A class by its full name, also one with a name in lower case, which :attr:`view` treats as a package."""
        return _class(self.spark._jvm, name)

    def object(self, name: str) -> Any:
        """A Scala object by its full name, nested ones with ``$``: ``a.b.Outer$Inner``."""
        return _singleton(self.spark._jvm, name)

    def static(self, cls: str, method: str) -> Any:
        """A static method that py4j would not find because an instance method has the same name."""
        from py4j.java_gateway import JavaMember

        return JavaMember(method, None, "z:" + cls, self.spark._jvm._gateway_client)

    def array(self, cls: Any, items: Iterable[Any]) -> Any:
        """A Java array of ``cls``."""
        values = list(items)
        made = self.spark.sparkContext._gateway.new_array(cls, len(values))
        for i, value in enumerate(values):
            made[i] = value
        return made

    def create_file(self, path: str, data: bytes) -> None:
        """Create a file on the driver's disk atomically, with its full content. Raises if the file already exists.

        Hadoop's local file system checks that no file exists and then opens it: two concurrent callers both succeed,
        and the checksum next to the file may be the other caller's, which leaves the file unreadable.
        """
        files = self.view.java.nio.file.Files
        file = self.view.java.io.File(path)
        folder, name = file.getParentFile(), str(file.getName())
        folder.mkdirs()
        new = self.array(
            self.view.java.nio.file.OpenOption, [self.view.java.nio.file.StandardOpenOption.CREATE_NEW]
        )
        aside = self.view.java.io.File(folder, f".{name}.{uuid.uuid4().hex}.tmp").toPath()
        self.view.java.io.File(folder, f".{name}.crc").delete()  # left by a file that no longer exists
        files.write(aside, bytearray(data), new)
        try:
            files.createLink(file.toPath(), aside)
        except Exception as error:
            if any("AlreadyExists" in cause for cause, _ in causes(error)):
                raise
            files.write(file.toPath(), bytearray(data), new)  # a disk without hard links
        finally:
            files.delete(aside)

    def longs(self, numbers: Sequence[int] | npt.NDArray[np.int64]) -> Any:
        """A Java ``long[]``, made in a few calls regardless of its length."""
        made = self.spark.sparkContext._gateway.new_array(self.spark._jvm.long, len(numbers))
        plain = bytearray(np.asarray(numbers, np.int64).astype(">i8").tobytes())
        self.view.java.nio.ByteBuffer.wrap(plain).asLongBuffer().get(made)
        return made

    def numbers(self, longs: Any) -> npt.NDArray[np.int64]:
        """The numbers of a Java ``long[]``."""
        room = self.view.java.nio.ByteBuffer.allocate(8 * len(longs))
        room.asLongBuffer().put(longs)
        return np.frombuffer(bytes(room.array()), ">i8").astype(np.int64)

    @property
    def session_class(self) -> Any:
        """The class of classic Spark sessions, with its static methods."""
        return self.java_class(self.shim.session_type)

    @contextmanager
    def active(self, session: Any = None) -> Iterator[None]:
        """Make this session, or a clone of it, the active one of this thread: both formats use it in their own calls.

        Spark 3.5 does not do so when it loads a table, and then finds no catalog that was defined in the session.
        """
        kind = self.session_class
        before = kind.getActiveSession()
        kind.setActiveSession(self.session if session is None else session)
        try:
            yield
        finally:
            if before.isDefined():
                kind.setActiveSession(before.get())
            else:
                kind.clearActiveSession()

    @contextmanager
    def parser(self) -> Iterator[Any]:
        """Spark's SQL parser. It reads literals by the confs of the thread's active session: for now, this one."""
        with self.active():
            yield self.session.sessionState().sqlParser()

    def rows_of_plan(self, plan: Any, session: Any = None) -> Any:
        """A Java Dataset of the rows of a logical plan, in this session or in a clone of it."""
        of_rows = self.static(self.shim.dataset_type, "ofRows")
        return of_rows(self.session if session is None else session, plan)

    def to_arrow(self, frame: Any) -> pa.Table:
        """The rows of a PySpark DataFrame as an Arrow table."""
        return self.shim.to_arrow(frame)

    def from_arrow(self, table: pa.Table) -> Any:
        """A PySpark DataFrame of the rows of an Arrow table."""
        return self.shim.from_arrow(self.spark, table)

    def dataframe(self, java: Any) -> Any:
        """A PySpark DataFrame around a Java Dataset."""
        from pyspark.sql import DataFrame

        return DataFrame(java, self.spark)


LOCAL_FILESYSTEMS = frozenset(
    {
        "org.apache.hadoop.fs.LocalFileSystem",
        "org.apache.hadoop.fs.RawLocalFileSystem",
        "org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem",  # where Spark has its Hive classes
    }
)


def on_local_disk(file_system: Any) -> bool:
    """Whether a Hadoop FileSystem is the driver's plain local disk, so that Python can open its files by path.

    Reading through the JVM takes longer: py4j encodes bytes as text.
    """
    return str(file_system.getClass().getName()) in LOCAL_FILESYSTEMS


class JavaFile(io.RawIOBase):
    """A file of ``size`` bytes, read through a Java input stream with ``seek``, such as Hadoop's and Iceberg's."""

    def __init__(self, stream: Any, size: int) -> None:
        super().__init__()
        self._stream = stream
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), max(self._size - self._at, 0))
        if wanted == 0:
            return 0
        self._stream.seek(self._at)
        found = bytes(self._stream.readNBytes(wanted))
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
