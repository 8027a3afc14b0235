"""Row-level deletes of the adapter: satisfies ``spi.RowDeletes`` with DataFrames."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.spark.predicates import referenced
from lakekeeper.spi import Commit, Followed, Held, Lost, Places, Prepared, Remains, Tidied, Traces
from lakekeeper_delta import (
    copied_files,
    deletion_writer,
    lost_rows,
    point_lookup,
    row_delete,
    row_id_watermark,
)
from lakekeeper_delta.known_state import add_files
from lakekeeper_delta.native import Log
from lakekeeper_delta.rewrite import discard
from lakekeeper_delta.row_positions import file_and_position, located
from lakekeeper_delta.where import covered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DeltaRowDeletes:
    """Row-level deletes of one table; safe to use from several driver threads."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def compared(
        self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, files: Sequence[str]
    ) -> Followed | None:
        """The rows that a few successors lack, found in the driver."""
        return copied_files.compared(self._log, rewrite, changes, files)

    def remains(
        self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, files: Sequence[str]
    ) -> Remains[DataFrame] | None:
        """The rows of inputs that were copied on write, and those of their successors."""
        return copied_files.remains(self._log, rewrite, changes, files)

    def lost(
        self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, followed: Followed | None = None
    ) -> Lost:
        """Rows lost since the rewrite was read or last replayed, from the deletion vectors."""
        row_id_watermark.read_ahead(self._log)
        return lost_rows.lost_rows(self._log, rewrite, snapshot, changes, followed)

    def places(self, lost: Lost) -> Places | None:
        """Positions of the lost rows in the outputs, if they are few: found in single row groups."""
        return point_lookup.places(self._log, lost)

    def traces(self, lost: Lost) -> Traces[DataFrame]:
        """The lost rows, and all live rows of the outputs."""
        return lost_rows.traces(self._log, lost)

    def mask(self, lost: Lost, hits: DataFrame | Places) -> Rewrite:
        """The rewrite with the rows at these positions deleted."""
        return deletion_writer.mask(self._log, lost, hits)

    def covered(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> frozenset[str]:
        """Files in which every row matches, as proven by partition values and exact statistics."""
        log, base = self._log, -1 if snapshot.version is None else snapshot.version
        wanted = snapshot.blocks.path.to_pylist() if paths is None else paths
        return covered(log, log.at(base, snapshot.table_uuid), where, wanted) if wanted else frozenset()

    def find(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> DataFrame:
        """Positions of the live rows that match. Raises Unsupported if the table forbids deleting rows."""
        log, base = self._log, -1 if snapshot.version is None else snapshot.version
        state = log.at(base, snapshot.table_uuid)
        row_delete.refuse_append_only(log, state)
        wanted = snapshot.blocks.path if paths is None else pa.array(sorted(paths), pa.string())
        adds = add_files(log, state, wanted.to_pylist())
        rows = log.scan(state, adds, numbered=True, padded=True)
        if _may_compare_floats(log, rows, where):
            # For x = 0, Parquet's dictionaries and Bloom filters exclude row groups with -0.0, which Spark takes for 0.
            rows = log.scan(state, adds, numbered=True, padded=True, whole=True)
        places = rows.where(where).select(*file_and_position(log, rows))
        return located(log, places, wanted)

    def release(self, found: DataFrame) -> None:
        """No-op: nothing is held."""

    def prepare(
        self, hits: Held[DataFrame] | None, whole: Collection[str], snapshot: Snapshot, run_id: str
    ) -> Prepared:
        """Write deletion vectors, or copies of files without the rows; nothing for files removed as a whole."""
        return row_delete.prepare(self._log, hits, whole, snapshot, run_id)

    def keep(self, prepared: Prepared, paths: Collection[str], snapshot: Snapshot) -> Prepared:
        """The part for these files that has the form in which the table takes deletes now."""
        return row_delete.keep(self._log, prepared, paths, snapshot)

    def delete(self, prepared: Sequence[Prepared], snapshot: Snapshot, run_id: str, where: str) -> Commit:
        """One attempt, which Delta's conflict checker checks at the table's isolation level."""
        return row_delete.delete(self._log, prepared, snapshot, run_id, where)

    def discard(self, prepared: Sequence[Prepared]) -> None:
        """Delete deletion vector files, copies and change data files that are known to be uncommitted."""
        discard(self._log, dict.fromkeys(path for each in prepared for path in each.written))

    def may_tidy(self, snapshot: Snapshot) -> bool:
        """Never: a deletion vector is part of its file's action."""
        return False

    def tidy(self, snapshot: Snapshot, run_id: str) -> Tidied:
        return Tidied()


def _may_compare_floats(log: Log, rows: DataFrame, where: str) -> bool:
    """Whether a predicate refers to a FLOAT or DOUBLE."""
    try:
        kinds = referenced(log.jvm, rows, where).values()
    except ValueError:  # Spark computes a part of it below the filter
        return True
    return any(re.search('"(float|double)"', kind) for kind in kinds)
