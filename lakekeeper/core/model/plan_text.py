"""A plan as text: what it merges and why, what that saves, and what it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekeeper.core.text.formatting import counted, duration, indent, size, table, wrapped

if TYPE_CHECKING:
    from lakekeeper.core.model.benefit import Worth
    from lakekeeper.core.model.plan import MergeTask, Plan

_SHOWN_TASKS = 20
_WIDTH = 80


def render_plan(plan: Plan) -> str:
    """A plan with its merge groups (at most 20 of them) and, by reason, the blocks that are left."""
    version = "no version yet" if plan.version is None else f"version {plan.version}"
    head = f"plan for {plan.table} ({version}) by {', '.join(plan.policies)}"
    levels = ", ".join(f"L{n}: {c:,}" for n, c in plan.levels.items()) or "none"
    facts = (
        f"{counted(plan.blocks, 'block')}, {size(plan.bytes)}, average depth {plan.depth:g}, levels {levels}"
    )
    lines = [head + (f", key {plan.key}" if plan.key else ""), *map(_line, [facts, *_prediction(plan)])]
    if plan.drawing:
        lines += ["  blocks at the deepest point of the key:", plan.drawing]
    if plan.tasks:
        groups, files = counted(len(plan.tasks), "group"), counted(plan.input_files, "file")
        lines += [f"  {groups} to merge: {files}, {size(plan.input_bytes)}", _tasks(plan)]
    else:
        lines.append("  nothing to merge")
    if plan.left:
        lines += ["  not merged:", indent(_left(plan), 2)]
    return "\n".join(lines)


def _line(text: str) -> str:
    return wrapped(text, first="  ", rest="    ")


def _prediction(plan: Plan) -> list[str]:
    """What a query opens now and after the plan, the basis of the prediction, and when the work has paid for itself."""
    predicted = plan.prediction
    if predicted is None:
        return []
    before, after = predicted.worth.before, predicted.worth.after
    lines = [f"a query reads {before.files:,.2f} files, {size(before.bytes)}"]
    if plan.tasks:
        lines[0] += f"; after this plan {after.files:,.2f} files, {size(after.bytes)}"
        lines.append(f"score {predicted.worth.score:.0f} of 100: {_pays_back(predicted.worth)}")
    lines.append(f"predicted for {predicted.basis}")
    if plan.tasks:
        c = predicted.costs
        lines.append(
            f"costs in bytes read: {size(c.open_bytes)} to open a file and {c.column_share:.0%} of its bytes; "
            f"{c.rewrite:.3g} per byte rewritten"
        )
    if predicted.error is not None:
        lines.append(f"files predicted for these scans were off by {predicted.error:.0%} (median)")
    if predicted.costs.error is not None:
        off = f"off by {predicted.costs.error:.0%} (median)"
        lines.append(f"costs fitted to {predicted.costs.measured:,} measurements, {off}")
    return lines


def _pays_back(worth: Worth) -> str:
    after = worth.pays_back_seconds
    if after is None:
        return "no benefit to queries"
    return f"pays for itself in {duration(after)}"


def _left(plan: Plan) -> str:
    with_worth = plan.prediction is not None
    rows = [("blocks", "size", *(("files/query",) if with_worth else ()), "why")]
    for item in plan.left:
        files = (f"{item.files_per_query or 0:,.2f}",) if with_worth else ()
        rows.append((f"{item.blocks:,}", size(item.bytes), *files, str(item.reason)))
    return table(rows, right=frozenset({0, 1, 2} if with_worth else {0, 1}), width=_WIDTH - 2)


def _tasks(plan: Plan) -> str:
    """Each group in a row, with the reason in lines of its own below it."""
    with_worth = plan.prediction is not None
    shown = plan.tasks[:_SHOWN_TASKS]
    rows = [
        ("group", "files", "size", *(("files/query", "cost", "saves/day", "payback") if with_worth else ()))
    ]
    rows += [
        (
            task.id,
            f"{len(task.inputs):,}",
            size(task.input_bytes),
            *(_weighed(task.worth) if with_worth else ()),
        )
        for task in shown
    ]
    heading, rule, *lines = table(rows, right=frozenset(range(1, len(rows[0])))).splitlines()
    text = [heading, rule]
    for task, line in zip(shown, lines, strict=True):
        text += [line, wrapped(_why(plan, task), _WIDTH - 2, first="  ", rest="  ")]
    more = len(plan.tasks) - _SHOWN_TASKS
    return indent("\n".join([*text, *([f"… and {counted(more, 'more group')}"] if more > 0 else [])]), 2)


def _why(plan: Plan, task: MergeTask) -> str:
    policy = [f"by {task.policy}"] if len(plan.policies) > 1 else []
    partition = [task.partition] if task.partition else []
    return f"{task.reason} ({', '.join([*policy, f'L{task.input_level}->L{task.level}', *partition])})"


def _weighed(worth: Worth | None) -> tuple[str, str, str, str]:
    """Files that a query opens before and after, the cost of the rewrite, the savings per day, and the payback time."""
    if worth is None:
        return "", "", "", ""
    back = worth.pays_back_seconds
    files = f"{worth.before.files:,.2f}->{worth.after.files:,.2f}"
    return (
        files,
        size(worth.work),
        size(worth.gain_per_second * 86_400),
        "never" if back is None else duration(back),
    )
