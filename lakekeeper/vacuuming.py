"""The part of a table's public API that frees storage: vacuum, the recycle bin, dropped partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from lakekeeper.core.config.options import CONF_PREFIX, PROPERTY_PREFIX, Options
from lakekeeper.core.model.report import DeleteReport, MetadataReport, RestoreReport
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.delete.row_delete import delete_rows
from lakekeeper.engine.retries import BEFORE_WORK, patiently
from lakekeeper.engine.trash import recycle_bin
from lakekeeper.engine.trash.drop_partition import drop_rows, settle
from lakekeeper.engine.trash.recycle_bin import TrashEntry
from lakekeeper.engine.trash.restore import restore
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from lakekeeper.errors import OptionError, RetentionError
from lakekeeper.opening import open_adapter
from lakekeeper.spark.confs import table_options
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spark.streaming_offsets import streams_of
from lakekeeper.spark.where import check_where
from lakekeeper.spi import Adapter, Observer, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_CHECKPOINTS = "vacuum.streaming-checkpoints"


class Vacuuming:
    """Base class of :class:`lakekeeper.api.Table`: storage management."""

    _spark: SparkSession
    _name: TableName
    _adapter: Adapter[Any]
    _clock: Clock

    def options(self, call: Mapping[str, Any] | None = None, *, lenient: bool = False) -> Options:
        """The options in force for this table, each with its origin.

        Raises OptionError for an invalid option; with ``lenient``, invalid table properties are ignored instead.
        """
        properties = patiently(self._adapter.properties, self._clock, BEFORE_WORK)
        return table_options(self._spark, self._name.text, properties, call, lenient=lenient)

    def vacuum(  # noqa: PLR0913 - each is an option of the call
        self,
        *,
        retention_hours: float | None = None,
        older_than: datetime | None = None,
        retain_last: int | None = None,
        orphans: bool = False,
        protect: Sequence[int | str] = (),
        trash: bool = False,
        dry_run: bool = False,
        allow_unsafe_retention: bool = False,
        observer: Observer | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> VacuumReport:
        """Delete the files that no retained version needs; on Iceberg, expire the other snapshots first.

        A version is retained if it was the newest at any time within ``retention_hours`` (or since ``older_than``), is
        one of the last ``retain_last``, has a name (branch, tag), or was read by a run or writer that holds a lease.
        ``protect`` lists versions to retain in any case, and names of tables that use files of this one (shallow
        clones). ``orphans`` also lists the storage and removes files that no version names. ``trash`` moves files to
        the recycle bin instead of deleting them. ``dry_run`` only reports what would be removed. A retention below the
        table's own or below 24 hours requires ``allow_unsafe_retention``. Raises RetentionError if a retention rule
        forbids the vacuum, Unsupported for ``trash`` on storage that cannot rename, OptionError, AdapterError or
        CommitError; nothing was deleted then.
        """
        if retention_hours is not None and older_than is not None:
            raise OptionError("older_than", older_than, "either retention_hours or older_than, not both")
        given = dict(options or {})
        if retain_last is not None:
            given["retain-last"] = retain_last
        resolved = self.options(given)
        request = VacuumRequest(
            options=resolved,
            age_ms=_age_ms(retention_hours),
            older_than_ms=_moment_ms(older_than),
            named=tuple(p for p in protect if isinstance(p, int)),
            streams=streams_of(
                self._spark,
                self._checkpoints(resolved),
                required=resolved.origins.get(_CHECKPOINTS) == "call",
            ),
            users=[open_adapter(self._spark, p).adapter for p in protect if isinstance(p, str)],
            orphans=orphans,
            trash=trash,
            dry_run=dry_run,
            allow_unsafe=allow_unsafe_retention,
        )
        return vacuum(self._adapter, request, observer=observer, clock=self._clock)

    def _checkpoints(self, options: Options) -> tuple[str, ...]:
        """The streaming checkpoint folders that the operator configured.

        Raises RetentionError if only a table property names them: a service does not read folders named by a table,
        and without them the vacuum would remove versions that these streams have yet to read.
        """
        named = options.words(_CHECKPOINTS)
        if not named and PROPERTY_PREFIX + _CHECKPOINTS in options.ignored:
            raise RetentionError(
                f"{self._name.text}: the table property {PROPERTY_PREFIX}{_CHECKPOINTS} names checkpoints of streams, "
                "which are read only where the operator names them; nothing was deleted. Set "
                f"{CONF_PREFIX}{_CHECKPOINTS} to these folders, or remove the property"
            )
        return named

    def drop_partition(
        self,
        where: str,
        *,
        force: bool = False,
        observer: Observer | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> DeleteReport:
        """Delete the rows of partitions; they can be restored from the recycle bin until its retention ends.

        ``where`` (Spark SQL) may name any columns. ``force`` bypasses the recycle bin: the next vacuum that no longer
        retains the previous version deletes the files. Raises as :meth:`lakekeeper.api.Table.delete`.
        """
        if not str(where or "").strip():
            raise OptionError("where", where, "a predicate over the table's columns")
        resolved = self.options(options, lenient=True)
        check_where(self._spark, self._name, where, steady=True)
        act = delete_rows if force else drop_rows
        runner = SparkRunner(self._spark)
        return act(self._adapter, runner, where, resolved, observer=observer, clock=self._clock)

    def compact_metadata(self, *, dry_run: bool = False) -> MetadataReport:
        """Compact the metadata that planning opens file by file, if it would then open far fewer files.

        Iceberg: merges small manifests into a few large ones, in a commit that changes no data file. Delta: writes a
        checkpoint in place of ten or more commits; Delta then cleans its log as the table's properties say. Raises
        CommitError.
        """
        started = self._clock.now_ms()
        if not dry_run:
            self._adapter.require_writable(self.options(lenient=True))
        done = self._adapter.storage.compact_metadata(dry_run=dry_run)
        return MetadataReport(
            table=self._adapter.table,
            dry_run=dry_run,
            files_before=done.files_before,
            files_after=done.files_after,
            version=done.version,
            ended=done.why,
            duration_ms=self._clock.now_ms() - started,
        )

    def trash(self, *, options: Mapping[str, Any] | None = None) -> tuple[TrashEntry, ...]:
        """The entries of the recycle bin, oldest first.

        The ``state`` of a dropped partition is ``pending`` (the outcome of its delete is not known yet, so it cannot be
        restored), ``dropped`` or ``restoring``. Raises AdapterError if the log or the storage does not respond.
        """
        settle(self._adapter, self.options(options, lenient=True), self._clock.now_ms())
        return tuple(recycle_bin.entries(self._adapter).values())

    def restore(
        self, name: str, *, observer: Observer | None = None, options: Mapping[str, Any] | None = None
    ) -> RestoreReport:
        """Restore a recycle bin entry: move files back to their original paths, or append the rows of a partition.

        ``name`` may be a prefix of the entry's name. Rows are restored once, however often this is called, under the
        current names of their columns. Raises NotFound; Unsupported for rows that cannot be restored unchanged (a
        column was dropped or has another type); AdapterError if some files are still in the recycle bin; CommitError.
        The entry is kept after an error, so the call can be repeated.
        """
        resolved = self.options(options, lenient=True)
        return restore(
            self._adapter, SparkRunner(self._spark), name, resolved, observer=observer, clock=self._clock
        )

    def empty_trash(
        self, *, all_entries: bool = False, options: Mapping[str, Any] | None = None
    ) -> tuple[TrashEntry, ...]:
        """Delete recycle bin entries older than ``vacuum.trash-retention-hours``, or all of them, for good.

        Returns these entries with the files and bytes that were deleted. An entry of which a file could not be deleted
        is kept.
        """
        keep_ms = None if all_entries else self.options(options).ms("vacuum.trash-retention-hours")
        now_ms, locations = self._clock.now_ms(), self._allowed(options)
        return tuple(recycle_bin.empty(self._adapter, keep_ms, now_ms, locations))

    def _allowed(self, options: Mapping[str, Any] | None) -> tuple[str, ...]:
        """Locations outside the table's own that the operator allows."""
        return self.options(options).words("vacuum.allowed-locations")


def _age_ms(hours: float | None) -> int | None:
    if hours is None:
        return None
    if not hours >= 0:
        raise OptionError("retention_hours", hours, "hours from 0 on")
    return int(hours * HOUR_MS)


def _moment_ms(moment: datetime | None) -> int | None:
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise OptionError("older_than", moment, "a datetime")
    at = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return int(at.timestamp() * 1000)
