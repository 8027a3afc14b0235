"""The command line on real tables: results, exit codes, JSON, and one clear line for each error."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.cli import main
from lakekeeper.cli.setup import Setup
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import DeleteReport, GroupResult, MergeReport
from lakekeeper.errors import LakekeeperError


@dataclass(frozen=True)
class Said:
    """The result of a command line."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Exactly one JSON object on stdout."""
        assert self.out.count("\n") == 1
        return json.loads(self.out)


Run = Callable[..., Said]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process, in whose session it runs; output of the JVM is captured too."""

    def called(*arguments: str) -> Said:
        capfd.readouterr()
        code = main(arguments)
        return Said(code, *capfd.readouterr())

    return called


# ------------------------------------------------------------------------------------------------- without a session


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["recluster"], "Missing argument 'TABLE'. See lakekeeper recluster --help"),
        (["recluster", "t", "--finall"], "--final"),
        (["vacuumm"], "No such command"),
        (["plan", "t", "--budget", "ten"], "--budget: got 'ten', expected a size (64MB"),
        (["plan", "t", "--option", "depth"], "--option: got 'depth', expected key=value"),
        (["plan", "t", "--option", "depth-treshold=2"], "did you mean 'depth-threshold'?"),
        (["plan", "t", "--conf", "spark.lakekeeper.depth-treshold=2"], "did you mean 'depth-threshold'?"),
        (["info", "t", "--conf", "spark.lakekeeper.max-level=0"], "from 1 to 1,000"),
        (["recluster", "t", "--option", "depth-threshold=0.5"], "a number of blocks from 1 to"),
        (["recluster", "t", "--option", "target-file-size-bytes=600000000"], "from 1KiB to 400MB"),
        (["recluster", "t", "--option", "max-level=many"], "a whole number of merges"),
        (["recluster", "t", "--policy", "rnages"], "did you mean 'ranges'?"),
        (["compact", "t", "--policy", "sizes,fulll"], "did you mean 'full'?"),
        (["info", "t", "--properties-file", "/no/such/file"], "No such file"),
        (["info", "t", "--catalog", "ice"], "--catalog: got 'ice', expected name=type:uri"),
        (["auto", "--once"], "spark.lakekeeper.auto.tables"),
        (["auto", "--once", "--every", "5m", "t"], "no --every together with --once"),
        (["auto", "--every", "often", "t"], "a time (90s, 15m"),
        (["auto", "--once", "t", "--conf", "spark.lakekeeper.auto.verbs=delete"], "merge_deletes"),
        (
            ["merge-deletes", "t", "--option", "delete-ratio-threshold=2"],
            "a share of a file's rows from 0 to 1",
        ),
        (["merge-deletes", "t", "--final"], "--final"),
        (["advise", "t"], "--workload: got nothing, expected the path of a Spark event log"),
        (["advise", "t", "--workload", "/no/such/log"], "no such file exists"),
        (["advise", "t", "--workload", "pyproject.toml"], "its first line is not JSON"),
        (["plan", "t", "--workload", "pyproject.toml"], "its first line is not JSON"),
        (["plan", "t", "--option", "foo=1"], "lakekeeper: unknown option 'foo'"),
        (["delete", "t"], "--where"),
        (["delete", "t", "--where", " ", "--yes"], "'true' deletes every row"),
        (["delete", "t", "--where", "k = 1"], "lakekeeper: --yes is required because there is no terminal"),
        (
            ["delete", "t", "--where", "k = 1", "--yes", "--option", "commit.retry.num-retires=1"],
            "num-retries'?",
        ),
    ],
)
def test_wrong_usage_is_found_before_spark_starts(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.setattr(
        "lakekeeper.spark.session.local_session", lambda **_: pytest.fail("Spark was started")
    )
    result = run(*arguments)
    assert result.code == 2
    assert said in result.err
    assert result.err.count("\n") == 1
    assert run(*arguments, "--json").json["error"]["message"] in result.err + run(*arguments).err


def test_a_workload_that_cannot_be_saved_is_found_before_spark_starts(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Setup, "table", lambda *_: pytest.fail("Spark was started"))
    (tmp_path / "log").write_text('{"Event": "SparkListenerLogStart"}\n')
    for keep in (tmp_path, tmp_path / "nowhere" / "w.json"):
        result = run("advise", "t", "--workload", str(tmp_path / "log"), "--keep", str(keep))
        assert (result.code, result.out) == (2, "")
        assert f"--keep: got '{keep}', expected a file in a directory that exists" in result.err


def test_no_command_shows_help_and_is_wrong_usage(run: Run) -> None:
    result = run()
    assert (result.code, result.out) == (2, "")
    assert "recluster" in result.err


def test_version_and_help(run: Run) -> None:
    assert run("--version").out.startswith("lakekeeper 0.")
    result = run("recluster", "--help")
    assert (result.code, result.err) == (0, "")
    assert "--dry-run" in result.out


@pytest.mark.spark
def test_a_catalog_that_does_not_answer_is_reported_by_its_last_cause(
    run: Run, confs: RuntimeConfig, tmp_path: Path
) -> None:
    """A typo in the path of a SQLite catalog."""
    given = ["--catalog", f"typo=jdbc:sqlite:{tmp_path}/no/catalog.db"]
    cause = (
        "catalog 'typo' does not respond: SQLiteException: [SQLITE_CANTOPEN] Unable to open the database file"
    )
    said = run("info", "typo.db.t", *given)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(f"lakekeeper: typo.db.t: {cause}")
    assert said.err.count("\n") == 1
    doctor = run("doctor", *given, "--json")
    assert (doctor.code, doctor.json["ok"]) == (1, False)
    (finding,) = [f for f in doctor.json["findings"] if f["name"] == "catalog typo"]
    assert cause in finding["found"]


def test_the_exit_code_of_the_doctor(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    well = run("doctor", "--json")
    assert (well.code, well.json["ok"]) == (0, True)
    monkeypatch.setenv("JAVA_HOME", "/no/such/java")
    ill = run("doctor")
    assert ill.code == 1
    assert "FAIL java" in ill.out
    assert run("doctor", "--json").json["ok"] is False


@pytest.mark.parametrize(
    "error, code, line",
    [
        (LakekeeperError("all is lost"), 1, "lakekeeper: all is lost\n"),
        (
            KeyboardInterrupt(),
            130,
            "lakekeeper: interrupted; the table has only the work that was committed\n",
        ),
        (
            RuntimeError("first\nsecond"),
            1,
            "lakekeeper: RuntimeError: first (set LAKEKEEPER_TRACEBACK=1 for a traceback)\n",
        ),
    ],
)
def test_errors_are_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, line: str
) -> None:
    def broken(**_: Any) -> None:
        raise error

    monkeypatch.setattr("lakekeeper.spark.session.local_session", broken)
    assert run("info", "t") == Said(code, "", line)
    assert run("info", "t", "--json").json["error"]["type"] in (type(error).__name__, "Interrupted")


def test_no_message_shows_a_secret(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for which ``--conf`` was forgotten, and one in the traceback of an unexpected error."""
    said = run("info", "t", "spark.hadoop.fs.s3a.secret.key=wJalr", "--json")
    assert (said.code, "wJalr" in f"{said}") == (2, False)

    def broken(**_: Any) -> None:
        raise RuntimeError("password=wJalr")

    monkeypatch.setattr("lakekeeper.spark.session.local_session", broken)
    monkeypatch.setenv("LAKEKEEPER_TRACEBACK", "1")
    said = run("info", "t")
    assert said.code == 1
    assert "Traceback" in said.err
    assert "wJalr" not in said.err


