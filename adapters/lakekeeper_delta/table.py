"""The adapter of one Delta table: satisfies ``spi.Adapter`` with DataFrames as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.block_changes import only_blocks
from lakekeeper.core.model.blocks import Snapshot, no_blocks
from lakekeeper.core.model.keys import ClusterKey
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.report import KeyReport
from lakekeeper.core.model.stored_key import KEY_PROPERTY
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.errors import OptionError
from lakekeeper.spi import Capabilities, Commit, TableName
from lakekeeper_delta import changes, commit, keys, log_stores, rewrite, trino_cleanup
from lakekeeper_delta.block_refresh import refreshed_blocks
from lakekeeper_delta.blocks import read_blocks, without_key
from lakekeeper_delta.bloom_filters import DeltaBloomFilters
from lakekeeper_delta.columnar import DeltaColumnar
from lakekeeper_delta.columns import Found, resolve
from lakekeeper_delta.commit_times import commits_ms, recent_commits
from lakekeeper_delta.compute_statistics import DeltaStatistics
from lakekeeper_delta.deletes import DeltaRowDeletes
from lakekeeper_delta.features import check
from lakekeeper_delta.log_lineage import follows
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.notes import DeltaNotes
from lakekeeper_delta.restore import DeltaRestores
from lakekeeper_delta.storage import DeltaStorage
from lakekeeper_delta.undo import DeltaUndos
from lakekeeper_delta.where import matching

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DeltaTable:
    """One Delta table. Several driver threads of one session may call its methods."""

    def __init__(self, log: Log, identifier: TableName) -> None:
        self._log = log
        self._identifier = identifier
        self._storage = DeltaStorage(log, identifier)

    @property
    def table(self) -> str:
        """The table name as the caller gave it."""
        return self._identifier.text

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities as of the newest version."""
        state = self._log.latest()
        return Capabilities(
            row_deletes=state.masks_rows,
            stores_level=True,
            row_lineage=state.tracks_rows,
            time_travel=True,
            native_key=keys.native_place(state),
        )

    def require_writable(self, options: Options) -> None:
        """Raise Unsupported where two drivers can overwrite each other's commits, or a lost one deletes live files."""
        single_driver = options.session.single_driver
        log_stores.refuse_second_driver(self._log, single_driver=single_driver)
        self._log.single_driver = single_driver
        self._log.fixed_trino = options.session.fixed_trino
        # Calls have looked at the table before; the commit looks at the newest version.
        trino_cleanup.refuse_before_writing(self._log, self._log.in_memory())

    def properties(self) -> Mapping[str, str]:
        """The current table properties. Lists nothing unless a commit follows the snapshot that Delta has in memory."""
        return self._storage.newest().properties

    def refuse_unsupported(self) -> State:
        """The newest version. Raises Unsupported for a feature not on the allow-list, NotFound if no table exists."""
        state = self._log.latest()
        check(self.table, state.reader, state.writer, state.features, state.properties)
        return state

    def set_cluster_key(
        self, columns: Sequence[str], layout: str = "linear", *, native: bool = False, dry_run: bool = False
    ) -> KeyReport:
        """Store the key: by CLUSTER BY if the table uses it or ``native`` is set, else as a table property.

        CLUSTER BY permanently upgrades the protocol of a table that lacks the feature. Raises OptionError, before
        anything is written, for columns that cannot be a key and for CLUSTER BY on a partitioned table.
        """
        state = self.refuse_unsupported()
        before, _, _ = keys.stored_key(self._log, state, self._resolving(state))
        by_clustering = native or bool(keys.native_columns(self._log, state))
        if native and not keys.native_place(state):
            raise OptionError(
                "native", native, "False, because a partitioned Delta table cannot have CLUSTER BY"
            )
        key, found = self._resolving(state)(columns, layout) if columns else (None, [])
        if not dry_run:
            log_stores.refuse_second_driver(self._log, single_driver=self._log.single_driver)
        upgrades = keys.protocol_changes(self._log, state) if by_clustering and key else ()
        if not dry_run and key is None:
            keys.remove(self._log, state)
        elif not dry_run and key is not None:
            keys.store(self._log, state, key, found, native=by_clustering)
        kept_as = "CLUSTER BY" if by_clustering else f"table property {KEY_PROPERTY}"
        return KeyReport(self.table, dry_run, str(before or ""), str(key or ""), kept_as, upgrades)

    def snapshot(self, columns: Sequence[str] | None = None, where: str | None = None) -> Snapshot:
        """The newest version as blocks; see ``spi.Adapter.snapshot``."""
        state = self.refuse_unsupported()
        key, found, problem = self._key(state, columns)
        blocks = read_blocks(self._log, state, key, found)
        whole = Snapshot(
            table=self.table,
            format="delta",
            version=state.version,
            table_uuid=state.table_uuid,
            schema_id=state.schema_id,
            key=key,
            blocks=blocks,
            properties=state.properties,
            commits_ms=commits_ms(recent_commits(self._log, state), blocks),
            key_problem=problem,
            log_mark=state.log_mark,
        )
        return self.matching(whole, where) if where else whole

    def matching(self, snapshot: Snapshot, where: str) -> Snapshot:
        """The blocks of ``snapshot`` that Delta's data skipping keeps for ``where``."""
        version = -1 if snapshot.version is None else snapshot.version
        paths = matching(self._log, self._log.at(version, snapshot.table_uuid), where)
        blocks = only_blocks(snapshot.blocks, paths)
        return replace(snapshot, blocks=blocks, complete=False)

    def refresh(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> Snapshot | None:
        """``snapshot`` with the files of the commits since; every change of a Delta table is a commit.

        None after a change of metadata, protocol or key, after more commits than a whole read is worth, and where log
        cleanup has removed one of them. None too where the log does not show the commit of ``snapshot``: the log may
        have been restored from a backup, and written on.
        """
        state = self.refuse_unsupported()
        if state.table_uuid != snapshot.table_uuid or snapshot.version is None:
            return None
        if state.version <= snapshot.version:
            same = follows(self._log, state, snapshot.version, snapshot.log_mark)
            return snapshot if same else None
        key, found, problem = self._key(state, columns)
        if (key, problem) != (snapshot.key, snapshot.key_problem):
            return None
        recent = recent_commits(self._log, state)
        if not follows(self._log, state, snapshot.version, snapshot.log_mark, recent):
            return None
        blocks = refreshed_blocks(self._log, state, snapshot, found)
        if blocks is None:
            return None
        return replace(
            snapshot,
            version=state.version,
            blocks=blocks,
            commits_ms=commits_ms(recent, blocks),
            log_mark=state.log_mark,
        )

    def _key(
        self, state: State, columns: Sequence[str] | None
    ) -> tuple[ClusterKey | None, Sequence[Found], str]:
        """The key named by the caller, else the table's own; its columns; why the table's own is unusable."""
        if columns is None:
            return keys.stored_key(self._log, state, self._resolving(state))
        key, found = self._resolving(state)(columns, "linear") if columns else (None, [])
        return key, found, ""

    def version(self) -> Snapshot:
        """The newest version without key and blocks. Lists the log's folder, but no data files."""
        return without_key(self._log, self.refuse_unsupported(), no_blocks())

    def read(self, task: MergeTask) -> DataFrame:
        """The live rows of the task's inputs, with row ids if row tracking is enabled."""
        return rewrite.read(self._log, task)

    def write(self, rows: DataFrame, task: MergeTask, run_id: str) -> Rewrite:
        """Write rows to files that no version references. Extra columns from ``read`` must still be present."""
        return rewrite.write(self._log, rows, task, run_id)

    def commit(self, rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
        """One commit attempt. Raises Conflict, Rejected or Unknown."""
        return commit.commit(self._log, rewrites, snapshot, run_id)

    def release(self, task: MergeTask) -> None:
        """No-op: only the AddFiles of a few tasks are cached, and later tasks evict them."""

    def discard(self, rewrites: Sequence[Rewrite]) -> None:
        """Delete the ``outputs``, ``extra`` and ``stale`` files of rewrites that are known to be uncommitted."""
        rewrite.discard(self._log, dict.fromkeys(path for each in rewrites for path in each.paths))

    @property
    def deletes(self) -> DeltaRowDeletes:
        """Row-level deletes."""
        return DeltaRowDeletes(self._log)

    @property
    def restores(self) -> DeltaRestores:
        """Restores of deleted rows."""
        return DeltaRestores(self._log)

    @property
    def undos(self) -> DeltaUndos:
        """Undoes runs."""
        return DeltaUndos(self._log, self.refuse_unsupported)

    @property
    def statistics(self) -> DeltaStatistics:
        """Computes data-skipping statistics."""
        return DeltaStatistics(self._log, self.refuse_unsupported, self._key)

    @property
    def bloom_filters(self) -> DeltaBloomFilters:
        """Bloom filters of its files."""
        return DeltaBloomFilters(self._log)

    @property
    def columnar(self) -> DeltaColumnar:
        """Merges by columnar workers."""
        return DeltaColumnar(self._log)

    @property
    def notes(self) -> DeltaNotes:
        """The small files in the table's ``_lakekeeper`` folder."""
        return DeltaNotes(self._log)

    @property
    def storage(self) -> DeltaStorage:
        """The table's files, for vacuum."""
        return self._storage

    def changes_since(self, snapshot: Snapshot) -> Changes:
        """The changes committed since ``snapshot``, read from the log."""
        return changes.changes_since(self._log, snapshot)

    def _resolving(self, state: State) -> keys.Resolve:
        conf = self._log.jvm.session.sessionState().conf()
        return partial(resolve, state, case_sensitive=bool(conf.caseSensitiveAnalysis()))
