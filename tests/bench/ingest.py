"""Real tables under a stream of commits: bytes that each kind of maintenance rewrites, and files that queries open.

    python -m tests.bench.ingest [--streams wide,late,…] [--formats delta,iceberg] [--policies adaptive,ZORDER,…]
        [--commits 60] [--files 2] [--file-mb 1] [--target-mb MB] [--every 10] [--json FILE]

The six streams of `lakekeeper simulate`, or those of ``tests.bench.inputs``, are written once as Parquet; each
contestant appends the same files to a table of its own and is called after each tenth commit, with the same target
file size (the size of one commit, unless given). The short horizon is the default; ``--commits 200 --files 1`` is a
long one.

    rewritten    bytes of live files that maintenance removed, per byte ingested
    point, 1%    files that a query of one key, or of 1% of the data, opens: from the bounds in the log, after every
                 commit, averaged over time; and MB of those files
    deletes      delete files (Delta: deletion vectors) that a query of one key opens besides
    CPU          seconds per MB rewritten: of the tasks that read data (merge), of all tasks (including reads of logs),
                 of the whole JVM. The last table has them over all streams, relative to each format's own sort
    memory       the peak execution memory of the tasks of one stage
    largest      the most MB that one call rewrote

Before any figure counts, rows are compared with the input: by Spark (count, and an order-independent hash), and by
Arrow on the files in the log.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import functions as F

from lakekeeper.core.simulation.commit_streams import STREAMS
from lakekeeper.core.simulation.query_sampler import Probe
from lakekeeper.core.text.formatting import table
from tests.bench.contestants import Bench, Contestant, confs_of, contestants
from tests.bench.inputs import Inputs, write_inputs
from tests.bench.logs import DeltaLog, IcebergLog, Live, Log, rows_of
from tests.bench.meter import Meter

MB = 1e6
SORTS = {"delta": "OPTIMIZE ZORDER", "iceberg": "sort, rewrite-all"}


@dataclass
class Result:
    """One contestant on one stream."""

    format: str
    name: str
    stream: str
    ingested: int = 0
    rewritten: int = 0
    largest: int = 0
    point_files: float = 0.0
    range_files: float = 0.0
    point_mb: float = 0.0
    range_mb: float = 0.0
    depth_p95: float = 0.0
    deletes: float = 0.0
    merge_seconds: float = 0.0
    task_seconds: float = 0.0
    jvm_seconds: float = 0.0
    peak_bytes: int = 0
    files: int = 0
    seconds: float = 0.0

    @property
    def amplification(self) -> float:
        return self.rewritten / self.ingested

    def per_mb(self, seconds: float) -> float | None:
        return seconds / (self.rewritten / MB) if self.rewritten else None


@dataclass
class Runner:
    """Runs contestants in one session; ``folder`` holds inputs and tables."""

    spark: Any
    folder: Path
    every: int
    made: int = field(default=0)

    def run(self, inputs: Inputs, format_: str, name: str, contestant: Contestant, target: int) -> Result:
        result = Result(format_, name, inputs.stream)
        bench, log = self.table(format_, contestant, target)
        meter, probe, delete_probe = Meter(self.spark), Probe(inputs.arrivals), Probe(inputs.arrivals)
        before: dict[str, Live] = {}
        for commit in range(inputs.commits):
            self.append(bench, inputs.parts(commit), upserts=inputs.upserts)
            live = log.live()
            if commit < inputs.arrivals.present:
                before = live
                continue
            result.ingested += sum(f.bytes for path, f in live.items() if path not in before)
            if (commit + 1) % self.every == 0:
                started = time.monotonic()
                with confs_of(self.spark, contestant.confs(target)), meter.running():
                    contestant.work(bench)
                result.seconds += time.monotonic() - started
                after = log.live()
                gone = sum(f.bytes for path, f in live.items() if path not in after)
                result.rewritten += gone
                result.largest = max(result.largest, gone)
                live = after
            _measure(probe, [(f.lo[0], f.hi[0], f.bytes) for f in live.values()], commit)
            _measure(delete_probe, [(f.lo[0], f.hi[0], f.deletes) for f in live.values()], commit)
            before = live
        self._gate(bench, inputs, before, f"{format_}, {name}, {inputs.stream}")
        course = probe.course()
        result.point_files, result.range_files = float(course.depth.mean()), float(course.range_files.mean())
        result.point_mb, result.range_mb = (
            float(b.mean()) / MB for b in (course.point_bytes, course.range_bytes)
        )
        result.deletes = float(delete_probe.course().point_bytes.mean())
        result.depth_p95, result.files = float(course.depth_p95.mean()), len(before)
        result.merge_seconds, result.task_seconds = meter.merge_seconds, meter.task_seconds
        result.jvm_seconds = meter.jvm_seconds
        result.peak_bytes = meter.peak_bytes
        self.spark.sql(f"DROP TABLE {bench.name}")
        return result

    def table(self, format_: str, contestant: Contestant, target: int) -> tuple[Bench, Log]:
        self.made += 1
        catalog = "ice" if format_ == "iceberg" else "spark_catalog"
        name = f"{catalog}.bench.t{self.made}"
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.bench")
        properties = dict(contestant.properties)
        if format_ == "iceberg":
            properties |= {
                "write.parquet.compression-codec": "snappy",
                "write.target-file-size-bytes": str(1 << 29),
                "write.distribution-mode": "none",
                "format-version": "2",
                "write.merge.mode": "merge-on-read",
                "write.merge.distribution-mode": "none",
            }
        else:
            properties["delta.enableDeletionVectors"] = "true"
        listed = ", ".join(f"'{k}'='{v}'" for k, v in properties.items())
        clause = f"{contestant.clause} TBLPROPERTIES ({listed})" if listed else contestant.clause
        self.spark.sql(f"CREATE TABLE {name} (k double, id bigint, payload string) USING {format_} {clause}")
        if format_ == "iceberg":
            return Bench(self.spark, name, target), IcebergLog(
                self.folder / "ice" / "bench" / f"t{self.made}"
            )
        return Bench(self.spark, name, target), DeltaLog(self.folder / "bench.db" / f"t{self.made}")

    def append(self, bench: Bench, parts: list[str], *, upserts: bool = False) -> None:
        """One commit, one file for each part; with ``upserts`` its rows replace those with the same keys."""
        bench.commits += 1
        frames = [self.spark.read.parquet(part).coalesce(1) for part in parts]
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.unionAll(frame)
        if upserts:
            whole.createOrReplaceTempView("fresh")
            self.spark.sql(
                f"MERGE INTO {bench.name} t USING fresh s ON t.k = s.k "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            ).collect()
            return
        whole.writeTo(bench.name).append()

    def _gate(self, bench: Bench, inputs: Inputs, live: Mapping[str, Live], what: str) -> None:
        """Two readers compare the table's rows with the input; a difference ends the program."""
        given = self.spark.read.parquet(str(inputs.folder / "*"))
        found = _hash(self.spark.table(bench.name))
        if inputs.upserts:
            wanted = _hash(
                given.groupBy("k")
                .agg(F.max_by(F.struct("id", "payload"), "id").alias("s"))
                .select("k", "s.*")
            )
            if found != wanted:
                raise SystemExit(f"{what}: rows are not those of the input: {found}, expected {wanted}")
            return
        wanted, read = _hash(given), rows_of(dict(live))
        if found != wanted or read != (inputs.rows, inputs.id_sum, inputs.digest):
            raise SystemExit(f"{what}: rows are not those of the input: {found}, expected {wanted}; {read}")


