"""Rows of an Iceberg snapshot without Spark: pyiceberg reads; equality deletes, which it cannot, are applied here."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent, ManifestEntryStatus
from pyiceberg.table import StaticTable

from lakekeeper.testing.values import text


def rows(metadata: str, snapshot_id: int | None) -> Counter[str]:
    """Canonical texts of all rows at a snapshot, with their numbers; ``metadata`` is a metadata file."""
    table = StaticTable.from_metadata(metadata)
    if snapshot_id is None:
        return Counter()
    entries = _entries(table, snapshot_id)
    if any(e.data_file.content == DataFileContent.EQUALITY_DELETES for e in entries):
        return _with_equality_deletes(table, entries)
    read = table.scan(snapshot_id=snapshot_id).to_arrow()
    return canonical(read)


def canonical(table: pa.Table) -> Counter[str]:
    """Rows as texts that tell values apart, with their numbers."""
    return Counter(text(row) for row in table.to_pylist())


def _entries(table: StaticTable, snapshot_id: int) -> list[Any]:
    snapshot = table.snapshot_by_id(snapshot_id)
    assert snapshot is not None
    manifests = snapshot.manifests(table.io)
    found = [e for m in manifests for e in m.fetch_manifest_entry(table.io, discard_deleted=True)]
    return [e for e in found if e.status != ManifestEntryStatus.DELETED]


def _with_equality_deletes(table: StaticTable, entries: list[Any]) -> Counter[str]:
    """Unpartitioned tables of plain columns that were never renamed, without position deletes."""
    data = [e for e in entries if e.data_file.content == DataFileContent.DATA]
    deletes = [e for e in entries if e.data_file.content == DataFileContent.EQUALITY_DELETES]
    assert len(data) + len(deletes) == len(entries)
    found: Counter[str] = Counter()
    for entry in data:
        later = [d for d in deletes if entry.sequence_number < d.sequence_number]
        gone = [pq.read_table(d.data_file.file_path).to_pylist() for d in later]
        for row in pq.read_table(entry.data_file.file_path).to_pylist():
            shown = {f.name: row.get(f.name) for f in table.schema().fields}
            if not any(d.items() <= shown.items() for deleted in gone for d in deleted):
                found[text(shown)] += 1
    return found
