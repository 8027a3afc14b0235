"""Errors in one line, by their last cause, also when it is a Java exception."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from lakekeeper.errors import NotFound, causes, reason, traceback_of


class PythonException(Exception):
    """As PySpark raises it, without Java's exception."""


@dataclass
class Java:
    """A Java throwable as py4j returns it."""

    name: str
    message: str | None
    cause: Java | None = None

    def getClass(self) -> Any:  # noqa: N802 - Java's name
        return type("Class", (), {"getName": lambda _: self.name})()

    def getMessage(self) -> str | None:  # noqa: N802 - Java's name
        return self.message

    def getCause(self) -> Java | None:  # noqa: N802 - Java's name
        return self.cause


class Py4JJavaError(Exception):
    """Like py4j's own: its text describes the call, over several pages."""

    def __init__(self, java: Any) -> None:
        super().__init__("An error occurred while calling o68.sql.\n: java.lang.RuntimeException\n\tat a.b.C")
        self.java_exception = java


REFUSED = Java("java.net.ConnectException", "Connection refused")


@pytest.mark.parametrize(
    "java, expected",
    [
        (REFUSED, "ConnectException: Connection refused"),
        (
            Java("org.apache.iceberg.exceptions.RESTException", "Error occurred in GET", REFUSED),
            "ConnectException: Connection refused (RESTException: Error occurred in GET)",
        ),
        # A wrapper that only repeats its cause adds nothing.
        (
            Java("java.lang.RuntimeException", "java.net.ConnectException: Connection refused", REFUSED),
            "ConnectException: Connection refused",
        ),
        (
            Java("a.Outer", "first", Java("a.Middle", "second", Java("a.Inner", "third\nmore"))),
            "Inner: third (Outer: first)",
        ),
        (Java("java.io.EOFException", None), "EOFException"),
        (
            Java("a.Outer", "torn file", Java("java.io.EOFException", None)),
            "EOFException (Outer: torn file)",
        ),
        (Java("a.b.Outer$Inner", "text"), "Inner: text"),
    ],
)
def test_a_java_error_is_reported_by_its_last_cause(java: Java, expected: str) -> None:
    assert reason(Py4JJavaError(java)) == expected


def test_python_errors_keep_their_own_text() -> None:
    assert reason(RuntimeError("first\nsecond")) == "RuntimeError: first"
    assert reason(RuntimeError()) == "RuntimeError"
    assert reason(KeyError("k")) == "KeyError: 'k'"


def test_the_reason_of_a_python_worker_is_its_error_and_not_pysparks_introduction() -> None:
    of_task = (
        'Traceback (most recent call last):\n  File "worker.py", line 1, in run\n    import pyarrow\n'
        "ModuleNotFoundError: No module named 'pyarrow'\n"
    )
    message = (
        "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n" + of_task
    )
    for text in (
        of_task,
        message,
        f"{message}\n\nJVM stacktrace:\norg.apache.spark.api.python.PythonException: it failed\n",
    ):
        assert (
            reason(PythonException(text)) == "PythonException: ModuleNotFoundError: No module named 'pyarrow'"
        )
    introduction = "An exception was thrown from the Python worker. Please see the stack trace below."
    assert reason(PythonException(introduction)) == f"PythonException: {introduction}"


def test_lakekeepers_own_errors_keep_their_text() -> None:
    error = NotFound("db.t", "no such table")
    error.__cause__ = Py4JJavaError(REFUSED)
    assert reason(error) == "NotFound: db.t: no such table"


def test_a_jvm_that_is_gone_hides_no_error() -> None:
    class Gone(Java):
        def getClass(self) -> Any:  # noqa: N802 - Java's name
            raise OSError("connection closed")

    assert reason(Py4JJavaError(Gone("a", "b"))) == "Py4JJavaError: An error occurred while calling o68.sql."
    assert reason(Py4JJavaError(None)) == "Py4JJavaError: An error occurred while calling o68.sql."


def test_an_error_converted_without_its_java_exception_keeps_its_name() -> None:
    class ConcurrentAppendException(Exception):
        desc, stackTrace, cause = "files were added", "at ...", None  # noqa: N815 - PySpark's names

    ((name, message),) = causes(ConcurrentAppendException())
    assert name.rpartition(".")[2] == "ConcurrentAppendException"
    assert message == "files were added"
    assert causes(ValueError("no Java")) == ()


def test_a_traceback_has_all_causes_and_no_secret() -> None:
    error = RuntimeError("the second")
    error.__cause__ = OSError("GET https://user:hunter2@store/t: 403")
    shown = traceback_of(error)
    assert shown.splitlines()[0] == "OSError: GET https://***@store/t: 403"
    assert shown.splitlines()[-1] == "RuntimeError: the second"
