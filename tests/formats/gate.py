"""A user's statement, stopped between its read and its commit, without a clock.

    statement (a thread)   ── reads ──► pass_gate() waits ──────────────► continues ─► commits
    test                                          ▲ inside()  … act …  release()

The statement's predicate calls a Python function on one row. Its first call synchronizes with the test through two
named pipes; later calls (a retry of the statement) return at once.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_NUMBER = itertools.count()


class Gate:
    """One gate. ``name`` is the SQL function for the predicate: ``… WHERE id = 1 AND name(id)``."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.name = f"gate{next(_NUMBER)}"
        self._arrived, self._go = folder / f"{self.name}-arrived", folder / f"{self.name}-go"
        os.mkfifo(self._arrived)
        os.mkfifo(self._go)
        spark.udf.register(
            self.name, _passing(str(folder / self.name), str(self._arrived), str(self._go)), "boolean"
        )

    def around(self, statement: Callable[[], Any], act: Callable[[], object]) -> Future[Any]:
        """Start ``statement`` in a thread, run ``act`` while it waits, release it; return its finished future."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="user")
        future = pool.submit(statement)
        try:
            with self._arrived.open() as pipe:
                pipe.read()
            try:
                act()
            finally:
                with self._go.open("w") as pipe:
                    pipe.write("go")
        finally:
            pool.shutdown(wait=True)
        return future


def _passing(marker: str, arrived: str, go: str) -> Callable[[Any], bool]:
    def passing(_: Any) -> bool:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return True
        with Path(arrived).open("w") as pipe:  # blocks until the test opens it
            pipe.write("here")
        with Path(go).open() as pipe:
            pipe.read()
        return True

    return passing
