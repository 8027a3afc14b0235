"""TPC-H's lineitem as it would arrive: in order of the receipt date, clustered by ship date, or by part and ship date.

    python -m tests.bench.lineitem [--scale 0.1] [--commits 60] [--formats delta,iceberg] [--keys shipdate,partkey]
        [--policies adaptive,ZORDER,…] [--every 10]

``shipdate``: a line is received 1 to 30 days after it was shipped, so commits are in time order, with jitter.
``partkey``: the key is (partkey, shipdate), which every commit covers entirely. Shown are the files that a query opens,
averaged over time: for 1 % of the ship dates, 1 % of the parts, and a tenth of both. Two readers compare the rows at
the end. Needs the program tpchgen-cli (python -m pip install tpchgen-cli, or the group `bench`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakekeeper.core.text.formatting import table
from tests.bench.contestants import Bench, Contestant, confs_of, contestants
from tests.bench.inputs import fingerprint
from tests.bench.logs import DeltaLog, IcebergLog, Live, Log, rows_of
from tests.bench.meter import Meter
from tests.bench.tpch import lineitem, plain

MB = 1e6
KEYS = {"shipdate": ("l_shipdate",), "partkey": ("l_partkey", "l_shipdate")}
_MEASURED = ("l_partkey", "l_shipdate")
_QUERIES = 200


@dataclass(frozen=True)
class Lines:
    """The table in commits; ``parts`` and ``days`` are the two columns, row by row, in arrival order."""

    folder: Path
    commits: int
    edges: npt.NDArray[np.int64]
    parts: npt.NDArray[np.float64]
    days: npt.NDArray[np.float64]
    bytes: int
    check: tuple[int, int, int]

    def file(self, commit: int) -> str:
        return str(self.folder / f"commit-{commit:04d}.parquet")


def generate(folder: Path, scale: float, commits: int) -> Lines:
    """Generate lineitem, and write it in ``commits`` files in order of the receipt date."""
    rows = plain(pq.read_table(lineitem(folder, scale))).sort_by(
        [(n, "ascending") for n in ("l_receiptdate", "l_orderkey", "l_linenumber")]
    )
    ids = pc.add(pc.multiply(rows["l_orderkey"], 8), pc.cast(rows["l_linenumber"], pa.int64()))
    price = pc.cast(rows["l_extendedprice"], pa.float64())
    rows = rows.append_column("id", ids).append_column("price", price)
    edges = np.linspace(0, len(rows), commits + 1).astype(np.int64)
    place = folder / "commits"
    place.mkdir()
    size = 0
    for i in range(commits):
        to = place / f"commit-{i:04d}.parquet"
        pq.write_table(rows.slice(edges[i], edges[i + 1] - edges[i]), to, compression="snappy")
        size += to.stat().st_size
    id_array, prices = ids.to_numpy(), np.ascontiguousarray(price.to_numpy())
    check = (len(rows), int(id_array.sum()), fingerprint(prices, id_array))
    days = pc.cast(rows["l_shipdate"], pa.int32()).to_numpy().astype(np.float64)
    return Lines(place, commits, edges, rows["l_partkey"].to_numpy().astype(np.float64), days, size, check)


class Questions:
    """Boxes over (part, day), sampled from the existing rows; the files that each would open."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._found: list[list[float]] = []

    def ask(self, live: Mapping[str, Live], commit: int) -> None:
        rows = slice(0, int(self._lines.edges[commit + 1]))
        lo, hi = (np.array([getattr(f, n) for f in live.values()]) for n in ("lo", "hi"))
        sorted_ = [np.sort(self._lines.parts[rows]), np.sort(self._lines.days[rows])]
        every = [(-np.inf, np.inf)] * _QUERIES
        parts, days = (_ranges(column, 0.01) for column in sorted_)
        some_parts, some_days = _ranges(sorted_[0], 0.1), _ranges(sorted_[1], 0.1)[::-1]
        self._found.append(
            [_opened(lo, hi, p, d) for p, d in ((every, days), (parts, every), (some_parts, some_days))]
        )

    def means(self) -> list[float]:
        return [float(v) for v in np.mean(self._found, axis=0)]


def _ranges(column: npt.NDArray[np.float64], share: float) -> list[tuple[float, float]]:
    """Ranges that hold this share of the sorted column, evenly spaced."""
    width = max(1, int(share * len(column)))
    first = np.linspace(0, len(column) - width, _QUERIES).astype(np.int64)
    return list(zip(column[first].tolist(), column[first + width - 1].tolist(), strict=True))


def _opened(lo: Any, hi: Any, parts: list[tuple[float, float]], days: list[tuple[float, float]]) -> float:
    counts = [
        ((lo[:, 0] <= p[1]) & (hi[:, 0] >= p[0]) & (lo[:, 1] <= d[1]) & (hi[:, 1] >= d[0])).sum()
        for p, d in zip(parts, days, strict=True)
    ]
    return float(np.mean(counts))


