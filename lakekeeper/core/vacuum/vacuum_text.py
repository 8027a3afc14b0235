"""A vacuum as text: deletions by kind and size, and why the rest is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING

from lakekeeper.core.text.formatting import counted, duration, size, table

if TYPE_CHECKING:
    from lakekeeper.core.vacuum.vacuum_plan import VacuumPlan
    from lakekeeper.core.vacuum.vacuum_report import VacuumReport

_SHOWN = 8


def render_vacuum_plan(plan: VacuumPlan) -> str:
    """The files to delete, by kind; the versions that stay, by reason; the garbage that is spared."""
    lines = [f"{plan.table}  version {plan.version}", ""]
    kinds = plan.by_kind()
    if kinds:
        rows = [["to delete", "files", "size"]]
        rows += [[kind, f"{files:,}", size(count)] for kind, (files, count) in kinds.items()]
        if len(kinds) > 1:
            rows.append(["total", f"{len(plan.files):,}", size(plan.bytes)])
        lines += [table(rows, right=frozenset({1, 2})), ""]
    else:
        lines += ["nothing to delete", ""]
    if plan.share:
        lines.append(f"these are {plan.share:.0%} of all bytes of the table, its unused files included")
    lines.append(
        f"{counted(len(plan.kept), 'version')} kept, {len(plan.gone):,} expired; "
        f"retention {duration(plan.age_ms / 1000)}"
    )
    reasons = Counter(map(str, plan.kept.values()))
    lines += [f"  {count:>7,}  {why}" for why, count in reasons.most_common(_SHOWN)]
    if len(reasons) > _SHOWN:
        lines.append(f"  and {counted(len(reasons) - _SHOWN, 'more reason')}")
    if plan.expired_refs:
        lines.append(f"expired branches and tags: {', '.join(plan.expired_refs)}")
    lines += _listed("file", "kept:", [f"{path}: {why}" for path, why in plan.spared.items()])
    lines += _listed("unrecognised file", "that no version references, never deleted:", plan.unrecognised)
    if plan.gone_before:
        lines.append(f"already gone: {counted(plan.gone_before, 'file')}")
    if plan.note:
        lines.append(f"note: {plan.note}")
    return "\n".join(lines)


def _listed(what: str, why: str, lines: Sequence[str]) -> list[str]:
    """How many there are, and the first of them."""
    if not lines:
        return []
    shown = [f"{counted(len(lines), what)} {why}", *(f"  {line}" for line in lines[:_SHOWN])]
    return shown if len(lines) <= _SHOWN else [*shown, f"  and {len(lines) - _SHOWN:,} more"]


def render_vacuum(report: VacuumReport) -> str:
    """The plan, then its outcome."""
    lines = [str(report.plan), ""] if report.plan else []
    if report.dry_run:
        expired = f"{what} would expire, and " if (what := expiring(report)) else ""
        files = f"{counted(report.deleted_files_count, 'file')}, {size(report.deleted_bytes_count)}"
        lines.append(f"dry run: {expired}{files}, would be deleted; nothing was changed")
        return "\n".join(lines)
    verb = "moved to the trash" if report.trash else "deleted"
    lines.append(
        f"{verb}: {counted(report.deleted_files_count, 'file')}, {size(report.deleted_bytes_count)}, in "
        f"{duration(report.duration_ms / 1000)}"
    )
    if report.trash:
        lines.append(f"restore with: lakekeeper trash restore {quote(report.table)} {quote(report.trash)}")
    if report.expired_snapshots_count:
        lines.append(f"{counted(report.expired_snapshots_count, 'version')} can no longer be read")
    if report.expired_refs_count:
        lines.append(f"expired branches and tags: {report.expired_refs_count:,}")
    if report.failed_files_count:
        lines.append(
            f"not deleted: {counted(report.failed_files_count, 'file')}; the next vacuum tries again"
        )
    if report.settled_runs:
        lines.append(f"cleaned up after runs that died or failed: {', '.join(report.settled_runs)}")
    if report.retries:
        lines.append(f"planned again after concurrent commits: {counted(report.retries, 'time')}")
    if report.proof:
        lines.append(f"list of the deleted files: {report.proof}")
    lines.append(str(report.ended))
    return "\n".join(lines)


def expiring(report: VacuumReport) -> str:
    """The numbers of versions, and of branches and tags, that a vacuum expires; empty if there are none."""
    versions, refs = report.expired_snapshots_count, report.expired_refs_count
    parts = [counted(versions, "version")] if versions else []
    parts += [f"{refs:,} {'branch or tag' if refs == 1 else 'branches and tags'}"] if refs else []
    return " and ".join(parts)
