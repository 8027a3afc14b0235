"""`make demo`: real flights in a Delta and an Iceberg table, before and after a recluster.

Leaves both tables under ``demo/`` to experiment with; another run starts from scratch.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import flights
from flights import Side
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import lakekeeper as lk
from lakekeeper.core.layout.clustering_info import ClusteringInformation
from lakekeeper.core.model.report import MergeReport
from lakekeeper.core.text.formatting import bar, size
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.session import local_session

HOME = Path(__file__).resolve().parent.parent / "demo"
KEY = "tailnum"  # "where has this plane been?": nearly every plane flies nearly every day
QUERIES = (
    "tailnum = 'N725MQ'",
    "tailnum BETWEEN 'N300' AND 'N320'",
    "tailnum >= 'N98'",
)
_CONFS = {
    # Hundreds of small commits on one machine: no shuffle, no adaptive planning, few partitions of the log, and a
    # JVM that compiles quickly rather than well.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC",
}


@dataclass(frozen=True)
class Reading:
    """What Spark says that a query read: files and their bytes, from the scan of its executed plan."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Measurement:
    """The state of one table. ``rows`` is its fingerprint: the number of rows and the sum of their hashes."""

    information: ClusteringInformation
    readings: tuple[Reading, ...]
    rows: tuple[int, int]


@dataclass(frozen=True)
class Story:
    """One table before and after."""

    side: Side
    before: Measurement
    report: MergeReport
    after: Measurement


def main() -> int:
    """Run the demo; 0 if the rows are unchanged and each query reads less."""
    started = time.monotonic()
    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    console.print("[bold]lakekeeper demo[/]: a year of flights from New York, one small commit a day\n")
    os.chdir(HOME.parent)
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    spark = local_session(
        app_name="lakekeeper-demo",
        warehouse=HOME,
        catalogs={"ice": f"jdbc:sqlite:{HOME}/catalog.db"},
        conf=_CONFS,
    )
    spark.sql("CREATE NAMESPACE ice.demo")
    both = flights.sides(HOME)
    _write(spark, both, console)
    stories = [_recluster(spark, side, console) for side in both]
    _compare(console, stories)
    same = _judge(console, stories)
    console.print(f"\nThe whole demo took {time.monotonic() - started:.0f} s.")
    _next(console, both)
    return 0 if same else 1


