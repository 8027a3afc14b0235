"""Reports of maintenance calls as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lakekeeper.core.model.plan_html import plan_html
from lakekeeper.core.text.formatting import counted, significant, size
from lakekeeper.core.text.markup import Child, Markup, facts_table, joined, rows_table, tag

if TYPE_CHECKING:
    from lakekeeper.core.model.report import MergeReport

_LOST = 20


def report_html(report: MergeReport) -> Markup:
    """A report for a notebook; of a dry run its plan, and of groups that were not committed their reasons."""
    if report.dry_run and report.plan is not None:
        return joined([tag("p", f"dry run of {report.verb}: nothing was written"), plan_html(report.plan)])
    head = tag("p", tag("b", report.table), f": {report.verb}, {report.status}")
    lost = [group for group in report.groups if group.status in ("dropped", "failed")]
    rows: list[Sequence[Child]] = [("group", "outcome", "files", "why")]
    rows += [
        (tag("code", each.id), each.status, f"{each.files_in:,}", str(each.detail)) for each in lost[:_LOST]
    ]
    more = f"not committed either: {counted(len(lost) - _LOST, 'more group')}" if len(lost) > _LOST else None
    table = rows_table(rows, right=frozenset({2})) if lost else None
    return joined([head, facts_table(_facts(report)), table, tag("p", more) if more else None])


def _facts(report: MergeReport) -> Iterator[tuple[str, str]]:
    if report.commits:
        yield "version", f"{report.version_before} → {report.version_after}"
    for name, before, after in (
        ("average depth", report.depth_before, report.depth_after),
        ("files per query", report.files_per_query_before, report.files_per_query_after),
    ):
        if before is not None and after is not None:
            yield name, f"{significant(before)} → {significant(after)}"
    if report.rewritten_data_files_count:
        yield (
            "rewritten",
            f"{counted(report.rewritten_data_files_count, 'file')}, {size(report.rewritten_bytes_count)}",
        )
        yield "added", f"{counted(report.added_data_files_count, 'file')}, {size(report.added_bytes_count)}"
    if report.removed_delete_files_count:
        yield "removed", counted(report.removed_delete_files_count, "delete file")
    if report.conflicts:
        yield (
            "conflicts",
            f"{report.conflicts:,}, {counted(report.replayed_rows_count, 'deleted row')} replayed",
        )
    yield "commits", f"{report.commits:,}: {report.ended}" if report.commits else str(report.ended)
    if not report.commits and report.plan is not None and report.plan.left:
        most = max(report.plan.left, key=lambda each: each.blocks)
        yield "left", f"{counted(most.blocks, 'file')}: {most.reason}"
    yield "time", f"{report.duration_ms / 1000:.1f} s"
