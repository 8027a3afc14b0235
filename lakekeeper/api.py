"""The public API of a table, and the composition root that wires the layers together.

t = table(spark, "ice.db.events")
t.cluster_by("user_id", "ts")
print(t.plan())
print(t.recluster())
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakekeeper import arguments, operations
from lakekeeper.core.config.options import Options
from lakekeeper.core.cost.key_advisor import Advice
from lakekeeper.core.layout.clustering_info import ClusteringInformation, measure
from lakekeeper.core.model.lifecycle_report import LifecycleReport
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.model.report import (
    DeleteReport,
    KeyReport,
    MergeReport,
    MetadataReport,
    RestoreReport,
    UndoReport,
)
from lakekeeper.core.model.statistics_report import StatisticsReport
from lakekeeper.core.simulation.simulate import SimulationReport
from lakekeeper.core.vacuum.streams_report import StreamsReport
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.core.workload.workload import Workload
from lakekeeper.engine.advise import advise_table
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.delete.row_delete import delete_rows
from lakekeeper.engine.merge.backoff import Backoff
from lakekeeper.engine.merge.planning import look, plan_for
from lakekeeper.engine.simulate import Course, simulate_table
from lakekeeper.engine.trash import entries as trash_entries
from lakekeeper.engine.trash.drop_partition import drop_rows, settle
from lakekeeper.engine.trash.empty import empty
from lakekeeper.engine.trash.entries import TrashEntry
from lakekeeper.errors import OptionError
from lakekeeper.history.costs import Costs, costs_of
from lakekeeper.history.history import History
from lakekeeper.opening import open_adapter
from lakekeeper.page.report import HtmlReport
from lakekeeper.recording import configured_store, prices_of, recorder_of
from lakekeeper.spark.frames import blocks_frame
from lakekeeper.spark.jvm import require_classic
from lakekeeper.spi import Adapter, Observer, TableName
from lakekeeper.table_context import TableContext
from lakekeeper.table_report import report_of
from lakekeeper.workloads import EventLogs, Queries, workload_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_LOG = logging.getLogger("lakekeeper")


class Table:
    """One table under maintenance, created by :func:`table`. Holds no data and no lock.

    Keeps the newest snapshot of the metadata, so that a call reads only what was committed since the call before.

    ``backoff`` carries the partitions in which users are writing from call to call. ``origin`` is the caller as the
    history records it.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: TableName,
        adapter: Adapter[Any],
        *,
        clock: Clock | None = None,
        backoff: Backoff | None = None,
        logs: EventLogs | None = None,
        origin: str = "call",
    ) -> None:
        clock = clock or Clock()
        recorder = recorder_of(spark, name, clock, origin)
        self._context = TableContext(spark, name, adapter, clock, recorder, backoff, logs)

    def __repr__(self) -> str:
        return f"<lakekeeper {self._context.name.provider} table {self._context.name.text}>"

    @property
    def format(self) -> str:
        """``delta``, ``iceberg``, or another adapter's name."""
        return self._context.name.provider

    @property
    def automatic(self) -> bool:
        """False if the property ``lakekeeper.auto.enabled`` is false: automatic runs then skip the table."""
        return arguments.is_automatic(self._context.session.properties())

    @arguments.checked_flags
    def options(self, call: Mapping[str, Any] | None = None, *, lenient: bool = False) -> Options:
        """The options in force for this table, each with its origin.

        Raises OptionError for an invalid option; with ``lenient``, invalid table properties are ignored instead.
        """
        return self._context.options(call, lenient=lenient)

    @arguments.checked_flags
    def cluster_by(
        self,
        *columns: str | None,
        layout: str = "linear",
        native: bool = False,
        dry_run: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> KeyReport:
        """Store the cluster key in the table; ``cluster_by(None)``, or no columns, removes it, and a native key too.

        ``columns`` are one to four columns in Spark SQL spelling. ``layout`` maps them to one dimension: ``linear``
        sorts by them as a tuple, which serves the first column; ``hilbert`` and ``zorder`` follow a curve through the
        ranks of two to four columns, which serves each of them. Blocks under another key or layout count as level 0
        and are migrated step by step.

        The key is stored in the table property ``lakekeeper.cluster-by``, which other engines ignore. If the table
        already has a native key (Delta's CLUSTER BY, Iceberg's sort order), that key is replaced instead; an Iceberg
        sort order stays if ``layout`` is a curve. ``native=True`` creates a native key. On Delta this permanently adds
        writer features to the table and locks out writers that do not support them: the report names the features,
        ``dry_run=True`` reports them beforehand, and a warning is logged before the change.

        Raises OptionError for columns that cannot be a key (unknown, not orderable, without statistics), and for
        ``native=True`` if the table cannot have a native key; Unsupported if a commit is not safe; CommitError.
        """
        named = arguments.key_columns(columns)
        report = self._context.adapter.set_cluster_key(named, layout, native=native, dry_run=True)
        if dry_run:
            return report
        self._context.adapter.require_writable(self.options(options, lenient=True))
        if report.changes:
            _LOG.warning("%s", report)
        return self._context.adapter.set_cluster_key(named, layout, native=native)

    def clustering_information(
        self, columns: Sequence[str] | str | None = None, *, where: str | Column | None = None
    ) -> ClusteringInformation:
        """How well the table is clustered by its key, or by ``columns``; field names follow Snowflake.

        ``columns`` as text may name a layout, ``"hilbert(a, b)"``; otherwise the layout is linear. ``where`` restricts
        the result to blocks that may hold a match. Reads no data file. Raises OptionError if the table has no key and
        no ``columns`` are given.
        """
        request = self._context.request("recluster", columns, where)
        return measure(look(self._context.session, request))

    def clustering_depth(
        self, columns: Sequence[str] | str | None = None, *, where: str | Column | None = None
    ) -> float:
        """Average depth per block: 1.0 is perfect, 0.0 means an empty table. See :meth:`clustering_information`."""
        return self.clustering_information(columns, where=where).average_depth

    def blocks(self) -> DataFrame:
        """One row per live data file: path, sizes in bytes, deletes, level, key id, depth, and bounds as text."""
        return blocks_frame(
            self._context.spark, look(self._context.session, self._context.request("compact"))
        )

    def plan(
        self,
        columns: Sequence[str] | str | None = None,
        *,
        where: str | Column | None = None,
        policy: str | Sequence[str] | None = None,
        budget_bytes: int | str | None = None,
        workload: Queries | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Plan:
        """What :meth:`recluster` with the same arguments would do now, and why each block is selected or skipped.

        Writes nothing. The plan predicts what a query opens before and after it; ``to_frame(spark)`` has one row per
        block. ``workload`` is a :class:`Workload` or paths of Spark event logs; for the default see :meth:`workload`.
        Raises OptionError for invalid arguments, and if the table has no key and no ``columns`` are given.
        """
        request = self._context.request("recluster", columns, where, policy, budget_bytes, options)
        return plan_for(
            self._context.session, self._context.with_workload(request, workload), self._context.clock
        )[1]

    @arguments.checked_flags
    def simulate(
        self,
        columns: Sequence[str] | str | None = None,
        *,
        policy: str | Sequence[str] | None = None,
        commits: int | None = None,
        stream: str | None = None,
        every: int = 10,
        seed: int = 0,
        final: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> SimulationReport:
        """Simulate policies on the table, commit by commit, on metadata only; reads and writes no data file.

        By default, replays the commits that added the table's files into an empty table. With ``commits``, starts from
        the current table and adds that many commits like its recent ones. With ``stream`` (wide, late, windows,
        backfill, jitter, time), plays a named stream of 300, or ``commits``, files of the target size. Maintenance
        runs after every ``every``-th commit; ``final`` as in :meth:`recluster`. ``columns`` replace the table's own
        key; ``seed`` selects the random commits. Raises OptionError for values out of range, and if the table has
        no history to replay.
        """
        course = Course(stream, commits, every, seed, final)
        request = self._context.request("recluster", columns, policy=policy, options=options)
        return simulate_table(self._context.session, request, course)

    def advise(
        self,
        workload: Queries | None = None,
        *,
        columns: Sequence[str] | str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Advice:
        """Whether another cluster key would serve the queries better, by how much, and when it would pay for itself.

        ``workload`` as for :meth:`plan`; ``columns`` restricts the candidates to one to four columns. Reads no data
        file and changes nothing. Raises OptionError if the workload is missing, is empty or filters no column of the
        table, and for columns that cannot be a key.
        """
        request = self._context.with_workload(
            self._context.request("recluster", columns, options=options), workload
        )
        if request.workload is None:
            raise OptionError(
                "workload",
                workload,
                "paths of Spark event logs, a Workload, or a session that listen(spark) listens to",
            )
        return advise_table(self._context.session, request, request.workload, self._context.clock)

    def workload(
        self, source: Queries | None = None, *, options: Mapping[str, Any] | None = None
    ) -> Workload | None:
        """The queries on this table, read from ``source``: paths of event logs, or of a saved workload.

        Without ``source``: what ``listen(spark)`` has recorded for the table, else the files that the option
        ``workload`` names, else None. Raises OptionError for a file that is not an event log.
        """
        context = self._context
        return workload_of(context.spark, context.name, source, self.options(options), context.logs)

    @arguments.checked_flags
    def recluster(  # noqa: PLR0913 - each is an option of the call
        self,
        columns: Sequence[str] | str | None = None,
        *,
        where: str | Column | None = None,
        final: bool = False,
        policy: str | Sequence[str] | None = None,
        dry_run: bool = False,
        budget_bytes: int | str | None = None,
        observer: Observer | None = None,
        workload: Queries | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> MergeReport:
        """Merge blocks whose key ranges overlap, so that queries on the key read fewer files.

        ``columns`` replace the table's own key for this call; text may name a layout, ``"hilbert(a, b)"``. ``where``
        (Spark SQL, or a Spark ``Column``, over the table's columns) selects every file that may hold a match.
        ``policy`` names one or several policies, applied in order. ``budget_bytes`` limits the bytes rewritten, except
        for the first group. ``final`` repeats rounds until no merge is due. ``dry_run`` returns the plan
        and writes nothing. ``options`` set further options of the call. ``observer`` is called at each phase;
        ``workload`` as for :meth:`plan`. Raises OptionError, NotFound or Unsupported before any write, and CommitError
        after.
        """
        request = self._context.request(
            "recluster",
            columns=columns,
            where=where,
            policy=policy,
            budget_bytes=budget_bytes,
            options=options,
            final=final,
            dry_run=dry_run,
        )
        return operations.merge(self._context, self._context.with_workload(request, workload), observer)

    @arguments.checked_flags
    def compact(
        self,
        *,
        where: str | Column | None = None,
        final: bool = False,
        policy: str | Sequence[str] | None = None,
        dry_run: bool = False,
        budget_bytes: int | str | None = None,
        observer: Observer | None = None,
        workload: Queries | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> MergeReport:
        """Merge small adjacent files; needs no cluster key, and preserves the order of one if the table has it.

        Parameters and errors as for :meth:`recluster`.
        """
        request = self._context.request(
            "compact",
            where=where,
            policy=policy,
            budget_bytes=budget_bytes,
            options=options,
            final=final,
            dry_run=dry_run,
        )
        return operations.merge(self._context, self._context.with_workload(request, workload), observer)

    @arguments.checked_flags
    def merge_deletes(
        self,
        *,
        where: str | Column | None = None,
        dry_run: bool = False,
        policy: str | Sequence[str] | None = None,
        budget_bytes: int | str | None = None,
        observer: Observer | None = None,
        workload: Queries | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> MergeReport:
        """Rewrite files with many deleted rows, then remove delete files that no longer apply to any row and merge
        small ones.

        A file is due if at least ``delete-ratio-threshold`` of its rows are deleted (of older files:
        fewer, 5% after seven days), or once opening its deletes has cost queries 0.7 times the cost of a rewrite. If
        the log does not record how many rows of a file are deleted, the number is estimated. Needs no cluster key, and
        preserves the order of one if the table has it. ``where`` and ``budget_bytes`` limit the files that are
        rewritten. Other parameters and errors as for :meth:`recluster`.
        """
        request = self._context.request(
            "merge_deletes",
            where=where,
            policy=policy,
            budget_bytes=budget_bytes,
            options=options,
            dry_run=dry_run,
        )
        return operations.merge_deletes(
            self._context, self._context.with_workload(request, workload), observer
        )

    @arguments.checked_flags
    def build_filters(
        self,
        *,
        where: str | Column | None = None,
        all_files: bool = False,
        dry_run: bool = False,
        budget_bytes: int | str | None = None,
        observer: Observer | None = None,
        workload: Queries | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> MergeReport:
        """Rewrite files that lack a Parquet Bloom filter which the table's properties ask for.

        A file is due once the lookups of a value (``=``, ``IN``) in the workload have read, without the filter, 0.7
        times what its rewrite costs; with ``all_files``, each file that lacks one is due. Reads the footers of files
        that may be due. ``dry_run`` reads none, and reports the files that may lack a filter. ``workload`` as for
        :meth:`plan`, other parameters and errors as for :meth:`recluster`. Every other merge writes the filters too.
        """
        request = self._context.request(
            "build_filters", where=where, budget_bytes=budget_bytes, options=options, dry_run=dry_run
        )
        request = self._context.with_workload(request, workload)
        return operations.build_filters(self._context, request, observer, every=all_files)

    def delete(
        self,
        where: str | Column,
        *,
        observer: Observer | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> DeleteReport:
        """Delete the rows for which ``where`` is true; ``true`` deletes every row.

        Rows are deleted by position (deletion vector, position delete) if the table permits it; otherwise their files
        are rewritten. Maintenance never makes the delete fail: rows that a rewrite has moved are found at their new
        position. An unknown or invalid table property ``lakekeeper.*`` is ignored with a warning. ``where`` (Spark SQL,
        or a Spark ``Column``, over the table's columns) must have the same result each time it is evaluated: a
        predicate that depends on the current time or on the session is rejected. Raises OptionError, NotFound or
        Unsupported before any write, and CommitError after.
        """
        return operations.delete(self._context, "delete", delete_rows, where, observer, options)

    @arguments.checked_flags
    def vacuum(  # noqa: PLR0913 - each is an option of the call
        self,
        *,
        retention_hours: float | str | None = None,
        older_than: datetime | None = None,
        retain_last: int | None = None,
        orphans: bool = False,
        keep_versions: Sequence[int] = (),
        shared_with: Sequence[str] = (),
        trash: bool = False,
        dry_run: bool = False,
        allow_unsafe_retention: bool = False,
        observer: Observer | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> VacuumReport:
        """Delete the files that no retained version needs; on Iceberg, first expire snapshots that are not retained.

        A version is retained if it was the newest at any time within ``retention_hours`` (or since ``older_than``), is
        one of the last ``retain_last``, has a name (branch, tag), or was read by a run or writer that is registered.
        ``keep_versions`` are retained in any case. ``shared_with`` names tables that use files of this one (shallow
        clones): these files stay. ``orphans`` also lists the storage and removes files that no version names.
        ``trash`` moves files to the trash instead of deleting them. ``dry_run`` only reports what would be removed. A
        retention below the table's own or below 24 hours requires ``allow_unsafe_retention``. Raises RetentionError if
        a retention rule forbids the vacuum, Unsupported for ``trash`` on storage that cannot rename, OptionError,
        AdapterError or CommitError. After each of these errors, no file was deleted; on Iceberg, snapshots may have
        expired. An error once deletes have begun ends them and is in the report (``stopped``).
        """
        request = self._context.vacuum_request(
            retention_hours=retention_hours,
            older_than=older_than,
            retain_last=retain_last,
            keep_versions=keep_versions,
            shared_with=shared_with,
            options=options,
            orphans=orphans,
            trash=trash,
            dry_run=dry_run,
            allow_unsafe=allow_unsafe_retention,
        )
        return operations.vacuum(self._context, request, observer)

    @arguments.checked_flags
    def drop_partition(
        self,
        where: str | Column,
        *,
        force: bool = False,
        observer: Observer | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> DeleteReport:
        """Delete the rows for which ``where`` is true, usually whole partitions; the trash can bring them back.

        They can be restored until the retention of the trash ends; ``trash`` of the report names the entry. ``where``
        (as for :meth:`delete`) may use any columns. ``force`` bypasses the trash: the next vacuum that no
        longer retains the previous version deletes the files. Raises as :meth:`delete`.
        """
        act = delete_rows if force else drop_rows
        return operations.delete(self._context, "drop_partition", act, where, observer, options)

    @arguments.checked_flags
    def expire_rows(
        self,
        *,
        dry_run: bool = False,
        observer: Observer | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> LifecycleReport:
        """Delete the rows that are older than the table's lifecycle rule; they can be restored from the trash.

        The rule is ``lifecycle.column``, a date or timestamp, and ``lifecycle.retain``, such as ``90d``. The limit is
        the start of a day in UTC; dates and timestamps without a zone are taken as UTC. Rows with NULL stay.
        ``dry_run`` reports the files that may have such rows. Raises OptionError without a rule, and for a column that
        is unknown, has no statistics or another type; else as :meth:`delete`.
        """
        return operations.expire_rows(self._context, self.options(options), observer, dry_run=dry_run)

    @arguments.checked_flags
    def compact_metadata(self, *, dry_run: bool = False) -> MetadataReport:
        """Compact the metadata that planning opens file by file, if it would then open far fewer files.

        Iceberg: merges small manifests into a few large ones, in a commit that changes no data file. Delta: writes a
        checkpoint in place of ten or more commits; Delta then cleans its log as the table's properties say. Raises
        Unsupported or AdapterError before any write, and CommitError after.
        """
        return operations.compact_metadata(self._context, self.options(lenient=True), dry_run=dry_run)

    @arguments.checked_flags
    def compute_statistics(
        self,
        columns: Sequence[str] | str | None = None,
        *,
        dry_run: bool = False,
        observer: Observer | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> StatisticsReport:
        """Compute the statistics that readers and planners use, where they are missing or outdated.

        Delta: data-skipping statistics of files that have none, or none on ``columns``; by default, on the cluster key
        and the columns of ``delta.dataSkippingStatsColumns``. Iceberg: distinct values of ``columns``, by default of
        all, and statistics of partitions, for the newest snapshot, once ``statistics.min-changed-ratio`` of the rows
        have changed. The option ``budget-bytes`` limits the size of the files that Delta reads. No row and no data file
        changes. Raises OptionError, NotFound or Unsupported before any write, and CommitError after.
        """
        named, _ = arguments.columns_and_layout(columns)
        return operations.compute_statistics(
            self._context, named, self.options(options), observer, dry_run=dry_run
        )

    def streams(self, *, options: Mapping[str, Any] | None = None) -> StreamsReport:
        """The streams that write into the table (Flink, Kafka Connect, Spark), and what a vacuum keeps for each.

        Only streams that record in the table's log how far they have come. Raises AdapterError if the log does not
        respond.
        """
        found = sorted(self._context.adapter.storage.sinks(), key=lambda each: each.at_ms or 0, reverse=True)
        keep_ms = self.options(options, lenient=True).vacuum.sink_retention_ms
        return StreamsReport(self._context.adapter.table, tuple(found), keep_ms, self._context.clock.now_ms())

    def trash(self, *, options: Mapping[str, Any] | None = None) -> tuple[TrashEntry, ...]:
        """The entries of the trash, oldest first.

        The ``state`` of a dropped partition is ``pending`` (the outcome of its delete is not known yet, so it cannot be
        restored), ``dropped`` or ``restoring``. Raises AdapterError if the log or the storage does not respond.
        """
        settle(self._context.adapter, self.options(options, lenient=True), self._context.clock.now_ms())
        return tuple(trash_entries.entries(self._context.adapter).values())

    def restore(
        self, name: str, *, observer: Observer | None = None, options: Mapping[str, Any] | None = None
    ) -> RestoreReport:
        """Restore a trash entry: move files back to their original paths, or append the rows of a partition.

        ``name`` may be a prefix of the entry's name. Rows are restored once, however often this is called, under the
        current names of their columns. Raises NotFound; Unsupported for rows that cannot be restored unchanged (a
        column was dropped or has another type); AdapterError if some files are still in the trash, or belong to places
        that ``vacuum.allowed-locations`` of this call does not allow; CommitError.
        The entry is kept after an error, so the call can be repeated.
        """
        resolved = self.options(options, lenient=True)
        return operations.restore(self._context, name, resolved, observer)

    @arguments.checked_flags
    def empty_trash(
        self, *, all_entries: bool = False, options: Mapping[str, Any] | None = None
    ) -> tuple[TrashEntry, ...]:
        """Permanently delete the trash entries older than ``vacuum.trash-retention-hours``, or all of them.

        Returns these entries with the files and bytes that were deleted. An entry of which a file could not be deleted,
        or into which a vacuum may still move files, is kept, and returned with the state ``kept``. Raises
        RetentionError, once the other entries are deleted, if one has files that the current version, a branch or a
        tag reads (after a rollback, for example), or of places that the call does not allow. It is kept, and
        :meth:`restore` brings its files back.
        """
        keep_ms = None if all_entries else self.options(options).vacuum.trash_retention_ms
        now_ms, locations = self._context.clock.now_ms(), self.options(options).vacuum.allowed_locations
        return tuple(empty(self._context.adapter, keep_ms, now_ms, locations))

    @arguments.checked_flags
    def undo(
        self,
        run_id: str,
        *,
        dry_run: bool = False,
        allow_rollback: bool = False,
        observer: Observer | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> UndoReport:
        """Bring back the layout that the table had before a run of maintenance; no row changes.

        ``run_id`` is one of a report's ``run_ids``, or an operation's id for all of its commits. Possible as long as
        nothing was built on the run: its files are live with the deletes that it gave them, and the files that it
        replaced still exist. On Delta, a new commit exchanges the files; other commits since do not matter. On Iceberg,
        a file that was removed must not be added again, so the branch goes back to the snapshot before the run: only
        if no commit followed, and with ``allow_rollback``, because a stream that reads the table and has passed the run
        then fails. The next automatic run may merge the same files again. Raises UndoError, NotFound, OptionError or
        Unsupported before any write, and CommitError after.
        """
        return operations.undo(
            self._context,
            run_id,
            self.options(options, lenient=True),
            observer,
            dry_run=dry_run,
            allow_rollback=allow_rollback,
        )

    def history(self, limit: int | None = None) -> History:
        """Operations on this table, newest first, at most ``limit``: calls and automatic runs, of any session.

        Reads the file that the conf ``spark.lakekeeper.history.path`` names. Raises OptionError without it, and
        HistoryError if the file cannot be read.
        """
        store = configured_store(self.options(lenient=True).history)
        return History(store.operations(self._context.recorder.table, limit=arguments.row_limit(limit)))

    def cost(self, since: datetime | None = None) -> Costs:
        """What the recorded operations on this table have cost by verb; with ``since``, those that ended after it.

        Money is computed from the confs ``cost.per-core-hour`` and ``cost.per-gb-written``. Raises as :meth:`history`.
        """
        options = self.options(lenient=True).history
        since_ms = arguments.time_ms(since, "since")
        table = self._context.recorder.table
        done = configured_store(options).operations(table, since_ms=since_ms, details=False)
        return costs_of(done, prices_of(options))

    def report(
        self,
        columns: Sequence[str] | str | None = None,
        *,
        workload: Queries | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> HtmlReport:
        """A report on the table as one HTML page, with its plan and history: ``t.report().save("report.html")``.

        Takes the arguments of :meth:`plan`. For a table without a key, it shows the plan of :meth:`compact`. Reads no
        data files and writes nothing. For several tables, see :func:`lakekeeper.report`. Raises as :meth:`plan`.
        """
        return report_of(self._context, columns, workload, options)


def table(spark: SparkSession, name: str) -> Table:
    """A table by name or path: ``ice.db.events``, ``db.t``, ``delta.`/path```, ``/path/to/delta``.

    The format is looked up in Spark's catalogs. Raises NotFound (no such table, or a view), AdapterError
    (no adapter for its format, or a Connect session) or Unsupported (an unknown table feature).
    """
    return open_table(spark, name, origin="call")


def open_table(
    spark: SparkSession,
    name: str,
    backoff: Backoff | None = None,
    logs: EventLogs | None = None,
    origin: str = "auto",
) -> Table:
    """:func:`table` for callers that maintain many tables: with a ``backoff``, and event logs that they share."""
    require_classic(spark)
    opened = open_adapter(spark, name)
    return Table(spark, opened.name, opened.adapter, backoff=backoff, logs=logs, origin=origin)
