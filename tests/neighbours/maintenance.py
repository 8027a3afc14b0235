"""Maintenance of tables that other engines write, round after round: by lakekeeper, or by the formats' own calls."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.errors import Conflict

PERIOD_SECONDS = 20
_MINUTE = 1 / 60
Step = Callable[[], Any]


def by_lakekeeper(spark: SparkSession, name: str) -> dict[str, Step]:
    """Every verb on a table, and a vacuum that keeps one minute."""
    table = lk.table(spark, name)
    return {
        "merge_deletes": lambda: table.merge_deletes(options={"delete-ratio-threshold": 0.01}),
        "compact": lambda: table.compact(options={"min-input-files": 2}),
        "recluster": lambda: table.recluster("k"),
        "vacuum": lambda: table.vacuum(
            retention_hours=_MINUTE, allow_unsafe_retention=True, options={"vacuum.max-share": 1}
        ),
    }


def by_iceberg(spark: SparkSession, name: str) -> dict[str, Step]:
    """Iceberg's own procedures for the same tasks."""

    def call(statement: str) -> Step:
        return lambda: spark.sql(statement.format(t=f"'{name}'", minute_ago=_minute_ago())).collect()

    rewrite = "CALL ice.system.rewrite_data_files(table => {t}, "
    return {
        "merge_deletes": call(rewrite + "options => map('delete-ratio-threshold', '0.01'))"),
        "compact": call(rewrite + "options => map('min-input-files', '2'))"),
        "recluster": call(
            rewrite + "strategy => 'sort', sort_order => 'k', options => map('rewrite-all', 'true'))"
        ),
        "vacuum": call(
            "CALL ice.system.expire_snapshots(table => {t}, older_than => TIMESTAMP '{minute_ago}')"
        ),
    }


def _minute_ago() -> str:
    return (datetime.now(timezone.utc) - timedelta(minutes=1)).strftime("%Y-%m-%d %H:%M:%S")


class Maintenance:
    """A thread that runs the steps of all tables every 20 seconds until it is stopped.

    ``done`` counts steps that returned, ``worked`` lakekeeper's steps that changed the table, and ``lost`` those that
    lost to a writer. Any other error is in ``failed``.
    """

    def __init__(self, tables: Sequence[dict[str, Step]], period: float = PERIOD_SECONDS) -> None:
        self.done: Counter[str] = Counter()
        self.worked: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.failed: list[str] = []
        self._tables, self._period = tables, period
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="maintenance")

    @contextmanager
    def running(self) -> Iterator[Maintenance]:
        """Until the block ends."""
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            for steps in self._tables:
                for verb, step in steps.items():
                    if not self._stop.is_set():
                        self._take(verb, step)
            self._stop.wait(max(0.0, began + self._period - time.monotonic()))

    def _take(self, verb: str, step: Step) -> None:
        try:
            result = step()
        except Conflict:
            self.lost[verb] += 1
        except Exception as error:  # the run continues, and the test fails at its end
            self.failed.append(f"{verb}: {error}".partition("\n")[0][:500])
        else:
            self.done[verb] += 1
            self.worked[verb] += _worked(result)

    def __str__(self) -> str:
        verbs = [f"{verb} {self._of(verb)}{count}" for verb, count in self.done.items()]
        gave_way = f"; {self.lost.total()} gave way" if self.lost else ""
        return ", ".join(verbs) + gave_way

    def _of(self, verb: str) -> str:
        return f"{self.worked[verb]}/" if self.worked.total() else ""


def _worked(result: object) -> bool:
    """Whether lakekeeper's call committed or expired something; False for the rows of a procedure."""
    return bool(getattr(result, "commits", 0) or getattr(result, "expired_snapshots_count", 0))
