"""Table scans in executed Spark plans: the table, the filters and the metrics of each.

    node         Scan parquet spark_catalog.db.t          metadata: Location, PushedFilters, PartitionFilters …   Delta
                 BatchScan ice.db.t                       IcebergScan(table=…, filters=…, …)                    Iceberg

A node is plain data as in event logs (``sparkPlanInfo``): name, text, metadata, metrics and children.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

from lakekeeper.core.model.keys import parse_column, quote
from lakekeeper.core.workload.filter_parser import iceberg_filters, printed_expressions, pushed_filters
from lakekeeper.core.workload.predicates import Meaning, both
from lakekeeper.core.workload.workload import Scan
from lakekeeper.errors import OptionError

FILES = ("number of files read", "number of result data files")
BYTES = ("size of files read", "total data file size (bytes)", "total data file size")
_LOCATION = re.compile(r"\[([^\],]+)")
_ICEBERG, _ICEBERG_FILTERS = "IcebergScan(table=", ", filters="
_ICEBERG_END = re.compile(r", (?:runtimeFilters|groupedBy)=")
_TIMESTAMP_COLUMNS = re.compile(r"[<,]([^<,:]+):timestamp(?=[,>])")
# The file indexes that Delta uses for queries; its others belong to its own statements, and to merges.
_QUERY_INDEXES = ("PreparedDeltaFileIndex", "TahoeLogFileIndex")
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d+))?")
_MOST_CACHED = 10_000  # scans behind caches that are remembered
_OURS = "lakekeeper "  # prefix of the job descriptions of our own work


Identity = tuple[tuple[str, ...], frozenset[int]]


@dataclass(frozen=True, slots=True)
class Sighting:
    """One scan in a plan: possible names of the table, the filters, and the accumulators of its metrics (name → id).

    ``cached``: its rows are in a cache, which reads the files once, and is in the plan of each query that uses it.
    """

    names: tuple[str, ...]
    meaning: Meaning
    metrics: Mapping[str, int]
    cached: bool = False

    @property
    def identity(self) -> Identity:
        """The names and the accumulators, which no other scan of the table has."""
        return self.names, frozenset(self.metrics.values())


def sightings(node: Mapping[str, Any], zone: tzinfo = timezone.utc) -> Iterator[Sighting]:
    """All table scans in a plan; ``zone`` is the JVM's time zone, in which file scans print timestamps.

    A scan that the plan uses in several places, as of a reused exchange or subquery, is one.
    """
    pending = [(node, False)]
    seen: set[Identity] = set()
    while pending:
        at, cached = pending.pop()
        below = cached or _of_cache(at)
        pending += [(child, below) for child in at.get("children") or ()]
        found = _sighting(at, zone)
        if found is None or found.identity in seen:
            continue
        if found.metrics:
            seen.add(found.identity)
        yield replace(found, cached=cached)


def _of_cache(node: Mapping[str, Any]) -> bool:
    """Whether a node reads cached rows: its child is the plan that filled the cache."""
    name = str(node.get("nodeName", ""))
    return name.startswith(("InMemoryTableScan", "Scan In-memory table"))


class Cached:
    """Counts each scan behind a cache once, the first time that a query uses the cache; bounded."""

    def __init__(self) -> None:
        self._known: OrderedDict[Identity, None] = OrderedDict()

    def counted(self, found: Iterable[Sighting]) -> list[Sighting]:
        """The scans of a query that count."""
        return [each for each in found if not each.cached or self._first(each.identity)]

    def _first(self, identity: Identity) -> bool:
        first = identity not in self._known
        self._known[identity] = None
        self._known.move_to_end(identity)
        while len(self._known) > _MOST_CACHED:
            self._known.popitem(last=False)
        return first


def scans_table(sighting: Sighting, names: frozenset[str]) -> bool:
    """Whether the scan reads a table with one of the names (see :func:`known_as`)."""
    return not names.isdisjoint(known_as(*sighting.names))


def known_as(*names: str) -> frozenset[str]:
    """Names and locations in canonical form: names in lower case, unquoted; paths without scheme or trailing slash."""
    found = set()
    for name in names:
        if "/" in name:
            found.add(re.sub(r"^(?:\w+:)?/+", "/", name).rstrip("/"))
        elif name:
            found.add(name.replace("`", "").lower())
    return frozenset(found)


def scan_of(
    sighting: Sighting, at_ms: int, values: Mapping[int, int], taken: tuple[int, float] | None = None
) -> Scan:
    """The scan as a workload stores it.

    ``taken`` are the bytes fetched and the core seconds, if they belong to this scan alone.
    """
    metric = {name: values[number] for name, number in sighting.metrics.items() if number in values}
    files = next((metric[name] for name in FILES if name in metric), None)
    size = next((metric[name] for name in BYTES if name in metric), None)
    fetched, seconds = taken or (0, 0.0)
    return Scan(
        at_ms=at_ms,
        filters=sighting.meaning.filters,
        columns=sighting.meaning.columns,
        understood=sighting.meaning.understood,
        files_read=files,
        bytes_read=size,
        column_share=min(fetched / size, 1.0) if taken and size and fetched else None,
        core_seconds=seconds or None,
    )


def ours(description: str) -> bool:
    """Whether the job is lakekeeper's own: what a merge reads is not a query."""
    return description.startswith(_OURS)


