"""Reads of metadata files are repeated at once where they fail.

A client of an object store repeats a failed request, but not without end (S3's stops after some hundred failures in a
row), and it does not repeat the reading of an answer that breaks off. Metadata files never change, so a further read is
safe; an outage is longer than that, and is left to the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

_READS = 3
T = TypeVar("T")


def read_again(read: Callable[[], T]) -> T:
    """The result of the first of three reads that succeeds. Raises the error of the last one."""
    for _ in range(_READS - 1):
        with suppress(Exception):
            return read()
    return read()
