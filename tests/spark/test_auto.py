"""``lakekeeper auto`` with only a conf file, on real tables of both formats."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.cli import main
from lakekeeper.fleet import one_pass, service_settings
from lakekeeper.recording import fleet_memory
from lakekeeper.spark.confs import all_confs
from lakekeeper.spark.session_confs import catalog_conf

pytestmark = [pytest.mark.spark, pytest.mark.delta, pytest.mark.iceberg]


class Fleet:
    """Tables of one test below one folder: Delta by path, Iceberg in a namespace of ``ice``."""

    def __init__(self, spark: SparkSession, home: Path, space: str) -> None:
        self.spark = spark
        self.home = home
        self.space = space
        spark.sql(f"CREATE NAMESPACE {space}")

    def delta(self, name: str, *, files: int = 4, **properties: str) -> str:
        path = str(self.home / name)
        self._make(f"delta.`{path}`", "delta", files, properties)
        return path

    def iceberg(self, name: str, *, files: int = 4, **properties: str) -> str:
        table = f"{self.space}.{name}"
        self._make(table, "iceberg", files, properties)
        return table

    def _make(self, table: str, provider: str, files: int, properties: Mapping[str, str]) -> None:
        given = {"lakekeeper." + key.replace("_", "."): value for key, value in properties.items()}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        clause = f"TBLPROPERTIES ({listed})" if given else ""
        self.spark.sql(f"CREATE TABLE {table} (id BIGINT, k INT) USING {provider} {clause}")
        for i in range(files):
            rows = self.spark.range(i * 50, (i + 1) * 50)
            rows.selectExpr("id", "cast(pmod(hash(id), 100) AS INT) AS k").coalesce(1).writeTo(table).append()

    def rows(self, name: str) -> tuple[Any, ...]:
        table = f"delta.`{name}`" if "/" in name else name
        row = self.spark.sql(f"SELECT count(*), sum(xxhash64(id, k) % 1000003) FROM {table}").first()
        assert row is not None
        return tuple(row)


@pytest.fixture
def fleet(spark: SparkSession, confs: RuntimeConfig, tmp_path: Path, table_name: str) -> Fleet:
    """A fleet; confs that a command sets on the shared session are reset afterwards."""
    return Fleet(spark, tmp_path, f"ice.fleet_{table_name}")


Once = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Once:
    """``lakekeeper auto --once`` with a conf file: exit code, the line of JSON, stderr."""

    def run(confs: Mapping[str, str], *arguments: str) -> tuple[int, dict[str, Any], str]:
        file = tmp_path / "auto.conf"
        lines = [f"spark.lakekeeper.{key}  {value}" for key, value in confs.items()]
        file.write_text("# all that is needed\n" + "\n".join(lines) + "\n")
        capfd.readouterr()
        code = main(["auto", "--once", "--properties-file", str(file), *arguments])
        out, err = capfd.readouterr()
        assert out.count("\n") == 1
        return code, json.loads(out), err

    return run


def in_a_process_of_its_own(
    fleet: Fleet, confs: Mapping[str, str], quick: Mapping[str, str]
) -> tuple[int, dict[str, Any], str]:
    """Like `Once`, in a process of its own that has only the conf file."""
    keys = [key for key in all_confs(fleet.spark) if key.startswith("spark.sql.catalog.ice")]
    lines = [f"{key}={fleet.spark.conf.get(key)}" for key in keys]
    lines += [f"spark.lakekeeper.{key}  {value}" for key, value in confs.items()]
    lines += [f"{key}={value}" for key, value in quick.items()]
    file = fleet.home / "fleet.conf"
    file.write_text("\n".join(lines))
    command = [sys.executable, "-m", "lakekeeper.cli", "auto", "--once", "--properties-file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=fleet.home, check=False)
    for row in fleet.spark.sql(f"SHOW TABLES IN {fleet.space}").collect():
        fleet.spark.sql(f"REFRESH TABLE {fleet.space}.{row.tableName}")
    assert done.stdout.count("\n") == 1, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def by_table(said: Mapping[str, Any]) -> dict[str, str]:
    return {t["table"]: t["status"] for t in said["tables"]}


def reasons_of(said: Mapping[str, Any]) -> dict[str, str]:
    return {t["table"]: t["reason"]["text"] for t in said["tables"]}


@pytest.mark.slow
@pytest.mark.sampled("maintenance in processes of their own")
def test_a_fleet_from_nothing_but_a_conf_file(fleet: Fleet, once: Once, quick_confs: dict[str, str]) -> None:
    needy = [fleet.delta("one"), fleet.delta("two"), fleet.iceberg("one"), fleet.iceberg("two")]
    well = fleet.iceberg("well", files=1)
    off = fleet.delta("off", auto_enabled="false")
    broken = fleet.delta("broken")
    shutil.rmtree(Path(broken) / "_delta_log")
    tables = [*needy[:2], off, broken, f"{fleet.space}.*"]
    confs = {"auto.tables": ", ".join(tables), "auto.enabled": "true", "cluster-by": "k"}
    confs["queries-per-hour"] = "100000000"  # at this rate, seconds of reads pay for a rewrite
    before = {name: fleet.rows(name) for name in [*needy, well, off]}

    code, said, err = in_a_process_of_its_own(fleet, confs, quick_confs)
    expected = {**dict.fromkeys(needy, "done"), well: "idle", off: "off", broken: "failed"}
    assert by_table(said) == expected
    assert (code, said["exit_code"], said["done"], said["failed"]) == (1, 1, 4, 1)
    reasons = reasons_of(said)
    assert all("4 -> 1 file, depth 4 -> 1" in reasons[name] for name in needy)
    assert reasons[well].startswith("recluster is not due: ")
    assert len(reasons[well]) > len(
        "recluster is not due: ; compact is not due: ; merge_deletes is not due: "
    )
    assert reasons[off] == "the table property lakekeeper.auto.enabled is false"
    assert reasons[broken].startswith("NotFound: ")
    assert all(line in err for line in needy)
    assert {name: fleet.rows(name) for name in before} == before
    depths = [lk.table(fleet.spark, name).clustering_depth("k") for name in needy]
    assert depths == [1.0] * 4
    assert said["debt"]["bytes"] > 0
    states = {t["table"]: {k["verb"]: k["state"] for k in t["tasks"]} for t in said["tables"]}
    assert {states[name]["recluster"] for name in needy} == {"done"}
    assert states[well] == {"recluster": "skipped", "compact": "skipped", "merge_deletes": "skipped"}

    code, said, _ = once(confs)
    assert by_table(said) == {**expected, **dict.fromkeys(needy, "idle")}
    assert code == 1  # the broken table remains
    assert not any(t["rewritten_bytes_count"] for t in said["tables"])
    code, said, _ = once({**confs, "auto.tables": f"{fleet.space}.*, {off}"})
    assert (code, said["idle"], said["off"]) == (0, 3, 1)


def test_a_lost_iceberg_manifest_fails_only_its_table(fleet: Fleet, once: Once) -> None:
    bad, good = fleet.iceberg("bad", files=2), fleet.iceberg("good", files=2)
    row = fleet.spark.sql(f"SELECT path FROM {bad}.manifests").first()
    assert row is not None
    lost = Path(row.path.removeprefix("file:"))
    text = lost.read_bytes()
    lost.unlink()
    try:
        code, said, err = once({"auto.tables": f"{good}, {bad}", "cluster-by": "k"})
    finally:  # a table without a readable location would stop the vacuums of later tests
        lost.write_bytes(text)
    assert (code, by_table(said)[good]) == (1, "done")
    assert by_table(said)[bad] == "failed"
    assert bad in err


def test_a_dry_run_writes_nothing(fleet: Fleet, once: Once) -> None:
    table = fleet.delta("dry")
    confs = {"auto.tables": table, "cluster-by": "k"}
    code, said, _ = once(confs, "--dry-run", "--quiet")
    assert (code, reasons_of(said)) == (0, {table: "dry run: 2 groups due"})
    assert len(list((Path(table) / "_delta_log").glob("*.json"))) == 5


def test_a_pattern_that_matches_nothing_is_reported_by_the_exit_code(once: Once, fleet: Fleet) -> None:
    """A pass that maintains no table must not look healthy."""
    pattern = "ice.nothing_is_here_*.*"
    code, said, err = once({"auto.tables": pattern})
    assert (code, said["tables"]) == (1, [])
    assert said["patterns"] == [
        {
            "pattern": pattern,
            "status": "unmatched",
            "reason": {"code": "no_table_matches", "facts": {}, "text": "no table matches"},
            "tables": 0,
        }
    ]
    assert "no table matches" in err


def test_a_catalog_that_is_down_stops_no_other_table(fleet: Fleet, once: Once) -> None:
    """Whether by a pattern or by a plain name; the report shows the catalog's error."""
    table = fleet.iceberg("beside", files=3)
    for key, value in catalog_conf("away", "rest:http://127.0.0.1:9").items():
        fleet.spark.conf.set(key, value)
    patterns = ["away.db.*", f"{fleet.space}.*", "icx.db.*", "ice.dbx_*.*", "a.b.c.*"]
    code, said, err = once({"auto.tables": ",".join([*patterns, "away.db.t"]), "cluster-by": "k"})
    refused = "catalog 'away' does not respond: HttpHostConnectException: Connect to http://127.0.0.1:9"
    assert code == 1
    assert by_table(said) == {table: "done", "away.db.t": "failed"}
    assert reasons_of(said)["away.db.t"].startswith(f"AdapterError: away.db.t: {refused}")
    phases = {p["pattern"]: (p["status"], p["tables"]) for p in said["patterns"]}
    assert phases == dict(
        zip(
            patterns,
            [("failed", 0), ("matched", 1), ("failed", 0), ("unmatched", 0), ("failed", 0)],
            strict=True,
        )
    )
    why = {p["pattern"]: p["reason"]["text"] for p in said["patterns"] if p["reason"]}
    assert why["away.db.*"].startswith(refused)
    assert "no catalog 'icx' (did you mean 'ice'?), only " in why["icx.db.*"]
    assert "catalog.namespace.pattern" in why["a.b.c.*"]
    assert "An error occurred while calling" not in err
    assert all(pattern in err for pattern in patterns if pattern != patterns[1])


