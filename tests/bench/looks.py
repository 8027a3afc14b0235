"""The cost of looking at a table, beside delta-rs and pyiceberg, which look without Spark.

    python -m tests.bench.looks [--files 12,100000] [--runs 5]

Per table: the first look in a warm session, further looks on the same version, a recluster with nothing due, and the
command ``lakekeeper info`` beside a program that only starts the session. A look is ``clustering_information``; that of
delta-rs reads all files with their statistics (``get_add_actions``), that of pyiceberg as well (``inspect.files``).
Shown are medians: wall seconds, and core-seconds of the driver, the JVM and the Python workers.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import lakekeeper as lk
from lakekeeper.core.text.formatting import table as page
from tests.bench import call_scale
from tests.bench.processes import cpu

WARM_UPS = 3
_SESSION = """\
import sys
from pathlib import Path
from lakekeeper.spark.session import local_session
home, catalog = sys.argv[1:]
spark = local_session(app_name="bare", warehouse=Path(home), catalogs={"ice": catalog}, master="local[2]")
spark.range(1).count()
"""
Row = list[str]


def few_files(spark: Any, name: str, files: int) -> None:
    """Append ``files`` files of 1,000 rows that follow one another along the key."""
    for number in range(files):
        spark.range(number * 1_000, (number + 1) * 1_000, 1, 1).selectExpr("id AS k").writeTo(name).append()


def timed(
    run: Callable[[], object], runs: int, before: Callable[[], object] = lambda: None
) -> tuple[float, float]:
    """Median wall and core-seconds of ``run``, each after ``before``."""
    walls, used = [], []
    for turn in range(WARM_UPS + runs):
        before()
        start, wall = cpu(), time.perf_counter()
        run()
        if turn >= WARM_UPS:
            walls.append(time.perf_counter() - wall)
            used.append((cpu() - start).total)
    return median(walls), median(used)


def nothing_due(table: lk.Table) -> None:
    report = table.recluster("k")
    assert not report.changed, report


def rows_of(what: str, ours: tuple[float, float], theirs: tuple[float, float] | None) -> Row:
    shown = [*ours, *(theirs or ())]
    return [what, *(f"{value:.3f}" for value in shown), *[""] * (4 - len(shown))]


def measure(
    name: str, open_ours: Callable[[], lk.Table], open_theirs: Callable[[], Callable[[], object]], runs: int
) -> list[Row]:
    """``open_theirs`` opens the table and looks, and returns a further look."""
    kept = open_ours()
    again = open_theirs()
    first = timed(lambda: open_ours().clustering_information("k"), runs)
    found = [
        rows_of(f"{name}: first look", first, timed(open_theirs, runs)),
        rows_of(
            f"{name}: further look", timed(lambda: kept.clustering_information("k"), runs), timed(again, runs)
        ),
        rows_of(f"{name}: recluster, nothing due", timed(lambda: nothing_due(kept), runs), None),
    ]
    for row in found:
        print(*row, sep="  ", flush=True)
    return found


def delta(spark: Any, home: Path, files: int, runs: int) -> tuple[str, list[Row]]:
    from deltalake import DeltaTable

    place = home / f"delta-{files}"
    if files < call_scale.REAL:
        spark.sql(f"CREATE TABLE d_{files} (k BIGINT) USING delta LOCATION '{place}'")
        few_files(spark, f"spark_catalog.default.d_{files}", files)
    else:
        call_scale.delta(spark, home, files)

    def open_theirs() -> Callable[[], object]:
        opened = DeltaTable(place)

        def look() -> None:
            opened.update_incremental()
            assert opened.get_add_actions(flatten=True).num_rows >= files

        look()
        return look

    return str(place), measure(
        f"Delta, {files:,} files", lambda: lk.table(spark, str(place)), open_theirs, runs
    )


def iceberg(spark: Any, home: Path, files: int, runs: int) -> tuple[str, list[Row]]:
    from pyiceberg.catalog.sql import SqlCatalog

    name = f"ice.db.t{files}"
    if files < call_scale.REAL:
        spark.sql(f"CREATE TABLE {name} (k BIGINT) USING iceberg")
        few_files(spark, name, files)
    else:
        call_scale.iceberg(spark, home, files)
    catalog = SqlCatalog("ice", uri=f"sqlite:///{home}/catalog.db")

    def open_theirs() -> Callable[[], object]:
        opened = catalog.load_table(f"db.t{files}")

        def look() -> None:
            opened.refresh()
            assert opened.inspect.files().num_rows >= files

        look()
        return look

    return name, measure(f"Iceberg, {files:,} files", lambda: lk.table(spark, name), open_theirs, runs)


def command(label: str, name: str, home: Path, runs: int) -> list[Row]:
    """``lakekeeper info`` and a program that starts the same session, in turn: wall seconds."""
    catalog = f"jdbc:sqlite:{home}/catalog.db"
    bare = ["-c", _SESSION, str(home), catalog]
    flags = ["--columns", "k", "--warehouse", str(home), "--master", "local[2]", "--quiet"]
    info = ["-m", "lakekeeper", "info", name, *flags, "--catalog", f"ice={catalog}"]
    walls: dict[str, list[float]] = {"session": [], "info": []}
    for _ in range(runs):
        for what, given in (("session", bare), ("info", info)):
            start = time.perf_counter()
            subprocess.run([sys.executable, *given], check=True, capture_output=True)
            walls[what].append(time.perf_counter() - start)
    row = [
        f"{label}: `lakekeeper info` − session",
        f"{median(walls['info']) - median(walls['session']):.1f}",
        "",
        "",
        "",
    ]
    print(*row, f"(session {median(walls['session']):.1f})", sep="  ", flush=True)
    return [row]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", default="12,100000")
    parser.add_argument("--formats", default="delta,iceberg")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    from lakekeeper.spark.session import local_session

    rows = [["", "ours, s", "core-s", "delta-rs or pyiceberg, s", "core-s"]]
    home = Path(tempfile.mkdtemp(prefix="lakekeeper-looks-"))
    try:
        spark = local_session(
            warehouse=home,
            app_name="looks",
            catalogs={"ice": f"jdbc:sqlite:{home}/catalog.db"},
            master="local[2]",
        )
        spark.sparkContext.setLogLevel("OFF")
        spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.db")
        places = []
        for format_ in given.formats.split(","):
            look = {"delta": delta, "iceberg": iceberg}[format_]
            for files in map(int, given.files.split(",")):
                name, found = look(spark, home, files, given.runs)
                rows += found
                places.append((f"{format_.capitalize()}, {files:,} files", name))
        spark.stop()
        for label, name in places:
            rows += command(label, name, home, given.runs)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(page(rows, right=frozenset(range(1, 5))))


if __name__ == "__main__":
    main()
