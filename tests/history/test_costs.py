"""Costs: sums by table and verb, money where there is a price, and never zero for unknown costs."""

from __future__ import annotations

import pytest

from lakekeeper.history.costs import Cost, Prices, costs_of, written_bytes
from lakekeeper.history.operation import Operation
from tests.history.operations import operation

CORES, BOTH = Prices(core_hour=0.36), Prices(core_hour=0.36, gb_written=2.0)


def measured(core_seconds: float | None, added: int = 5 * 10**8) -> Operation:
    metrics = {"rewritten_bytes_count": 10**9, "added_bytes_count": added}
    return operation(core_seconds=core_seconds, operation_metrics=metrics)


def test_operations_are_summed_by_table_and_verb() -> None:
    costs = costs_of([measured(100.0), measured(50.0), operation(operation_type="vacuum")], Prices())
    merged, _ = costs.costs
    assert merged == Cost("ice.db.events", "compact", 2, 0, 2 * 10**9, 10**9, 0, 150.0, None)
    assert costs.total is None


@pytest.mark.parametrize(
    "prices, cost", [(CORES, 0.01), (Prices(gb_written=2.0), 1.0), (BOTH, 1.01), (Prices(), None)]
)
def test_money_is_core_hours_and_gigabytes(prices: Prices, cost: float | None) -> None:
    costs = costs_of([measured(100.0)], prices)
    assert costs.total == pytest.approx(cost)


def test_the_cost_of_unmeasured_work_is_unknown_not_zero() -> None:
    costs = costs_of([measured(100.0), measured(None)], BOTH)
    (one,) = costs.costs
    assert (one.core_seconds, one.unmeasured, one.cost, costs.total) == (100.0, 1, None, None)
    assert str(costs).endswith("\n1 operation without measured core-seconds")
    (none,) = costs_of([measured(None)], Prices(gb_written=2.0)).costs
    assert (none.core_seconds, none.cost) == (None, 1.0)


@pytest.mark.parametrize("verb", ["delete", "drop_partition", "expire_rows", "restore"])
def test_the_cost_of_bytes_that_are_not_recorded_is_unknown_not_zero(verb: str) -> None:
    """Where a table has no deletion vectors, these write the remaining rows to new files."""
    done = operation(
        operation_type=verb, core_seconds=100.0, operation_metrics={"touched_data_files_count": 400}
    )
    assert costs_of([done], Prices(gb_written=2.0)).total is None
    assert costs_of([done], BOTH).total is None
    assert costs_of([done], CORES).total == pytest.approx(0.01)
    assert written_bytes(done) is None


def test_idle_operations_cost_nothing_and_are_not_listed() -> None:
    costs = costs_of([operation(operation_status="idle", core_seconds=None)], BOTH)
    assert (costs.costs, str(costs)) == ((), "no operation is recorded")


def test_a_failed_operation_costs_what_it_used() -> None:
    failed = operation(operation_status="failed", core_seconds=36.0, operation_metrics={})
    assert costs_of([failed], CORES).total == pytest.approx(0.0036)


def test_a_small_cost_is_not_zero_and_columns_are_named_as_on_the_page() -> None:
    head, _, row, _, total = (
        str(costs_of([measured(10.0)], CORES)).removeprefix("ice.db.events\n").split("\n")
    )
    assert head.split() == ["operation", "calls", "read", "written", "freed", "core-s", "cost"]
    assert row.endswith("  under 0.01")
    assert total == "total cost under 0.01"


def test_the_page_fits_80_columns() -> None:
    vacuum = operation(operation_type="vacuum", operation_metrics={"deleted_bytes_count": 9 * 10**14})
    costs = costs_of([measured(123_456.7, added=7 * 10**13), measured(None), vacuum], BOTH)
    assert max(map(len, str(costs).splitlines())) <= 80
    assert costs.rows().num_rows == 2
    assert [each["operations"] for each in costs.to_dict()["costs"]] == [2, 1]
