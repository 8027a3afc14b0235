"""Row counts of files whose AddFile has none: counted, never assumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakekeeper.errors import AdapterError
from lakekeeper.spark.jvm import causes
from lakekeeper_delta.filesystem import in_parallel
from lakekeeper_delta.footers import opened
from lakekeeper_delta.known_state import add_files
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.row_positions import file_and_position, spelled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def physical_rows(log: Log, state: State, paths: Sequence[str], masked: Sequence[str] = ()) -> dict[str, int]:
    """Path → rows of the file, including deleted ones; ``masked`` are those of the files that have deletes.

    A Spark job counts most of them. Where it returns no row for a file, the footer is read: in a scan an empty file
    shows no more than one that is missing or that Spark spells differently. Raises AdapterError for an unreadable file.
    """
    with_deletes = set(masked)
    plain = [path for path in paths if path not in with_deletes]
    counted = _scanned(log, state, plain) if plain else {}
    names = spelled(log, plain)
    rows = {path: counted[names[path]] for path in plain if names[path] in counted}
    others = [path for path in paths if path not in rows]
    return rows | rows_of_footers(log, others)


def rows_of_footers(log: Log, paths: Sequence[str]) -> dict[str, int]:
    """Path → rows of the file, including deleted ones, by its footer. Raises AdapterError for an unreadable file."""
    return dict(zip(paths, in_parallel(lambda path: _footer(log, path), paths), strict=True))


def _scanned(log: Log, state: State, paths: Sequence[str]) -> dict[str, int]:
    """File, as Spark spells it → rows."""
    try:
        frame: DataFrame = log.scan(state, add_files(log, state, paths))
        file, _ = file_and_position(log, frame)
        return {str(row["file"]): int(row["count"]) for row in frame.groupBy(file).count().collect()}
    except AdapterError:
        raise
    except Exception as error:
        raise _unknown(log, f"{len(paths)} files", error) from error


def _footer(log: Log, path: str) -> int:
    try:
        with opened(log, path) as reader:
            return int(reader.getRecordCount())
    except Exception as error:
        raise _unknown(log, path, error) from error


def _unknown(log: Log, what: str, error: Exception) -> AdapterError:
    chain = causes(error)
    why = (chain[-1][1] if chain else str(error)).strip().splitlines()
    return AdapterError(
        f"{log.name}: the number of rows of {what} is not known from the log, and they cannot be counted "
        f"({why[0] if why else type(error).__name__}); nothing was written"
    )