def _hash(frame: Any) -> tuple[int, int]:
    row = frame.selectExpr("count(*)", "bit_xor(xxhash64(k, id, payload))").first()
    return int(row[0]), int(row[1])


def _measure(probe: Probe, files: list[tuple[float, float, int]], commit: int) -> None:
    lo, hi, size = np.array(files, np.float64).T
    probe.measure(lo, hi, size, commit, commit + 1)


def show(results: list[Result]) -> None:
    """A table for each stream, and one of geometric means over the streams that maintenance rewrites."""
    head = ["", "rewritten", "point", "p95", "deletes", "1%", "point MB", "1% MB", "merge s/MB", "task s/MB",
            "JVM s/MB", "memory MB", "largest MB", "files", "wall s"]  # fmt: skip
    right = frozenset(range(1, len(head)))
    for format_ in dict.fromkeys(r.format for r in results):
        mine = [r for r in results if r.format == format_]
        for stream in dict.fromkeys(r.stream for r in mine):
            print(f"\n{format_}, {stream}")
            print(table([head, *(_row(r) for r in mine if r.stream == stream)], right=right))
        print(f"\n{format_}, geometric means over {', '.join(_moving(mine))}")
        print(table([[*head[:4], *head[5:11]], *_means(mine)], right=right))
        print(f"\n{format_}, seconds for each MB rewritten in all streams, as a share of {SORTS[format_]}'s")
        print(table([["", *head[8:11]], *_shares(mine, SORTS[format_])], right=right))


def _row(r: Result) -> list[str]:
    cpu = [r.per_mb(seconds) for seconds in (r.merge_seconds, r.task_seconds, r.jvm_seconds)]
    return [
        r.name,
        f"{r.amplification:.2f}",
        *(f"{v:.2f}" for v in (r.point_files, r.depth_p95, r.deletes, r.range_files)),
        *(f"{v:.1f}" for v in (r.point_mb, r.range_mb)),
        *("-" if v is None else f"{v:.3f}" for v in cpu),
        f"{r.peak_bytes / MB:.0f}",
        f"{r.largest / MB:.0f}",
        str(r.files),
        f"{r.seconds:.0f}",
    ]


