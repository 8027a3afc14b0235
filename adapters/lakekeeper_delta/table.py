"""The adapter of one Delta table: satisfies ``spi.Adapter`` with DataFrames as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakekeeper.core.blocks import Snapshot, no_blocks
from lakekeeper.core.keys import ClusterKey
from lakekeeper.core.plan import MergeTask
from lakekeeper.core.rebase import Changes, Rewrite
from lakekeeper.spi import Capabilities, Commit, TableName
from lakekeeper_delta import changes, commit, keys, rewrite
from lakekeeper_delta.blocks import read_blocks
from lakekeeper_delta.columns import Found, resolve
from lakekeeper_delta.deletes import DeltaRowDeletes
from lakekeeper_delta.features import check
from lakekeeper_delta.history import commits_ms
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.notes import DeltaNotes
from lakekeeper_delta.storage import DeltaStorage
from lakekeeper_delta.where import matching

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DeltaTable:
    """One table. Methods may be called from several driver threads of one session."""

    def __init__(self, log: Log, identifier: TableName) -> None:
        self._log = log
        self._identifier = identifier
        self._storage = DeltaStorage(log)

    @property
    def table(self) -> str:
        """The name the caller gave."""
        return self._identifier.text

    @property
    def capabilities(self) -> Capabilities:
        """As of the newest version."""
        state = self._log.latest()
        return Capabilities(
            row_deletes=state.masks_rows,
            stores_level=True,
            row_lineage=state.tracks_rows,
            time_travel=True,
            native_key=keys.native_place(state),
        )

    def properties(self) -> Mapping[str, str]:
        """The table's properties, as of now; nothing is listed where no commit came since Delta last looked."""
        return self._storage.newest().properties

    def refuse_unsupported(self) -> State:
        """The newest version; raises Unsupported for a feature that is not on the allow-list, NotFound for no table."""
        state = self._log.latest()
        check(self.table, state.reader, state.writer, state.features, state.properties)
        return state

    def set_cluster_key(self, columns: Sequence[str], layout: str) -> None:
        """Store the key: CLUSTER BY on an unpartitioned table, else the property ``lakekeeper.cluster-by``.

        A layout other than linear is kept beside CLUSTER BY, in the property ``_lakekeeper.cluster-layout``.
        Raises OptionError for columns that can be no key, before anything is written.
        """
        state = self.refuse_unsupported()
        key, _ = self._resolve(state, tuple(columns), layout)
        keys.store(self._log, state, key)

    def snapshot(self, columns: Sequence[str] | None = None, where: str | None = None) -> Snapshot:
        """The newest version as blocks; see ``spi.Adapter.snapshot``."""
        state = self.refuse_unsupported()
        stored = (tuple(columns), "linear") if columns is not None else keys.stored_columns(self._log, state)
        key: ClusterKey | None = None
        found: list[Found] = []
        if stored[0]:
            key, found = self._resolve(state, *stored)
            if not keys.is_laid_out(state, key):
                key, found = self._resolve(state, stored[0], "linear")
        keep = matching(self._log, state, where) if where else None
        blocks = read_blocks(self._log, state, key, found, keep)
        return Snapshot(
            table=self.table,
            format="delta",
            version=state.version,
            table_uuid=state.table_uuid,
            schema_id=state.schema_id,
            key=key,
            blocks=blocks,
            complete=not where,
            properties=state.properties,
            commits_ms=commits_ms(self._log, state, blocks),
        )

    def version(self) -> Snapshot:
        """The newest version without key and blocks; the log's folder is listed, and no data file."""
        state = self.refuse_unsupported()
        return Snapshot(
            table=self.table,
            format="delta",
            version=state.version,
            table_uuid=state.table_uuid,
            schema_id=state.schema_id,
            key=None,
            blocks=no_blocks(),
            complete=False,
            properties=state.properties,
        )

    def read(self, task: MergeTask) -> DataFrame:
        """The live rows of the task's inputs, with row ids where the table tracks them."""
        return rewrite.read(self._log, task)

    def write(self, rows: DataFrame, task: MergeTask) -> Rewrite:
        """Write rows as files nobody sees yet. Extra columns that ``read`` gave must still be there."""
        return rewrite.write(self._log, rows, task)

    def commit(self, rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
        """One attempt; raises Conflict, Rejected or Unknown."""
        return commit.commit(self._log, rewrites, snapshot, run_id)

    def release(self, task: MergeTask) -> None:
        """Nothing is held but the actions of a few tasks, which give way to others."""

    def discard(self, rewrites: Sequence[Rewrite]) -> None:
        """Delete ``outputs`` and ``extra`` files of rewrites that are known not to be committed."""
        named = [path for r in rewrites for path in (*(o.path for o in r.outputs), *r.extra)]
        rewrite.discard(self._log, dict.fromkeys(named))

    @property
    def deletes(self) -> DeltaRowDeletes:
        """The row-level half."""
        return DeltaRowDeletes(self._log)

    @property
    def notes(self) -> DeltaNotes:
        """What is kept in the folder ``_lakekeeper`` of the table."""
        return DeltaNotes(self._log)

    @property
    def storage(self) -> DeltaStorage:
        """The table's files, for a vacuum."""
        return self._storage

    def changes_since(self, snapshot: Snapshot) -> Changes:
        """What was committed since, read from the log."""
        return changes.changes_since(self._log, snapshot)

    def _resolve(self, state: State, names: Sequence[str], layout: str) -> tuple[ClusterKey, list[Found]]:
        conf = self._log.jvm.session.sessionState().conf()
        return resolve(state, names, layout, case_sensitive=bool(conf.caseSensitiveAnalysis()))
