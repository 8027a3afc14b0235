"""The total benefit of maintenance, after LST-Bench: the summed CPU of appends, deletes, maintenance and queries.

    python -m tests.bench.total [--scale 1] [--rounds 20] [--arrivals generated,receipt] [--formats delta,iceberg]
        [--engines lakekeeper,ZORDER,…] [--sets 1,10,100] [--every 2] [--target-mb 16]

TPC-H's lineitem arrives in rounds of two appends, a delete of a thousandth of the orders and eleven queries, as
generated or by receipt date (``tests/bench/tpch.py``); maintenance runs after each ``every`` rounds, by ship date. One
query set runs per round, and its CPU counts 1, 10 and 100 times. ``lakekeeper`` runs once for each of these rates, and
twice without the rate: as the rounds come, within seconds of one another, and as if one came each hour, since the
default assumes a number of queries per hour. The rounds without maintenance are also played before all engines: the JVM
is warm then, and every answer is compared with theirs. Needs tpchgen-cli (the group ``bench``).
A run of all engines at scale 1 takes hours; ``--engines`` and ``--formats`` pick a slice.

Core-seconds of the driver, the JVM and the Python workers; ``best`` is the total divided by the table's lowest total.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lakekeeper as lk
from lakekeeper.core.config.options import resolve
from lakekeeper.core.text.formatting import table as page
from tests.bench.contestants import Bench, Contestant, confs_of, contestants
from tests.bench.processes import cpu
from tests.bench.tpch import APPENDS, ARRIVALS, Stream, stream

KEY = "l_shipdate"
_QUERIES = 11
_NATIVE = {
    "delta": ("OPTIMIZE", "OPTIMIZE ZORDER", "liquid", "liquid, cubes scaled"),
    "iceberg": ("binpack", "sort, rewrite-all", "sort, defaults"),
}
_PROPERTIES = {
    "delta": "'delta.enableDeletionVectors'='true'",
    "iceberg": "'format-version'='2', 'write.delete.mode'='merge-on-read'",
}
_WARM_UP_ROUNDS = 4
_DEFAULT_TARGET = 512 << 20  # Iceberg's
Answers = list[list[tuple[str, ...]]]


@dataclass(frozen=True)
class Engine:
    """How a table is maintained; ``sets`` are the numbers of query sets that its totals are for, None for all."""

    name: str
    work: Callable[[Bench], object]
    clause: str = ""
    confs: Callable[[int], Mapping[str, object]] = lambda _: {}
    sets: int | None = None


@dataclass
class Spent:
    """Core-seconds by kind of work."""

    append: float = 0.0
    delete: float = 0.0
    maintain: float = 0.0
    query: float = 0.0

    @contextmanager
    def on(self, kind: str) -> Iterator[None]:
        before = cpu().total
        yield
        setattr(self, kind, getattr(self, kind) + cpu().total - before)

    def total(self, sets: int) -> float:
        return self.append + self.delete + self.maintain + sets * self.query


def _ours(rate: str, queries: float | None, *, sets: int | None = None, deletes: bool = False) -> Engine:
    """``queries``: how many a round lakekeeper is given, None for what it assumes by itself."""

    def work(bench: Bench) -> None:
        given: dict[str, Any] = {} if queries is None else {"queries-per-hour": bench.per_hour(queries)}
        if bench.target:
            given["target-file-size-bytes"] = bench.target
        opened = lk.table(bench.spark, bench.name)
        if deletes:
            opened.merge_deletes(options=given)
        opened.recluster(KEY, options=given)

    verbs = "lakekeeper, all verbs" if deletes else "lakekeeper"
    return Engine(f"{verbs} ({rate})", work, sets=sets)


def _native(one: Contestant) -> Callable[[Bench], object]:
    """The format's own call; Iceberg's procedures get their default target unless one is given."""
    return lambda bench: one.work(replace(bench, target=bench.target or _DEFAULT_TARGET))


def engines(format_: str, sets: list[int]) -> list[Engine]:
    """No maintenance first: its answers are those that all others are compared with."""
    natives = contestants(format_, (KEY,))
    found = [Engine("nothing", lambda _: None)]
    for name in _NATIVE[format_]:
        one = natives[name]
        found.append(Engine(name, _native(one), one.clause, one.confs))
    for deletes in (False, True):
        found += [_ours(f"{n} sets", n * _QUERIES, sets=n, deletes=deletes) for n in sets]
        found.append(_ours("rate unknown", None, deletes=deletes))
    found.append(_ours("rate unknown, a round an hour", resolve().workload.queries_per_hour))
    return found


def play(bench: Bench, format_: str, engine: Engine, rows: Stream, every: int) -> tuple[Spent, Answers]:
    """All rounds; their cost, and the answers."""
    spark, spent, answers = bench.spark, Spent(), []
    columns = spark.read.parquet(rows.files(0)[0]).schema
    ddl = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in columns.fields)
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {bench.name.rpartition('.')[0]}")
    spark.sql(
        f"CREATE TABLE {bench.name} ({ddl}) USING {format_} {engine.clause} TBLPROPERTIES ({_PROPERTIES[format_]})"
    )
    for number in range(rows.rounds):
        with spent.on("append"):
            for file in rows.files(number):
                spark.read.parquet(file).coalesce(1).writeTo(bench.name).append()
        with spent.on("delete"):
            spark.sql(f"DELETE FROM {bench.name} WHERE {rows.delete(number)}").collect()
        bench.commits += 1
        if (number + 1) % every == 0:
            confs = engine.confs(bench.target) if bench.target else {}
            with confs_of(spark, confs), spent.on("maintain"):
                engine.work(bench)
        with spent.on("query"):
            for query in rows.queries(number):
                found = spark.sql(query.replace("{t}", bench.name)).collect()
                answers.append([tuple(map(str, row)) for row in found])
    spark.sql(f"DROP TABLE {bench.name}{' PURGE' if format_ == 'iceberg' else ''}")
    return spent, answers


def compare(spark: Any, format_: str, rows: Stream, warm: Stream, given: argparse.Namespace) -> str:
    """The table of one format and one arrival order."""
    sets, words = [int(n) for n in given.sets.split(",")], [w for w in given.engines.split(",") if w]
    target = int(given.target_mb * 1e6)
    catalog = "ice" if format_ == "iceberg" else "spark_catalog"
    results: dict[str, tuple[Engine, Spent]] = {}
    known = engines(format_, sets)
    _, expected = play(
        Bench(spark, f"{catalog}.bench.{rows.folder.name}", target, (KEY,)), format_, known[0], rows, 1
    )
    for number, engine in enumerate(known):
        if number and words and not any(word in engine.name for word in words):
            continue
        name = f"{catalog}.bench.{rows.folder.name}_{number}"
        play(Bench(spark, f"{name}_warm", target, (KEY,)), format_, engine, warm, given.every)
        start = time.monotonic()
        spent, answers = play(Bench(spark, name, target, (KEY,)), format_, engine, rows, given.every)
        if answers != expected:
            wrong = [n for n, (a, b) in enumerate(zip(expected, answers, strict=True)) if a != b]
            raise SystemExit(f"{format_}, {engine.name}: other answers to the queries {wrong}")
        results[engine.name] = engine, spent
        print(
            f"{format_}, {rows.folder.name}, {engine.name}: {time.monotonic() - start:.0f} s, {spent}",
            file=sys.stderr,
            flush=True,
        )
    return _page(results, sets)


def _page(results: Mapping[str, tuple[Engine, Spent]], sets: list[int]) -> str:
    head = ["", "append", "delete", "maintain", "query", *(f"total, {n} sets" for n in sets), "best"]
    best = {n: min(s.total(n) for e, s in results.values() if e.sets in (None, n)) for n in sets}
    lines = [head]
    for name, (engine, spent) in results.items():
        counted = [n for n in sets if engine.sets in (None, n)]
        parts = [f"{x:.0f}" for x in (spent.append, spent.delete, spent.maintain, spent.query)]
        totals = [f"{spent.total(n):.0f}" if n in counted else "" for n in sets]
        lines.append([name, *parts, *totals, " ".join(f"{spent.total(n) / best[n]:.2f}" for n in counted)])
    return page(lines, right=frozenset(range(1, len(head))))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--arrivals", default=",".join(ARRIVALS))
    parser.add_argument("--formats", default="delta,iceberg")
    parser.add_argument("--engines", default="", help="parts of engines' names; default: all")
    parser.add_argument("--sets", default="1,10,100", help="query sets per round")
    parser.add_argument("--every", type=int, default=2, help="rounds between two maintenance runs")
    parser.add_argument("--target-mb", type=float, default=16.0, help="0 for each engine's own default")
    given = parser.parse_args(arguments)
    from lakekeeper.spark.session import local_session

    with tempfile.TemporaryDirectory(prefix="lakekeeper-total-") as folder:
        place = Path(folder)
        catalogs = {"ice": f"jdbc:sqlite:{place}/ice.db"}
        spark = local_session(app_name="total", warehouse=place, catalogs=catalogs, master="local[2]")
        spark.sparkContext.setLogLevel("OFF")
        small = place / "small"
        small.mkdir()
        for arrival in given.arrivals.split(","):
            rows = stream(place, given.scale, given.rounds, arrival)
            warm = stream(small, min(given.scale, 0.05), _WARM_UP_ROUNDS, arrival)
            for format_ in given.formats.split(","):
                print(
                    f"\n{format_}, scale {given.scale:g}, {arrival}: {given.rounds} rounds of {APPENDS} appends, "
                    f"maintained every {given.every} rounds"
                )
                print(compare(spark, format_, rows, warm, given), flush=True)
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
