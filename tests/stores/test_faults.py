"""Faults at calls to S3 and Google Cloud Storage, in a recluster of four groups and in the vacuum after it.

    recluster  c0 c1 c2 ✗ c4 …        ✗  503, a lost answer, half an answer, or a listing from before the run
    vacuum     c0 ✗ c2 …
    each       ✗ c0 ✗ c1 ✗ c2 …       each call fails in this way when it is first made; the client makes it again

Neither loses a row, and neither ends without its work done. Single faults: with a client's usual retries, and with
clients that try nothing twice; a run takes some calls of each, spread over all and other ones each day, and
LAKEKEEPER_SAMPLE=all takes every call. What fails at each call in one run needs the client's retries.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from tests.opening import table_later
from tests.sampling import ALL, VARIABLE
from tests.stores.faulty_s3 import MODES, Call, FaultyS3
from tests.stores.kinds import ON_GCS, ON_S3, TRIED_ONCE, Kind, StoreTable, of_kinds
from tests.stores.outcomes import Outcomes
from tests.stores.rows import NOW, same_rows
from tests.stores.store import Store

_TAKEN = 4
_EVERY = ON_S3 | TRIED_ONCE | ON_GCS


@pytest.fixture(params=list(_EVERY.values()), ids=list(_EVERY))
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


def in_four_groups(table: StoreTable) -> StoreTable:
    """Two commits of four files each, one file in each partition."""
    table.create("id BIGINT, k INT, v STRING, p INT", more="PARTITIONED BY (p)")
    for start in (0, 20):
        rows = table.spark.range(start, start + 20, 1, numPartitions=1)
        made = rows.selectExpr(
            "id", "cast(pmod(id * 37, 101) AS int) AS k", "concat('v', id) AS v", "cast(id % 4 AS int) AS p"
        )
        made.sortWithinPartitions("p").writeTo(table.sql).append()
    return table


def recluster(
    table: StoreTable, relay: FaultyS3 | None = None, at: int = -1, mode: str = ""
) -> lk.MergeReport:
    """Recluster the table, with faults after it was opened: a failed opening loses nothing."""
    opened = table.table()
    if relay is not None:
        relay.arm(table.store, table.prefix, at, mode)
    return opened.recluster("k", policy="full")


def vacuum(table: StoreTable, relay: FaultyS3 | None = None, at: int = -1, mode: str = "") -> VacuumReport:
    """The same for a vacuum, so many hours later that every leftover counts as dead."""
    opened = table_later(table.spark, table.sql, hours=200)
    if relay is not None:
        relay.arm(table.store, table.prefix, at, mode)
    return opened.vacuum(orphans=True, **NOW)


def taken(calls: list[Call]) -> Iterator[tuple[int, str]]:
    """(number, mode) of the faults of this run: each chosen call fails in one of its ways."""
    if os.environ.get(VARIABLE) == ALL:
        yield from ((at, mode) for at, call in enumerate(calls) for mode in call.modes)
        return
    step = max(1, len(calls) // _TAKEN)
    day = datetime.now(timezone.utc).date().toordinal()
    for number, at in enumerate(range(day % step, len(calls), step)):
        yield at, calls[at].modes[(number + day) % len(calls[at].modes)]


@pytest.fixture
def fresh(spark: SparkSession, store: Store, kind: Kind, name: str, alone: None) -> Callable[[], StoreTable]:
    """Makes one table after another."""
    made: list[StoreTable] = []

    def make() -> StoreTable:
        made.append(in_four_groups(kind.table(spark, store, f"{name}_{len(made)}")))
        return made[-1]

    return make


def test_a_fault_in_a_recluster(
    fresh: Callable[[], StoreTable], kind: Kind, relay: FaultyS3, outcomes: Outcomes
) -> None:
    table = fresh()
    assert done(recluster(table, relay)) == 4
    calls, tried = relay.disarm(), 0
    for at, mode in taken(calls):
        table = fresh()
        rows = table.spark_rows()
        report = recluster(table, relay, at, mode)
        seen = relay.disarm()
        about = f"{mode} at call {at}, {seen[at] if at < len(seen) else 'which was not made'}:\n{report}"
        assert done(report) == 4, about
        assert same_rows(table, rows), about
        tried += 1
    outcomes[kind.name, "a fault in a recluster"] = f"{tried} of {len(calls)} calls: all done"


def test_a_fault_in_a_vacuum(
    fresh: Callable[[], StoreTable], kind: Kind, relay: FaultyS3, outcomes: Outcomes
) -> None:
    table = fresh()
    recluster(table)
    expected = vacuum(table, relay).deleted_files_count
    assert expected >= 8
    calls, tried = relay.disarm(), 0
    for at, mode in taken(calls):
        table = fresh()
        recluster(table)
        rows = table.spark_rows()
        report = vacuum(table, relay, at, mode)
        seen = relay.disarm()
        about = f"{mode} at call {at}, {seen[at] if at < len(seen) else 'which was not made'}:\n{report}"
        assert same_rows(table, rows), about
        again = vacuum(table)
        assert again.failed_files_count == 0, f"{about}\n{again}"
        assert table.leftovers() == set(), about
        tried += 1
    outcomes[kind.name, "a fault in a vacuum"] = f"{tried} of {len(calls)} calls: rows kept, all deleted"


@pytest.mark.parametrize("mode", MODES)
@of_kinds(ON_S3 | ON_GCS)
def test_each_call_of_a_recluster_and_a_vacuum_fails_once(
    fresh: Callable[[], StoreTable], kind: Kind, relay: FaultyS3, outcomes: Outcomes, mode: str
) -> None:
    table = fresh()
    rows = table.spark_rows()
    opened = table.table()
    relay.arm_each(table.store, table.prefix, mode)
    report = opened.recluster("k", policy="full")
    recluster_calls, failed = len(relay.disarm()), relay.failed
    assert done(report) == 4, report
    assert same_rows(table, rows)
    opened = table_later(table.spark, table.sql, hours=200)
    relay.arm_each(table.store, table.prefix, mode)
    vacuumed = opened.vacuum(orphans=True, **NOW)
    vacuum_calls, failed_later = len(relay.disarm()), relay.failed
    assert failed + failed_later > 0
    assert same_rows(table, rows), vacuumed
    again = vacuum(table)
    assert again.failed_files_count == 0, f"{vacuumed}\n{again}"
    assert table.leftovers() == set(), f"{vacuumed}\n{again}"
    outcomes[kind.name, f"each call fails once, {mode}: recluster, vacuum"] = (
        f"{failed} of {recluster_calls}, {failed_later} of {vacuum_calls} calls: all done"
    )


def done(report: Any) -> int:
    """Groups that were committed."""
    return sum(group.status == "committed" for group in report.groups)