@pytest.mark.parametrize(
    "statuses, commits, code",
    [
        ([], 0, 0),
        (["committed"], 1, 0),
        (["committed", "failed"], 1, 0),
        (["failed"], 0, 1),
        (["dropped"], 0, 1),
    ],
)
def test_a_run_whose_groups_all_failed_has_failed(
    run: Run, monkeypatch: pytest.MonkeyPatch, statuses: list[str], commits: int, code: int
) -> None:
    groups = tuple(
        GroupResult("g", status, 2, 10, detail=Reason.of(Code.FAILED, error="lost executor"))
        for status in statuses
    )

    class Fake:
        def recluster(self, *_: Any, **__: Any) -> MergeReport:
            return MergeReport("t", "recluster", False, 1, 1, groups=groups, commits=commits, run_ids=("r",))

    monkeypatch.setattr("lakekeeper.cli.setup.Setup.table", lambda *_: Fake())
    result = run("recluster", "t")
    assert result.code == code
    if "failed" in statuses:
        assert "lost executor" in result.out


class AtTerminal:
    """A user at a terminal who types one line."""

    def __init__(self, line: str) -> None:
        self.line = line

    def isatty(self) -> bool:
        return True

    def readline(self, *_: Any) -> str:
        return self.line


@pytest.mark.parametrize(
    "line, more, deleted",
    [
        ("y\n", [], True),
        ("n\n", [], False),
        ("\n", [], False),
        ("", [], False),  # end of input
        ("", ["--yes"], True),
        ("n\n", ["-y"], True),
    ],
)
def test_delete_asks_for_confirmation_at_a_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch, line: str, more: list[str], deleted: bool
) -> None:
    deletes: list[str] = []

    class Fake:
        def delete(self, where: str, **_: Any) -> DeleteReport:
            deletes.append(where)
            return DeleteReport("t", where, 1, 2, 3, 1, run_id="r-1")

    monkeypatch.setattr("lakekeeper.cli.setup.Setup.table", lambda *_: Fake())
    monkeypatch.setattr("sys.stdin", AtTerminal(line))
    result = run("delete", "t", "--where", "k = 1", *more)
    assert ("Delete the rows of t where k = 1? [y/N]" in result.err) is not bool(more)
    assert (result.code, deletes) == ((0, ["k = 1"]) if deleted else (1, []))
    assert ("deleted     3 rows in 1 file" in result.out) is deleted
    if not deleted:
        assert result.err.endswith("lakekeeper: no row was deleted\n")
        assert run("delete", "t", "--where", "k = 1", "--json").json["error"]["type"] == "Aborted"


