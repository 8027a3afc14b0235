"""The row-level half of the adapter: satisfies ``spi.RowDeletes`` with DataFrames."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.planning.rebase import Changes, Rewrite
from lakekeeper.spi import Commit, Held, Lost, Places, Prepared, Tidied, Traces
from lakekeeper_delta import deletion_writer, lost_rows, point_lookup, row_delete
from lakekeeper_delta.native import Log
from lakekeeper_delta.rewrite import discard
from lakekeeper_delta.row_positions import file_and_position, located
from lakekeeper_delta.where import covered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DeltaRowDeletes:
    """Row deletes of one table; safe to use from several driver threads."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def lost(self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes) -> Lost:
        """Rows that died since the rewrite was read or masked, by the deletion vectors."""
        return lost_rows.lost_rows(self._log, rewrite, snapshot, changes)

    def places(self, lost: Lost) -> Places | None:
        """Where they are, if they are few: found in single row groups of the outputs."""
        return point_lookup.places(self._log, lost)

    def traces(self, lost: Lost) -> Traces[DataFrame]:
        """The lost rows, and all live rows of the outputs."""
        return lost_rows.traces(self._log, lost)

    def mask(self, lost: Lost, hits: DataFrame | Places) -> Rewrite:
        """The rewrite without the rows at these places."""
        return deletion_writer.mask(self._log, lost, hits)

    def covered(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> frozenset[str]:
        """Files of which every row matches, as partition values and exact statistics prove."""
        log, base = self._log, -1 if snapshot.version is None else snapshot.version
        wanted = snapshot.blocks.path.to_pylist() if paths is None else paths
        return covered(log, log.at(base, snapshot.table_uuid), where, wanted) if wanted else frozenset()

    def find(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> DataFrame:
        """Places of the live rows that match. Raises Unsupported where rows may not be deleted at all."""
        log, base = self._log, -1 if snapshot.version is None else snapshot.version
        state = log.at(base, snapshot.table_uuid)
        row_delete.refuse_append_only(log, state)
        wanted = snapshot.blocks.path if paths is None else pa.array(sorted(paths), pa.string())
        rows = log.scan(state, log.add_files(state, wanted.to_pylist()), numbered=True)
        places = rows.where(where).select(*file_and_position(log, rows))
        return located(log, places, wanted)

    def release(self, found: DataFrame) -> None:
        """Nothing is held."""

    def prepare(
        self, hits: Held[DataFrame] | None, whole: Collection[str], snapshot: Snapshot, run_id: str
    ) -> Prepared:
        """Vectors, or copies of files without their rows; nothing for files that leave whole."""
        return row_delete.prepare(self._log, hits, whole, snapshot, run_id)

    def keep(self, prepared: Prepared, paths: Collection[str], snapshot: Snapshot) -> Prepared:
        """What is about these files, in the form that the table takes deletes in now."""
        return row_delete.keep(self._log, prepared, paths, snapshot)

    def delete(self, prepared: Sequence[Prepared], snapshot: Snapshot, run_id: str, where: str) -> Commit:
        """One attempt, which Delta's conflict checker judges by the table's isolation level."""
        return row_delete.delete(self._log, prepared, snapshot, run_id, where)

    def discard(self, prepared: Sequence[Prepared]) -> None:
        """Delete vector files, copies and files of the change feed that are known not to be committed."""
        discard(self._log, dict.fromkeys(path for each in prepared for path in each.written))

    def tidy(self, snapshot: Snapshot, run_id: str) -> Tidied:
        """Nothing: a deletion vector goes with the action of its file."""
        return Tidied()
