"""``IcebergTable``: the adapter of one table. It plans, reads, writes and commits; it makes no decisions."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.block_changes import only_blocks
from lakekeeper.core.model.blocks import BlockSet, Snapshot, make_blocks, no_blocks
from lakekeeper.core.model.keys import ClusterKey
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import KeyReport
from lakekeeper.core.model.run_folders import run_folder
from lakekeeper.core.model.stored_key import KEY_PROPERTY, unusable
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rebase import touched, why
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.errors import (
    Conflict,
    NotFound,
    OptionError,
    Unsupported,
)
from lakekeeper.spi import Capabilities, Commit, RowDeletes, TableName
from lakekeeper_iceberg import changes, hadoop_catalogs, keys, listing, nessie, staging
from lakekeeper_iceberg.block_refresh import LISTED, Listed, Look, listed, refreshed
from lakekeeper_iceberg.block_tracking import Follower, unpartitioned
from lakekeeper_iceberg.blocks import blocks_of
from lakekeeper_iceberg.bloom_filters import IcebergBloomFilters
from lakekeeper_iceberg.columnar import IcebergColumnar
from lakekeeper_iceberg.commit import preparing, winner_of, won_by
from lakekeeper_iceberg.commit_attempts import Attempts
from lakekeeper_iceberg.commits import known_commits
from lakekeeper_iceberg.deletes import apply_deletes
from lakekeeper_iceberg.dropped_sources import refuse_merge
from lakekeeper_iceberg.features import check_supported, refused, unreadable
from lakekeeper_iceberg.file_changes import exchange_of
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.notes import IcebergNotes
from lakekeeper_iceberg.planning import Planner
from lakekeeper_iceberg.producer import swap
from lakekeeper_iceberg.replay import Replays
from lakekeeper_iceberg.restore import IcebergRestores
from lakekeeper_iceberg.rows import IcebergRows
from lakekeeper_iceberg.statistics import IcebergStatistics
from lakekeeper_iceberg.storage import IcebergStorage
from lakekeeper_iceberg.undo import IcebergUndos


@dataclass(frozen=True, slots=True)
class _Staged:
    """The read of a task: table, scan tasks and group id of its scan, its rows, and the counter of the rows read."""

    table: Any
    inputs: Sequence[Any]
    group: str
    rows: DataFrame
    counter: Observation | None


_FORMAT = "iceberg"
_KEPT_RUNS = 16
_READ_FROM = "metadata"  # name in a snapshot's memo: what identifies the metadata that it was read from

# One committer per table and process: concurrent commits of one process would only conflict with each other and retry.
_commit_locks: dict[str, threading.Lock] = defaultdict(threading.Lock)


class IcebergTable:
    """Implements ``spi.Adapter``; rows are DataFrames. Several threads may read and write concurrently."""

    def __init__(self, jvm: Iceberg, name: TableName, table: Any) -> None:
        self._jvm = jvm
        self._name = name
        self._table = table
        self._lock = threading.Lock()
        self._checked: tuple[object, ...] = ()
        self._planner = Planner(jvm)
        self._follower = Follower(jvm)
        self.replays = Replays(jvm, name.text, self._planner, self._follower, lambda: self._table)
        self._staged: dict[str, list[_Staged]] = defaultdict(list)
        self._attempts: OrderedDict[str, Attempts] = OrderedDict()
        self._rows = IcebergRows(
            jvm,
            name.text,
            self._planner,
            self.replays,
            lambda: self._table,
            self._winners,
            self._attempts_of,
            _commit_locks.__getitem__,
        )

    @property
    def table(self) -> str:
        return self._name.text

    @property
    def capabilities(self) -> Capabilities:
        version = int(self._metadata().formatVersion())
        return Capabilities(
            row_deletes=version > 1,
            stores_level=True,
            row_lineage=version > 2,
            time_travel=True,
            native_key=True,
        )

    def check(self) -> None:
        """Raise Unsupported for a table that must not be rewritten."""
        metadata = self._metadata()
        check_supported(self.table, metadata, self._schema(metadata))

    def require_writable(self, options: Options) -> None:
        """Raise Unsupported where commits lose those of another driver, or delete what another branch needs."""
        nessie.require_writable(self._jvm, self.table, self._table.operations())
        if not options.session.single_driver:
            hadoop_catalogs.refuse_second_driver(self._jvm, self.table, self._table)

    def properties(self) -> Mapping[str, str]:
        self._refresh()
        return self._properties(self._metadata())

    def set_cluster_key(
        self, columns: Sequence[str], layout: str = "linear", *, native: bool = False, dry_run: bool = False
    ) -> KeyReport:
        self._refresh()
        metadata = self._metadata()
        schema, order = self._schema(metadata), self._order(metadata)
        before, _ = keys.stored_key(schema, order, self._properties(metadata))
        key = keys.columns_key(schema, columns, layout) if columns else None
        if key is not None:
            keys.metrics_modes(self._jvm, self._table, key)
            if native and key.curved:
                raise OptionError(
                    "native", native, f"False, because a sort order cannot express layout {layout}"
                )
        sorts = key is not None and not key.curved and (native or bool(order["fields"]))
        then = ", ".join(f"{c.name} ASC NULLS FIRST" for c in key.columns) if key and sorts else ""
        now = keys.order_text(schema, order)
        # A curve key leaves the sort order unchanged: Spark's writers continue to sort by it.
        changed = now != then and (sorts or key is None)
        kept_as = "sort order" if sorts else f"table property {KEY_PROPERTY}"
        changes = (("sort order", now, then),) if changed else ()
        if not dry_run and key is None:
            keys.remove(self._table)
        elif not dry_run and key is not None:
            keys.store(self._jvm, self._table, key, native=sorts)
        return KeyReport(self.table, dry_run, str(before or ""), str(key or ""), kept_as, changes)

    def snapshot(self, columns: Sequence[str] | None = None, where: str | None = None) -> Snapshot:
        self._refresh()
        return self._seen(self._jvm.pinned(self._table), columns, where)

    def refresh(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> Snapshot | None:
        """``snapshot`` if its metadata is still the newest; else brought up to date from new manifests alone."""
        self._refresh()
        if snapshot.memo.get(_READ_FROM) == _identity(self._metadata()):
            return snapshot
        pinned = self._jvm.pinned(self._table)
        kept: Listed | None = snapshot.memo.get(LISTED)
        if kept is None or pinned.currentSnapshot() is None:
            return None
        look, properties, problem = self._look(pinned, columns)
        if (properties, look.key, problem) != (snapshot.properties, snapshot.key, snapshot.key_problem):
            return None
        found = refreshed(look, kept, snapshot.blocks)
        if found is None:
            return None
        blocks, listing = found
        self._follower.listed(int(pinned.currentSnapshot().snapshotId()), listing.listing)
        return self._made(look, properties, problem, blocks, listing)

    def _seen(self, pinned: Any, columns: Sequence[str] | None = None, where: str | None = None) -> Snapshot:
        """The Snapshot of a pinned table; its blocks are the live data files."""
        look, properties, problem = self._look(pinned, columns)
        blocks, kept = self._blocks(look)
        snapshot = self._made(look, properties, problem, blocks, kept)
        return snapshot if where is None else self._part(snapshot, pinned, where)

    def matching(self, snapshot: Snapshot, where: str) -> Snapshot:
        return self._part(snapshot, self._rows.table_at(snapshot), where)

    def _part(self, snapshot: Snapshot, pinned: Any, where: str) -> Snapshot:
        """The blocks of a snapshot that Iceberg's own planning keeps for a predicate; ``pinned`` is fixed at it."""
        version = snapshot.version
        paths = (
            None if version is None else self._planner.matching(pinned, version, where, snapshot.schema_id)
        )
        blocks = only_blocks(snapshot.blocks, paths)
        return replace(snapshot, blocks=blocks, complete=False)

    def _look(self, pinned: Any, columns: Sequence[str] | None) -> tuple[Look, Mapping[str, str], str]:
        """How the blocks of a pinned table are made, its properties, and why its own key is unusable."""
        metadata = pinned.operations().current()
        schema = self._schema(metadata)
        check_supported(self.table, metadata, schema)
        properties = self._properties(metadata)
        key, problem = self._key(metadata, schema, properties, columns)
        try:
            modes = keys.metrics_modes(self._jvm, pinned, key) if key else ()
        except OptionError as error:
            if columns is not None:
                raise
            key, modes, problem = None, (), unusable(error).problem
        current = metadata.currentSnapshot()
        version = None if current is None else int(current.snapshotId())
        commits = known_commits(self._jvm, metadata, version)
        look = Look(self._jvm, pinned, key, modes, commits, unpartitioned(self._jvm, metadata))
        return look, properties, problem

    def _made(
        self, look: Look, properties: Mapping[str, str], problem: str, blocks: BlockSet, kept: Listed | None
    ) -> Snapshot:
        metadata = look.pinned.operations().current()
        current = metadata.currentSnapshot()
        snapshot = Snapshot(
            table=self.table,
            format=_FORMAT,
            version=None if current is None else int(current.snapshotId()),
            table_uuid=str(metadata.uuid()),
            schema_id=f"{metadata.currentSchemaId()}/{metadata.defaultSpecId()}",
            key=look.key,
            blocks=blocks,
            properties=properties,
            commits_ms=look.commits.of_writers,
            rewritten=look.commits.rewritten,
            key_problem=problem,
        )
        snapshot.memo[_READ_FROM] = _identity(metadata)
        if kept is not None:
            snapshot.memo[LISTED] = kept
        return snapshot

    def version(self) -> Snapshot:
        self._refresh()
        metadata = self._metadata()
        current = metadata.currentSnapshot()
        return Snapshot(
            table=self.table,
            format=_FORMAT,
            version=None if current is None else int(current.snapshotId()),
            table_uuid=str(metadata.uuid()),
            schema_id=f"{metadata.currentSchemaId()}/{metadata.defaultSpecId()}",
            key=None,
            blocks=no_blocks(),
            complete=False,
            properties=self._properties(metadata),
        )

    def read(self, task: MergeTask) -> DataFrame:
        table = self._jvm.pinned(self._table)
        self._check_key(table, task)
        refuse_merge(self._jvm, table, task.spec)
        tasks = self._planner.tasks(table, task.read_version, task.inputs)
        group, rows = staging.read_staged(self._jvm, table, tasks, task)
        counter = None
        counted = rows
        if task.live_rows is None:  # e.g. equality deletes: only the reader can count the live rows
            counter = Observation()
            counted = rows.observe(counter, F.count(F.lit(1)).alias(staging.COUNTED))
        with self._lock:
            self._staged[task.id].append(_Staged(table, tasks, group, rows, counter))
        return counted

    def _check_key(self, table: Any, task: MergeTask) -> None:
        """Raise Conflict if a column of the key was renamed: rows would be sorted by what has its old name now."""
        for column in task.key.columns if task.key else ():
            name = table.schema().findColumnName(int(column.field_id))
            if name != ".".join(column.path):
                raise Conflict(
                    f"{self.table}: column {column.name} of the cluster key was "
                    f"{'dropped' if name is None else f'renamed to {name}'} after the plan was made; plan again"
                )

    def write(self, rows: DataFrame, task: MergeTask, run_id: str) -> Rewrite:
        with self._lock:
            staged = self._staged[task.id][-1] if task.id in self._staged else None
        # The table as it was read: Spark matches columns by name, and a name may mean another column by now.
        table = staged.table if staged else self._jvm.pinned(self._table)
        order = self._order(table.operations().current())
        sort_order = int(order["order-id"]) if keys.sorts_by(order, task.key) else None
        run = run_folder(task.table_uuid, run_id)
        inputs = staged.inputs if staged else ()
        files, outputs = staging.write_staged(self._jvm, table, rows, task, run, sort_order, inputs)
        read = self._rows_read(staged, sum(o.rows for o in outputs)) if staged else None
        return Rewrite(task, outputs, read, native=files, run_id=run_id)

    def _rows_read(self, staged: _Staged, written: int) -> int | None:
        """Live rows of the inputs; None if the metadata states the count and at least one row was written.

        The counter runs in the read tasks, so it counts rows twice if Spark repeats a task, e.g. after losing an
        executor. If it differs from the number of rows written, or no row was written, the rows are counted again.
        """
        if staged.counter is None and written:
            return None
        seen = staging.rows_read(self._jvm, staged.counter)
        return seen if seen == written and written else int(staged.rows.count())

    def commit(self, rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
        with _commit_locks[snapshot.table_uuid]:
            try:
                with preparing(self.table):
                    self._check_inputs(rewrites, snapshot, self.changes_since(snapshot))
                    pinned, version = self._jvm.pinned(self._table), snapshot.version or 0
                    exchange = exchange_of(self._jvm, self._planner, pinned, rewrites, version, run_id)
                    run = run_folder(rewrites[0].task.table_uuid, rewrites[0].run_id)
                done = swap(self._jvm, self._table, self.table, exchange, self._attempts_of(run))
            except Conflict as error:
                raise won_by(error, lambda: self.changes_since(snapshot)) from error
        removed = tuple(path for r in rewrites for path, now in r.inputs_now.items() if now is not None)
        added = tuple(path for rewrite in rewrites for path in rewrite.added)
        return Commit(done.version, run_id, removed, added, done.removed_delete_files)

    def release(self, task: MergeTask) -> None:
        with self._lock:
            staged = self._staged.pop(task.id, [])
        for each in staged:
            staging.unstage(self._jvm, each.table, each.group)
        self.replays.forget(task.id)

    def _attempts_of(self, run: str) -> Attempts:
        """The commit attempts of a run."""
        with self._lock:
            found = self._attempts.setdefault(run, Attempts(self._jvm, self.notes, run))
            while len(self._attempts) > _KEPT_RUNS:
                self._attempts.popitem(last=False)
        return found

    def discard(self, rewrites: Sequence[Rewrite]) -> None:
        for rewrite in rewrites:
            staging.delete_own(self._jvm, self._table, rewrite.paths)

    @property
    def deletes(self) -> RowDeletes[DataFrame]:
        return self._rows

    @property
    def restores(self) -> IcebergRestores:
        def table() -> Any:
            self._refresh()
            return self._table

        def seen(pinned: Any, where: str) -> Snapshot:
            return self._seen(pinned, where=where)

        lock = _commit_locks.__getitem__
        return IcebergRestores(self._jvm, self.table, self._planner, table, seen, self._attempts_of, lock)

    @property
    def undos(self) -> IcebergUndos:
        def table() -> Any:
            self._refresh()
            return self._table

        return IcebergUndos(self._jvm, self.table, table, _commit_locks.__getitem__)

    @property
    def statistics(self) -> IcebergStatistics:
        def table() -> Any:
            self._refresh()
            return self._table

        return IcebergStatistics(self._jvm, self.table, table, self._schema, _commit_locks.__getitem__)

    @property
    def bloom_filters(self) -> IcebergBloomFilters:
        def table() -> Any:
            self._refresh()
            return self._table

        return IcebergBloomFilters(self._jvm, self.table, table)

    @property
    def columnar(self) -> IcebergColumnar:
        return IcebergColumnar(self._jvm, self._planner, lambda: self._table)

    @property
    def notes(self) -> IcebergNotes:
        return IcebergNotes(self._jvm, self._table, self.table)

    @property
    def storage(self) -> IcebergStorage:
        return IcebergStorage(
            self._jvm, self._name, lambda: self._table, self._refresh, _commit_locks.__getitem__
        )

    def changes_since(self, snapshot: Snapshot) -> Changes:
        try:
            self._refresh()
        except Unsupported as error:  # Iceberg can no longer read the metadata
            version = -1 if snapshot.version is None else snapshot.version
            return Changes(version, obstacle=Reason.of(Code.FEATURE_ADDED, feature=error.feature))
        pinned = self._jvm.pinned(self._table)
        return self._follower.changes_since(pinned, self._schema(pinned.operations().current()), snapshot)

    def _winners(self, snapshot: Snapshot) -> Changes:
        """The commits since ``snapshot``, without their effect on its files."""
        self._refresh()
        metadata = self._metadata()
        return changes.winners_since(self._jvm, metadata, self._schema(metadata), snapshot)

    def _check_inputs(self, rewrites: Sequence[Rewrite], snapshot: Snapshot, seen: Changes) -> None:
        """Raise Conflict if an input was removed or has deletes that its rewrite does not reflect."""
        if snapshot.version is None:
            raise Conflict(f"{self.table}: the table was empty when it was read")
        if seen.obstacle:
            raise Conflict(f"{self.table}: {seen.obstacle}", winner_of(seen))
        for rewrite in rewrites:
            gone, deleted = touched(rewrite, seen)
            if gone or deleted:
                raise Conflict(f"{self.table}: {why(gone, deleted, seen)}", winner_of(seen))

    def _blocks(self, look: Look) -> tuple[BlockSet, Listed | None]:
        """The blocks of a whole read, and what a later refresh needs."""
        current = look.pinned.currentSnapshot()
        if current is None:
            empty: list[list[Any]] = [[] for _ in (look.key.columns if look.key else ())]
            bounds = dict.fromkeys(("lo", "hi", "null_count", "exact"), empty)
            return make_blocks({"path": [], "rows": [], "bytes": [], **bounds}, look.key), None
        files = listing.list_files(self._jvm, look.pinned, look.metrics)
        self._follower.listed(int(current.snapshotId()), files)
        applied = apply_deletes(files, look.unpartitioned, committed_at=look.commits.at)
        blocks = blocks_of(files, applied, look.key, look.modes, look.commits.at)
        return blocks, listed(look, files)

    def _key(
        self,
        metadata: Any,
        schema: keys.SchemaFields,
        properties: Mapping[str, str],
        columns: Sequence[str] | None,
    ) -> tuple[ClusterKey | None, str]:
        if columns is not None:
            return keys.columns_key(schema, columns), ""
        return keys.stored_key(schema, self._order(metadata), properties)

    def _refresh(self) -> None:
        try:
            self._table.refresh()
            if self._metadata() is None:  # since it was dropped: only the first refresh after that raises
                raise NotFound(self.table, "no such Iceberg table")
            self._jvm.refuse_missed_version(self.table, self._table.operations())
            if self._jvm.is_replaced(self._table):
                self._table = self._jvm.reload(self._name)
        except Exception as first:
            if (known := refused(self.table, first)) is not None:
                raise known from first  # Iceberg has already retried for a minute and a half
            # Dropped, or dropped and created again under its name. The latter is not an error here: load the new table.
            try:
                self._table = self._jvm.reload(self._name)
                self._table.refresh()
            except Exception as error:
                raise unreadable(self.table, error) from error
        identity = _identity(self._metadata())
        if identity != self._checked:
            self.check()
            self._checked = identity

    def _metadata(self) -> Any:
        return self._table.operations().current()

    def _schema(self, metadata: Any) -> keys.SchemaFields:
        sensitive = str(self._jvm.spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"
        return keys.SchemaFields(self._jvm, metadata.schema(), case_sensitive=sensitive)

    def _order(self, metadata: Any) -> dict[str, Any]:
        text = self._jvm.static("org.apache.iceberg.SortOrderParser", "toJson")(metadata.sortOrder())
        order: dict[str, Any] = json.loads(str(text))
        return order

    def _properties(self, metadata: Any) -> dict[str, str]:
        found = self._jvm.text_map(metadata.properties())
        # The commit of Nessie changes with each commit to the branch, also to other tables.
        return {name: value for name, value in found.items() if name not in nessie.READ_FROM}


def _identity(metadata: Any) -> tuple[object, ...]:
    """What differs from one version of the metadata to the next, in catalogs without metadata files too."""
    return (
        str(metadata.metadataFileLocation()),
        str(metadata.uuid()),
        int(metadata.lastUpdatedMillis()),
        int(metadata.lastSequenceNumber()),
    )
