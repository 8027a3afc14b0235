"""Rows of an Iceberg snapshot without Spark: pyiceberg reads, and this module applies equality deletes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntryStatus
from pyiceberg.table import StaticTable
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

from lakekeeper.testing.values import text

NOTHING: Mapping[str, str] = MappingProxyType({})
"""Properties for access to a store: none for the local disk."""


def rows(metadata: str, snapshot_id: int | None, properties: Mapping[str, str] = NOTHING) -> Counter[str]:
    """Canonical texts of all rows at a snapshot, with their counts; ``metadata`` is a metadata file."""
    return Counter(text(row) for row in records(metadata, snapshot_id, properties))


def records(
    metadata: str, snapshot_id: int | None, properties: Mapping[str, str] = NOTHING
) -> list[dict[str, Any]]:
    """All rows at a snapshot, by the names of its schema."""
    if snapshot_id is None:
        return []
    table = StaticTable.from_metadata(metadata, dict(properties))
    entries = _entries(table, snapshot_id)
    if any(e.data_file.content == DataFileContent.EQUALITY_DELETES for e in entries):
        return _with_equality_deletes(table, entries)
    return table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()


def named_files(metadata: str, properties: Mapping[str, str] = NOTHING) -> set[str]:
    """All files that a table's versions reference, except metadata files: data, deletes, manifests, manifest lists."""
    table = StaticTable.from_metadata(metadata, dict(properties))
    named: set[str] = set()
    manifests: dict[str, Any] = {}
    for snapshot in table.metadata.snapshots:
        named.add(snapshot.manifest_list)
        manifests |= {m.manifest_path: m for m in snapshot.manifests(table.io)}
    for path, manifest in manifests.items():
        entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        named |= {path} | {entry.data_file.file_path for entry in entries}
    return {path.removeprefix("file:") for path in named}


def canonical(table: pa.Table) -> Counter[str]:
    """Rows as texts that distinguish values, with their counts."""
    return Counter(text(row) for row in table.to_pylist())


def _entries(table: StaticTable, snapshot_id: int) -> list[Any]:
    snapshot = table.snapshot_by_id(snapshot_id)
    assert snapshot is not None
    manifests = snapshot.manifests(table.io)
    found = [e for m in manifests for e in m.fetch_manifest_entry(table.io, discard_deleted=True)]
    return [e for e in found if e.status != ManifestEntryStatus.DELETED]


def _with_equality_deletes(table: StaticTable, entries: list[Any]) -> list[dict[str, Any]]:
    """Tables of plain columns that were never renamed."""
    data = [e for e in entries if e.data_file.content == DataFileContent.DATA]
    deletes = [e for e in entries if e.data_file.content == DataFileContent.EQUALITY_DELETES]
    masked = _positions(
        table, [e for e in entries if e.data_file.content == DataFileContent.POSITION_DELETES]
    )
    found = []
    for entry in data:
        path = entry.data_file.file_path
        later = [
            d
            for d in deletes
            if entry.sequence_number < d.sequence_number and _same_place(table, d.data_file, entry.data_file)
        ]
        gone = [pq.read_table(d.data_file.file_path).to_pylist() for d in later]
        for position, row in enumerate(pq.read_table(path).to_pylist()):
            shown = {f.name: row.get(f.name) for f in table.schema().fields}
            dead = any(d.items() <= shown.items() for deleted in gone for d in deleted)
            if not dead and (path, position) not in masked:
                found.append(shown)
    return found


def _same_place(table: StaticTable, delete: DataFile, data: DataFile) -> bool:
    """Whether an equality delete file has the partition of a data file, or is global."""
    if table.specs()[delete.spec_id].is_unpartitioned():
        return True
    return (delete.spec_id, delete.partition) == (data.spec_id, data.partition)


def _positions(table: StaticTable, entries: list[Any]) -> set[tuple[str, int]]:
    """Positions in position deletes and deletion vectors. Vectors only grow: a replaced one holds no others."""
    masked: set[tuple[str, int]] = set()
    for path in {e.data_file.file_path for e in entries}:
        if path.endswith(".puffin"):
            puffin = PuffinFile(table.io.new_input(path).open().read())
            for vector in deletion_vectors_from_puffin_file(puffin):
                places = vector.to_vector().to_pylist()
                masked |= {(vector.referenced_data_file, p) for p in places}
        else:
            masked |= {(r["file_path"], r["pos"]) for r in pq.read_table(path).to_pylist()}
    return masked