def _moving(results: list[Result]) -> list[str]:
    return [s for s in dict.fromkeys(r.stream for r in results) if s != "time"]


def _means(results: list[Result]) -> list[list[str]]:
    """Bytes count as at least 0.01 per byte ingested: a geometric mean cannot contain a zero."""
    rows = []
    for name in dict.fromkeys(r.name for r in results):
        mine = [r for r in results if r.name == name and r.stream in _moving(results)]
        if not mine:
            continue
        values = [
            [max(r.amplification, 0.01), r.point_files, r.depth_p95, r.range_files, r.point_mb, r.range_mb]
            for r in mine
        ]
        means = np.exp(np.log(np.array(values)).mean(axis=0))
        cpu = _cpu(mine)
        rows.append([name, *(f"{v:.2f}" for v in means), *("-" if v is None else f"{v:.3f}" for v in cpu)])
    return rows


def _cpu(results: list[Result]) -> list[float | None]:
    """Seconds of merging, of all tasks and of the JVM per MB rewritten, over all of these."""
    size = sum(r.rewritten for r in results) / MB
    names = ("merge_seconds", "task_seconds", "jvm_seconds")
    return [sum(getattr(r, n) for r in results) / size if size else None for n in names]


def _shares(results: list[Result], sort: str) -> list[list[str]]:
    """The cost of a MB relative to the format's own sort; empty if that did not run."""
    native = _cpu([r for r in results if r.name == sort])
    rows = []
    for name in dict.fromkeys(r.name for r in results):
        ours = _cpu([r for r in results if r.name == name])
        shares = ("-" if not (a and b) else f"{a / b:.2f}" for a, b in zip(ours, native, strict=True))
        rows.append([name, *shares])
    return rows


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--formats", default="delta,iceberg")
    parser.add_argument(
        "--policies",
        default="",
        help="contestants by name, natives by a part of it, comma-separated; all without",
    )
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--files", type=int, default=2, help="files in one commit")
    parser.add_argument("--file-mb", type=float, default=1.0)
    parser.add_argument(
        "--target-mb", type=float, default=0.0, help="target file size; 0: the size of a commit"
    )
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    given = _arguments(arguments)
    from lakekeeper.spark.session import local_session

    words = [w for w in given.policies.split(",") if w]
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        spark = local_session(
            app_name="ingest", warehouse=place, catalogs={"ice": f"jdbc:sqlite:{place}/ice.db"}, master="local[2]",
            conf={"spark.sql.parquet.compression.codec": "snappy"},
        )  # fmt: skip
        spark.sparkContext.setLogLevel("OFF")
        runner = Runner(spark, place, given.every)
        target = int((given.target_mb or given.file_mb * given.files) * MB)
        print(
            f"{given.commits} commits of {given.files} files of {given.file_mb:g} MB, target {target / MB:g} MB, "
            f"maintenance after each {given.every}; {os.cpu_count()} cores {platform.machine()}, Spark {spark.version}"
        )
        for stream in given.streams.split(","):
            inputs = write_inputs(
                place / "inputs" / stream, stream, given.commits, given.files, int(given.file_mb * MB)
            )
            for format_ in given.formats.split(","):
                chosen = {n: c for n, c in contestants(format_).items() if _meant(n, words)}
                if not results or results[-1].format != format_:
                    _warm_up(runner, inputs, format_, chosen, target)
                for name, contestant in chosen.items():
                    results.append(runner.run(inputs, format_, name, contestant, target))
                    print("  ".join([format_, stream, *_row(results[-1])]), file=sys.stderr, flush=True)
        spark.stop()
    show(results)
    if given.json:
        given.json.write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n")


def _meant(name: str, words: list[str]) -> bool:
    """Whether a contestant is selected: a word selects by name, and our own only by their full names."""
    ours = name.startswith("adaptive")
    return not words or any(word == name if ours else word in name for word in words)


def _warm_up(
    runner: Runner, inputs: Inputs, format_: str, chosen: Mapping[str, Contestant], target: int
) -> None:
    """A few commits by every contestant, so that none pays for the JVM's warm-up."""
    few = replace(inputs, commits=min(inputs.commits, 4))
    for contestant in chosen.values():
        bench, _ = runner.table(format_, contestant, target)
        for commit in range(few.commits):
            runner.append(bench, inputs.parts(commit), upserts=inputs.upserts)
        with confs_of(runner.spark, contestant.confs(target)):
            contestant.work(bench)
        runner.spark.sql(f"DROP TABLE {bench.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