# ---------------------------------------------------------------------------------------------------- with a session


@pytest.fixture
def table(spark: SparkSession, request: pytest.FixtureRequest, table_name: str) -> Iterator[str]:
    """Six files that all overlap in ``k``; Delta or Iceberg."""
    name = f"{request.param}.cli.{table_name}"
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {request.param}.cli")
    provider = "iceberg" if request.param == "ice" else "delta"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, k INT, m MAP<INT, INT>) USING {provider}")
    for i in range(6):
        made = "id", "cast(pmod(hash(id), 100) AS INT) AS k", "map(1, 2) AS m"
        spark.range(i * 50, (i + 1) * 50).selectExpr(*made).coalesce(1).writeTo(name).append()
    yield name
    spark.sql(f"DROP TABLE {name}")


both = pytest.mark.parametrize(
    "table",
    [
        pytest.param("spark_catalog", marks=[pytest.mark.spark, pytest.mark.delta]),
        pytest.param("ice", marks=[pytest.mark.spark, pytest.mark.iceberg]),
    ],
    indirect=True,
)


@both
def test_info_plan_recluster_and_info_again(run: Run, spark: SparkSession, table: str) -> None:
    before = run("info", table, "--columns", "k", "--json")
    assert (before.code, before.json["average_depth"], before.json["total_partition_count"]) == (0, 6.0, 6)
    shown = run("plan", table, "--columns", "k")
    assert "1 group to merge: 6 files" in shown.out
    planned = run("plan", table, "--columns", "k", "--json", "--quiet")
    assert len(planned.json["tasks"]) == 1
    assert planned.err == ""
    dry = run("recluster", table, "--columns", "k", "--dry-run", "--json")
    assert (dry.code, dry.json["dry_run"], dry.json["commits"]) == (0, True, 0)
    done = run("recluster", table, "--columns", "k", "--final", "--budget", "1GB", "--json")
    assert (done.code, done.json["commits"], done.json["rewritten_data_files_count"]) == (0, 1, 6)
    assert "written 1 of 1" in done.err
    assert f"{table}: committed version" in done.err
    again = run("recluster", table, "--columns", "k")
    assert (again.code, "committed nothing" in again.out) == (0, True)
    assert run("info", table, "--columns", "k", "--json").json["average_depth"] == 1.0
    assert spark.table(table).count() == 300


@both
def test_compact_needs_no_key(run: Run, table: str) -> None:
    done = run("compact", table, "--json", "--option", "min-input-files=3")
    assert (done.code, done.json["added_data_files_count"]) == (0, 1)


@both
def test_a_run_is_undone_where_its_rollback_is_allowed(run: Run, spark: SparkSession, table: str) -> None:
    [made] = run("compact", table, "--json").json["run_ids"]
    planned = run("undo", table, made, "--dry-run", "--json").json
    assert (planned["status"], planned["restored_data_files_count"]) == ("planned", 6)
    if planned["rollback_to"] is not None:
        refused = run("undo", table, made, "--json")
        assert (refused.code, refused.json["error"]["type"]) == (1, "UndoError")
        assert "--allow-rollback" in refused.err
    done = run("undo", table, made, "--allow-rollback")
    assert (done.code, "restored    6 files" in done.out) == (0, True)
    assert run("info", table, "--columns", "k", "--json").json["total_partition_count"] == 6
    assert "was undone before" in run("undo", table, made, "--allow-rollback").out
    assert run("undo", table, "no such run").code == 2


