"""Row counts of files without statistics, from a scan that reports the addresses of files in encoded form.

A scan returns no rows of an empty file. The same is true of a file that is looked up by an address that is not encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from lakekeeper.errors import AdapterError
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.versions import DataFile


def physical_rows(table: MemoryTable, files: Sequence[DataFile]) -> list[int]:
    """The number of rows of each file, including deleted ones: from its statistics, else as counted by a scan.

    If the scan returns no rows of a file, the file is opened. Raises AdapterError if a file is missing.
    """
    counted = scanned(table, [file.path for file in files if not file.statistics])
    return [
        len(file.rows)
        if file.statistics
        else counted.get(address(table, file.path)) or len(opened(table, file.path).rows)
        for file in files
    ]


def scanned(table: MemoryTable, paths: Iterable[str]) -> dict[str, int]:
    """Address → number of rows, for files that have rows."""
    rows = {address(table, path): len(table.disk[path].rows) for path in paths if path in table.disk}
    return {where: count for where, count in rows.items() if count}


def address(table: MemoryTable, path: str) -> str:
    """The address of a file as a scan reports it."""
    return quote(f"/{table.location}/{path}")


def opened(table: MemoryTable, path: str) -> DataFile:
    """The file itself. Raises AdapterError if it is missing."""
    file = table.disk.get(path)
    if file is None:
        raise AdapterError(
            f"{table.name}: the log does not record the number of rows of {path}, and the file is missing; "
            "nothing was written"
        )
    return file
