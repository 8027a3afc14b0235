"""Workloads from Spark's event logs: the filters of queries on one table, the files they read and the time they took.

    SQLExecutionStart   plan with its scans            one query
    JobStart            its stages                     which query a task worked for
    TaskEnd             bytes read, CPU time
    DriverAccumUpdates  files read, their sizes
    SQLExecutionEnd     the query is over: kept as a scan of the table, the rest forgotten

Logs may be plain or compressed (zstd, gzip), one file or a rolling directory, or a directory of all of these. They are
read as a stream; of irrelevant lines, only the beginning is parsed. Applications and the history server go on renaming
and deleting the logs of a directory while they are read.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timezone, tzinfo
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakekeeper.core.workload.plan_scans import (
    Cached,
    Sighting,
    known_as,
    ours,
    scan_of,
    scans_table,
    sightings,
)
from lakekeeper.core.workload.workload import Scan, Workload, collect
from lakekeeper.errors import OptionError
from lakekeeper.time_zones import zone_of

_LOG = logging.getLogger("lakekeeper")
MOST_SCANS = 50_000
_EXPECTED = "a Spark event log (spark.eventLog.enabled=true), plain, .zstd or .gz, or a directory of them"
_UNREADABLE = (".lz4", ".snappy", ".lzf")
_BROKEN = (OSError, EOFError, zlib.error)
"""What reading a compressed file raises where it is cut off or damaged."""
_ODD = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What an event raises that is not JSON, or not as Spark writes it."""
_UI = "org.apache.spark.sql.execution.ui."
_KINDS = (
    _UI + "SparkListenerSQLExecutionStart",
    _UI + "SparkListenerSQLAdaptiveExecutionUpdate",
    _UI + "SparkListenerDriverAccumUpdates",
    _UI + "SparkListenerSQLExecutionEnd",
    "SparkListenerEnvironmentUpdate",
    "SparkListenerJobStart",
    "SparkListenerTaskEnd",
)


def read_workload(
    paths: Sequence[str | PathLike[str]], table: str, names: Collection[str], *, any_table: bool = True
) -> Workload:
    """The workload of a table out of event logs, or one that ``Workload.to_json`` wrote to a file.

    ``names`` are what plans may call the table: its name with and without catalog, its location. A saved workload
    counts whatever table it was saved of, unless ``any_table`` is false. Raises OptionError naming a file that is
    missing, cannot be read, or is no event log; of a directory, such files are left out.
    """
    return read_workloads(paths, {table: names}, any_table=any_table)[table]


def read_workloads(
    paths: Sequence[str | PathLike[str]], tables: Mapping[str, Collection[str]], *, any_table: bool = False
) -> Mapping[str, Workload]:
    """The workload of each of several tables: each log is parsed once. See :func:`read_workload`."""
    if not paths:
        raise OptionError("workload", paths, _EXPECTED)
    known = {table: known_as(*names) for table, names in tables.items()}
    scans: dict[str, list[Scan]] = {table: [] for table in tables}
    seen: list[int] = []
    for path in paths:
        if (kept := _kept(Path(path))) is not None:
            for table, names in known.items():
                if any_table or not names.isdisjoint(known_as(kept.table)):
                    _add(scans[table], kept.scans)
            seen += [kept.start_ms, kept.end_ms]
            continue
        logs = _logs(Path(path))
        for parts in _applications(logs):
            reader = _Reader(known, scans)
            for log in parts:
                if log == Path(path):
                    reader.read(log)
                else:
                    _read_listed(reader, log, logs)
            reader.end()
            seen += reader.seen
    window = {"start_ms": min(seen), "end_ms": max(seen)} if seen else {}
    source = ", ".join(map(str, paths))
    return {
        table: collect(table, found, source=source, **window).newest(MOST_SCANS)
        for table, found in scans.items()
    }


def _add(scans: list[Scan], found: Iterable[Scan]) -> None:
    """Add scans in bounded memory: the oldest become one, which has their weight until ``newest`` shares it out."""
    scans += found
    if len(scans) > 2 * MOST_SCANS:
        scans.sort(key=lambda scan: scan.at_ms)
        old = scans[:-MOST_SCANS]
        scans[:-MOST_SCANS] = [replace(old[0], weight=sum(scan.weight for scan in old))]


def _kept(path: Path) -> Workload | None:
    """A workload that was written to a file; None where the file is something else."""
    try:
        with path.open("rb") as file:
            begins = file.read(40).lstrip()
        if not begins.startswith(b'{"format": "lakekeeper workload'):
            return None
        return Workload.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