def _write(spark: SparkSession, both: tuple[Side, ...], console: Console) -> None:
    year = flights.days()
    started = time.monotonic()
    columns = (TextColumn("  {task.description:<15}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks = {side.title: progress.add_task(side.title, total=len(year)) for side in both}
        flights.fill(spark, both, year, lambda title: progress.advance(tasks[title]))
    rows = sum(day.num_rows for day in year)
    took = time.monotonic() - started
    console.print(
        f"Wrote {rows:,} flights into each of two tables: {len(year)} appends of one file each and 4 DELETEs "
        f"of cancelled flights, {took:.0f} s."
    )
    scale = f"files are cut at {size(flights.TARGET_BYTES)} in place of 128 MiB"
    console.print(f"The year is small, so {scale} (lakekeeper.target-file-size-bytes on the tables).")
    console.print("They are taken to be read once a second (lakekeeper.queries-per-hour).\n")


def _recluster(spark: SparkSession, side: Side, console: Console) -> Story:
    """Key, information, plan with reasons, recluster, information."""
    console.rule(f"[bold]{side.title}[/]  {_shown(side.name)}", align="left")
    table = lk.table(spark, side.name)
    table.cluster_by(KEY)
    before = _measure(spark, side)
    console.print(str(table.plan()), soft_wrap=True, markup=False)
    console.print()
    report = table.recluster(final=True)
    console.print(str(report), soft_wrap=True, markup=False)
    console.print()
    return Story(side, before, report, _measure(spark, side))


def _measure(spark: SparkSession, side: Side) -> Measurement:
    information = lk.table(spark, side.name).clustering_information()
    return Measurement(
        information, tuple(_reading(spark, side, query) for query in QUERIES), _rows(spark, side)
    )


def _reading(spark: SparkSession, side: Side, predicate: str) -> Reading:
    """Run a query and ask its own plan what the scan read."""
    frame = spark.sql(f"SELECT count(*), avg(arr_delay) FROM {side.sql} WHERE {predicate}")
    frame.collect()
    jvm = Jvm(spark)
    files = total = 0
    executed = frame._jdf.queryExecution().executedPlan()  # noqa: SLF001 - metrics are not in PySpark's face
    for leaf in jvm.python_list(executed.collectLeaves()):
        metrics = leaf.metrics()
        for count, weight in (("numFiles", "filesSize"), ("resultDataFiles", "totalDataFileSize")):
            if metrics.contains(count):
                files += metrics.apply(count).value()
                total += metrics.apply(weight).value()
    return Reading(files, total)


def _rows(spark: SparkSession, side: Side) -> tuple[int, int]:
    """Rows rendered as text and hashed, in no order: equal for equal rows, whatever the files."""
    hashes = f"SELECT xxhash64(to_json(struct(*))) AS hash FROM {side.sql}"
    row = spark.sql(
        f"SELECT count(*) AS n, sum(cast(hash AS DECIMAL(38))) AS total FROM ({hashes})"
    ).collect()[0]
    return int(row.n), int(row.total)


def _compare(console: Console, stories: list[Story]) -> None:
    console.rule("[bold]Before and after, side by side[/]", align="left")
    grid = Table(box=None, pad_edge=False, padding=(0, 2))
    grid.add_column("")
    for story in stories:
        grid.add_column(f"{story.side.title}\nbefore", justify="right")
        grid.add_column("\nafter", justify="right", style="bold green")
    for label, values in _measures(stories).items():
        grid.add_row(label, *values)
    console.print(grid)
    console.print(
        "\nBlocks per depth (a block is a data file, its depth the most files over one point of it)"
    )
    histograms = Table(box=None, pad_edge=False, padding=(0, 2))
    for story in stories:
        histograms.add_column(f"{story.side.title}, before")
        histograms.add_column("after", style="green")
    shown = [_histogram(p.information) for story in stories for p in (story.before, story.after)]
    histograms.add_row(*shown)
    console.print(histograms)


def _measures(stories: list[Story]) -> dict[str, list[str]]:
    """Label → one text for each column."""
    measurements = [p for story in stories for p in (story.before, story.after)]
    infos = [p.information for p in measurements]
    rows = {
        "data files": [f"{i.total_partition_count:,}" for i in infos],
        "bytes": [size(i.total_bytes) for i in infos],
        "average depth": [f"{i.average_depth:.1f}" for i in infos],
        "deepest point": [f"{i.max_depth:,}" for i in infos],
        "levels": [", ".join(f"L{n}: {c}" for n, c in i.levels.items()) for i in infos],
        "bytes rewritten": [t for s in stories for t in ("", size(s.report.rewritten_bytes_count))],
        "seconds": [t for s in stories for t in ("", f"{s.report.duration_ms / 1000:.1f}")],
        "": [""] * len(infos),
        "[dim]Spark reports as read for[/]": [""] * len(infos),
    }
    for number, query in enumerate(QUERIES):
        read = [p.readings[number] for p in measurements]
        rows[f"  {query}"] = [
            f"{r.files} {'file' if r.files == 1 else 'files'}\n{size(r.bytes)}" for r in read
        ]
    return rows


def _histogram(information: ClusteringInformation) -> str:
    counts: Mapping[str, int] = {k: n for k, n in information.partition_depth_histogram.items() if n}
    top = max(counts.values(), default=1)
    return "\n".join(f"{int(depth):>4} {bar(n, top, 8):<8} {n}" for depth, n in counts.items())


def _judge(console: Console, stories: list[Story]) -> bool:
    """Say whether all is as it should be."""
    prints = {measurement.rows for story in stories for measurement in (story.before, story.after)}
    count, total = stories[0].after.rows
    fewer = all(
        new.files < old.files
        for s in stories
        for old, new in zip(s.before.readings, s.after.readings, strict=True)
    )
    console.print()
    if len(prints) == 1:
        console.print(
            f"[green]✓[/] same rows before and after, in both formats: {count:,} rows, fingerprint {total}"
        )
    else:
        console.print(f"[red]✗ the rows differ: {sorted(prints)}[/]")
    console.print(
        "[green]✓[/] each query reads fewer files" if fewer else "[red]✗ a query reads no fewer files[/]"
    )
    return len(prints) == 1 and fewer


def _next(console: Console, both: tuple[Side, ...]) -> None:
    delta, iceberg = (_shown(side.name) for side in both)
    command = _shown(str(Path(sys.executable).with_name("lakekeeper")))
    catalog = f"--catalog ice=jdbc:sqlite:{_shown(str(HOME / 'catalog.db'))}"
    lines = (
        f"{command} info {delta}",
        f"{command} info {iceberg} {catalog}",
        f"{command} plan {delta} --columns dest",
        f"{command} report {delta} {iceberg} -o demo/report.html {catalog}",
        f"{command} recluster {iceberg} --columns carrier,flight --dry-run {catalog}",
        f"{command} auto --once --properties-file conf/auto.example.conf",
    )
    console.print("\nThe tables are yours to play with:\n")
    for line in lines:
        console.print(f"  {line}", soft_wrap=True, markup=False)


def _shown(path: str) -> str:
    """A path as seen from here, if it is one."""
    relative = os.path.relpath(path) if os.sep in path else path
    return relative if not relative.startswith("..") else path


if __name__ == "__main__":
    sys.exit(main())
