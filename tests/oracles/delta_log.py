"""A second, independent reader of Delta tables: replays the JSON log and reads Parquet with pyarrow.

It supports deletion vectors (inline and in files), column mapping and partition values, and shares no code with Delta
or with the adapter. Tables must still have all their JSON commits; checkpoints are ignored.
"""

from __future__ import annotations

import json
import math
import struct
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_PORTABLE_MAGIC = 1681511377
_RUN_COOKIE, _NO_RUN_COOKIE = 12347, 12346


@dataclass
class State:
    """Live files of one version: (path, deletion vector id) → its add action; and the current metadata."""

    adds: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)


def versions(table: Path) -> list[int]:
    return sorted(int(p.stem) for p in (table / "_delta_log").glob("[0-9]*.json") if p.stem.isdigit())


def commit(table: Path, version: int) -> list[dict[str, Any]]:
    lines = (table / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    return [json.loads(line) for line in lines if line]


def replay(table: Path, version: int | None = None) -> State:
    """The state at a version; fails if a commit removes a file that is not live or adds one that is."""
    state = State()
    for v in versions(table):
        if version is not None and v > version:
            break
        actions = commit(table, v)
        for action in actions:
            if "remove" in action:
                logical = _logical(action["remove"])
                assert state.adds.pop(logical, None) is not None, (
                    f"version {v} removes {logical}, which is not live"
                )
        for action in actions:
            if "metaData" in action:
                state.metadata = action["metaData"]
            if "add" in action:
                state.adds[_logical(action["add"])] = action["add"]
        paths = Counter(path for path, _ in state.adds)
        doubled = [path for path, n in paths.items() if n > 1]
        assert not doubled, f"version {v} has two live entries of {doubled}"
    return state


def rows(table: Path, version: int | None = None) -> Counter[str]:
    """All rows of a version as a multiset of canonical texts, see `canonical`."""
    state = replay(table, version)
    found: Counter[str] = Counter()
    for add in state.adds.values():
        found.update(canonical(row) for row in file_rows(table, add, state.metadata))
    return found


def canonical(row: Mapping[str, Any]) -> str:
    """A row as text: equal rows of any reader have equal texts."""
    return json.dumps(_plain(dict(row)), sort_keys=True, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    if isinstance(value, datetime):
        moved = value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value
        return moved.isoformat() + ("Z" if value.tzinfo else "")
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    return str(value) if isinstance(value, (Decimal, date)) else value


def _logical(action: Mapping[str, Any]) -> tuple[str, str]:
    dv = action.get("deletionVector")
    if not dv:
        return action["path"], ""
    offset = f"@{dv['offset']}" if dv.get("offset") is not None else ""
    return action["path"], f"{dv['storageType']}{dv['pathOrInlineDv']}{offset}"


def file_rows(table: Path, add: Mapping[str, Any], metadata: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The live rows of one file, by the column names of the schema."""
    schema = json.loads(metadata["schemaString"])
    mode = metadata.get("configuration", {}).get("delta.columnMapping.mode", "none")
    partitions = set(metadata["partitionColumns"])
    # A single file: otherwise pyarrow would infer partitions from the directory names.
    data = pq.ParquetFile(table / unquote(add["path"])).read()
    deleted = deleted_positions(table, add["deletionVector"]) if add.get("deletionVector") else set()
    for position, raw in enumerate(data.to_pylist()):
        if position in deleted:
            continue
        row = {}
        for column in schema["fields"]:
            name = _physical(column, mode)
            if column["name"] in partitions:
                row[column["name"]] = _partition_value(add["partitionValues"].get(name), column["type"])
            else:
                row[column["name"]] = _renamed(raw.get(name), column["type"], mode)
        yield row


def _physical(column: Mapping[str, Any], mode: str) -> str:
    name = column["name"] if mode == "none" else column["metadata"]["delta.columnMapping.physicalName"]
    return str(name)


def _renamed(value: Any, kind: Any, mode: str) -> Any:
    """Nested fields by their names in the schema."""
    if kind == "timestamp" and value is not None and value.tzinfo is None:
        return value.replace(tzinfo=timezone.utc)  # INT96, Spark's default, has no zone
    if value is None or isinstance(kind, str):
        return value
    if kind["type"] == "struct":
        return {f["name"]: _renamed(value.get(_physical(f, mode)), f["type"], mode) for f in kind["fields"]}
    if kind["type"] == "array":
        return [_renamed(v, kind["elementType"], mode) for v in value]
    return [(k, _renamed(v, kind["valueType"], mode)) for k, v in value]


def _partition_value(text: str | None, kind: str) -> Any:
    if text is None or text == "":
        return None
    if kind in ("byte", "short", "integer", "long"):
        return int(text)
    if kind == "date":
        return date.fromisoformat(text)
    return text


def deleted_positions(table: Path, dv: Mapping[str, Any]) -> set[int]:
    """Row numbers that a deletion vector masks."""
    kind, place = dv["storageType"], dv["pathOrInlineDv"]
    if kind == "i":
        blob = z85(place)[: dv["sizeInBytes"]]
    else:
        assert kind == "u", f"a deletion vector of kind {kind}"
        content = (table / vector_file(dv)).read_bytes()
        start = dv["offset"]
        size = struct.unpack_from(">i", content, start)[0]
        assert size == dv["sizeInBytes"]
        blob = content[start + 4 : start + 4 + size]
    found = _bitmap_array(blob)
    assert len(found) == dv["cardinality"]
    return found


def files_of(action: Mapping[str, Any]) -> set[str]:
    """Paths, relative to the table, of the files in an add, a remove or a cdc action: data, and deletion vector."""
    dv = action.get("deletionVector") or {"storageType": ""}
    vector = {vector_file(dv)} if dv["storageType"] == "u" else set()
    return {unquote(action["path"])} | vector


def vector_file(dv: Mapping[str, Any]) -> str:
    """Path, relative to the table, of the file that holds a deletion vector of kind u."""
    prefix, encoded = dv["pathOrInlineDv"][:-20], dv["pathOrInlineDv"][-20:]
    name = f"deletion_vector_{uuid.UUID(bytes=z85(encoded))}.bin"
    return f"{prefix}/{name}" if prefix else name


def z85(text: str) -> bytes:
    out = b""
    for i in range(0, len(text), 5):
        value = 0
        for char in text[i : i + 5]:
            value = value * 85 + Z85.index(char)
        out += value.to_bytes(4, "big")
    return out


def _bitmap_array(blob: bytes) -> set[int]:
    magic, count = struct.unpack_from("<iq", blob, 0)
    assert magic == _PORTABLE_MAGIC
    at, found = 12, set()
    for _ in range(count):
        high = struct.unpack_from("<i", blob, at)[0]
        values, at = _roaring(blob, at + 4)
        found |= {(high << 32) | v for v in values}
    return found


def _roaring(blob: bytes, start: int) -> tuple[set[int], int]:
    """One 32-bit roaring bitmap in its portable form; return the set and the offset of its end."""
    cookie = struct.unpack_from("<I", blob, start)[0]
    at = start + 4
    if cookie & 0xFFFF == _RUN_COOKIE:
        count = (cookie >> 16) + 1
        runs = blob[at : at + (count + 7) // 8]
        at += len(runs)
    else:
        assert cookie == _NO_RUN_COOKIE
        count = struct.unpack_from("<I", blob, at)[0]
        runs, at = b"", at + 4
    heads = [struct.unpack_from("<HH", blob, at + 4 * i) for i in range(count)]
    at += 4 * count
    if not runs or count >= 4:
        at += 4 * count  # offsets, which a sequential reader does not need
    found: set[int] = set()
    for i, (key, less) in enumerate(heads):
        base = key << 16
        if runs and runs[i // 8] >> (i % 8) & 1:
            pairs = struct.unpack_from("<H", blob, at)[0]
            for n in range(pairs):
                first, length = struct.unpack_from("<HH", blob, at + 2 + 4 * n)
                found |= set(range(base + first, base + first + length + 1))
            at += 2 + 4 * pairs
        elif less + 1 <= 4096:
            found |= {base + v for v in struct.unpack_from(f"<{less + 1}H", blob, at)}
            at += 2 * (less + 1)
        else:
            bits = int.from_bytes(blob[at : at + 8192], "little")
            found |= {base + v for v in range(65536) if bits >> v & 1}
            at += 8192
    return found, at
