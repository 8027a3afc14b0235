"""The data files of scan tasks as plain data, in one call for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper_iceberg.handles import BulkJvm

_TASK, _LIST = "org.apache.iceberg.FileScanTask", "java.util.List"
_CONTENT_FILE, _DATA_FILE = "org.apache.iceberg.ContentFile", "org.apache.iceberg.DataFile"
_FACTS = (
    ("location", "java.lang.String"),
    ("format", "org.apache.iceberg.FileFormat"),
    ("keyMetadata", "java.nio.ByteBuffer"),
    ("specId", "int"),
    ("recordCount", "long"),
    ("fileSizeInBytes", "long"),
    ("firstRowId", "java.lang.Long"),
    ("dataSequenceNumber", "java.lang.Long"),
)


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A data file, and whether delete files apply to it. None: the metadata does not say."""

    location: str
    format: str
    encrypted: bool
    spec: int
    rows: int
    bytes: int
    first_row_id: int | None
    sequence_number: int | None
    has_deletes: bool


def scanned_files(jvm: BulkJvm, tasks: Sequence[Any]) -> list[ScannedFile]:
    """The files of FileScanTasks, in their order."""
    of = jvm.handles

    def values() -> list[Any]:
        file = of.method(_TASK, "file", _CONTENT_FILE).asType(of.type(_DATA_FILE, _TASK))
        facts = [of.invoke.filterReturnValue(file, of.method(_DATA_FILE, *fact)) for fact in _FACTS]
        deletes, empty = of.method(_TASK, "deletes", _LIST), of.method(_LIST, "isEmpty", "boolean")
        return [*facts, of.invoke.filterReturnValue(deletes, empty)]

    described = jvm.records_by(jvm.array_list(tasks), of.joined(_TASK, values, "scanned file"))
    return [_file(*each) for each in described]


def deletes_of(jvm: BulkJvm, tasks: Sequence[Any]) -> list[Any]:
    """The delete files of FileScanTasks, one task after the other."""
    lists = jvm.collect.Iterables.transform(
        jvm.array_list(tasks), jvm.handles.getter(_TASK, "deletes", _LIST)
    )
    return jvm.items(jvm.collect.Lists.newArrayList(jvm.collect.Iterables.concat(lists)))


def _file(location: str, format_: str, key: str, spec: str, *rest: str) -> ScannedFile:
    rows, size, first, sequence, clean = rest
    return ScannedFile(
        location,
        format_,
        encrypted=bool(key),
        spec=int(spec),
        rows=int(rows),
        bytes=int(size),
        first_row_id=int(first) if first else None,
        sequence_number=int(sequence) if sequence else None,
        has_deletes=clean != "true",
    )
