"""Reports of maintenance calls as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakekeeper.core.model.plan_text import render_plan
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.text.formatting import counted, size, wrapped

if TYPE_CHECKING:
    from lakekeeper.core.model.report import DeleteReport, MergeReport, RestoreReport, UndoReport

_SHOWN_REASONS = 3


def render_report(report: MergeReport) -> str:
    """A report in a few lines; groups that were not committed, and files where nothing was, have their reasons."""
    if report.dry_run and report.plan is not None:
        return f"dry run of {report.verb}: nothing was written\n{render_plan(report.plan)}"
    head = f"{report.table}: {report.verb} "
    if not report.commits:
        lines = [head + f"committed nothing ({report.ended})"]
    else:
        lines = [
            head
            + f"in {report.duration_ms / 1000:.1f} s, version {report.version_before} -> {report.version_after}",
        ]
        if report.rewritten_data_files_count:
            rewritten, added = report.rewritten_data_files_count, report.added_data_files_count
            lines += [
                f"  rewritten   {counted(rewritten, 'file')}, {size(report.rewritten_bytes_count)}",
                f"  added       {counted(added, 'file')}, {size(report.added_bytes_count)}",
            ]
        if report.removed_delete_files_count:
            instead = report.added_delete_files_count
            into = f", {instead:,} in their place" if instead else ""
            lines.append(f"  removed     {counted(report.removed_delete_files_count, 'delete file')}{into}")
        rounds = f", {counted(report.rounds, 'round')}" if report.rounds else ""
        ended = "" if report.ended.codes == (Code.ONE_ROUND,) else f": {report.ended}"
        lines.append(f"  commits     {counted(report.commits, 'commit')}{rounds}{ended}")
        lines.append(f"  run         {', '.join(report.run_ids)}")
    if report.depth_before is not None and report.depth_after is not None:
        lines.insert(
            1, f"  depth       {report.depth_before:g} -> {report.depth_after:g} (average per block)"
        )
    if report.files_per_query_before is not None and report.files_per_query_after is not None:
        opened = (
            f"{report.files_per_query_before:,.2f} -> {report.files_per_query_after:,.2f} read by a query"
        )
        off = (
            f" (predicted {report.files_per_query_predicted:,.2f})"
            if report.files_per_query_predicted
            else ""
        )
        lines.insert(2, f"  files       {opened}{off}")
    if report.conflicts:
        replayed = (
            f", {counted(report.replayed_rows_count, 'deleted row')} replayed"
            if report.replayed_rows_count
            else ""
        )
        lines.append(f"  conflicts   {report.conflicts}{replayed}")
    lost = [g for g in report.groups if g.status in ("dropped", "failed")]
    lines += [f"  {g.status:<11} group {g.id} ({counted(g.files_in, 'file')}): {g.detail}" for g in lost]
    return "\n".join([*lines, *(() if report.commits else _left(report))])


def _left(report: MergeReport) -> Iterator[str]:
    """Why most files were left as they are."""
    left = sorted(report.plan.left, key=lambda each: -each.blocks) if report.plan is not None else []
    for each in left[:_SHOWN_REASONS]:
        text = f"{counted(each.blocks, 'file')}, {size(each.bytes)}: {each.reason}"
        yield wrapped(text, first="  left        ", rest=" " * 14)
    if len(left) > _SHOWN_REASONS:
        yield f"              {counted(len(left) - _SHOWN_REASONS, 'more reason')} in the plan"


def render_delete(report: DeleteReport) -> str:
    """A delete in a few lines, with the concurrent commits that it was retried after."""
    head = f"{report.table}: {'drop_partition' if report.trash else 'delete'} where {report.where}"
    if report.changed:
        versions = f"version {report.version_before} -> {report.version_after}"
        rows, files = report.deleted_rows_count, report.touched_data_files_count
        lines = [
            f"{head} in {report.duration_ms / 1000:.1f} s, {versions}",
            f"  deleted     {counted(rows, 'row')} in {counted(files, 'file')}{_unread(report)}",
            f"  run         {report.run_id}",
        ]
    else:
        lines = [f"{head}: no row matches; nothing was committed"]
    if report.trash:
        lines.append(f"  trash       {report.trash}: restore('{report.trash}') brings the rows back")
    if report.retries:
        over = ", ".join(report.winners) or "concurrent commits"
        again = counted(report.followed_rows_count, "row")
        lines.append(f"  retries     {report.retries}; {again} found again after {over}")
    return "\n".join(lines)


def _unread(report: DeleteReport) -> str:
    count = report.unread_data_files_count
    return f", {count:,} of them without reading a row" if count else ""


def render_restore(report: RestoreReport) -> str:
    """What was restored, in one or two lines."""
    if report.kind == "files":
        return (
            f"{report.table}: restored {counted(report.files, 'file')} from the trash ({size(report.bytes)})"
        )
    if report.already:
        return (
            f"{report.table}: the rows where {report.where} were already restored by version {report.version}"
        )
    rows, files = counted(report.rows, "row"), counted(report.files, "file")
    return (
        f"{report.table}: restored {rows} where {report.where}, in {files}, version {report.version}\n"
        f"  run         {report.run_id}"
    )


def render_undo(report: UndoReport) -> str:
    """An undo in a few lines."""
    if report.already:
        return f"{report.table}: run {report.undone} was undone before; version {report.version_after} has its layout"
    head = f"{report.table}: undo of run {report.undone}"
    if report.dry_run:
        by = "" if report.rollback_to is None else f", by a rollback to version {report.rollback_to}"
        first = f"dry run of undo: nothing was written\n{head} would change the layout back{by}"
    else:
        first = f"{head} in {report.duration_ms / 1000:.1f} s, version {report.version_before} -> "
        first += f"{report.version_after}{'' if report.rollback_to is None else ' (rollback)'}"
    restored, removed = report.restored_data_files_count, report.removed_data_files_count
    ending = "s" if report.dry_run else "d"
    lines = [
        first,
        f"  restore{ending}    {counted(restored, 'file')}, {size(report.restored_bytes_count)}",
        f"  remove{ending}     {counted(removed, 'file')}, {size(report.removed_bytes_count)}",
    ]
    return "\n".join([*lines, f"  run         {report.run_id}"] if report.run_id else lines)