def test_lk_run_and_lk_auto_report_a_pattern_that_fails(fleet: Fleet) -> None:
    fleet.spark.conf.set("spark.lakekeeper.cluster-by", "k")
    table = fleet.iceberg("kept", files=3)
    report = lk.run(fleet.spark, ["nowhere.db.*", table])
    assert [(t.table, t.status) for t in report.tables] == [(table, "done")]
    assert [(p.pattern, p.status) for p in report.patterns] == [("nowhere.db.*", "failed")]
    assert report.exit_code == 1
    assert "nowhere.db.*" in str(report)
    with lk.auto(fleet.spark, every="1d", tables=["nowhere.db.*", table]) as service:
        assert service.wait(1, timeout=120)
    assert service.error is None
    assert [t.status for t in service.reports[0].tables] == ["idle"]


def test_every_ends_on_sigterm(fleet: Fleet, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """SIGTERM during a pass: the running commit lands, no other table starts, and the exit code reports it."""
    first, second = fleet.delta("first", files=2), fleet.delta("second", files=2)
    file = tmp_path / "auto.conf"
    file.write_text(f"spark.lakekeeper.auto.tables {first},{second}\nspark.lakekeeper.cluster-by=k\n")
    from lakekeeper.cli.progress import Progress

    phases: list[str] = []

    class Killed(Progress):
        def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
            phases.append(phase)
            if phase == "before_commit":
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakekeeper.cli.setup.Progress", Killed)
        code = main(["auto", "--every", "1d", "--properties-file", str(file)])
    said = json.loads(capfd.readouterr().out)
    assert (code, phases.count("committed")) == (130, 1)
    assert by_table(said) == {first: "done", second: "stopped"}


def test_a_background_thread_maintains_the_tables_of_its_session(fleet: Fleet) -> None:
    table = fleet.iceberg("served", files=3)
    fleet.spark.conf.set("spark.lakekeeper.cluster-by", "k")
    with lk.auto(fleet.spark, every="1d", tables=table) as service:
        assert service.wait(1, timeout=120)
    assert service.error is None
    assert [t.status for t in service.reports[0].tables] == ["done"]
    assert lk.table(fleet.spark, table).clustering_depth("k") == 1.0
    assert lk.run(fleet.spark, table).tables[0].status == "idle"


def test_a_dry_run_shows_the_debt_whatever_the_budget(fleet: Fleet) -> None:
    fleet.spark.conf.set("spark.lakekeeper.cluster-by", "k")
    fleet.spark.conf.set("spark.lakekeeper.budget-bytes", "1")
    needy, well = fleet.iceberg("owing", files=4), fleet.delta("paid", files=1)
    report = lk.run(fleet.spark, [needy, well], dry_run=True)
    owing, paid = report.tables
    total = fleet.spark.sql(f"SELECT sum(file_size_in_bytes) FROM {needy}.files").first()
    assert total is not None
    assert (owing.debt.bytes, paid.debt.bytes) == (total[0], 0)
    assert owing.debt.query_seconds_per_day > 0
    assert report.debt == owing.debt


def test_two_services_do_not_maintain_one_table_at_once(fleet: Fleet, tmp_path: Path) -> None:
    """While one service rewrites, the other finds the lease; afterwards the lease is gone."""
    fleet.spark.conf.set("spark.lakekeeper.cluster-by", "k")
    table = fleet.delta("shared", files=4)
    inner: list[lk.AutoReport] = []

    def meanwhile(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "written" and not inner:
            inner.append(lk.run(fleet.spark, table, verbs=["recluster"]))

    outer = lk.run(fleet.spark, table, verbs=["recluster"], observer=meanwhile)
    assert [t.status for t in outer.tables] == ["done"]
    assert [t.status for t in inner[0].tables] == ["waiting"]
    assert "another service is maintaining the table" in str(inner[0].tables[0].reason)
    assert not list(Path(table).rglob("*service.json"))


def test_failures_are_parked_from_process_to_process_until_released(
    fleet: Fleet, once: Once, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = fleet.iceberg("failing", files=4)
    history = f"spark.lakekeeper.history.path={tmp_path / 'history.db'}"
    confs = {"auto.tables": table, "cluster-by": "k", "auto.verbs": "recluster", "auto.every": "1h"}
    confs |= {"history.path": str(tmp_path / "history.db"), "merge-engine": "spark"}

    def broken(*_: Any) -> Any:
        raise OSError("the disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakekeeper.spark.merge.SparkRunner.merge", broken)
        assert by_table(once(confs)[1]) == {table: "failed"}
    code, said, _ = once(confs)
    assert (code, by_table(said)) == (1, {table: "parked"})
    assert "recluster has failed 1 time since its last success; next attempt in" in reasons_of(said)[table]
    assert "the disk is full" in reasons_of(said)[table]
    assert main(["status", "--conf", history]) == 1
    assert main(["release", table, "--conf", history]) == 0
    capfd.readouterr()
    code, said, _ = once(confs)
    assert (code, by_table(said)) == (0, {table: "done"})


def test_a_pass_reads_only_commits_since_the_previous_pass(fleet: Fleet) -> None:
    """Tables without a new commit start no Spark job, and one with a new commit is maintained as usual."""
    tables = [fleet.delta("known"), fleet.iceberg("known")]
    fleet.spark.conf.set("spark.lakekeeper.cluster-by", "k")
    settings, memory = service_settings(fleet.spark, tables, None), fleet_memory(fleet.spark)

    def one() -> tuple[list[str], int]:
        before = jobs(fleet.spark)
        report = one_pass(fleet.spark, settings, memory=memory)
        return [table.status for table in report.tables], jobs(fleet.spark) - before

    assert one()[0] == ["done", "done"]
    assert one()[0] == ["idle", "idle"]
    assert one() == (["idle", "idle"], 0)
    for name in tables:
        rows = fleet.spark.range(500, 550).selectExpr("id", "cast(pmod(hash(id), 100) AS INT) AS k")
        rows.coalesce(1).writeTo(f"delta.`{name}`" if "/" in name else name).append()
    assert one()[0] == ["done", "done"]
    assert [lk.table(fleet.spark, name).clustering_depth("k") for name in tables] == [1.0, 1.0]


def jobs(spark: SparkSession) -> int:
    """The number of Spark jobs so far."""
    return int(spark._jsparkSession.sparkContext().dagScheduler().numTotalJobs())
