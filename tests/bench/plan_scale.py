"""How planning scales: CPU seconds and memory at 10⁶ blocks in the core, and at 10⁵ real log entries per format.

python tests/bench/plan_scale.py [core] [delta] [iceberg]

The logs are written without data files: planning must not open one.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lakekeeper.core.config.options import resolve
from lakekeeper.core.cost.prediction import explained
from lakekeeper.core.layout.depth import block_depth, depth_curve, overlaps
from lakekeeper.core.layout.ranks import rank_blocks
from lakekeeper.core.model.blocks import Snapshot, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.adaptive import ADAPTIVE
from lakekeeper.core.planning.policies.peaks import PEAKS
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policies.sizes import SIZES
from lakekeeper.core.planning.policy import Env
from lakekeeper.core.units import DAY_MS

MILLION = 1_000_000
FILES = 100_000
WEEK_MS = 7 * DAY_MS


def bounds(count: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Random ranges, ``depth`` deep on average."""
    rng = np.random.default_rng(7)
    domain = 10**12
    lo = rng.integers(0, domain, count)
    return lo, lo + rng.integers(0, 2 * depth * domain // count, count)


def blocks_of(count: int, depth: int, kind: str = "int") -> Snapshot:
    """A snapshot of that many blocks with realistic paths."""
    lo, hi = bounds(count, depth)
    columns = [pa.array(lo), pa.array(hi)]
    if kind == "string":
        columns = [pa.array(np.char.zfill(side.astype(str), 16)) for side in (lo, hi)]
    key = ClusterKey((KeyColumn(("k",), kind, "1"),))
    name = "part-{:05d}-6f1c2b7e-9a53-4a0c-8a11-0d9b7c1e{:07d}-c000.zstd.parquet"
    blocks = make_blocks(
        {
            "path": [name.format(i % 100_000, i) for i in range(count)],
            "rows": np.full(count, 1_000_000),
            "bytes": np.full(count, 128 << 20),
            "delete_id": [""] * count,
            "lo": [columns[0]],
            "hi": [columns[1]],
            "null_count": [np.zeros(count)],
            "exact": [np.ones(count, np.bool_)],
            "added_at": np.arange(count),
        },
        key,
    )
    return Snapshot("bench", "memory", 1, "uuid", "schema", key, blocks)


def cpu(work: Any, rounds: int = 3) -> float:
    """The minimum CPU seconds of a few rounds, of this thread."""
    taken = []
    for _ in range(rounds):
        start = time.thread_time()
        work()
        taken.append(time.thread_time() - start)
    return min(taken)


def core() -> None:
    """10⁶ blocks, no JVM."""
    snapshot = blocks_of(MILLION, 19)
    blocks, options, everything = snapshot.blocks, resolve(), np.arange(MILLION)
    print(f"BlockSet of 10^6 blocks: {blocks.nbytes / 1e6:.0f} MB (bound 400 MB)")
    intervals = rank_blocks(blocks)
    curve = depth_curve(intervals)
    print(f"  mean depth over overlapping points {curve.average:.1f}, max {curve.max}")
    print(f"  ranks                {cpu(lambda: rank_blocks(blocks)):.3f} s CPU")
    print(f"  curve                {cpu(lambda: depth_curve(intervals)):.3f} s")
    print(f"  block depth          {cpu(lambda: block_depth(curve, intervals)):.3f} s")
    print(f"  overlaps             {cpu(lambda: overlaps(intervals)):.3f} s")
    for policy in (RANGES, PEAKS, SIZES):
        taken = cpu(lambda p=policy: p.choose(snapshot, everything, options, Env()))
        groups = sum(type(c).__name__ == "Merge" for c in policy.choose(snapshot, everything, options, Env()))
        print(
            f"  curve and selection by {policy.name:<7} {taken:.3f} s, {groups} groups (bound 0.5 s for ranges)"
        )
    print(f"  whole plan by ranges {cpu(lambda: make_plan(snapshot, [RANGES], options, Env()), 1):.3f} s")
    for depth in (19, 3):  # groups of many blocks, and many groups
        adaptive(snapshot if depth == 19 else blocks_of(MILLION, depth), depth)
    text = blocks_of(MILLION, 19, "string")
    print(f"  ranks of text bounds {cpu(lambda: rank_blocks(text.blocks), 1):.3f} s")


def adaptive(snapshot: Snapshot, depth: int) -> None:
    """The default policy with all overlap due: from the snapshot to the result of ``t.plan()``, and its text."""
    options = resolve({"queries-per-hour": 1_000_000})

    def bare() -> Plan:
        return make_plan(fresh, [ADAPTIVE], options, Env(now_ms=WEEK_MS))

    def whole() -> Plan:
        return explained(bare(), fresh, options, WEEK_MS)

    for what, work in (("plan", bare), ("plan, explained", whole), ("and printed", lambda: str(whole()))):
        taken = []
        for _ in range(3):
            fresh = replace(snapshot)  # a plan's ranks are cached with its snapshot
            taken.append(cpu(work, 1))
        print(f"  adaptive, {depth:>2} deep, {what:<15} {min(taken):.3f} s CPU (bound 2 s)")
    print(f"    {len(whole().tasks):,} groups of {whole().input_files:,} blocks")


def delta_log(root: Path) -> None:
    """A table of 10⁵ files that exist in the log only."""
    fields = [{"name": "k", "type": "long", "nullable": True, "metadata": {}}]
    schema = json.dumps({"type": "struct", "fields": fields})
    meta = {
        "id": "bench",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": [],
        "configuration": {"lakekeeper.cluster-by": "k"},
        "createdTime": 0,
    }
    log = root / "_delta_log"
    log.mkdir(parents=True)
    lo, hi = bounds(FILES, 19)
    with (log / f"{0:020d}.json").open("w") as out:
        out.write(json.dumps({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}) + "\n")
        out.write(json.dumps({"metaData": meta}) + "\n")
        for i, (low, high) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
            stats = {
                "numRecords": 1_000_000,
                "minValues": {"k": low},
                "maxValues": {"k": high},
                "nullCount": {"k": 0},
            }
            add = {
                "path": f"part-{i:05d}-6f1c2b7e-9a53-4a0c-8a11-0d9b7c1e{i:07d}-c000.snappy.parquet",
                "partitionValues": {},
                "size": 128 << 20,
                "modificationTime": i,
                "dataChange": True,
                "stats": json.dumps(stats),
            }
            out.write(json.dumps({"add": add}) + "\n")


def iceberg_log(catalog: str, warehouse: str) -> None:
    """The same in an Iceberg table, through pyiceberg's manifests."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.conversions import to_bytes
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record
    from pyiceberg.types import LongType, NestedField

    tables = SqlCatalog("ice", uri=f"sqlite:///{catalog}", warehouse=warehouse)
    tables.create_namespace("db")
    table = tables.create_table("db.bench", Schema(NestedField(1, "k", LongType(), required=False)))
    lo, hi = bounds(FILES, 19)
    with table.transaction() as change:
        change.set_properties({"lakekeeper.cluster-by": "k"})
        with change.update_snapshot().fast_append() as append:
            for i, (low, high) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
                append.append_data_file(
                    DataFile.from_args(
                        content=DataFileContent.DATA,
                        file_path=f"{table.location()}/data/{i:05d}-6f1c2b7e-9a53-4a0c-8a11-0d9b7c1e{i:07d}.parquet",
                        file_format=FileFormat.PARQUET,
                        partition=Record(),
                        record_count=1_000_000,
                        file_size_in_bytes=128 << 20,
                        column_sizes={1: 100},
                        value_counts={1: 1_000_000},
                        null_value_counts={1: 0},
                        nan_value_counts={},
                        lower_bounds={1: to_bytes(LongType(), low)},
                        upper_bounds={1: to_bytes(LongType(), high)},
                        split_offsets=[4],
                        sort_order_id=None,
                        spec_id=0,
                        equality_ids=None,
                        key_metadata=None,
                    )
                )


def real_metadata(formats: list[str]) -> None:
    """plan() on 10⁵ log entries: wall seconds and peak memory of driver and JVM."""
    import lakekeeper as lk
    from lakekeeper.spark.session import local_session

    home = Path(tempfile.mkdtemp(prefix="lakekeeper-bench-"))
    catalog = home / "catalog.db"
    spark = local_session(
        app_name="plan_scale",
        warehouse=home / "warehouse",
        catalogs={"ice": f"jdbc:sqlite:{catalog}"},
        conf={"spark.driver.memory": "768m"},
        master="local[2]",
    )
    spark.range(1).count()
    for name in formats:
        if name == "delta":
            delta_log(home / "delta")
            table = lk.table(spark, str(home / "delta"))
        else:
            spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.warm")
            iceberg_log(str(catalog), (home / "warehouse").as_uri())
            table = lk.table(spark, "ice.db.bench")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for attempt in ("cold", "warm"):
            start = time.perf_counter()
            plan = table.plan(policy="ranges")  # whatever the files' age
            taken = time.perf_counter() - start
            print(
                f"{name}: plan of {plan.blocks:,} files, {attempt}: {taken:.1f} s (bound 15 s), "
                f"{len(plan.tasks)} groups"
            )
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"{name}: peak of the Python driver {after / 1024:.0f} MB (+{(after - before) / 1024:.0f}), "
              f"of the JVM {_jvm_peak():.0f} MB (bound 1,500 MB together)")  # fmt: skip
    spark.stop()


def _jvm_peak() -> float:
    """Peak resident memory of the Java child process, in MB."""
    peaks = [0.0]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue  # it ended meanwhile
        if text.startswith("Name:\tjava\n"):
            peaks.append(int(text.split("VmHWM:")[1].split()[0]) / 1024)
    return max(peaks)


if __name__ == "__main__":
    names = sys.argv[1:] or ["core", "delta", "iceberg"]
    if "core" in names:
        core()
    if chosen := [name for name in names if name in ("delta", "iceberg")]:
        real_metadata(chosen)