@both
def test_statistics_are_computed_where_they_are_missing(run: Run, spark: SparkSession, table: str) -> None:
    planned = run("compute-statistics", table, "--columns", "k", "--dry-run", "--json")
    assert planned.code == 0
    done = run("compute-statistics", table, "--columns", "k", "--json")
    assert done.json["described_data_files_count"] == planned.json["described_data_files_count"]
    again = run("compute-statistics", table, "--columns", "k")
    assert (again.code, "no statistics were computed" in again.out) == (0, True)
    assert run("compute-statistics", table, "--columns", "nothing").code == 2


@both
def test_rows_expire_only_by_a_rule(run: Run, spark: SparkSession, table: str) -> None:
    count = spark.table(table).count()
    assert run("expire-rows", table, "--yes").code == 2
    rule = ("--option", "lifecycle.column=at", "--option", "lifecycle.retain=30d")
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (at DATE)")
    spark.sql(f"INSERT INTO {table} (id, at) VALUES (9001, DATE'2020-01-01'), (9002, current_date())")
    planned = run("expire-rows", table, *rule, "--dry-run", "--json").json
    assert planned["status"] == "planned"
    done = run("expire-rows", table, *rule, "--yes", "--json").json
    assert (done["status"], done["deleted_rows_count"]) == ("done", 1)
    assert spark.table(table).count() == count + 1
    assert "no row has expired" in run("expire-rows", table, *rule, "--yes").out
    assert run("expire-rows", table, "--option", "lifecycle.retain=1h", "--yes").code == 2


@both
def test_a_key_is_stored_shown_and_removed(run: Run, spark: SparkSession, table: str) -> None:
    tried = run("cluster-by", table, "k,id", "--dry-run")
    assert (tried.code, "none would become (k, id)" in tried.out) == (0, True)
    assert run("cluster-by", table, "hilbert(k, id)", "--json").json["key_after"] == "hilbert(k, id)"
    assert "hilbert(k, id)" in run("info", table).out
    gone = run("cluster-by", table, "none", "--json").json
    assert (gone["key_after"], gone["status"]) == ("", "done")
    assert run("info", table).code == 2
    assert "did you mean 'k'?" in run("cluster-by", table, "kk").err


@both
def test_delete_and_merge_the_deletes(run: Run, spark: SparkSession, table: str) -> None:
    gone = run("delete", table, "--where", "id < 100 AND id % 2 = 0", "--yes", "--json")
    assert (gone.code, gone.json["deleted_rows_count"], gone.json["touched_data_files_count"]) == (0, 50, 2)
    assert f"{table}: committed version {gone.json['version_after']}, 50 rows deleted" in gone.err
    again = run("delete", table, "--where", "id < 100 AND id % 2 = 0", "--yes")
    assert (again.code, "no row matches; nothing was committed" in again.out) == (0, True)
    assert spark.table(table).count() == 250
    # 0 if the delete rewrote the files.
    masked = lk.table(spark, table).blocks().where("deleted_rows > 0").count()
    done = run("merge-deletes", table, "--json")
    assert (done.code, done.json["rewritten_data_files_count"]) == (0, masked)
    assert spark.table(table).count() == 250
    last = run("merge-deletes", table)
    assert (last.code, "committed nothing" in last.out) == (0, True)


@both
@pytest.mark.parametrize(
    "arguments, code, said",
    [
        (["recluster"], 2, "pass columns (on the command line: --columns), or store a key with cluster_by"),
        (["info"], 2, "a cluster key"),
        (["recluster", "--columns", "kk"], 2, "did you mean 'k'?"),
        (["recluster", "--columns", "m"], 2, "m"),
        (["recluster", "--columns", "id,k,id,k,id"], 2, "column"),
        (["recluster", "--columns", "k", "--where", "k IN (SELECT 1)"], 2, "not a subquery"),
        (["recluster", "--columns", "k", "--where", "rand() < 1"], 2, "not deterministic"),
        (["recluster", "--columns", "k", "--where", "cli_udf(k) < 1"], 2, "not a UDF"),
        (["compact", "--where", "kk = 1"], 2, "no column 'kk' (did you mean 'k'?)"),
        (["compact", "--where", "k ="], 2, "it cannot be parsed"),
        (["merge-deletes", "--where", "kk = 1"], 2, "no column 'kk' (did you mean 'k'?)"),
        (["delete", "--yes", "--where", "kk = 1"], 2, "no column 'kk' (did you mean 'k'?)"),
        (["delete", "--yes", "--where", "k < day(now())"], 2, "'now()' depends on the current time"),
        (["delete", "--yes", "--where", "k IN (SELECT 1)"], 2, "not a subquery"),
    ],
)
def test_bad_input_is_one_clear_line_and_writes_nothing(
    run: Run, spark: SparkSession, table: str, arguments: list[str], code: int, said: str
) -> None:
    spark.udf.register("cli_udf", lambda x: x, "int")
    before = _versions(spark, table)
    result = run(arguments[0], table, *arguments[1:])
    assert (result.code, result.out) == (code, "")
    assert said in result.err
    assert result.err.count("\n") == 1
    wrong = run(arguments[0], table, *arguments[1:], "--json")
    assert wrong.json["error"]["type"] == "OptionError"
    assert wrong.json["error"]["message"] in wrong.err
    assert _versions(spark, table) == before


