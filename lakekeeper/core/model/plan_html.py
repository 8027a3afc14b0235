"""A plan as HTML: its groups and the blocks that it leaves, with reasons, as tables of a bounded length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakekeeper.core.text.formatting import counted, duration, percent, significant, size
from lakekeeper.core.text.markup import Child, Markup, facts_table, joined, rows_table, tag

if TYPE_CHECKING:
    from lakekeeper.core.model.benefit import Worth
    from lakekeeper.core.model.plan import MergeTask, Plan

_GROUPS = 20
_REASONS = 20


def plan_html(plan: Plan) -> Markup:
    """A plan for a notebook."""
    levels = ", ".join(f"L{n}: {c:,}" for n, c in plan.levels.items())
    worth = plan.prediction.worth if plan.prediction else None
    after = f" → {significant(worth.after.files)}" if worth and plan.tasks else ""
    facts = [
        ("key", plan.key or "none"),
        ("policies", ", ".join(plan.policies)),
        ("blocks", f"{plan.blocks:,}, {size(plan.bytes)}"),
        ("average depth", significant(plan.depth)),
        ("levels", levels or None),
        ("files per query", f"{significant(worth.before.files)}{after}" if worth else None),
        (
            "to merge",
            f"{counted(len(plan.tasks), 'group')}: {plan.input_files:,} files, {size(plan.input_bytes)}",
        ),
    ]
    version = "" if plan.version is None else f", version {plan.version}"
    parts = [tag("p", "plan for ", tag("b", plan.table), version), facts_table(facts)]
    if plan.tasks:
        parts += [groups_table(plan), tag("p", more_groups(plan))]
    if plan.left:
        parts += [tag("p", "not merged:"), left_table(plan), tag("p", more_left(plan))]
    return joined(part for part in parts if part != "<p></p>")


def groups_table(plan: Plan) -> Markup:
    """The first groups of a plan."""
    rows: list[Sequence[Child]] = [("group", "files", "size", "files/query", "pays back in", "why")]
    rows += [
        (
            tag("code", task.id),
            f"{len(task.inputs):,}",
            size(task.input_bytes),
            _files(task.worth),
            _pays_back(task.worth),
            tag("span", _why(task), class_="why"),
        )
        for task in plan.tasks[:_GROUPS]
    ]
    return rows_table(rows, right=frozenset({1, 2, 3, 4}))


def more_groups(plan: Plan) -> str:
    """How many groups the table leaves out."""
    more = len(plan.tasks) - _GROUPS
    return f"The first {_GROUPS} groups; the plan has {more:,} more." if more > 0 else ""


def left_table(plan: Plan) -> Markup:
    """The blocks that a plan leaves, by reason, the most bytes first."""
    rows: list[Sequence[Child]] = [("files", "size", "share", "files/query", "why")]
    rows += [
        (
            f"{item.blocks:,}",
            size(item.bytes),
            percent(item.bytes / plan.bytes) if plan.bytes else "",
            "" if item.files_per_query is None else significant(item.files_per_query),
            tag("span", str(item.reason), class_="why"),
        )
        for item in sorted(plan.left, key=lambda item: -item.bytes)[:_REASONS]
    ]
    return rows_table(rows, right=frozenset({0, 1, 2, 3}))


def more_left(plan: Plan) -> str:
    """How many reasons the table leaves out."""
    more = len(plan.left) - _REASONS
    return f"The {_REASONS} reasons with most bytes; the plan has {more:,} more." if more > 0 else ""


def _why(task: MergeTask) -> str:
    where = f", {task.partition}" if task.partition else ""
    return f"{task.reason} (L{task.input_level} → L{task.level}{where})"


def _files(worth: Worth | None) -> str:
    return f"{significant(worth.before.files)} → {significant(worth.after.files)}" if worth else ""


def _pays_back(worth: Worth | None) -> str:
    if worth is None:
        return ""
    return "never" if worth.pays_back_seconds is None else duration(worth.pays_back_seconds)
