"""The calls that change a table: the engine carries each out, and the history records it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lakekeeper.arguments import required_predicate
from lakekeeper.core.config.options import Options
from lakekeeper.core.model.lifecycle_report import LifecycleReport
from lakekeeper.core.model.report import DeleteReport, MergeReport, MetadataReport, RestoreReport, UndoReport
from lakekeeper.core.model.statistics_report import StatisticsReport
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine import compact_metadata as metadata
from lakekeeper.engine import compute_statistics as statistics
from lakekeeper.engine import undo as undoing
from lakekeeper.engine.merge import build_filters as filters
from lakekeeper.engine.merge import delete_files, job
from lakekeeper.engine.merge.request import Request
from lakekeeper.engine.trash import expire_rows as lifecycle
from lakekeeper.engine.trash import restore as trash
from lakekeeper.engine.vacuum import job as vacuum_job
from lakekeeper.engine.vacuum.job import VacuumRequest
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spark.where import checked_where
from lakekeeper.spi import Observer
from lakekeeper.table_context import TableContext

if TYPE_CHECKING:
    from pyspark.sql import Column


def merge(context: TableContext, request: Request, observer: Observer | None) -> MergeReport:
    """Carry out a recluster or a compact."""
    return _rewrite(job.maintain, context, request, observer)


def merge_deletes(context: TableContext, request: Request, observer: Observer | None) -> MergeReport:
    """Rewrite the files that are due, then tidy the delete files."""
    return _rewrite(delete_files.merge_deletes, context, request, observer)


def build_filters(
    context: TableContext, request: Request, observer: Observer | None, *, every: bool
) -> MergeReport:
    """Rewrite the files that lack a Bloom filter."""
    return _rewrite(partial(filters.build_filters, every=every), context, request, observer)


def _rewrite(
    act: Callable[..., MergeReport], context: TableContext, request: Request, observer: Observer | None
) -> MergeReport:
    runner, clock = SparkRunner(context.spark), context.clock
    return context.recorder.run(
        request.verb,
        lambda seen: act(context.session, runner, request, observer=seen, clock=clock),
        observer,
        dry_run=request.dry_run,
    )


def delete(
    context: TableContext,
    verb: str,
    act: Callable[..., DeleteReport],
    where: str | Column,
    observer: Observer | None,
    options: Mapping[str, Any] | None,
) -> DeleteReport:
    """Delete rows with one of the engine's deletes, once all arguments of the call are checked."""
    required = required_predicate(where)
    resolved = context.options(options, lenient=True)
    predicate = checked_where(context.spark, context.name, required, steady=True)
    runner, clock = SparkRunner(context.spark), context.clock
    return context.recorder.run(
        verb,
        lambda seen: act(context.session, runner, predicate, resolved, observer=seen, clock=clock),
        observer,
    )


def expire_rows(
    context: TableContext, options: Options, observer: Observer | None, *, dry_run: bool
) -> LifecycleReport:
    """Delete the rows that the lifecycle rule expires."""
    runner, clock = SparkRunner(context.spark), context.clock
    checked = partial(checked_where, context.spark, context.name, steady=True)
    return context.recorder.run(
        "expire_rows",
        lambda seen: lifecycle.expire_rows(
            context.session, runner, options, checked, dry_run=dry_run, observer=seen, clock=clock
        ),
        observer,
        dry_run=dry_run,
    )


def vacuum(context: TableContext, request: VacuumRequest, observer: Observer | None) -> VacuumReport:
    """Expire versions and delete files."""
    return context.recorder.run(
        "vacuum",
        lambda seen: vacuum_job.vacuum(context.adapter, request, observer=seen, clock=context.clock),
        observer,
        dry_run=request.dry_run,
    )


def compact_metadata(context: TableContext, options: Options, *, dry_run: bool) -> MetadataReport:
    """Compact manifests, or write a checkpoint."""
    return context.recorder.run(
        "compact_metadata",
        lambda _: metadata.compact_metadata(context.adapter, options, dry_run=dry_run, clock=context.clock),
        dry_run=dry_run,
    )


def compute_statistics(
    context: TableContext,
    columns: Sequence[str] | None,
    options: Options,
    observer: Observer | None,
    *,
    dry_run: bool,
) -> StatisticsReport:
    """Compute the statistics that are missing or outdated."""
    runner, clock = SparkRunner(context.spark), context.clock
    return context.recorder.run(
        "compute_statistics",
        lambda seen: statistics.compute_statistics(
            context.adapter, runner, columns, options, dry_run=dry_run, observer=seen, clock=clock
        ),
        observer,
        dry_run=dry_run,
    )


def restore(context: TableContext, name: str, options: Options, observer: Observer | None) -> RestoreReport:
    """Restore an entry of the trash."""
    runner, clock = SparkRunner(context.spark), context.clock
    return context.recorder.run(
        "restore",
        lambda seen: trash.restore(context.adapter, runner, name, options, observer=seen, clock=clock),
        observer,
    )


def undo(
    context: TableContext,
    run_id: str,
    options: Options,
    observer: Observer | None,
    *,
    dry_run: bool,
    allow_rollback: bool,
) -> UndoReport:
    """Bring back the layout before a run."""
    return context.recorder.run(
        "undo",
        lambda seen: undoing.undo(
            context.adapter,
            run_id,
            options,
            dry_run=dry_run,
            allow_rollback=allow_rollback,
            observer=seen,
            clock=context.clock,
        ),
        observer,
        dry_run=dry_run,
    )
