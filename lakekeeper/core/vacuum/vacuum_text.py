"""A vacuum as text: deletions by kind and size, and why the rest is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakekeeper.core.text.formatting import duration, size, table

if TYPE_CHECKING:
    from lakekeeper.core.vacuum.vacuum_plan import VacuumPlan
    from lakekeeper.core.vacuum.vacuum_report import VacuumReport

_SHOWN = 8


def render_vacuum_plan(plan: VacuumPlan) -> str:
    """What goes, by kind; versions that stay, by reason; what is spared."""
    lines = [f"{plan.table}  version {plan.version}", ""]
    kinds = plan.by_kind()
    if kinds:
        rows = [["goes", "files", "size"]]
        rows += [[kind, f"{files:,}", size(count)] for kind, (files, count) in kinds.items()]
        if len(kinds) > 1:
            rows.append(["together", f"{len(plan.files):,}", size(plan.bytes)])
        lines += [table(rows, right=frozenset({1, 2})), ""]
    else:
        lines += ["nothing goes", ""]
    if plan.share:
        lines.append(f"{plan.share:.0%} of the bytes of the table and its garbage")
    lines.append(
        f"{len(plan.kept):,} versions stay, {len(plan.gone):,} go; retention {duration(plan.age_ms / 1000)}"
    )
    reasons = Counter(plan.kept.values())
    lines += [f"  {count:>7,}  {why}" for why, count in reasons.most_common(_SHOWN)]
    if len(reasons) > _SHOWN:
        lines.append(f"  and {len(reasons) - _SHOWN:,} more reasons")
    if plan.expired_refs:
        lines.append(f"names that go, past their own retention: {', '.join(plan.expired_refs)}")
    lines += _listed("files are left alone:", [f"{path}: {why}" for path, why in plan.spared.items()])
    lines += _listed("unrecognised files, which no version names; they are never touched:", plan.unrecognised)
    if plan.gone_before:
        lines.append(f"{plan.gone_before:,} files were gone before")
    if plan.note:
        lines.append(f"note: {plan.note}")
    return "\n".join(lines)


def _listed(what: str, lines: Sequence[str]) -> list[str]:
    """How many there are, and the first of them."""
    if not lines:
        return []
    shown = [f"{len(lines):,} {what}", *(f"  {line}" for line in lines[:_SHOWN])]
    return shown if len(lines) <= _SHOWN else [*shown, f"  and {len(lines) - _SHOWN:,} more"]


def render_vacuum(report: VacuumReport) -> str:
    """The plan, then what became of it."""
    lines = [str(report.plan), ""] if report.plan else []
    if report.dry_run:
        lines.append(
            f"dry run: {report.deleted_files_count:,} files, {size(report.deleted_bytes_count)}, would go; nothing "
            "was touched"
        )
        return "\n".join(lines)
    verb = "moved to the trash" if report.trash else "deleted"
    lines.append(
        f"{verb}: {report.deleted_files_count:,} files, {size(report.deleted_bytes_count)}, in "
        f"{duration(report.duration_ms / 1000)}"
    )
    if report.trash:
        lines.append(f"restore with: lakekeeper trash restore {report.table} {report.trash}")
    if report.expired_snapshots_count:
        lines.append(f"{report.expired_snapshots_count:,} versions can no longer be read")
    if report.failed_files_count:
        lines.append(f"{report.failed_files_count:,} files stayed; the next vacuum tries again")
    if report.settled_runs:
        lines.append(f"runs that had died or failed, cleaned up after: {', '.join(report.settled_runs)}")
    if report.retries:
        lines.append(f"looked again {report.retries:,} times, because somebody committed meanwhile")
    if report.proof:
        lines.append(f"record: {report.proof}")
    lines.append(report.ended)
    return "\n".join(lines)
