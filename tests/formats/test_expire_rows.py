"""Row lifecycle rules on real tables: rows expire by UTC day in every session, and can be restored from the trash."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.errors import OptionError
from tests.formats.lakes import Lake
from tests.observers import once_at


def aged(lake: Lake, kind: str = "timestamp", *, partitioned: str = "") -> str:
    """A file for each age of 200, 100 and 5 days, of ten rows each, and one of NULLs; a rule keeps 90 days."""
    rule = {"lakekeeper.lifecycle.column": "at", "lakekeeper.lifecycle.retain": "90d"}
    name = lake.create(f"id BIGINT, at {kind.upper()}", partitioned=partitioned, properties=rule)
    today = datetime.now(timezone.utc).replace(tzinfo=None)
    for age in (200, 100, 5):
        at = f"cast('{(today - timedelta(days=age)).isoformat(' ')}' as {kind})"
        lake.append(name, lake.spark.range(age, age + 10).selectExpr("id", f"{at} at"))
    lake.append(name, lake.spark.range(10).selectExpr("id + 1000 id", f"cast(null as {kind}) at"))
    return name


def ids(lake: Lake, name: str) -> set[int]:
    return {row["id"] for row in lake.spark.table(name).collect()}


KEPT = {*range(5, 15), *range(1000, 1010)}


@pytest.mark.parametrize("kind, partitioned", [("timestamp", ""), ("timestamp_ntz", ""), ("date", "at")])
def test_whole_files_are_dropped_without_being_read(lake: Lake, kind: str, partitioned: str) -> None:
    name = aged(lake, kind, partitioned=partitioned)
    before = lake.fingerprint(name)
    planned = lake.table(name).expire_rows(dry_run=True)
    assert (planned.due_data_files_count, planned.due_rows_count) == (2, 20)
    done = lake.table(name).expire_rows()
    assert ids(lake, name) == KEPT
    assert (done.deleted_rows_count, done.touched_data_files_count) == (20, 2)
    if kind == "date":
        assert done.unread_data_files_count == done.due_whole_files_count == 2
    assert lake.table(name).expire_rows().status == "idle"
    [entry] = lake.table(name).trash()
    assert (entry.rows, entry.where) == (20, done.where)
    lake.table(name).restore(entry.name)
    assert lake.fingerprint(name) == before


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/Los_Angeles"])
def test_the_limit_is_midnight_in_utc_in_every_session(lake: Lake, confs: RuntimeConfig, zone: str) -> None:
    confs.set("spark.sql.session.timeZone", zone)
    name = lake.create("id BIGINT, at TIMESTAMP")
    midnight = datetime.now(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
    limit = midnight - timedelta(days=30)
    values = ", ".join(
        f"({number}, TIMESTAMP '{(limit + timedelta(microseconds=number)).isoformat(' ')}')"
        for number in (-1, 0, 1)
    )
    lake.spark.sql(f"INSERT INTO {name} VALUES {values}")
    rule = {"lifecycle.column": "at", "lifecycle.retain": "30d"}
    assert lake.table(name).expire_rows(options=rule).deleted_rows_count == 1
    assert ids(lake, name) == {0, 1}


def test_a_rule_is_needed_and_its_column_must_have_an_age(lake: Lake) -> None:
    name = lake.overlapping(2, 10)
    versions = lake.versions(name)
    with pytest.raises(OptionError, match="a rule"):
        lake.table(name).expire_rows()
    for column in ("k", "v", "nothing"):
        with pytest.raises(OptionError):
            lake.table(name).expire_rows(options={"lifecycle.column": column, "lifecycle.retain": "1d"})
    assert lake.versions(name) == versions


def test_a_concurrent_rewrite_is_handled_and_an_append_is_kept(lake: Lake) -> None:
    name = aged(lake)
    late = f"INSERT INTO {name} VALUES (77, current_timestamp())"

    def rivals() -> None:
        lake.table(name).compact(policy="full")
        lake.spark.sql(late)

    lake.table(name).expire_rows(observer=once_at("before_commit", rivals))
    assert ids(lake, name) == KEPT | {77}


def test_a_pass_expires_rows_where_the_operator_lists_the_verb(
    lake: Lake, confs: RuntimeConfig, tmp_path: Path
) -> None:
    confs.set("spark.lakekeeper.history.path", str(tmp_path / "history.db"))
    name, bare = aged(lake), lake.overlapping(2, 10)
    lk.run(lake.spark, name, verbs=["recluster", "vacuum"])
    assert lake.spark.table(name).count() == 40
    [row] = lk.sql(lake.spark, f"CALL lakekeeper.system.expire_rows('{name}', dry_run => true)").collect()
    planned = lake.table(name).expire_rows(dry_run=True)
    assert (row["status"], row["due_data_files_count"]) == ("planned", 2)
    for counted in ("where", "due_bytes_count", "due_whole_files_count", "due_rows_count"):
        assert row[counted] == getattr(planned, counted)
    one, other = lk.run(lake.spark, [name, bare], verbs=["expire_rows"]).tables
    assert (one.status, other.status) == ("done", "idle")
    assert ids(lake, name) == KEPT
    [operation] = [each for each in lake.table(name).history().operations if each.origin == "auto"][:1]
    assert (operation.operation_type, operation.operation_status) == ("expire_rows", "done")
    assert operation.operation_metrics["deleted_rows_count"] == 20
    assert lk.run(lake.spark, name, verbs=["expire_rows"]).tables[0].status == "idle"
