"""The history against the tables' own logs, on every kind of table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.units import DAY_MS
from lakekeeper.history.store import HistoryStore
from tests.formats.lakes import Lake
from tests.oracles import delta_log

CANARY = "c4n4ry-7f3e91"


@pytest.fixture(autouse=True)
def history_path(confs: RuntimeConfig, tmp_path: Path) -> Path:
    path = tmp_path / "history.db"
    confs.set("spark.lakekeeper.history.path", str(path))
    return path


def logged(lake: Lake, name: str, version: int) -> dict[str, int]:
    """Data files and their bytes that a commit added and removed, from the table's own log."""
    if lake.iceberg:
        row = lake.spark.sql(f"SELECT summary FROM {name}.snapshots WHERE snapshot_id = {version}").first()
        assert row is not None
        summary = row["summary"]
        keys = ("deleted-data-files", "added-data-files", "removed-files-size", "added-files-size")
        removed, added, removed_bytes, added_bytes = (int(summary.get(key, 0)) for key in keys)
    else:
        actions = delta_log.commit(lake.home(name), version)
        gone = [action["remove"]["size"] for action in actions if "remove" in action]
        new = [action["add"]["size"] for action in actions if "add" in action]
        removed, added, removed_bytes, added_bytes = len(gone), len(new), sum(gone), sum(new)
    return {
        "rewritten_data_files_count": removed,
        "added_data_files_count": added,
        "rewritten_bytes_count": removed_bytes,
        "added_bytes_count": added_bytes,
    }


def merges(table: lk.Table) -> Iterator[lk.Operation]:
    yield from (each for each in table.history().operations if each.operation_status == "done")


def test_history_and_cost_agree_with_the_log_to_the_byte(lake: Lake, confs: RuntimeConfig) -> None:
    name = lake.overlapping(4, 50)
    table = lk.table(lake.spark, name)
    table.recluster("k", policy="full")
    lake.append(name, lake.spark.range(200, 230).selectExpr("id", "1 AS k", "'x' AS v"))
    table.recluster("k", policy="full")
    found = list(merges(table))
    assert [each.operation_type for each in found] == ["recluster", "recluster"]
    for each in found:
        assert each.version_after is not None
        log = logged(lake, name, each.version_after)
        assert {key: each.operation_metrics[key] for key in log} == log
        assert sum(group.bytes_in for group in each.groups) == log["rewritten_bytes_count"]
        assert sum(group.bytes_out for group in each.groups) == log["added_bytes_count"]
        assert sum(group.rows_out for group in each.groups) == each.operation_metrics["added_rows_count"]
    assert [each.operation_metrics["added_rows_count"] for each in found] == [230, 200]
    confs.set("spark.lakekeeper.cost.per-core-hour", "3600")
    confs.set("spark.lakekeeper.cost.per-gb-written", "1000000000")
    (cost,) = table.cost().costs
    assert cost.rewritten_bytes == sum(each.operation_metrics["rewritten_bytes_count"] for each in found)
    assert cost.added_bytes == sum(each.operation_metrics["added_bytes_count"] for each in found)
    assert cost.core_seconds is not None
    assert cost.cost == pytest.approx(cost.core_seconds + cost.added_bytes)


def test_an_operation_records_who_ran_it_on_what_and_why(lake: Lake) -> None:
    name = lake.overlapping(3, 50)
    table = lk.table(lake.spark, name)
    report = table.recluster("k", policy="full")
    (found,) = table.history().operations
    assert (found.table.catalog, found.table.schema) == (name.partition(".")[0], "formats")
    assert str(found.table) == name
    assert (found.version_before, found.version_after) == (report.version_before, report.version_after)
    assert (found.run_ids, found.policies, found.origin) == (report.run_ids, ("full",), "call")
    assert report.run_ids[0].startswith(found.operation_id)
    assert found.cluster_key == "(k)"
    assert [str(group.reason) for group in found.groups] == ["sorts all 3 files"]
    assert found.application_id == lake.spark.sparkContext.applicationId
    assert found.user
    library = "Iceberg" if lake.iceberg else "Delta Lake"
    assert {"lakekeeper", "Spark", library} <= set(found.versions)
    assert found.end_ms >= found.start_ms > 1_600_000_000_000
    assert found.core_seconds is not None
    assert 0 < found.core_seconds < 600


