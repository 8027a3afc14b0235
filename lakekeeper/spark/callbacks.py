"""Python functions that Spark calls, and Java exceptions that they end with.

An exception of a Python function reaches Spark as the text of its traceback. These ones reach the user as what they
are: Spark gets a Java exception with the message alone, which PySpark shows as an error of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from lakekeeper.errors import LakekeeperError, OptionError, RetentionError, TableError, reason, traceback_of
from lakekeeper.spark.jvm import Jvm

_LOG = logging.getLogger("lakekeeper")


class JavaObject:
    """A Python object with an interface of Java: what Java asks any object for."""

    def equals(self, other: Any) -> bool:
        return self is other

    def hashCode(self) -> int:  # noqa: N802  # Java calls it by this name
        return id(self) & 0x7FFFFFFF

    def toString(self) -> str:  # noqa: N802  # Java calls it by this name
        return "lakekeeper"


class _Function(JavaObject):
    """``scala.Function1`` of a Python function."""

    class Java:
        implements = ("scala.Function1",)

    def __init__(self, body: Callable[[Any], Any]) -> None:
        self._body = body

    def apply(self, argument: Any) -> Any:
        return self._body(argument)


def listen_for_callbacks(jvm: Jvm) -> None:
    """Start the server that calls of the JVM into Python go through; a second call has no effect."""
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(jvm.spark.sparkContext._gateway)  # type: ignore[no-untyped-call]  # PySpark leaves it untyped


def function(jvm: Jvm, body: Callable[[Any], Any]) -> Any:
    """A Python function as a ``scala.Function1``; an exception of it is thrown as :func:`thrown` gives it."""

    def guarded(argument: Any) -> Any:
        try:
            return body(argument)
        except Exception as error:
            return thrown(jvm, error)

    handles, types = jvm.view.java.lang.invoke.MethodHandles, jvm.view.java.lang.invoke.MethodType
    anything, problem = _type(jvm, "java.lang.Object"), _type(jvm, "java.lang.RuntimeException")
    unary = types.methodType(anything, anything)
    held = jvm.array_list([_Function(guarded)]).get(0)
    lookup = handles.publicLookup()
    call = lookup.bind(held, "apply", unary)
    fails = lookup.bind(problem, "isInstance", types.methodType(_primitive(jvm, "Boolean"), anything))
    throw = handles.throwException(anything, problem).asType(unary)
    checked = handles.filterReturnValue(call, handles.guardWithTest(fails, throw, handles.identity(anything)))
    proxies = jvm.view.java.lang.invoke.MethodHandleProxies
    return proxies.asInterfaceInstance(_type(jvm, "scala.Function1"), checked)


def failing_iterator(jvm: Jvm, error: Exception) -> Any:
    """A ``java.util.Iterator`` that throws ``error`` before its first element."""
    handles = jvm.view.java.lang.invoke.MethodHandles
    throw = handles.throwException(_type(jvm, "java.lang.Object"), _type(jvm, "java.lang.RuntimeException"))
    proxies = jvm.view.java.lang.invoke.MethodHandleProxies
    supplier = proxies.asInterfaceInstance(
        _type(jvm, "java.util.function.Supplier"), throw.bindTo(thrown(jvm, error))
    )
    return jvm.view.java.util.stream.Stream.generate(supplier).iterator()


def thrown(jvm: Jvm, error: Exception) -> Any:
    """A Java exception with the message of ``error``: of a class that PySpark shows without a Java stack trace.

    Of an error of Spark, which may contain a stack trace, the message is its reason in one line.
    """
    _LOG.debug("a call from SQL failed:\n%s", traceback_of(error))
    text = f"{type(error).__name__}: {error}" if isinstance(error, LakekeeperError) else reason(error)
    if isinstance(error, OptionError | TableError | RetentionError):
        return jvm.view.java.lang.IllegalArgumentException(text)
    return jvm.view.java.lang.UnsupportedOperationException(text)


def _type(jvm: Jvm, name: str) -> Any:
    return jvm.view.org.apache.spark.util.Utils.classForName(name, True, False)


def _primitive(jvm: Jvm, name: str) -> Any:
    """The class of a primitive type, by the name of its box."""
    return _type(jvm, f"java.lang.{name}").getField("TYPE").get(None)
