"""The workload: the filters of the queries on one table, as ranges on its columns with weights and times.

    scan     user_id = 7 and ts between a and b      filters: {user_id: [7, 7], ts: [a, b]}
    weight   halves every seven days, so that the layout follows current queries

The idea is from Relyt's auto table service. A workload is plain data: it serializes to JSON, can be stored, and can be
passed unchanged to :mod:`lakekeeper.core.cost`. It is collected outside the core (event logs, a running session).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from lakekeeper.core.model.coefficients import Measured
from lakekeeper.core.units import DAY_MS, Floats
from lakekeeper.errors import OptionError

HALF_LIFE_MS = 7 * DAY_MS
_FORMAT = "lakekeeper workload 1"


@dataclass(frozen=True, slots=True)
class Span:
    """A range of one column's values; None is an open end.

    ``after`` excludes ``lo`` itself, ``before`` excludes ``hi``; ``null`` means NULL instead of a value. Bounds are in
    the form of ``keys.to_json_value``, or the text that a plan printed: the column's kind is known only when the span
    meets a table.
    """

    lo: Any = None
    hi: Any = None
    after: bool = False
    before: bool = False
    null: bool = False

    @property
    def whole(self) -> bool:
        """Whether the span contains every value."""
        return self.lo is None and self.hi is None and not self.null


EVERYTHING = (Span(),)
Filters = Mapping[str, tuple[Span, ...]]
"""For each column (Spark SQL spelling), spans of which one must hold; all columns must hold."""


@dataclass(frozen=True, slots=True)
class Scan:
    """One read of a table by one query.

    at_ms         time, in ms since the epoch
    filters       the spans that it filtered by
    columns       the columns that it filtered, including those whose filter could not be expressed as spans
    understood    False if a filter could not be parsed and counts as no filter
    weight        how many queries the scan represents
    files_read    data files that Spark opened, ``bytes_read`` their sizes; None if not reported
    column_share  share of those bytes that was fetched, after column pruning and skipped row groups
    core_seconds  of all tasks of the query
    """

    at_ms: int
    filters: Filters
    columns: tuple[str, ...] = ()
    understood: bool = True
    weight: float = 1.0
    files_read: int | None = None
    bytes_read: int | None = None
    column_share: float | None = None
    core_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """The scans of one table observed from ``start_ms`` to ``end_ms`` (ms since the epoch)."""

    table: str
    scans: tuple[Scan, ...]
    start_ms: int
    end_ms: int
    source: str = ""
    half_life_ms: int = HALF_LIFE_MS

    def __len__(self) -> int:
        return len(self.scans)

    def weights(self, now_ms: int) -> Floats:
        """The current weight of each scan: its weight, halved for each half-life since.

        Weights are whole multiples of one power of two, 2^-36 of the largest: up to 2^16 of them have the same sum in
        any order, so that a block which all scans read is read by all of the weight, and not by 0.9999999999999998.
        """
        now = max(now_ms, self.end_ms)  # clocks differ: no observed scan is in the future
        age = np.array([now - scan.at_ms for scan in self.scans], np.float64)
        weight = np.array([scan.weight for scan in self.scans], np.float64)
        return _on_one_grid(weight * np.exp2(-age / self.half_life_ms))

    def rate(self, now_ms: int) -> float:
        """Queries per second, newer ones counting more: the observed weight, by the weight of one query per second."""
        now = max(now_ms, self.end_ms)
        first, last = ((now - t) / self.half_life_ms for t in (self.start_ms, self.end_ms))
        seconds = self.half_life_ms / 1000 / math.log(2) * (2.0**-last - 2.0**-first)
        # An empty window (one scan), or one decayed to nothing: a rate over less than a minute is a guess.
        floor = 60.0 * 2.0**-last
        weight = float(self.weights(now_ms).sum())
        return weight / max(seconds, floor) if weight > 0 and max(seconds, floor) > 0 else 0.0

    @property
    def unread(self) -> int:
        """Number of scans with a filter that could not be parsed: they count as scans without a filter."""
        return sum(not scan.understood for scan in self.scans)

    @property
    def column_share(self) -> float | None:
        """Median share of the bytes of the opened files that was fetched; None if not reported."""
        shares = [scan.column_share for scan in self.scans if scan.column_share is not None]
        return min(1.0, float(median(shares))) if shares else None

    def measured(self) -> tuple[Measured, ...]:
        """Measurements of single scans, for ``Coefficients.fitted``."""
        return tuple(
            Measured(scan.files_read, scan.bytes_read, scan.core_seconds)
            for scan in self.scans
            if scan.files_read and scan.bytes_read and scan.core_seconds
        )

    def filtered(self, now_ms: int) -> dict[str, float]:
        """Column → share of the scans (by weight) that filter by it, largest first; ties by name."""
        weights = self.weights(now_ms)
        total = float(weights.sum())
        found: dict[str, float] = {}
        for scan, weight in zip(self.scans, weights.tolist(), strict=True):
            for column in dict.fromkeys((*scan.filters, *scan.columns)):
                found[column] = found.get(column, 0.0) + (weight / total if total else 0.0)
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def newest(self, most: int) -> Workload:
        """The newest ``most`` scans, reweighted to keep the total weight, for storage in bounded memory."""
        if len(self.scans) <= most:
            return self
        total = sum(scan.weight for scan in self.scans)
        kept = sorted(self.scans, key=lambda scan: scan.at_ms)[-most:]
        grown = total / max(sum(scan.weight for scan in kept), 1e-300)
        return replace(self, scans=tuple(replace(scan, weight=scan.weight * grown) for scan in kept))

    def to_json(self) -> str:
        """One JSON object; :meth:`from_json` restores an equal workload."""
        plain = {
            name: getattr(self, name) for name in ("table", "start_ms", "end_ms", "source", "half_life_ms")
        }
        return json.dumps({"format": _FORMAT, **plain, "scans": [_scan_to_dict(s) for s in self.scans]})

    @classmethod
    def from_json(cls, text: str) -> Workload:
        """Inverse of :meth:`to_json`; raises OptionError for anything else."""
        try:
            data = json.loads(text)
            if data.pop("format") != _FORMAT:
                raise ValueError("another format")
            made = cls(**{**data, "scans": tuple(_scan_from_dict(s) for s in data["scans"])})
            _require_numbers(made)
            return made
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            shown = text if len(text) < 80 else text[:77] + "…"
            raise OptionError("workload", shown, f"what Workload.to_json wrote ({_FORMAT})") from error


def collect(
    table: str, scans: Iterable[Scan], *, source: str, start_ms: int | None = None, end_ms: int | None = None
) -> Workload:
    """A workload of scans, oldest first; the window is that of the scans unless given, and always includes them."""
    ordered = tuple(sorted(scans, key=lambda scan: scan.at_ms))
    first = ordered[0].at_ms if ordered else 0
    last = ordered[-1].at_ms if ordered else 0
    start = first if start_ms is None else min(start_ms, first or start_ms)
    end = last if end_ms is None else max(end_ms, last)
    return Workload(table, ordered, start, end, source)


def _on_one_grid(weights: Floats) -> Floats:
    """Weights rounded to multiples of a power of two that leaves the largest 37 bits."""
    exponent = int(np.frexp(weights.max(initial=0.0))[1])
    return np.asarray(np.ldexp(np.rint(np.ldexp(weights, 36 - exponent)), exponent - 36))


def union(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Spans of which one must hold, without duplicates; :data:`EVERYTHING` if one of them contains every value."""
    if any(span.whole for span in spans):
        return EVERYTHING
    return tuple(dict.fromkeys(spans))