def test_every_verb_is_recorded_and_only_spark_s_own_figures_are_core_seconds(lake: Lake) -> None:
    name = lake.overlapping(3, 50)
    table = lk.table(lake.spark, name)
    table.compact(policy="sizes")
    table.delete("id < 10")
    table.merge_deletes()
    table.vacuum(retention_hours=1000)
    table.compact_metadata()
    table.recluster("k", dry_run=True)
    found = {each.operation_type: each for each in table.history().operations}
    assert set(found) == {"compact", "delete", "merge_deletes", "vacuum", "compact_metadata"}
    assert found["delete"].operation_metrics["deleted_rows_count"] == 10
    assert found["compact"].core_seconds is not None
    assert found["compact_metadata"].core_seconds is None
    assert found["vacuum"].core_seconds is None
    text = str(table.history())
    assert max(map(len, text.splitlines())) <= 80
    frame = table.history().to_frame(lake.spark)
    assert frame.where("operation_type = 'delete'").count() == 1


def test_a_pass_is_recorded_as_automatic_and_idle_ones_do_not_pile_up(
    lake: Lake, confs: RuntimeConfig
) -> None:
    confs.set("spark.lakekeeper.cluster-by", "k")
    name = lake.overlapping(3, 50)
    for _ in range(3):
        assert lk.run(lake.spark, name).exit_code == 0
    kept = [(each.operation_type, each.operation_status, each.origin) for each in merges_and_idle(lake, name)]
    assert kept == [
        ("compact", "idle", "auto"),  # due until the table was reclustered, then never again
        ("merge_deletes", "idle", "auto"),  # three passes, one record
        ("recluster", "done", "auto"),
    ]


def merges_and_idle(lake: Lake, name: str) -> list[lk.Operation]:
    found = lk.table(lake.spark, name).history().operations
    return sorted(found, key=lambda each: (each.operation_type, each.operation_status))


def test_no_secret_of_a_conf_gets_into_the_history(
    lake: Lake, confs: RuntimeConfig, history_path: Path
) -> None:
    """Redacted by its name and, where an error contains only the value, by the value."""
    secret = (
        "spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.s3a.access.key", "spark.sql.catalog.far.credential",
        "spark.sql.catalog.far.token", "spark.sql.catalog.far.jdbc.password", "spark.my.client-secret",
        "spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net", "spark.my.api-key",
    )  # fmt: skip
    for key in secret:
        confs.set(key, CANARY)
    confs.set("spark.sql.catalog.far.uri", f"jdbc:postgresql://host/db?user=me&password={CANARY}")
    confs.set("spark.app.title", f"Bearer {CANARY}{CANARY}")
    name = lake.overlapping(3, 50)
    table = lk.table(lake.spark, name)

    def fail(phase: str, _: object) -> None:
        if phase == "before_commit":
            raise OSError(f"403 for https://me:{CANARY}@host: key {CANARY} is not valid")

    with pytest.raises(OSError, match="403"):
        table.recluster("k", policy="full", observer=fail)
    table.recluster("k", policy="full")
    table.delete(f"v = '{CANARY}'")
    table.vacuum(retention_hours=1000)
    operations = table.history().operations
    assert [each.operation_status for each in operations].count("failed") == 1
    (failed,) = [each for each in operations if each.operation_status == "failed"]
    assert failed.reason.code == Code.FAILED
    assert "is not valid" in str(failed.reason)
    files = list(history_path.parent.glob("history.db*"))
    assert files
    assert not [path for path in files if CANARY.encode() in path.read_bytes()]


def test_core_seconds_of_the_day_delay_the_next_pass(
    lake: Lake, confs: RuntimeConfig, history_path: Path
) -> None:
    confs.set("spark.lakekeeper.auto.verbs", "compact")
    name, other = lake.overlapping(6, 50), lake.overlapping(6, 50)
    [first] = lk.run(lake.spark, name).tables
    [operation] = lake.table(name).history().operations
    assert operation.core_seconds is not None
    assert first.core_seconds == pytest.approx(operation.core_seconds, abs=0.001)
    heavy = replace(operation, operation_id="heavy", core_seconds=500.0)
    HistoryStore(history_path).add(heavy, DAY_MS)
    confs.set("spark.lakekeeper.budget-core-seconds-per-day", "500")
    for _ in range(6):
        lake.append(name, lake.spark.range(50).selectExpr("id", "0 k", "'' v"))
    held, free = lk.run(lake.spark, [name, other]).tables
    assert (held.status, free.status) == ("waiting", "done")
    assert held.reason.code == Code.TABLE_BUDGET_SPENT
    confs.set("spark.lakekeeper.auto.budget-core-seconds-per-day", "500")
    confs.set("spark.lakekeeper.budget-core-seconds-per-day", "100000")
    assert lk.run(lake.spark, name).tables[0].reason.code == Code.FLEET_BUDGET_SPENT
