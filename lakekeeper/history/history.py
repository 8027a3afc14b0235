"""The operations on tables as a result: text, JSON, or a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from lakekeeper.core.model.result_frame import frame
from lakekeeper.core.text.controls import visible
from lakekeeper.core.text.formatting import size, table, wrapped
from lakekeeper.core.text.result import Result
from lakekeeper.history.operation import Operation, utc

_TEXT, _LONG, _TIME = pa.string(), pa.int64(), pa.timestamp("ms", "UTC")
_COLUMNS = pa.schema(
    [
        ("operation_id", _TEXT),
        ("operation_type", _TEXT),
        ("operation_status", _TEXT),
        ("start_time", _TIME),
        ("end_time", _TIME),
        ("catalog_name", _TEXT),
        ("schema_name", _TEXT),
        ("table_name", _TEXT),
        ("operation_metrics", pa.map_(_TEXT, pa.float64())),
        ("usage_unit", _TEXT),
        ("usage_quantity", pa.float64()),
        ("origin", _TEXT),
        ("policies", pa.list_(_TEXT)),
        ("cluster_key", _TEXT),
        ("version_before", _LONG),
        ("version_after", _LONG),
        ("run_ids", pa.list_(_TEXT)),
        ("reason", _TEXT),
        ("application_id", _TEXT),
        ("user_name", _TEXT),
        ("versions", pa.map_(_TEXT, _TEXT)),
    ]
)


@dataclass(frozen=True, slots=True)
class History(Result):
    """Operations on one table or on several, newest first."""

    operations: tuple[Operation, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"operations": [operation.to_dict() for operation in self.operations]}

    def rows(self) -> pa.Table:
        """One row per operation, without its groups and decisions."""
        return pa.Table.from_pylist([_row(operation) for operation in self.operations], schema=_COLUMNS)

    def to_frame(self, spark: Any) -> Any:
        """:meth:`rows` as a DataFrame of the session ``spark``."""
        return frame(spark, self.rows())

    def __str__(self) -> str:
        if not self.operations:
            return "no operation is recorded"
        by_table = groupby(sorted(self.operations, key=lambda o: str(o.table)), key=lambda o: str(o.table))
        return "\n\n".join(f"{visible(name)}\n{_page(list(operations))}" for name, operations in by_table)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a page shows of the history: operations, newest first; None without a history, or with an ``error``.

    ``cut``: there are older ones.
    """

    operations: tuple[Operation, ...] | None = None
    error: str = ""
    cut: bool = False


def _row(operation: Operation) -> dict[str, Any]:
    plain = operation.to_dict()
    return {
        **{name: plain[name] for name in _COLUMNS.names},
        "start_time": operation.start_ms,
        "end_time": operation.end_ms,
        "operation_metrics": [(name, float(n)) for name, n in operation.operation_metrics.items()],
        "versions": list(operation.versions.items()),
        "reason": str(operation.reason),
    }


def _page(operations: list[Operation]) -> str:
    """A line for each operation, with its reason below."""
    rows = [("ended (UTC)", "operation", "status", "in", "out", "core-s")]
    rows += [
        (
            utc(operation.end_ms)[:16].replace("T", " "),
            operation.operation_type,
            operation.operation_status,
            _bytes(operation.operation_metrics, "rewritten_bytes_count", "deleted_bytes_count"),
            _bytes(operation.operation_metrics, "added_bytes_count"),
            "" if operation.core_seconds is None else f"{operation.core_seconds:,.1f}",
        )
        for operation in operations
    ]
    head, line, *lines = table(rows, right=frozenset({3, 4, 5})).splitlines()
    reasons = [wrapped(str(operation.reason), first="  ", rest="  ") for operation in operations]
    return "\n".join([head, line, *(part for pair in zip(lines, reasons, strict=True) for part in pair)])


def _bytes(metrics: Mapping[str, float], *names: str) -> str:
    """The size of the first of these metrics that is not zero."""
    return next((size(metrics[name]) for name in names if metrics.get(name)), "")
