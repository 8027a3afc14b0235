"""Data files rewritten without some rows, where a table or a commit supports no row-level deletes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakekeeper_iceberg import staging
from lakekeeper_iceberg.native import Iceberg


def live_copies(
    jvm: Iceberg,
    table: Any,
    masked: Sequence[tuple[Any, Any]],
    paths: Sequence[str],
    run: str,
    *,
    row_ids: bool = False,
) -> dict[str, list[Any]]:
    """Path → new DataFiles, in the folder of a run, with the live rows of each (DataFile, delete file) pair.

    The delete files at ``paths`` are temporary, and are deleted.
    """
    made: dict[str, list[Any]] = {}
    try:
        for file, delete in masked:
            path = str(file.location())
            made[path] = staging.copy_live_rows(jvm, table, file, [delete], run, row_ids=row_ids)
    except BaseException:
        staging.delete_own(jvm, table, [str(f.location()) for files in made.values() for f in files])
        raise
    finally:
        staging.delete_own(jvm, table, paths)
    return made
