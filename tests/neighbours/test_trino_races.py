"""A Trino statement each second beside every verb: lakekeeper's calls land, and Trino's never fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from tests.neighbours import installation, trino_tables
from tests.neighbours.outcomes import Outcomes
from tests.neighbours.trino_server import Trino, TrinoFailed
from tests.neighbours.trino_tables import FORMAT, KINDS, Shared, Statements

pytestmark = [pytest.mark.neighbours, pytest.mark.delta, pytest.mark.iceberg, pytest.mark.slow]

KNOWN = 8
"""Statements after which a writer counts as steady: its first ones may fail at our commit, as at any commit."""
MOST = 5
"""The limit, as a multiple of the duration of the same call on a quiet table."""
SIZE = {"target-file-size-bytes": 60_000}
"""About twenty files: where deletes rewrite files, a statement rewrites one of them, as on a large table."""
VERBS: Mapping[str, Callable[[lk.Table], Any]] = {
    "recluster": lambda table: table.recluster("k", policy="full", options=SIZE),
    "compact": lambda table: table.compact(options=SIZE | {"min-input-files": 2}),
    "merge_deletes": lambda table: table.merge_deletes(options=SIZE | {"delete-ratio-threshold": 0.0001}),
}


class Writer(threading.Thread):
    """A statement each second until it is stopped; those that Trino did not commit are in ``failed``."""

    def __init__(self, table: Shared) -> None:
        super().__init__(name="trino")
        self.statements = Statements(table)
        self.failed: list[str] = []
        self._stop_now = threading.Event()

    def run(self) -> None:
        while not self._stop_now.is_set():
            began = time.monotonic()
            try:
                self.statements.one()
            except TrinoFailed as error:
                self.failed.append(str(error))
            self._stop_now.wait(max(0.0, began + 1 - time.monotonic()))

    def wait_for(self, statements: int) -> None:
        """Wait until that many statements are done."""
        while self.statements.done < statements and self.is_alive():
            time.sleep(0.1)

    @contextmanager
    def running(self) -> Iterator[Writer]:
        """Until the block ends."""
        self.start()
        try:
            yield self
        finally:
            self._stop_now.set()
            self.join()


def timed(table: Shared, verb: str) -> tuple[float, int]:
    """Seconds of a call, and its commits."""
    began = time.monotonic()
    report = VERBS[verb](lk.table(table.spark, table.name))
    took = time.monotonic() - began
    if not report.commits:
        print(report)
    return took, int(report.commits)


@pytest.mark.parametrize("kind", KINDS)
def test_every_call_lands_beside_a_statement_each_second(
    spark: SparkSession, trino: Trino, warehouse: Path, beside: Outcomes, kind: str
) -> None:
    table = trino_tables.made(spark, trino, warehouse, kind)
    statements = "an INSERT" if table.vectors_hidden else "a statement (INSERT, UPDATE, DELETE, MERGE)"
    what = f"{statements} each second, against recluster, compact, merge_deletes"
    with beside.tried(f"Trino {installation.TRINO}", FORMAT[kind], what) as row:
        table.append(6, 5_000)
        quiet = {}
        verbs = [verb for verb in VERBS if kind != "delta-plain" or verb != "merge_deletes"]
        for verb in verbs:  # the second runs warm
            quiet[verb] = min(_prepared(table, verb)[0] for _ in range(2))
        with Writer(table).running() as writer:
            writer.wait_for(KNOWN)
            raced = {verb: [_prepared(table, verb) for _ in range(3)] for verb in verbs}
        assert table.wrong() == ""
        late = [verb for verb in verbs if max(took for took, _ in raced[verb]) > MOST * quiet[verb]]
        gave_up = [verb for verb in verbs if not all(commits for _, commits in raced[verb])]
        texts = [_times(verb, raced[verb], quiet[verb]) for verb in verbs]
        count = f"{writer.statements.done} statements, {len(writer.failed) or 'none'} failed"
        row.outcome = f"{count}, rows exact; {', '.join(texts)}"
    assert (writer.failed, gave_up, late) == ([], [], []), row.outcome


def _times(verb: str, calls: list[tuple[float, int]], quiet: float) -> str:
    landed = sum(commits > 0 for _, commits in calls)
    return f"{verb} {landed} of {len(calls)} in at most {max(took for took, _ in calls) / quiet:.1f} × {quiet:.1f} s"


def _prepared(table: Shared, verb: str) -> tuple[float, int]:
    """Time a call that has work: four more small files, and for deletes a share of the rows of every file."""
    table.append(4, 200)
    if verb == "merge_deletes":
        table.delete_some()
    return timed(table, verb)
