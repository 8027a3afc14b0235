"""Delta tables written by hand, without Spark: any path and any descriptor, cheaply."""

from __future__ import annotations

import json
import os
import struct
import time
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from lakekeeper_delta.locations import encoded_id
from tests.delta.scene import Scene


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class ByHand:
    """A table with a column ``k``, and ``p`` if it is partitioned; each commit is the next version."""

    scene: Scene
    partition: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    _version: int = -1

    def __post_init__(self) -> None:
        self.log.mkdir(parents=True)
        self.commit(self.metadata(), _PROTOCOL)

    @property
    def path(self) -> Path:
        return self.scene.path

    @property
    def log(self) -> Path:
        return self.scene.path / "_delta_log"

    def metadata(self, **properties: str) -> dict[str, Any]:
        names = ["k", self.partition] if self.partition else ["k"]
        fields: list[dict[str, Any]] = [
            {"name": name, "type": "integer" if name == "k" else "string", "nullable": True, "metadata": {}}
            for name in names
        ]
        return {
            "metaData": {
                "id": "5f6a3f30-ccab-40d1-8143-1671cb311100",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": names[1:],
                "configuration": {"delta.enableDeletionVectors": "true", **self.properties, **properties},
                "createdTime": now_ms(),
            }
        }

    def commit(self, *actions: Mapping[str, Any], version: int | None = None, at: int | None = None) -> int:
        """Write a commit and return its version."""
        self._version = self._version + 1 if version is None else version
        info = {"commitInfo": {"timestamp": now_ms() if at is None else at, "operation": "WRITE"}}
        text = "".join(json.dumps(action) + "\n" for action in (info, *actions))
        self.commit_file(self._version).write_text(text)
        return self._version

    def commit_file(self, version: int) -> Path:
        return self.log / f"{version:020d}.json"

    def add(
        self, name: str, keys: Sequence[int] = (1,), *, value: str = "", **changed: Any
    ) -> dict[str, Any]:
        """Write a data file under its plain name; return its add action, with the path as Delta encodes it."""
        place = self.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"k": pa.array(keys, pa.int32())}), place)
        action = {
            "path": quote(name, safe="/=+~"),
            "partitionValues": {self.partition: value} if self.partition else {},
            "size": place.stat().st_size,
            "modificationTime": now_ms(),
            "dataChange": True,
            "stats": json.dumps({"numRecords": len(keys)}),
        }
        return {"add": {**action, **changed}}

    def vectors(self, *deleted: Sequence[int]) -> tuple[Path, list[dict[str, Any]]]:
        """Write one file with a deletion vector for each list of positions; return its path and the descriptors."""
        name = uuid.uuid4()
        place = self.path / f"deletion_vector_{name}.bin"
        content, descriptors = b"\x01", []
        for positions in deleted:
            blob = _bitmap(positions)
            descriptors.append(
                {
                    "storageType": "u",
                    "pathOrInlineDv": encoded_id(name),
                    "offset": len(content),
                    "sizeInBytes": len(blob),
                    "cardinality": len(positions),
                }
            )
            content += struct.pack(">i", len(blob)) + blob + struct.pack(">I", zlib.crc32(blob))
        place.write_bytes(content)
        return place, descriptors

    def stray(self, name: str, *, modified: float | None = None) -> Path:
        """A file that no commit references."""
        self.add(name)
        if modified is not None:
            os.utime(self.path / name, (modified, modified))
        return self.path / name


def removed(add: Mapping[str, Any], **changed: Any) -> dict[str, Any]:
    """The remove action of an add action."""
    kept = {k: v for k, v in add["add"].items() if k in ("path", "partitionValues", "size", "deletionVector")}
    return {"remove": {**kept, "deletionTimestamp": now_ms(), "dataChange": True, **changed}}


def changed(action: Mapping[str, Any], **values: Any) -> dict[str, Any]:
    """The same action with other values."""
    ((kind, content),) = action.items()
    return {kind: {**content, **values}}


_PROTOCOL = {
    "protocol": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors", "changeDataFeed"],
    }
}


def _bitmap(positions: Sequence[int]) -> bytes:
    """A 64-bit roaring bitmap of small positions, as a descriptor's blob."""
    values = sorted(positions)
    container = struct.pack(f"<{len(values)}H", *values)
    small = struct.pack("<II", 12346, 1) + struct.pack("<HHI", 0, len(values) - 1, 16) + container
    return struct.pack("<iq", 1681511377, 1) + struct.pack("<i", 0) + small


def by_hand(spark: SparkSession, path: Path, **arguments: Any) -> ByHand:
    return ByHand(Scene(spark, path), **arguments)