def _logs(path: Path) -> list[Path]:
    """The files of a path that are event logs, oldest part first; raises OptionError if there are none."""
    if not path.exists():
        raise OptionError("workload", str(path), f"{_EXPECTED}; no such file exists")
    if not path.is_dir():
        _first_event(path)
        return [path]
    found, wrong = [], []
    listed = dict.fromkeys(sorted(_listed(path), key=_part))
    for log in listed:
        file = _present(log, listed)
        if not file.is_file():
            continue
        try:
            _first_event(file)
            found.append(file)
        except OptionError as error:
            wrong.append(error)
    if not found:
        raise (
            wrong[0] if wrong else OptionError("workload", str(path), f"{_EXPECTED}; the directory is empty")
        )
    return found


def _listed(path: Path) -> Iterator[Path]:
    """The files of a directory that may be logs; a directory in it that is deleted meanwhile has none."""
    for home, _, names in os.walk(path):
        yield from (Path(home, name) for name in names if not name.startswith((".", "_", "appstatus")))


def _present(log: Path, listed: Collection[Path] = ()) -> Path:
    """A listed log, by the name that it has now: Spark removes ``.inprogress`` when the application ends.

    Unless that name is listed too, and the log would be read twice.
    """
    ended = log.with_name(log.name.removesuffix(".inprogress"))
    return log if log.exists() or ended in listed else ended


def require_logs(paths: Sequence[str | PathLike[str]]) -> None:
    """Raise OptionError naming the first path that is missing, cannot be read, or is neither log nor workload."""
    for path in paths:
        if _kept(Path(path)) is None:
            _logs(Path(path))


def _applications(logs: Sequence[Path]) -> list[list[Path]]:
    """Logs by application: the parts of a rolling one belong together."""
    found: dict[Path, list[Path]] = {}
    for log in logs:
        found.setdefault(log.parent if log.name.startswith("events_") else log, []).append(log)
    return list(found.values())


def _read_listed(reader: _Reader, log: Path, listed: Collection[Path]) -> None:
    """Read a log of a directory. If it has been deleted since, the other logs of the directory count all the same."""
    try:
        reader.read(_present(log, listed))
    except _BROKEN as error:
        _LOG.warning("%s: the event log is left out of the workload: %s", log, _reason(error))


def _part(path: Path) -> tuple[str, int, str]:
    """Rolling logs are ``events_1_app``, ``events_2_app`` …: by number, not by text."""
    steps = path.name.split("_")
    number = int(steps[1]) if steps[0] == "events" and len(steps) > 2 and steps[1].isdecimal() else 0
    return str(path.parent), number, path.name


def _first_event(path: Path) -> None:
    """Raise OptionError unless the file begins as an event log does."""
    if path.suffix in _UNREADABLE:
        advice = "set spark.eventLog.compression.codec=zstd"
        raise OptionError(
            "workload", str(path), f"{_EXPECTED}; {path.suffix[1:]} files cannot be read: {advice}"
        )
    try:
        first = next(_lines(path), None)
        if first is None:
            raise OptionError("workload", str(path), f"{_EXPECTED}; it is empty")
        event = json.loads(first)
        good = isinstance(event, dict) and isinstance(event.get("Event"), str)
    except (*_BROKEN, ValueError, RecursionError) as error:
        raise OptionError("workload", str(path), f"{_EXPECTED}; {_reason(error)}") from error
    if not good:
        raise OptionError("workload", str(path), f"{_EXPECTED}; its first line is not an event")


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return "its first line is not JSON"
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _lines(path: Path) -> Iterator[bytes]:
    """Lines of a log; a log that is still being written ends where it breaks off."""
    if path.name.removesuffix(".inprogress").removesuffix(".compact").endswith((".zstd", ".zst")):
        with pa.OSFile(str(path)) as file, pa.CompressedInputStream(file, "zstd") as stream:
            yield from _split(stream)
    elif path.suffix == ".gz":
        with gzip.open(path) as stream:
            yield from _unbroken(stream)
    else:
        with path.open("rb") as stream:
            yield from stream


