"""What copy-on-write statements left of inputs: their rows, and those of the files that were written in their place."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lakekeeper.columnar.copied import compare
from lakekeeper.columnar.find import Declined, Written
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.core.planning.successors import Replaced, replaced_apart
from lakekeeper.errors import reason
from lakekeeper.spi import Followed, Remains
from lakekeeper_delta import partition_values
from lakekeeper_delta.deletion_vectors import positions, vector_of
from lakekeeper_delta.known_state import add_files
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.point_lookup import Files, identity_of
from lakekeeper_delta.row_positions import file_and_position, metadata, quoted, spelled

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_log = logging.getLogger(__name__)


def compared(log: Log, rewrite: Rewrite, changes: Changes, paths: Sequence[str]) -> Followed | None:
    """See ``spi.RowDeletes.compared``. Reads files with the credentials of the table's own Hadoop configuration."""
    task, native = rewrite.task, rewrite.written.native
    read, gone = native.by_path, _gone(rewrite, changes)
    try:
        state = log.at(task.read_version, task.table_uuid)
        if _hides_metadata(state):
            return Followed()
        files, identity = Files(log, native.sources), identity_of(state, task)
        adds = log.jvm.items(add_files(log, log.at(changes.version, task.table_uuid), paths))
        # Files store no partition columns, and an UPDATE may change these alone.
        here = {str(add.path()): add for add in adds if partition_values.same(add, read[gone[0]])}

        def followed(part: Replaced) -> Followed:
            before = [
                Written(files.source(read[path]), positions(log, vector_of(log, read[path])))
                for path in part.inputs
            ]
            left = [files.source(here[path]) for path in part.files]
            found = compare(before, left, identity, native.footers)
            return Followed(found.files, found.missing, found.gained)

        parts = replaced_apart(task.inputs, gone, here, changes.replacements)
        for part in parts:
            if part not in native.compared:
                native.compared[part] = followed(part)
        return Followed.joined(native.compared[part] for part in parts)
    except Declined as why:
        _log.debug("%s: copies of inputs are compared by a scan: %s", log.name, why)
    except Exception as error:
        # A file cannot be read this way, for whatever reason: a scan reads it, or reports what is wrong with it.
        _log.debug("%s: copies of inputs are compared by a scan: %s", log.name, reason(error))
    return None


def _hides_metadata(state: State) -> bool:
    """Whether a column is named ``_metadata``: Delta can then not apply the vectors that select deleted rows."""
    return any(field["name"].lower() == "_metadata" for field in state.schema["fields"])


def _gone(rewrite: Rewrite, changes: Changes) -> list[str]:
    return [path for path in rewrite.task.inputs if path in changes.removed]


def remains(log: Log, rewrite: Rewrite, changes: Changes, files: Sequence[str]) -> Remains[DataFrame] | None:
    """See ``spi.RowDeletes.remains``. Starts no job."""
    task, read = rewrite.task, rewrite.written.native.by_path
    then, now = (log.at(at, task.table_uuid) for at in (task.read_version, changes.version))
    if _hides_metadata(then):
        return None
    gone = _gone(rewrite, changes)
    before = log.scan(then, log.jvm.array_list(read[path] for path in gone), numbered=True)
    adds = log.jvm.items(add_files(log, now, files))
    sizes = {str(add.path()): int(n.get()) for add in adds if (n := add.numPhysicalRecords()).isDefined()}
    here = log.jvm.array_list(add for add in adds if str(add.path()) in sizes)
    after = log.scan(now, here, numbered=True)
    rows = before.select(_whole(then, before), *file_and_position(log, before))
    left = after.select(_whole(now, after), *file_and_position(log, after))
    return Remains(_named(log, rows, gone), _named(log, left, sizes), sizes)


def _named(log: Log, rows: DataFrame, paths: Iterable[str]) -> DataFrame:
    """The rows with each file spelled as in ``paths``, of which there are few."""
    from pyspark.sql import functions as F

    file = F.col("file")
    for path, spelling in spelled(log, paths).items():
        if spelling != path:
            file = F.when(F.col("file") == spelling, path).otherwise(file)
    return rows.withColumn("file", file)


def _whole(state: State, frame: DataFrame) -> Column:
    """All values of a row, those of partition columns too: an UPDATE may change them alone."""
    from pyspark.sql import functions as F

    values = [F.col(quoted(name)).alias(f"c{i}") for i, name in enumerate(frame.columns)]
    row_id = [metadata(frame).getField("row_id").alias("row_id")] if state.tracks_rows else []
    return F.struct(*values, *row_id).alias("row")
