"""The command under spark-submit: only the result is written to stdout.

spark-submit runs Python as a child whose stderr it merges into stdout. What the command writes to stderr (progress,
log, errors) goes to the stderr of the JVM instead.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class JavaErr(io.TextIOBase):
    """Text written to a Java PrintStream; lost once the JVM has ended."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has a variable
        return "utf-8"

    def write(self, text: str) -> int:
        if not isinstance(text, str):  # click writes bytes to find out whether a stream accepts them
            raise TypeError(f"text, not {type(text).__name__}")
        try:
            self._stream.print(text)
        except Exception:  # the JVM ends before Python does
            return 0
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except Exception:  # the JVM has ended
            return


@contextmanager
def separate_stderr() -> Iterator[None]:
    """Under spark-submit, replace ``sys.stderr`` by that of the JVM; elsewhere, change nothing."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        yield
        return
    from lakekeeper.spark.session import submitted_jvm

    before, sys.stderr = sys.stderr, JavaErr(submitted_jvm().java.lang.System.err)
    try:
        yield
    finally:
        sys.stderr = before