def _require_numbers(workload: Workload) -> None:
    """Raise ValueError unless times are integers, and weights and measurements are finite numbers."""
    times: list[Any] = [workload.start_ms, workload.end_ms, workload.half_life_ms]
    times += [scan.at_ms for scan in workload.scans]
    numbers: list[Any] = []
    for scan in workload.scans:
        numbers += [scan.files_read, scan.bytes_read, scan.column_share, scan.core_seconds]
    found = [scan.weight for scan in workload.scans] + [n for n in numbers if n is not None]
    if not all(isinstance(time, int) for time in times) or workload.half_life_ms <= 0:
        raise ValueError("a time is not an integer")
    if not all(isinstance(n, int | float) and math.isfinite(n) for n in found):
        raise ValueError("a weight or a measurement is not a finite number")


def _scan_to_dict(scan: Scan) -> dict[str, Any]:
    plain = {name: getattr(scan, name) for name in Scan.__dataclass_fields__ if name != "filters"}
    spans = {
        column: [[s.lo, s.hi, s.after, s.before, s.null] for s in found]
        for column, found in scan.filters.items()
    }
    return {**plain, "columns": list(scan.columns), "filters": spans}


def _scan_from_dict(data: dict[str, Any]) -> Scan:
    filters = {column: tuple(Span(*s) for s in spans) for column, spans in data["filters"].items()}
    return Scan(**{**data, "filters": filters, "columns": tuple(data["columns"])})
