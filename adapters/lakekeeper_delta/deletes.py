"""The row-level half of the adapter: satisfies ``spi.RowDeletes`` with DataFrames."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakekeeper.core.blocks import Snapshot
from lakekeeper.core.rebase import Changes, Rewrite
from lakekeeper.spi import Commit, Held, Tidied, Traces
from lakekeeper_delta import masks, removal, traces
from lakekeeper_delta.native import Log
from lakekeeper_delta.places import file_and_position, located

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DeltaRowDeletes:
    """Row deletes of one table; safe to use from several driver threads."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def traces(self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes) -> Traces[DataFrame]:
        """Rows that died since the rewrite read them, and all rows it wrote."""
        return traces.traces(self._log, rewrite, snapshot, changes)

    def mask(self, rewrite: Rewrite, hits: DataFrame, changes: Changes) -> Rewrite:
        """The rewrite as it was written, without the rows at these places."""
        return masks.mask(self._log, rewrite, hits, changes)

    def find(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> DataFrame:
        """Places of the live rows that match. Raises Unsupported where rows may not be deleted at all."""
        log, base = self._log, -1 if snapshot.version is None else snapshot.version
        state = log.at(base, snapshot.table_uuid)
        removal.refuse_append_only(log, state)
        wanted = snapshot.blocks.path if paths is None else pa.array(sorted(paths), pa.string())
        rows = log.scan(state, log.add_files(state, wanted.to_pylist()), numbered=True)
        places = rows.where(where).select(*file_and_position(log, rows))
        return located(log, places, wanted)

    def release(self, found: DataFrame) -> None:
        """Nothing is held."""

    def delete(self, hits: Sequence[Held[DataFrame]], snapshot: Snapshot, run_id: str, where: str) -> Commit:
        """One attempt to delete the rows at these places, in one commit that changes data."""
        return removal.delete(self._log, hits, snapshot, run_id, where)

    def tidy(self, snapshot: Snapshot, run_id: str) -> Tidied:
        """Nothing: a deletion vector goes with the action of its file."""
        return Tidied()
