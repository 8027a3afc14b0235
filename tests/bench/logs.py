"""Live files of a table and their bounds of ``k``, from the log as it grows: without Spark, and without lakekeeper."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import numpy as np
import pyarrow.parquet as pq
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import StaticTable

from tests.bench.inputs import fingerprint


@dataclass(frozen=True)
class Live:
    """One live file."""

    path: str
    lo: float
    hi: float
    bytes: int


class Log(Protocol):
    """The log of one table."""

    def live(self) -> dict[str, Live]:
        """Live files of the newest version, by path."""
        ...


@dataclass
class DeltaLog:
    """The JSON commits of a Delta table, each read once."""

    table: Path
    column: str = "k"
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
        low, high = (stats[name].get(self.column) for name in ("minValues", "maxValues"))
        return Live(unquote(add["path"]), _number(low), _number(high), int(add["size"]))


@dataclass
class IcebergLog:
    """The newest metadata file of an Iceberg table; manifests are read once."""

    table: Path
    field_id: int = 1
    _manifests: dict[str, list[Live]] = field(default_factory=dict)

    def live(self) -> dict[str, Live]:
        newest = max(
            (self.table / "metadata").glob("*.metadata.json"),
            key=lambda p: int(p.name.lstrip("v").split("-")[0].split(".")[0]),
        )
        table = StaticTable.from_metadata(str(newest))
        snapshot = table.current_snapshot()
        found: dict[str, Live] = {}
        for manifest in snapshot.manifests(table.io) if snapshot else []:
            path = manifest.manifest_path
            if path not in self._manifests:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                self._manifests[path] = [
                    self._file(e.data_file) for e in entries if e.status != ManifestEntryStatus.DELETED
                ]
            found |= {file.path: file for file in self._manifests[path]}
        return found

    def _file(self, data: Any) -> Live:
        low, high = (
            struct.unpack("<d", bounds[self.field_id])[0] for bounds in (data.lower_bounds, data.upper_bounds)
        )
        return Live(data.file_path.removeprefix("file:"), low, high, data.file_size_in_bytes)


def _number(value: Any) -> float:
    if value is None:
        raise SystemExit("a file without statistics of the key: nothing could be compared")
    return float(value)


def rows_of(live: dict[str, Live]) -> tuple[int, int, int]:
    """(rows, sum of ids, fingerprint) of live files, read by Arrow."""
    count = id_sum = digest = 0
    for path in live:
        table = pq.ParquetFile(path).read(columns=["k", "id"])
        ids = table["id"].to_numpy()
        count += len(ids)
        id_sum += int(ids.sum())
        digest ^= fingerprint(np.ascontiguousarray(table["k"].to_numpy()), ids)
    return count, id_sum, digest