def _unbroken(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines before the one where the file is broken; raises an error of ``_BROKEN`` if that is the first."""
    begun = False
    try:
        for line in lines:
            begun = True
            yield line
    except _BROKEN:
        if not begun:
            raise


def _split(stream: Any) -> Iterator[bytes]:
    rest, begun = b"", False
    while True:
        try:
            chunk = stream.read(1 << 20)
        except OSError:
            if not begun:
                raise
            return
        if not chunk:
            break
        begun = True
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest


@dataclass(slots=True)
class _Query:
    """One SQL execution while the log is read."""

    at_ms: int
    scans: list[Sighting]
    metrics: dict[int, int] = field(default_factory=dict)
    bytes_fetched: int = 0
    cpu_ns: int = 0


class _Reader:
    """Follows the events of one log, for tables by their names; ``scans`` receives those of each table.

    ``seen`` are the earliest and the latest time of its queries.
    """

    def __init__(self, tables: Mapping[str, frozenset[str]], scans: Mapping[str, list[Scan]]) -> None:
        self._tables, self._scans = tables, scans
        self._names = frozenset[str]().union(*tables.values())
        self._queries: dict[int, _Query] = {}
        self._stages: dict[int, int] = {}
        self._zone: tzinfo = timezone.utc
        self._cached = Cached()
        self.seen: list[int] = []

    def read(self, path: Path) -> None:
        """All events of a log. Broken lines (of a log that is being written) and odd events are left out."""
        marks = {b'"' + kind.encode() + b'"': kind for kind in _KINDS}
        for line in _lines(path):
            head = line[:120]
            kind = next((name for mark, name in marks.items() if mark in head), None)
            if kind is None:
                continue
            try:
                self._event(kind, json.loads(line))
            except _ODD:
                continue

    def end(self) -> None:
        """Keep the queries whose end was not logged."""
        for number in list(self._queries):
            with suppress(*_ODD):
                self._end(number)

    def _event(self, kind: str, event: dict[str, Any]) -> None:
        simple = kind.rpartition(".")[2]
        if simple == "SparkListenerSQLExecutionStart":
            self._start(event)
        elif simple == "SparkListenerEnvironmentUpdate":
            self._zone = zone_of(str(event["System Properties"].get("user.timezone", "UTC")))
        elif simple == "SparkListenerSQLAdaptiveExecutionUpdate":
            query = self._queries.get(event["executionId"])
            if query is not None:
                query.scans = list(sightings(event["sparkPlanInfo"], self._zone)) or query.scans
        elif simple == "SparkListenerDriverAccumUpdates":
            query = self._queries.get(event["executionId"])
            if query is not None:
                query.metrics.update({int(i): int(value) for i, value in event["accumUpdates"]})
        elif simple == "SparkListenerSQLExecutionEnd":
            self._see(int(event["time"]))
            self._end(event["executionId"])
        elif simple == "SparkListenerJobStart":
            execution = (event.get("Properties") or {}).get("spark.sql.execution.id")
            if execution is not None and int(execution) in self._queries:
                self._stages.update(dict.fromkeys(event["Stage IDs"], int(execution)))
        else:
            self._task(event)

    def _see(self, at_ms: int) -> None:
        self.seen = [min([at_ms, *self.seen]), max([at_ms, *self.seen])]

    def _start(self, event: dict[str, Any]) -> None:
        self._see(int(event["time"]))
        if ours(str(event.get("description", ""))):
            return
        scans = list(sightings(event["sparkPlanInfo"], self._zone))
        if any(scans_table(scan, self._names) for scan in scans):
            self._queries[event["executionId"]] = _Query(int(event["time"]), scans)

    def _task(self, event: dict[str, Any]) -> None:
        query = self._queries.get(self._stages.get(event["Stage ID"], -1))
        metrics = event.get("Task Metrics")
        if query is None or not metrics:
            return
        query.bytes_fetched += int(metrics["Input Metrics"]["Bytes Read"])
        query.cpu_ns += int(metrics["Executor CPU Time"])

    def _end(self, number: int) -> None:
        query = self._queries.pop(number, None)
        if query is None:
            return
        self._stages = {stage: owner for stage, owner in self._stages.items() if owner != number}
        alone = len(query.scans) == 1
        for scan in self._cached.counted(query.scans):
            if scans_table(scan, self._names):
                found = scan_of(scan, query.at_ms, query.metrics, _taken(query) if alone else None)
                for table, names in self._tables.items():
                    if scans_table(scan, names):
                        _add(self._scans[table], (found,))


def _taken(query: _Query) -> tuple[int, float]:
    return query.bytes_fetched, query.cpu_ns / 1e9
