"""What maintenance has cost: bytes, core-seconds and money, by table and verb."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from lakekeeper.core.model.result_frame import frame
from lakekeeper.core.text.controls import visible
from lakekeeper.core.text.formatting import counted, size, table
from lakekeeper.core.text.result import Result
from lakekeeper.history.operation import Operation

_GB = 10**9
_UNCOUNTED = frozenset({"delete", "drop_partition", "expire_rows", "restore"})
"""Verbs that write files on some tables, and do not record how many bytes."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in the operator's currency; None for a price that is not set."""

    core_hour: float | None = None
    gb_written: float | None = None

    def of(self, core_seconds: float | None, written_bytes: int | None) -> float | None:
        """The cost; None without prices, or if a price is for core-seconds or bytes that are not known."""
        if self.core_hour is None and self.gb_written is None:
            return None
        if self.gb_written is not None and written_bytes is None:
            return None
        if self.core_hour is not None and core_seconds is None:
            return None
        cores = (self.core_hour or 0.0) * (core_seconds or 0.0) / 3600
        return cores + (self.gb_written or 0.0) * (written_bytes or 0) / _GB


@dataclass(frozen=True, slots=True)
class Cost:
    """The operations of one verb on one table that changed or tried to change it.

    operations       how many
    unmeasured       how many of them have no measured executor time
    rewritten_bytes  input of the rewrites that were committed
    added_bytes      output of the rewrites that were committed
    deleted_bytes    files that a vacuum deleted
    core_seconds     executor time of the measured operations; None if there are none
    cost             None without prices, and if a price is for what one of the operations did not record
    """

    table: str
    operation_type: str
    operations: int
    unmeasured: int
    rewritten_bytes: int
    added_bytes: int
    deleted_bytes: int
    core_seconds: float | None
    cost: float | None


@dataclass(frozen=True, slots=True)
class Costs(Result):
    """Costs by table and verb, in the order of their names."""

    costs: tuple[Cost, ...]

    @property
    def total(self) -> float | None:
        """The sum of all costs; None if one of them is unknown, or there are none."""
        known = [cost.cost for cost in self.costs if cost.cost is not None]
        return sum(known) if known and len(known) == len(self.costs) else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"costs": [asdict(cost) for cost in self.costs], "total": self.total}

    def rows(self) -> pa.Table:
        """One row per table and verb."""
        whole, real = pa.int64(), pa.float64()
        numbers = [(name, whole) for name in ("operations", "unmeasured", "rewritten_bytes", "added_bytes")]
        names = [("table", pa.string()), ("operation_type", pa.string()), *numbers]
        schema = pa.schema([*names, ("deleted_bytes", whole), ("core_seconds", real), ("cost", real)])
        return pa.Table.from_pylist([asdict(cost) for cost in self.costs], schema=schema)

    def to_frame(self, spark: Any) -> Any:
        """:meth:`rows` as a DataFrame of the session ``spark``."""
        return frame(spark, self.rows())

    def __str__(self) -> str:
        if not self.costs:
            return "no operation is recorded"
        by_table = groupby(self.costs, key=lambda cost: cost.table)
        pages = [f"{visible(name)}\n{_page(list(costs))}" for name, costs in by_table]
        total = [] if self.total is None else [f"total cost {money(self.total)}"]
        return "\n\n".join([*pages, *total])


def _page(costs: list[Cost]) -> str:
    rows = [("operation", "calls", "read", "written", "freed", "core-s", "cost")]
    rows += [
        (
            cost.operation_type,
            f"{cost.operations:,}",
            _size(cost.rewritten_bytes),
            _size(cost.added_bytes),
            _size(cost.deleted_bytes),
            "?" if cost.core_seconds is None else f"{cost.core_seconds:,.1f}",
            "" if cost.cost is None else money(cost.cost),
        )
        for cost in costs
    ]
    unknown = sum(cost.unmeasured for cost in costs)
    below = f"\n{counted(unknown, 'operation')} without measured core-seconds" if unknown else ""
    return table(rows, right=frozenset(range(1, 7))) + below


def money(amount: float) -> str:
    """``1234.5`` → ``1,234.50``; a small amount is never shown as zero."""
    return "under 0.01" if 0 < amount < 0.01 else f"{amount:,.2f}"


def costs_of(operations: Iterable[Operation], prices: Prices) -> Costs:
    """The costs of these operations, excluding idle ones."""
    found: dict[tuple[str, str], list[Operation]] = {}
    for operation in operations:
        if operation.operation_status != "idle":
            found.setdefault((str(operation.table), operation.operation_type), []).append(operation)
    return Costs(tuple(_cost(*key, found[key], prices) for key in sorted(found)))


def _cost(name: str, verb: str, operations: list[Operation], prices: Prices) -> Cost:
    measured = [o.core_seconds for o in operations if o.core_seconds is not None]
    core_seconds = sum(measured) if measured else None
    whole = len(measured) == len(operations)
    added = _sum(operations, "added_bytes_count")
    return Cost(
        table=name,
        operation_type=verb,
        operations=len(operations),
        unmeasured=len(operations) - len(measured),
        rewritten_bytes=_sum(operations, "rewritten_bytes_count"),
        added_bytes=added,
        deleted_bytes=_sum(operations, "deleted_bytes_count"),
        core_seconds=core_seconds,
        cost=prices.of(core_seconds if whole else None, None if verb in _UNCOUNTED else added),
    )


def written_bytes(operation: Operation) -> int | None:
    """The bytes that an operation wrote; None if it does not record them."""
    return None if operation.operation_type in _UNCOUNTED else _sum([operation], "added_bytes_count")


def _sum(operations: Iterable[Operation], metric: str) -> int:
    return sum(int(operation.operation_metrics.get(metric, 0)) for operation in operations)


def _size(count: int) -> str:
    return size(count) if count else ""