def _versions(spark: SparkSession, table: str) -> int:
    if table.startswith("ice."):
        return spark.table(f"{table}.history").count()
    return spark.sql(f"DESCRIBE HISTORY {table}").count()


@pytest.mark.delta
@pytest.mark.iceberg
def test_an_error_says_what_is_not_a_table(run: Run, spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS spark_catalog.cli")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.db")
    spark.sql("CREATE OR REPLACE VIEW spark_catalog.cli.seen AS SELECT 1 AS k")
    spark.sql("CREATE TABLE IF NOT EXISTS spark_catalog.cli.plain (k INT) USING parquet")
    spark.range(1).createOrReplaceTempView("cli_temporary")
    for name, kind, said in (
        ("ice.db.no_such", "NotFound", "ice.db.no_such: no such table"),
        (str(tmp_path), "NotFound", "no _delta_log"),
        ("cli.seen", "NotFound", "is a view"),
        ("cli_temporary", "NotFound", "is a view"),
        (
            "cli.plain",
            "AdapterError",
            "no adapter for format 'parquet' is installed (installed: delta, iceberg)",
        ),
    ):
        result = run("recluster", name, "--columns", "k", "--json")
        assert (result.code, result.json["error"]["type"]) == (1, kind)
        assert said in result.json["error"]["message"]


@pytest.mark.delta
def test_a_key_without_statistics_says_what_to_set(
    run: Run, spark: SparkSession, tmp_table_path: Path
) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{tmp_table_path}` (a INT, b INT) USING delta "
        "TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'a')"
    )
    spark.sql(f"INSERT INTO delta.`{tmp_table_path}` VALUES (1, 1)")
    result = run("recluster", str(tmp_table_path), "--columns", "b")
    assert result.code == 2
    assert "delta.dataSkippingStatsColumns" in result.err


@pytest.mark.iceberg
def test_an_iceberg_key_without_statistics_says_what_to_set(
    run: Run, spark: SparkSession, table_name: str
) -> None:
    name = f"ice.db.{table_name}"
    spark.sql(
        f"CREATE TABLE {name} (a INT, b INT) USING iceberg "
        "TBLPROPERTIES ('write.metadata.metrics.column.b' = 'none')"
    )
    spark.sql(f"INSERT INTO {name} VALUES (1, 1)")
    result = run("recluster", name, "--columns", "b")
    assert result.code == 2
    assert "write.metadata.metrics" in result.err


@pytest.mark.delta
def test_an_unknown_feature_is_refused_by_name(run: Run, spark: SparkSession, tmp_table_path: Path) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{tmp_table_path}` (k INT) USING delta TBLPROPERTIES ('delta.minWriterVersion' = '7')"
    )
    spark.sql(f"INSERT INTO delta.`{tmp_table_path}` VALUES (1)")
    log = tmp_table_path / "_delta_log"
    protocol = {
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["fromTheFuture"]}
    }
    (log / f"{2:020}.json").write_text(json.dumps(protocol) + "\n")
    result = run("recluster", str(tmp_table_path), "--columns", "k")
    assert result.code == 1
    assert "fromTheFuture" in result.err
    assert result.err.count("\n") == 1
    assert len(list(log.glob("*.json"))) == 3


# ------------------------------------------------------------------------------------------- a process of its own


@pytest.mark.slow
@pytest.mark.spark
def test_json_is_alone_on_stdout_in_a_process_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lakekeeper.cli", "info", "ice.db.none", "--json"]
    command += ["--catalog", f"ice=jdbc:sqlite:{tmp_path}/c.db", "--warehouse", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert said["error"]["type"] == "NotFound"
    assert done.stderr.splitlines()[-1] == f"lakekeeper: {said['error']['message']}"
    assert "Traceback" not in done.stderr