def _create(spark: Any, lines: Lines, format_: str, one: Contestant, bench: Bench) -> list[str]:
    """Create an empty table; return the names of its columns."""
    frame = spark.read.parquet(lines.file(0))
    ddl = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in frame.schema.fields)
    properties = "TBLPROPERTIES ('write.parquet.compression-codec'='snappy')" if format_ == "iceberg" else ""
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {bench.name.rpartition('.')[0]}")
    spark.sql(f"CREATE TABLE {bench.name} ({ddl}) USING {format_} {one.clause} {properties}")
    return list(frame.columns)


def _append(spark: Any, lines: Lines, bench: Bench, commit: int) -> None:
    bench.commits += 1
    spark.read.parquet(lines.file(commit)).coalesce(1).writeTo(bench.name).append()


def _warm_up(spark: Any, lines: Lines, format_: str, one: Contestant, bench: Bench) -> None:
    """A few uncounted commits and a call, so that no contestant pays for the JVM's warm-up."""
    _create(spark, lines, format_, one, bench)
    for commit in range(min(4, lines.commits)):
        _append(spark, lines, bench, commit)
    with confs_of(spark, one.confs(bench.target)):
        one.work(bench)
    spark.sql(f"DROP TABLE {bench.name}")


def play(
    spark: Any, place: Path, lines: Lines, format_: str, name: str, one: Contestant, bench: Bench, every: int
) -> list[str]:
    """One row of the table."""
    columns = _create(spark, lines, format_, one, bench)
    short = bench.name.rpartition(".")[2]
    log: Log
    log = DeltaLog(place / "bench.db" / short, _MEASURED)
    if format_ == "iceberg":
        log = IcebergLog(place / "ice" / "bench" / short, _MEASURED)
    meter, questions, rewritten, ingested = Meter(spark), Questions(lines), 0, 0
    before: dict[str, Live] = {}
    for commit in range(lines.commits):
        _append(spark, lines, bench, commit)
        live = log.live()
        ingested += sum(f.bytes for path, f in live.items() if path not in before)
        if (commit + 1) % every == 0:
            with confs_of(spark, one.confs(bench.target)), meter.running():
                one.work(bench)
            after = log.live()
            rewritten += sum(f.bytes for path, f in live.items() if path not in after)
            live = after
        questions.ask(live, commit)
        before = live
    sums = ["count(*)", f"bit_xor(xxhash64({', '.join(columns)}))"]
    wanted = spark.read.parquet(str(lines.folder)).selectExpr(*sums).first()
    if (
        spark.table(bench.name).selectExpr(*sums).first() != wanted
        or rows_of(before, ("price", "id")) != lines.check
    ):
        raise SystemExit(f"{format_}, {name}: the rows are not those of the input")
    spark.sql(f"DROP TABLE {bench.name}")
    cpu = (meter.merge_seconds, meter.task_seconds)
    cost = [f"{seconds / (rewritten / MB):.3f}" if rewritten else "-" for seconds in cpu]
    figures = [
        f"{rewritten / ingested:.2f}",
        *(f"{v:.2f}" for v in questions.means()),
        *cost,
        str(len(before)),
    ]
    return [format_, name, *figures]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--formats", default="delta,iceberg")
    parser.add_argument("--keys", default=",".join(KEYS))
    parser.add_argument(
        "--policies", default="", help="parts of contestants' names, comma-separated; default: all"
    )
    given = parser.parse_args(arguments)
    words = [w for w in given.policies.split(",") if w]
    from lakekeeper.spark.session import local_session

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        lines = generate(place, given.scale, given.commits)
        target = lines.bytes // lines.commits
        spark = local_session(
            app_name="lineitem",
            warehouse=place,
            catalogs={"ice": f"jdbc:sqlite:{place}/ice.db"},
            master="local[2]",
        )
        spark.sparkContext.setLogLevel("OFF")
        print(
            f"lineitem, scale {given.scale:g}, {lines.commits} commits of {target / MB:.1f} MB, {lines.check[0]:,} rows"
        )
        head = [
            "format",
            "",
            "rewritten",
            "1 % of dates",
            "1 % of parts",
            "a tenth of both",
            "merge s/MB",
            "task s/MB",
            "files",
        ]
        number = 0
        for key in given.keys.split(","):
            rows = [head]
            for format_ in given.formats.split(","):
                catalog = "ice" if format_ == "iceberg" else "spark_catalog"
                all_ = contestants(format_, KEYS[key])
                chosen = {n: one for n, one in all_.items() if not words or any(w in n for w in words)}
                for one in chosen.values():
                    _warm_up(
                        spark, lines, format_, one, Bench(spark, f"{catalog}.bench.warm", target, KEYS[key])
                    )
                for name, one in chosen.items():
                    number += 1
                    bench = Bench(spark, f"{catalog}.bench.t{number}", target, KEYS[key])
                    rows.append(play(spark, place, lines, format_, name, one, bench, given.every))
                    print("  ".join(rows[-1]), file=sys.stderr, flush=True)
            print(f"\nkey ({', '.join(KEYS[key])})\n{table(rows, right=frozenset(range(2, 9)))}", flush=True)
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
