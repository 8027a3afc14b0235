"""Transactions that the driver reads from the log are those of Delta's own state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakekeeper_delta.transactions import RETENTION, Transaction, transactions
from tests.delta.by_hand import ByHand
from tests.oracles.spark_jobs import no_job


def line(txn: Transaction) -> str:
    """The action as a commit has it."""
    return json.dumps({"txn": {"appId": txn.app, "version": txn.version, "lastUpdated": txn.at_ms}})


def by_delta(table: ByHand) -> list[Transaction]:
    """What Delta's own state has."""
    log = table.scene.log()
    found = log.jvm.python_list(log.latest().snapshot.setTransactions())
    at = (each.lastUpdated() for each in found)
    times = [int(each.get()) if each.isDefined() else None for each in at]
    return [
        Transaction(str(each.appId()), int(each.version()), time)
        for each, time in zip(found, times, strict=True)
    ]


def apart(found: list[Transaction]) -> list[Any]:
    return sorted((each.app, each.version, each.at_ms) for each in found)


@pytest.mark.delta
@pytest.mark.parametrize("checkpoint", ["none", "classic", "v2"])
def test_they_are_those_of_delta(table: ByHand, checkpoint: str) -> None:
    scene = table.scene
    table.commit(table.add("0.parquet", [0]))
    if checkpoint == "v2":
        scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')")
    interval = 100 if checkpoint == "none" else 2
    scene.run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('delta.checkpointInterval' = '{interval}')")
    for batch in range(3):
        for app in ("one", "two", "late")[: 3 if batch == 2 else 2]:
            rows = scene.spark.range(batch, batch + 1).selectExpr("cast(id AS INT) AS k")
            written = rows.write.format("delta").mode("append").option("txnAppId", app)
            written.option("txnVersion", batch).save(str(scene.path))
        log = scene.log()
        found = transactions(log, log.latest())
        assert [(each.app, each.version) for each in sorted(found, key=lambda each: each.app)] == sorted(
            (app, batch) for app in ("one", "two", "late")[: 3 if batch == 2 else 2]
        )
        assert apart(found) == apart(by_delta(table))
    held = log.latest().snapshot.logSegment().checkpointProvider().topLevelFiles()
    assert (int(held.size()) > 0) == (checkpoint != "none")


@pytest.mark.delta
def test_no_spark_job_reads_them(table: ByHand) -> None:
    table.commit(table.add("0.parquet", [0]), json.loads(line(Transaction("one", 7, 5))))
    log = table.scene.log()
    state = log.latest()
    with no_job(table.scene.spark, "transactions"):
        found = transactions(log, state)
    assert found == [Transaction("one", 7, 5)]


@pytest.mark.delta
def test_where_delta_drops_old_ones_they_are_left_to_it(table: ByHand) -> None:
    """``delta.setTransactionRetentionDuration``; Delta ignores the case of its name."""
    name = "delta.setTransactionRetentionDuration"
    assert name.lower() == RETENTION
    table.commit(table.metadata(**{name: "interval 1 day"}), json.loads(line(Transaction("one", 7, 5))))
    log = table.scene.log()
    assert transactions(log, log.latest()) == by_delta(table) == []
