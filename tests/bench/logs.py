"""Live files of a table and their bounds, from the growing log: without Spark, and without lakekeeper."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import numpy as np
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.table import StaticTable

from tests.bench.inputs import fingerprint

_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Live:
    """One live file; bounds of the requested columns, dates as days; the number of delete files that apply to it."""

    path: str
    lo: tuple[float, ...]
    hi: tuple[float, ...]
    bytes: int
    deletes: int = 0


class Log(Protocol):
    """The log of one table."""

    def live(self) -> dict[str, Live]:
        """Live files of the newest version, by path."""
        ...


@dataclass
class DeltaLog:
    """The JSON commits of a Delta table, each read once."""

    table: Path
    columns: tuple[str, ...] = ("k",)
    _next: int = 0
    _live: dict[str, Live] = field(default_factory=dict)

    def live(self) -> dict[str, Live]:
        while (commit := self.table / "_delta_log" / f"{self._next:020d}.json").exists():
            actions = [json.loads(line) for line in commit.read_text().splitlines() if line]
            for action in actions:
                if "remove" in action:
                    self._live.pop(unquote(action["remove"]["path"]), None)
            for action in actions:
                if "add" in action:
                    live = self._file(action["add"])
                    self._live[live.path] = live
            self._next += 1
        return {str(self.table / path): file for path, file in self._live.items()}

    def _file(self, add: dict[str, Any]) -> Live:
        stats = json.loads(add["stats"])
        low, high = (
            tuple(_number(stats[name].get(column)) for column in self.columns)
            for name in ("minValues", "maxValues")
        )
        return Live(unquote(add["path"]), low, high, int(add["size"]), int("deletionVector" in add))


@dataclass
class IcebergLog:
    """The newest metadata file of an Iceberg table; manifests are read once."""

    table: Path
    columns: tuple[str, ...] = ("k",)
    _manifests: dict[str, list[Live]] = field(default_factory=dict)
    _deletes: dict[str, list[str]] = field(default_factory=dict)

    def live(self) -> dict[str, Live]:
        newest = max(
            (self.table / "metadata").glob("*.metadata.json"),
            key=lambda p: int(p.name.lstrip("v").split("-")[0].split(".")[0]),
        )
        table = StaticTable.from_metadata(str(newest))
        fields = [table.schema().find_field(column) for column in self.columns]
        snapshot = table.current_snapshot()
        found: dict[str, Live] = {}
        deletes: Counter[str] = Counter()
        for manifest in snapshot.manifests(table.io) if snapshot else []:
            path = manifest.manifest_path
            if manifest.content == ManifestContent.DELETES:
                if path not in self._deletes:
                    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                    self._deletes[path] = [_referenced(e.data_file) for e in entries]
                deletes.update(self._deletes[path])
                continue
            if path not in self._manifests:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                self._manifests[path] = [
                    self._file(e.data_file, fields)
                    for e in entries
                    if e.status != ManifestEntryStatus.DELETED
                ]
            found |= {file.path: file for file in self._manifests[path]}
        return {path: replace(file, deletes=deletes[path]) for path, file in found.items()}

    def _file(self, data: Any, fields: list[Any]) -> Live:
        low, high = (
            tuple(_number(from_bytes(f.field_type, bounds[f.field_id])) for f in fields)
            for bounds in (data.lower_bounds, data.upper_bounds)
        )
        return Live(data.file_path.removeprefix("file:"), low, high, data.file_size_in_bytes)


_FILE_PATH = 2147483546
"""Id of the column of a position delete file that holds the data file's path (a reserved field id of Iceberg)."""


def _referenced(delete: Any) -> str:
    """The data file of a position delete file: with file granularity, its bounds contain just one."""
    low, high = (bounds[_FILE_PATH] for bounds in (delete.lower_bounds, delete.upper_bounds))
    if low != high:
        raise SystemExit(f"{delete.file_path}: deletes of several data files")
    return str(low.decode()).removeprefix("file:")


def _number(value: Any) -> float:
    """Numbers unchanged, dates as days."""
    if value is None:
        raise SystemExit("a file without statistics of the key: nothing could be compared")
    day = date.fromisoformat(value) if isinstance(value, str) else value
    return float(day.toordinal() - _EPOCH if isinstance(day, date) else day)


def rows_of(live: dict[str, Live], columns: tuple[str, str] = ("k", "id")) -> tuple[int, int, int]:
    """(rows, sum of ids, fingerprint) of live files, read by Arrow; ``columns`` are a double and a bigint."""
    count = id_sum = digest = 0
    for path in live:
        table = pq.ParquetFile(path).read(columns=list(columns))
        ids = table[columns[1]].to_numpy()
        count += len(ids)
        id_sum += int(ids.sum())
        digest ^= fingerprint(np.ascontiguousarray(table[columns[0]].to_numpy()), ids)
    return count, id_sum, digest