def _sighting(node: Mapping[str, Any], zone: tzinfo) -> Sighting | None:
    name, text = str(node.get("nodeName", "")), str(node.get("simpleString", ""))
    metadata = {str(k): str(v) for k, v in dict(node.get("metadata") or {}).items()}
    metrics = {str(m["name"]): int(m["accumulatorId"]) for m in node.get("metrics") or ()}
    if found := _iceberg(text):
        return Sighting((found[0],), _quoted(iceberg_filters(found[1])), metrics)
    where = metadata.get("Location", "")
    if "PushedFilters" not in metadata or not where.startswith(_QUERY_INDEXES):
        return None
    conditions = [
        pushed_filters(metadata["PushedFilters"]),
        printed_expressions(metadata.get("PartitionFilters", "")),
    ]
    location = _LOCATION.search(where)
    names = (name.rpartition(" ")[2] if name.count(" ") > 1 else "", location[1] if location else "")
    timestamps = frozenset(_TIMESTAMP_COLUMNS.findall(metadata.get("ReadSchema", "")))
    return Sighting(tuple(filter(None, names)), _quoted(_zoned(both(conditions), timestamps, zone)), metrics)


def _iceberg(text: str) -> tuple[str, str] | None:
    """(table, filters) of a scan of Iceberg; None for another text."""
    _, scan, rest = text.partition(_ICEBERG)
    table = rest.partition(",")[0]
    _, mark, rest = rest[len(table) :].partition(_ICEBERG_FILTERS)
    end = _ICEBERG_END.search(rest)
    return (table, rest[: end.start()]) if scan and mark and end else None


def _zoned(meaning: Meaning, timestamps: frozenset[str], zone: tzinfo) -> Meaning:
    """``meaning`` with the bounds of timestamp columns in µs instead of text in the JVM's time zone."""
    if not timestamps.intersection(name.rpartition(".")[2] for name in meaning.filters):
        return meaning
    filters = {
        name: tuple(replace(s, lo=_micros(s.lo, zone), hi=_micros(s.hi, zone)) for s in found)
        if name.rpartition(".")[2] in timestamps
        else found
        for name, found in meaning.filters.items()
    }
    return replace(meaning, filters=filters)


def _micros(text: Any, zone: tzinfo) -> Any:
    """``2026-01-01 00:10:00.5`` in the zone as µs; other values are returned unchanged, and rejected where used."""
    found = _TIMESTAMP.fullmatch(str(text))
    if found is None:
        return text
    whole = datetime.fromisoformat(found[1]).replace(tzinfo=zone)
    since = whole.astimezone(timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (since // timedelta(seconds=1)) * 1_000_000 + int((found[2] or "").ljust(6, "0")[:6])


def _quoted(meaning: Meaning) -> Meaning:
    """``meaning`` with columns in Spark SQL spelling, as in key columns."""
    return replace(
        meaning,
        filters={_column(name): found for name, found in meaning.filters.items()},
        columns=tuple(_column(name) for name in meaning.columns),
    )


def _column(name: str) -> str:
    try:
        return ".".join(quote(step) for step in parse_column(name))
    except OptionError:
        return name
