"""A Trino statement each second beside every verb: lakekeeper's calls land, and Trino's never fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.errors import Unsupported
from lakekeeper_delta.trino_cleanup import FIXED
from tests.neighbours import installation, trino_tables
from tests.neighbours.outcomes import Outcomes
from tests.neighbours.trino_server import Trino, TrinoFailed
from tests.neighbours.trino_tables import FORMAT, KINDS, Shared, Statements

pytestmark = [pytest.mark.neighbours, pytest.mark.delta, pytest.mark.iceberg, pytest.mark.slow]

KNOWN = 8
"""Statements after which a writer counts as steady: its first ones may fail at our commit, as at any commit."""
MOST = 5
"""The limit, as a multiple of the duration of the same call on a quiet table."""
STATEMENT = "a statement (INSERT, UPDATE, DELETE, MERGE)"
AGAINST = "each second, against recluster, compact, merge_deletes"
DELETES_LIVE_FILES = int(installation.TRINO) < FIXED
"""Whether nothing of ours is committed beside this Trino on Delta tables with deletion vectors."""
FILES, SMALL_FILES = 6, 12
TARGETS = {30_000: 60_000, 1_000_000: 2_000_000}
"""Rows of a table → target size of its files, in bytes: about twenty files. Where deletes rewrite files, a statement
rewrites one of them, as on a large table."""
Options = Mapping[str, float]
VERBS: Mapping[str, Callable[[lk.Table, Options], Any]] = {
    "recluster": lambda table, size: table.recluster("k", policy="full", options=size),
    "compact": lambda table, size: table.compact(options={**size, "min-input-files": 2}),
    "merge_deletes": lambda table, size: table.merge_deletes(
        options={**size, "delete-ratio-threshold": 0.0001}
    ),
}


class Writer(threading.Thread):
    """A statement each second until it is stopped; those that Trino did not commit are in ``failed``.

    ``took``: seconds of each statement. One that takes longer than a second is followed by the next at once.
    """

    def __init__(self, table: Shared) -> None:
        super().__init__(name="trino")
        self.statements = Statements(table)
        self.failed: list[str] = []
        self.took: list[float] = []
        self._stop_now = threading.Event()

    def run(self) -> None:
        while not self._stop_now.is_set():
            began = time.monotonic()
            try:
                self.statements.one()
            except TrinoFailed as error:
                self.failed.append(str(error))
            self.took.append(time.monotonic() - began)
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


def timed(table: Shared, verb: str, size: Options) -> tuple[float, int]:
    """Seconds of a call, and its commits."""
    began = time.monotonic()
    report = VERBS[verb](lk.table(table.spark, table.name), size)
    took = time.monotonic() - began
    if not report.commits:
        print(report)
    return took, int(report.commits)


@pytest.mark.parametrize("rows", TARGETS)
@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind != "delta-vectors" or not DELETES_LIVE_FILES]
)
def test_every_call_lands_beside_a_statement_each_second(
    spark: SparkSession, trino: Trino, warehouse: Path, beside: Outcomes, kind: str, rows: int
) -> None:
    table = trino_tables.made(spark, trino, warehouse, kind)
    what = f"{'an INSERT' if table.vectors_hidden else STATEMENT} {AGAINST}; {rows:,} rows"
    with beside.tried(f"Trino {installation.TRINO}", FORMAT[kind], what) as row:
        table.append(FILES, rows // FILES)
        quiet = {}
        verbs = [verb for verb in VERBS if kind != "delta-plain" or verb != "merge_deletes"]
        for verb in verbs:  # the second runs warm
            quiet[verb] = min(_prepared(table, verb, rows)[0] for _ in range(2))
        with Writer(table).running() as writer:
            writer.wait_for(KNOWN)
            raced = {verb: [_prepared(table, verb, rows) for _ in range(3)] for verb in verbs}
        assert table.wrong() == ""
        late = [verb for verb in verbs if max(took for took, _ in raced[verb]) > MOST * quiet[verb]]
        gave_up = [verb for verb in verbs if not all(commits for _, commits in raced[verb])]
        texts = [_times(verb, raced[verb], quiet[verb]) for verb in verbs]
        count = f"{len(writer.took)} statements of {median(writer.took):.1f} s, {len(writer.failed) or 'none'} failed"
        row.outcome = f"{count}, rows exact; {', '.join(texts)}"
    assert (writer.failed, gave_up, late) == ([], [], []), row.outcome


@pytest.mark.skipif(not DELETES_LIVE_FILES, reason="this Trino keeps live files")
def test_nothing_is_committed_beside_a_server_that_deletes_live_files(
    spark: SparkSession, trino: Trino, warehouse: Path, beside: Outcomes
) -> None:
    table = trino_tables.made(spark, trino, warehouse, "delta-vectors")
    with beside.tried(f"Trino {installation.TRINO}", FORMAT[table.kind], f"{STATEMENT} {AGAINST}") as row:
        table.append(FILES, 5_000)
        with Writer(table).running() as writer:
            writer.wait_for(KNOWN)
            for call in VERBS.values():
                with pytest.raises(Unsupported, match="29361"):
                    call(lk.table(spark, table.name), {"target-file-size-bytes": TARGETS[30_000]})
        assert table.wrong() == ""
        row.outcome = (
            f"refused: a statement that loses deletes live files; {len(writer.took)} statements, rows exact"
        )
    assert writer.failed == []


def _times(verb: str, calls: list[tuple[float, int]], quiet: float) -> str:
    landed = sum(commits > 0 for _, commits in calls)
    return f"{verb} {landed} of {len(calls)} in at most {max(took for took, _ in calls) / quiet:.1f} × {quiet:.1f} s"


def _prepared(table: Shared, verb: str, rows: int) -> tuple[float, int]:
    """Time a call that has work: twelve more small files, and for deletes a share of the rows of every file."""
    table.append(SMALL_FILES, rows // 75)
    if verb == "merge_deletes":
        table.delete_some()
    return timed(table, verb, {"target-file-size-bytes": TARGETS[rows]})
