"""Row counts of files that have no statistics: counted by a scan, which spells addresses as URIs do.

A scan shows no row of an empty file, just as it shows none of a file that it spells in another way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from lakekeeper.errors import AdapterError
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.versions import DataFile


def physical_rows(table: MemoryTable, files: Sequence[DataFile]) -> list[int]:
    """Rows of each file, including deleted ones: as recorded with its statistics, else as counted.

    A file of which the scan shows no row is opened. Raises AdapterError for a file that is gone.
    """
    counted = scanned(table, [file.path for file in files if not file.statistics])
    return [
        len(file.rows)
        if file.statistics
        else counted.get(address(table, file.path)) or len(opened(table, file.path).rows)
        for file in files
    ]


def scanned(table: MemoryTable, paths: Iterable[str]) -> dict[str, int]:
    """Address → rows, of the files that have any."""
    rows = {address(table, path): len(table.disk[path].rows) for path in paths if path in table.disk}
    return {where: count for where, count in rows.items() if count}


def address(table: MemoryTable, path: str) -> str:
    """A file's address as a scan shows it."""
    return quote(f"/{table.location}/{path}")


def opened(table: MemoryTable, path: str) -> DataFile:
    """The file itself. Raises AdapterError if it is gone."""
    file = table.disk.get(path)
    if file is None:
        raise AdapterError(
            f"{table.name}: the log does not record the number of rows of {path}, and the file is gone; nothing was "
            "written"
        )
    return file
