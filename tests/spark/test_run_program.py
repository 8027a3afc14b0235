"""``lakekeeper run``: programs that do not use lakekeeper, on real tables of both formats."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest
from pyspark.sql import SparkSession

from lakekeeper.spark.lines import NEWEST
from lakekeeper.spark.session_confs import catalog_conf, session_confs

pytestmark = [pytest.mark.spark, pytest.mark.delta, pytest.mark.iceberg]

PROGRAM = """
import json, sys, threading
from pyspark.sql import SparkSession

def answer():
    return 42

if __name__ == "__main__":
    spark = SparkSession.builder.appName("shop").getOrCreate()
    home, *more = sys.argv[1:]
    tables = [f"delta.`{home}/orders`", "ice.shop.orders"]
    spark.sql("CREATE NAMESPACE ice.shop")
    for table, provider in zip(tables, ("delta", "iceberg")):
        spark.sql(f"CREATE TABLE {table} (id BIGINT, k INT) USING {provider}")
        for i in range(4):
            rows = spark.range(i * 50, i * 50 + 50).selectExpr("id", "cast(pmod(hash(id), 100) AS INT) AS k")
            rows.coalesce(1).writeTo(table).append()
    said = {
        "more": more, "name": __name__, "file": __file__, "module": sys.modules["__main__"].answer(),
        "loaded": [name for name in sys.modules if name.partition(".")[0] == "lakekeeper"],
        "threads": [t.name for t in threading.enumerate() if "lakekeeper" in t.name],
        "listeners": len(spark._jsparkSession.listenerManager().listListeners()),
    }
    print(json.dumps(said))
    spark.stop()
    sys.exit(3)
"""


@dataclass(frozen=True)
class Shell:
    """Starts programs under ``lakekeeper run``, in a folder of the test."""

    home: Path
    confs: Path

    def run(
        self, program: str, *arguments: str, confs: Mapping[str, str] = MappingProxyType({})
    ) -> subprocess.CompletedProcess[str]:
        conf = [f"--conf={key}={value}" for key, value in confs.items()]
        file = self.home / "program.py"
        file.write_text(program)
        command = [sys.executable, "-m", "lakekeeper.cli", "run", "--properties-file", str(self.confs)]
        return subprocess.run(
            [*command, *conf, "--", str(file), *arguments],
            capture_output=True,
            text=True,
            cwd=self.home,
            check=False,
        )


def orders(spark: SparkSession, home: Path) -> list[tuple[int, int, int]]:
    """Rows, sum of ids and files of the program's two tables, read by another session without its catalog."""
    with closing(sqlite3.connect(home / "ice.db")) as catalog:
        ((metadata,),) = catalog.execute("SELECT metadata_location FROM iceberg_tables").fetchall()
    found = []
    for provider, place in (("delta", str(home / "orders")), ("iceberg", metadata)):
        rows = spark.read.format(provider).load(place).selectExpr("id", "input_file_name() AS file")
        row = rows.selectExpr("count(*)", "sum(id)", "count(DISTINCT file)").first()
        assert row is not None
        found.append((row[0], row[1], row[2]))
    return found


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    catalog = catalog_conf("ice", f"jdbc:sqlite:{tmp_path}/ice.db", tmp_path / "wh")
    confs = session_confs(catalog, {}, spark=NEWEST.spark, warehouse=tmp_path / "wh", small_data=True)
    confs["spark.master"] = "local[2]"
    file = tmp_path / "spark.conf"
    file.write_text("".join(f"{key} {value}\n" for key, value in confs.items()))
    return Shell(tmp_path, file)


def enabled(shell: Shell) -> dict[str, str]:
    given = {
        "auto.enabled": "true",
        "auto.tables": f"{shell.home}/orders,ice.shop.*",
        "auto.every": "1h",
        "cluster-by": "k",
        "queries-per-hour": "100000000",
    }
    return {f"spark.lakekeeper.{key}": value for key, value in given.items()}


def said(done: subprocess.CompletedProcess[str]) -> Mapping[str, object]:
    found: Mapping[str, object] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


BUILT = 'SparkSession.builder.appName("shop").getOrCreate()'


