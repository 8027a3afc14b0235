"""The time zone of the test's process, as the variable TZ of a driver's machine sets it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def process_zone(name: str) -> Iterator[None]:
    """Python's local time is that of ``name`` inside the block; a JVM that runs already keeps its own."""
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TZ", name)
            time.tzset()
            yield
    finally:
        time.tzset()
