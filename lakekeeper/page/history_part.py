"""The operations on a table and their costs, as HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from lakekeeper.core.text.charts import columns, spans
from lakekeeper.core.text.formatting import counted, significant, size
from lakekeeper.core.text.markup import Child, Markup, joined, rows_table, tag
from lakekeeper.history.costs import Costs, Prices, money, written_bytes
from lakekeeper.history.operation import Operation, utc
from lakekeeper.page.figures import figure, note, scrolled

_COLUMNS = 48
_OPERATIONS = 12
_RACES = 12


def history_part(operations: Sequence[Operation] | None, costs: Costs, prices: Prices) -> Markup:
    """Charts over the operations that changed the table, oldest first; the newest as a table; lost races; costs."""
    if operations is None:
        return note(
            "No history is configured: set the Spark conf spark.lakekeeper.history.path to record operations."
        )
    if not operations:
        return note("No operation on this table has been recorded yet.")
    worked = [each for each in reversed(operations) if each.operation_status != "idle"]
    charts = tag("div", *_falls(worked), *totals(worked, prices), class_="charts")
    return joined([charts, _newest(operations), _races(operations), _costs(costs)])


def _grouped(worked: Sequence[Operation]) -> list[Sequence[Operation]]:
    """The operations in order, divided into at most as many groups as a chart has columns."""
    parts = np.array_split(np.arange(len(worked)), min(_COLUMNS, len(worked)) or 1)
    return [worked[part[0] : part[-1] + 1] for part in parts if len(part)]


def _dates(worked: Sequence[Operation]) -> list[str]:
    first, last = at_utc(worked[0].end_ms), at_utc(worked[-1].end_ms)
    return [first, last] if first[:10] == last[:10] else [first[:10], last[:10]]


def _falls(worked: Sequence[Operation]) -> Iterator[Markup]:
    """Charts of the values before and after each operation that recorded them."""
    for name, caption in (("depth", "Average depth"), ("files_per_query", "Files read by a query")):
        known = [each for each in worked if _has(name, each)]
        if known:
            groups = _grouped(known)
            drawn = [(*_ends(name, group), _text(name, group)) for group in groups]
            top = significant(max(max(before, after) for before, after, _ in drawn))
            chart = spans(drawn, title=f"{caption}, by operation", top=top, ticks=_dates(known))
            ends = "before and after each operation"
            if len(groups) < len(known):
                ends = "before the first and after the last of several operations"
            yield figure(caption, chart, f"The value {ends} (the dot), oldest first.")


def totals(worked: Sequence[Operation], prices: Prices) -> Iterator[Markup]:
    """Bytes and money by operation. Unknown costs are left out, and the text gives their number."""
    groups = _grouped(worked)
    several = "several operations" if len(groups) < len(worked) else "each operation"
    for caption, of, shown in (
        ("Bytes rewritten", partial(_metric, "rewritten_bytes_count"), size),
        ("Bytes freed by vacuum", partial(_metric, "deleted_bytes_count"), size),
        ("Cost", lambda each: prices.of(each.core_seconds, written_bytes(each)), money),
    ):
        found = [[of(each) for each in group] for group in groups]
        sums = [sum(value for value in values if value is not None) for values in found]
        if any(sums):
            bars = [(float(n), f"{_when(group)}: {shown(n)}") for group, n in zip(groups, sums, strict=True)]
            chart = columns(
                bars, title=f"{caption}, by operation", top=shown(max(sums)), ticks=_dates(worked)
            )
            unknown = sum(value is None for values in found for value in values)
            without = f", without {counted(unknown, 'operation')} of unknown cost" if unknown else ""
            below = f"One column for {several}, oldest first; total {shown(sum(sums))}{without}."
            yield figure(caption, chart, below)


def _metric(name: str, operation: Operation) -> int:
    return int(operation.operation_metrics.get(name, 0))


def _has(name: str, operation: Operation) -> bool:
    """Whether the operation recorded the value before and after it."""
    return {f"{name}_before", f"{name}_after"} <= operation.operation_metrics.keys()


def _ends(name: str, group: Sequence[Operation]) -> tuple[float, float]:
    """The value before the first and after the last of these operations."""
    before, after = group[0].operation_metrics[f"{name}_before"], group[-1].operation_metrics[f"{name}_after"]
    return float(before), float(after)


def _text(name: str, group: Sequence[Operation]) -> str:
    before, after = _ends(name, group)
    return f"{_when(group)}: {significant(before)} to {significant(after)}"


def _when(group: Sequence[Operation]) -> str:
    verbs = ", ".join(dict.fromkeys(each.operation_type for each in group))
    upto = f" to {at_utc(group[-1].end_ms)}" if len(group) > 1 else ""
    return f"{verbs}, {at_utc(group[0].end_ms)}{upto}"


def _newest(operations: Sequence[Operation]) -> Markup:
    rows: list[Sequence[Child]] = [
        (
            "ended (UTC)",
            "operation",
            "status",
            "depth",
            "files/query",
            "predicted",
            "rewritten",
            "core-s",
            "reason",
        )
    ]
    rows += [
        (
            at_utc(each.end_ms),
            each.operation_type,
            each.operation_status,
            _change(each, "depth"),
            _change(each, "files_per_query"),
            _number(each, "files_per_query_predicted", significant),
            _number(each, "rewritten_bytes_count", size),
            "" if each.core_seconds is None else f"{each.core_seconds:,.1f}",
            tag("span", str(each.reason), class_="why"),
        )
        for each in operations[:_OPERATIONS]
    ]
    more = len(operations) - _OPERATIONS
    below = f"The newest {_OPERATIONS} of {len(operations):,}." if more > 0 else ""
    return figure("Operations", scrolled(rows_table(rows, right=frozenset({3, 4, 5, 6, 7}))), below)


def _races(operations: Sequence[Operation]) -> Markup | None:
    """Races lost to commits of other writers, and the outcome of the groups that they affected."""
    lost = [each for each in operations if each.operation_metrics.get("conflicts")]
    if not lost:
        return None
    rows: list[Sequence[Child]] = [
        ("ended (UTC)", "operation", "conflicts", "rows replayed", "groups", "outcome")
    ]
    for each in lost[:_RACES]:
        touched = [group for group in each.groups if group.detail is not None]
        outcomes = dict.fromkeys(f"{group.status}: {group.detail}" for group in touched)
        rows.append(
            (
                at_utc(each.end_ms),
                each.operation_type,
                f"{each.operation_metrics['conflicts']:,.0f}",
                f"{each.operation_metrics.get('replayed_rows_count', 0):,.0f}",
                f"{len(touched):,} of {len(each.groups):,}",
                tag("span", "; ".join([*outcomes][:3]) or "committed again", class_="why"),
            )
        )
    below = "Other writers committed first. Their deletes were replayed on the new files, or the group was dropped."
    return figure("Conflicts", scrolled(rows_table(rows, right=frozenset({2, 3, 4}))), below)


def _costs(costs: Costs) -> Markup | None:
    if not costs.costs:
        return None
    priced = any(each.cost is not None for each in costs.costs)
    rows: list[Sequence[Child]] = [
        ("operation", "calls", "read", "written", "freed", "core-s", *(("cost",) if priced else ()))
    ]
    rows += [
        (
            each.operation_type,
            f"{each.operations:,}",
            size(each.rewritten_bytes),
            size(each.added_bytes),
            size(each.deleted_bytes),
            "?" if each.core_seconds is None else f"{each.core_seconds:,.1f}",
            *(("?" if each.cost is None else money(each.cost),) if priced else ()),
        )
        for each in costs.costs
    ]
    total = (
        ""
        if costs.total is None
        else f"Total cost {money(costs.total)}, in the currency of the configured prices."
    )
    unknown = sum(each.unmeasured for each in costs.costs)
    unmeasured = f" {counted(unknown, 'operation')} without measured core-seconds." if unknown else ""
    return figure("Cost", scrolled(rows_table(rows, right=frozenset(range(1, 7)))), total + unmeasured)


def _change(operation: Operation, name: str) -> str:
    return " → ".join(map(significant, _ends(name, [operation]))) if _has(name, operation) else ""


def _number(operation: Operation, name: str, shown: Callable[[Any], str]) -> str:
    value = operation.operation_metrics.get(name)
    return shown(value) if value else ""


def at_utc(ms: int) -> str:
    """A time to the minute."""
    return utc(ms)[:16].replace("T", " ")