@pytest.mark.slow
@pytest.mark.sampled("maintenance in processes of their own")
@pytest.mark.parametrize("made", [BUILT, "SparkSession(__import__('pyspark').SparkContext())"])
def test_the_tables_of_an_unchanged_program_are_maintained(
    shell: Shell, spark: SparkSession, made: str
) -> None:
    program = PROGRAM.replace(BUILT, made)
    assert made in program
    done = shell.run(program, str(shell.home), "--flag", confs=enabled(shell))
    assert done.returncode == 3, done.stderr
    answer = said(done)
    assert (answer["more"], answer["name"], answer["module"]) == (["--flag"], "__main__", 42)
    assert str(answer["file"]).endswith("program.py")
    assert answer["threads"] == ["lakekeeper-auto"]
    assert orders(spark, shell.home) == [(200, 19_900, 1), (200, 19_900, 1)]


@pytest.mark.slow
def test_with_the_conf_off_nothing_is_loaded(shell: Shell, spark: SparkSession) -> None:
    confs = {**enabled(shell), "spark.lakekeeper.auto.enabled": "false"}
    done = shell.run(PROGRAM, str(shell.home), confs=confs)
    assert done.returncode == 3, done.stderr
    answer = said(done)
    assert (answer["loaded"], answer["threads"], answer["listeners"]) == ([], [], 0)
    assert orders(spark, shell.home) == [(200, 19_900, 4), (200, 19_900, 4)]


@pytest.mark.parametrize(
    "program, code, error",
    [
        ("raise ValueError('wrong')", 1, "ValueError: wrong"),
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit('sorry')", 1, "sorry"),
        ("print(1", 1, "SyntaxError: '(' was never closed"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15, ""),
        ("raise KeyboardInterrupt", -2, "KeyboardInterrupt"),
    ],
)
def test_a_program_ends_as_under_python(shell: Shell, program: str, code: int, error: str) -> None:
    done = shell.run(program)
    file = shell.home / "program.py"
    plain = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout) == (code, "")
    assert error in done.stderr
    assert "run_hook" not in done.stderr or code == -2
    if code == 1:
        assert done.stderr == plain.stderr


def test_annotations_of_a_program_are_objects_unless_it_says_otherwise(shell: Shell) -> None:
    """Spark infers the kind of a pandas UDF from them."""
    program = "def plus_one(x: int) -> int: ...\nprint(plus_one.__annotations__)"
    for text in (program, f"from __future__ import annotations\n{program}"):
        done = shell.run(text)
        file = shell.home / "program.py"
        plain = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True)
        assert done.stdout == plain.stdout, done.stderr


def test_invalid_settings_are_refused_before_the_program_starts(shell: Shell) -> None:
    done = shell.run("print('started')", confs={"spark.lakekeeper.auto.enabled": "true"})
    assert (done.returncode, done.stdout) == (2, "")
    assert "auto.tables" in done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "lakekeeper.cli", "run", "--", str(shell.home / "missing.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "missing.py" in done.stderr


MAKE_DEMO = """
import os
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.sql("CREATE NAMESPACE ice.demo")
tables = (f"delta.`{os.getcwd()}/demo/delta/flights`", "delta"), ("ice.demo.flights", "iceberg")
for table, provider in tables:
    spark.sql(f"CREATE TABLE {table} (id BIGINT, k INT) USING {provider}")
    for i in range(3):
        rows = spark.range(i * 50, i * 50 + 50).selectExpr("id", "cast(id % 7 AS INT) AS k")
        rows.coalesce(1).writeTo(table).append()
"""


@pytest.mark.slow
@pytest.mark.sampled("maintenance in processes of their own")
def test_the_example_conf_maintains_the_tables_that_it_names(tmp_path: Path) -> None:
    """Unchanged, from a folder with the tables of the demo."""
    (tmp_path / "demo").mkdir()
    example = Path(__file__).parents[2] / "conf" / "auto.example.conf"
    confs = {
        **session_confs({}, {}, spark=NEWEST.spark, warehouse=None, small_data=True),
        "spark.master": "local[2]",
    }
    maker = Shell(tmp_path, example).run(MAKE_DEMO, confs=confs)
    assert maker.returncode == 0, maker.stderr
    due = {"cluster-by": "k", "queries-per-hour": "100000000", "commit.quiet-window-ms": "0"}
    command = [sys.executable, "-m", "lakekeeper.cli", "auto", "--once", "--properties-file", str(example)]
    conf = [f"--conf=spark.lakekeeper.{key}={value}" for key, value in due.items()]
    done = subprocess.run([*command, *conf], capture_output=True, text=True, cwd=tmp_path, check=False)
    report = json.loads(done.stdout)
    found = {each["table"]: (each["status"], each["added_data_files_count"]) for each in report["tables"]}
    assert found == {"demo/delta/flights": ("done", 1), "ice.demo.flights": ("done", 1)}, done.stderr
    assert done.returncode == 0
