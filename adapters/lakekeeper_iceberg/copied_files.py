"""What copy-on-write statements left of inputs: their rows, and those of the files that were written in their place."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakekeeper.columnar.copied import compare
from lakekeeper.columnar.find import Declined, Written
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.core.planning.successors import Replaced, replaced_apart
from lakekeeper.errors import reason
from lakekeeper.spi import Followed, Remains
from lakekeeper_iceberg.keys import SchemaFields
from lakekeeper_iceberg.lost_positions import Before, Read, have_row_ids, read_positions
from lakekeeper_iceberg.lost_rows import FILE, POSITION, Scans
from lakekeeper_iceberg.point_lookup import Files, identity_of

_log = logging.getLogger(__name__)


def compared(at: Before, rewrite: Rewrite, changes: Changes, paths: Sequence[str]) -> Followed | None:
    """See ``spi.RowDeletes.compared``. Local files are read by path, others through the table's FileIO."""
    try:
        reads = _gone(at, rewrite, changes)
        now = {str(task.file().location()): task for task in successors(at, rewrite, changes, paths)}
        if not now:
            return Followed()
        by_id = have_row_ids(at.table, reads.values())
        identity = identity_of(SchemaFields(at.jvm, at.table.schema()).top, rewrite.task, by_id=by_id)
        kept = rewrite.written.native.kept
        files = Files(at, kept.sources)

        def followed(part: Replaced) -> Followed:
            some = {path: reads[path] for path in part.inputs}
            dead = at.jvm.rows_of(read_positions(at, some))
            before = [
                Written(files.source(path, read.file), rows)
                for (path, read), rows in zip(some.items(), dead, strict=True)
            ]
            left = [files.source(path, now[path].file()) for path in part.files]
            found = compare(before, left, identity, kept.footers)
            return Followed(found.files, found.missing, found.gained)

        parts = replaced_apart(rewrite.task.inputs, reads, now, changes.replacements)
        for part in parts:
            if part not in kept.compared:
                kept.compared[part] = followed(part)
        return Followed.joined(kept.compared[part] for part in parts)
    except Declined as why:
        _log.debug("%s: copies of inputs are compared by a scan: %s", at.name, why)
    except Exception as error:
        # Any failure to read a file this way: the scan reads it, or reports what is wrong.
        _log.debug("%s: copies of inputs are compared by a scan: %s", at.name, reason(error))
    return None


def remains(
    at: Before, scans: Scans, rewrite: Rewrite, changes: Changes, paths: Sequence[str]
) -> Remains[DataFrame] | None:
    """See ``spi.RowDeletes.remains``."""
    now = successors(at, rewrite, changes, paths)
    if not now:
        return None
    reads = _gone(at, rewrite, changes)
    by_id = have_row_ids(scans.table, reads.values())
    file, position = F.col(FILE).alias("file"), F.col(POSITION).alias("position")
    return Remains(
        scans.of([read.task for read in reads.values()]).whole(row_ids=by_id).select("row", file, position),
        scans.of(now).whole(row_ids=by_id).select("row", file, position),
        {str(each.file().location()): int(each.file().recordCount()) for each in now},
    )


def successors(at: Before, rewrite: Rewrite, changes: Changes, paths: Sequence[str]) -> list[Any]:
    """The scan tasks of the files of ``paths`` that may take the place of inputs, as of ``changes``.

    None of them if equality deletes applied to an input. A file with deletes is left out, and one of another partition
    spec than the inputs, because a later equality delete may apply to one spec only.
    """
    reads = at.reads(rewrite).values()
    if any(at.jvm.equality(delete) for read in reads for delete in read.deletes):
        return []
    tasks = at.planner.tasks(at.table, changes.version, paths)
    spec = rewrite.task.spec
    return [each for each in tasks if each.deletes().isEmpty() and int(each.file().specId()) == spec]


def _gone(at: Before, rewrite: Rewrite, changes: Changes) -> dict[str, Read]:
    reads = at.reads(rewrite)
    return {path: reads[path] for path in rewrite.task.inputs if path in changes.removed}
