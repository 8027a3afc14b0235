"""Maintenance beside a writer that never pauses: does each call finish its work?

    python -m tests.bench.steady [--kinds delta,jdbc,rest] [--seconds 120] [--every 1.0] [--rows 200000]

A writer appends a hundred rows each ``every`` seconds, as a stream does, and deletes one row in every fifth commit.
Beside it the verbs run in turn until the time is up. Shown for each verb: calls, those that finished their work, the
median and the longest call in seconds, retries, and errors. The rows are counted at the end.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import lakekeeper as lk
from lakekeeper.core.model.reason import Reason
from lakekeeper.errors import reason
from tests.oracles.rest_catalog import rest_catalog

KINDS = ("delta", "jdbc", "rest")
_FILES = 20
_BATCH = 100
_NOW: dict[str, Any] = {
    "retention_hours": 0,
    "allow_unsafe_retention": True,
    "options": {"vacuum.max-share": 1},
}


@dataclass
class Writer:
    """Appends and deletes until it is stopped; ``rows`` is the expected number of rows."""

    spark: Any
    table: str
    every: float
    rows: int
    commits: int = 0
    failed: list[str] = field(default_factory=list)
    slow: float = 0.0
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _write(self) -> None:
        first = 10**9
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            began = time.monotonic()
            due = began + self.every
            number = self.commits + len(self.failed)
            if number % 5 == 4:
                self._run(f"DELETE FROM {self.table} WHERE id = {first + (number - 1) * _BATCH}", -1)
            else:
                at = first + number * _BATCH
                self._run(
                    f"INSERT INTO {self.table} SELECT id, pmod(hash(id), 1000000), md5(string(id)) "
                    f"FROM range({at}, {at + _BATCH}, 1, 1)",
                    _BATCH,
                )
            self.slow = max(self.slow, time.monotonic() - began)

    def _run(self, statement: str, rows: int) -> None:
        try:
            self.spark.sql(statement).collect()
        except Exception as error:  # counted; the bench continues
            self.failed.append(reason(error)[:160])
            return
        self.commits += 1
        self.rows += rows


@dataclass
class Seen:
    """The calls of one verb."""

    seconds: list[float] = field(default_factory=list)
    done: int = 0
    retries: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        calls = len(self.seconds)
        return (
            f"{calls:>6} {self.done:>6} {median(self.seconds):>9.1f} {max(self.seconds):>9.1f} {self.retries:>8}"
            f"   {'; '.join(dict.fromkeys(self.wrong))[:150]}"
        )


def verbs(table: lk.Table) -> Iterator[tuple[str, Callable[[int], Any]]]:
    """Each verb as a call; it receives its number, and returns a report."""
    yield "recluster", lambda _: table.recluster("k", policy="full", options={"depth-threshold": 1})
    yield "compact", lambda _: table.compact(options={"min-input-files": 2})
    yield "delete", lambda n: table.delete(f"id = {n}")
    yield "merge_deletes", lambda _: table.merge_deletes(options={"delete-ratio-threshold": 0.0})
    yield "vacuum", lambda _: table.vacuum(**_NOW)


def finished(report: Any) -> str:
    """Why a call did not finish its work; empty if it did."""
    groups = [g for g in getattr(report, "groups", ()) if g.status not in ("committed", "skipped")]
    if groups:
        return f"{groups[0].status}: {groups[0].detail}"
    ended: Reason | None = getattr(report, "ended", None)
    return str(ended) if ended and {"stopped", "files_remain"} & set(ended.codes) else ""


def beside(
    spark: Any, name: str, rows: int, *, seconds: float, every: float
) -> tuple[dict[str, Seen], Writer]:
    """All verbs in turn beside one writer."""
    writer = Writer(spark, name, every, rows)
    table = lk.table(spark, name)
    seen: dict[str, Seen] = {}
    writer.start()
    try:
        end, round_ = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            for verb, call in verbs(table):
                one = seen.setdefault(verb, Seen())
                began = time.monotonic()
                try:
                    report = call(round_)
                    why = finished(report)
                    one.retries += int(getattr(report, "retries", getattr(report, "conflicts", 0)))
                    writer.rows -= (
                        int(getattr(report, "deleted_rows_count", 0) or 0) if verb == "delete" else 0
                    )
                except Exception as error:  # counted; the bench continues
                    why = f"{type(error).__name__}: {error}"
                one.seconds.append(time.monotonic() - began)
                one.done += not why
                one.wrong += [why] if why else []
            round_ += 1
    finally:
        writer.stop()
    return seen, writer


def make(spark: Any, name: str, rows: int) -> None:
    """A table of files that all span the key."""
    provider = "delta" if name.startswith("spark_catalog.") else "iceberg"
    given = "'delta.enableDeletionVectors'='true'"
    if provider == "iceberg":
        given = "'format-version'='2', 'write.delete.mode'='merge-on-read'"
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.rpartition('.')[0]}")
    spark.sql(f"CREATE TABLE {name} (id BIGINT, k BIGINT, v STRING) USING {provider} TBLPROPERTIES ({given})")
    made = spark.range(0, rows, 1, _FILES).selectExpr(
        "id", "pmod(hash(id), 1000000) AS k", "md5(string(id)) AS v"
    )
    made.writeTo(name).append()


def main() -> None:
    from lakekeeper.spark.session import local_session

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--every", type=float, default=1.0)
    parser.add_argument("--rows", type=int, default=200_000)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (home / "rest").mkdir()
        address = stack.enter_context(rest_catalog(home / "rest"))
        catalogs = {"jdbc": f"jdbc:sqlite:{home}/jdbc.db", "rest": f"rest:{address}"}
        spark = local_session(warehouse=home, catalogs=catalogs)
        spark.conf.set("spark.sql.shuffle.partitions", "4")
        for kind in arguments.kinds.split(","):
            name = f"{'spark_catalog' if kind == 'delta' else kind}.db.t_{kind}"
            make(spark, name, arguments.rows)
            seen, writer = beside(
                spark, name, arguments.rows, seconds=arguments.seconds, every=arguments.every
            )
            held = spark.table(name).count()
            print(f"\n{kind}: {writer.commits} commits of the writer, {len(writer.failed)} failed, "
                  f"the slowest took {writer.slow:.1f} s; rows {held:,}, expected {writer.rows:,}")  # fmt: skip
            print(f"{'verb':<14} {'calls':>6} {'done':>6} {'median s':>9} {'longest s':>9} {'retries':>8}")
            for verb, each in seen.items():
                print(f"{verb:<14} {each}")
            for why in dict.fromkeys(writer.failed):
                print(f"  the writer: {why}")
            if held != writer.rows:
                raise SystemExit(f"{kind}: {held:,} rows where {writer.rows:,} were expected")


if __name__ == "__main__":
    main()
