"""How results print: aligned text, bars and a small HTML wrapping. Text in, text out."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakekeeper.core.chart import chart

if TYPE_CHECKING:
    from lakekeeper.core.advise import Advice
    from lakekeeper.core.info import ClusteringInformation
    from lakekeeper.core.plan import Plan
    from lakekeeper.core.report import DeleteReport, MergeReport, RestoreReport
    from lakekeeper.core.simulate import SimulationReport
    from lakekeeper.core.worth import Worth

_EIGHTHS = " ▏▎▍▌▋▊▉"
_SHOWN_TASKS = 20


def size(count: float) -> str:
    """``1536`` → ``1.5 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def bar(value: float, top: float, width: int = 30) -> str:
    """A bar of eighth blocks, ``width`` characters for ``top``; anything above zero shows."""
    if top <= 0 or value <= 0:
        return ""
    eighths = max(1, round(value / top * width * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def table(rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()) -> str:
    """Rows (the first is the heading) as aligned columns; columns in ``right`` are set flush right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True))
        )
        for r in rows
    ]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(line.rstrip() for line in lines)


def bars(counts: Mapping[str, int]) -> str:
    """A histogram, one bar a line; runs of empty buckets at the ends are left out."""
    filled = [i for i, n in enumerate(counts.values()) if n]
    if not filled:
        return "  (empty)"
    items = list(counts.items())[filled[0] : filled[-1] + 1]
    top = max(n for _, n in items)
    return "\n".join(f"  {name}  {n:>7,}  {bar(n, top)}" for name, n in items)


def render_information(info: ClusteringInformation) -> str:
    """Clustering information as a page of text."""
    version = "no version yet" if info.version is None else f"version {info.version}"
    levels = ", ".join(f"L{n}: {c:,}" for n, c in info.levels.items()) or "none"
    lines = [
        f"{info.table} ({version}), clustered by {info.cluster_by_keys}",
        f"  blocks             {info.total_partition_count:,} ({size(info.total_bytes)}, {info.total_rows:,} rows)",
        f"  constant           {info.total_constant_partition_count:,}",
        f"  average depth      {info.average_depth:g} per block, {info.average_point_depth:g} over overlapping points",
        f"  max depth          {info.max_depth:,}",
        f"  average overlaps   {info.average_overlaps:g}",
        f"  levels             {levels}",
    ]
    if info.blocks_with_null:
        lines.append(f"  with NULL          {info.blocks_with_null:,}")
    if info.blocks_without_statistics:
        lines.append(f"  no statistics      {info.blocks_without_statistics:,}")
    if info.notes:
        lines.append(f"  note               {info.notes}")
    return "\n".join([*lines, "  depth histogram (blocks per depth)", bars(info.partition_depth_histogram)])


def render_plan(plan: Plan) -> str:
    """A plan with every group and, by reason, every block that is left."""
    version = "no version yet" if plan.version is None else f"version {plan.version}"
    head = f"plan for {plan.table} ({version}) by {', '.join(plan.policies)}"
    levels = ", ".join(f"L{n}: {c:,}" for n, c in plan.levels.items()) or "none"
    lines = [
        head + (f", key {plan.key}" if plan.key else ""),
        f"  {plan.blocks:,} blocks, {size(plan.bytes)}, average depth {plan.depth:g}, levels {levels}",
    ]
    lines += _prediction(plan)
    if plan.drawing:
        lines += ["  blocks over the deepest point of the key:", plan.drawing]
    if plan.tasks:
        lines.append(
            f"  {len(plan.tasks):,} group{'' if len(plan.tasks) == 1 else 's'} to merge: {plan.input_files:,} files, "
            f"{size(plan.input_bytes)}"
        )
        lines.append(_indent(_tasks(plan)))
    else:
        lines.append("  nothing to do")
    if plan.left:
        lines.append("  left as they are:")
        lines.append(_indent(_left(plan)))
    return "\n".join(lines)


def _prediction(plan: Plan) -> list[str]:
    """What a query opens now and afterwards, what that rests on, and when the work has paid for itself."""
    told = plan.prediction
    if told is None:
        return []
    before, after = told.worth.before, told.worth.after
    lines = [f"  a query opens {before.files:,.2f} files, {size(before.bytes)}"]
    if plan.tasks:
        lines[0] += f"; after this plan {after.files:,.2f} files, {size(after.bytes)}"
        lines.append(f"  score {told.worth.score:.0f} of 100: {_pays_back(told.worth)}")
    lines.append(f"  predicted for {told.basis}")
    if plan.tasks:
        c = told.costs
        lines.append(
            f"  costs are in bytes read: {size(c.open_bytes)} to open a file, {c.column_share:.0%} of its bytes; "
            f"{c.rewrite:.3g} for each byte rewritten"
        )
    if told.error is not None:
        lines.append(f"  files predicted for these scans were off by {told.error:.0%} (median)")
    if told.costs.error is not None:
        off = f"off by {told.costs.error:.0%} (median)"
        lines.append(f"  costs fitted to {told.costs.measured:,} measurements, {off}")
    return lines


def _pays_back(worth: Worth) -> str:
    after = worth.pays_back_seconds
    if after is None:
        return "queries gain nothing by it"
    return f"the work is paid back in {duration(after)}"


def render_advice(advice: Advice) -> str:
    """Advice on one page: the verdict, the keys that were weighed, and what could not be."""
    now = advice.now
    lines = [
        f"{advice.table}: " + (f"clustered by {advice.key}" if advice.key else "no cluster key"),
        f"  for {advice.basis}",
        f"  a query opens {now.files:,.2f} files, {size(now.bytes)}",
    ]
    best = advice.best
    if best is not None:
        after = best.worth.after
        lines.append(
            f"  take {best}: {after.files:,.2f} files, {size(after.bytes)}; "
            f"a full re-sort is paid back in {duration(best.worth.pays_back_seconds or 0)}"
        )
    else:
        lines.append("  no other key would serve these queries much better")
    if advice.candidates:
        rows = [("key", "files/query", "bytes/query", "saved", "work", "paid back in", "score")]
        for one in advice.candidates:
            worth, back = one.worth, one.worth.pays_back_seconds
            rows.append(
                (
                    f"{one} (present)" if one.present else str(one),
                    f"{worth.after.files:,.2f}",
                    size(worth.after.bytes),
                    f"{1 - worth.after.cost / worth.before.cost:.0%}" if worth.before.cost else "",
                    size(worth.work),
                    duration(back) if back is not None else "never",
                    f"{worth.score:.0f}",
                )
            )
        lines += ["  if all of it were sorted by:", _indent(table(rows, right=frozenset({1, 2, 3, 4, 5, 6})))]
    if advice.filtered:
        shares = ", ".join(f"{c} {share:.0%}" for c, share in list(advice.filtered.items())[:8])
        lines.append(f"  filtered    {shares}")
    lines += [f"  no key      {column}: {why}" for column, why in advice.missing.items()]
    lines += [f"  note        {note}" for note in advice.notes]
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """``93600`` → ``26 hours``: in the largest unit of which there are at least two."""
    for unit, length in (("years", 31_557_600), ("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return "more than 100 years" if seconds > 100 * 31_557_600 else f"{seconds / length:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"


def _left(plan: Plan) -> str:
    asked = plan.prediction is not None
    rows = [("blocks", "size", *(("files/query",) if asked else ()), "why")]
    for item in plan.left:
        files = (f"{item.files_per_query or 0:,.2f}",) if asked else ()
        rows.append((f"{item.blocks:,}", size(item.bytes), *files, item.reason))
    return table(rows, right=frozenset({0, 1, 2} if asked else {0, 1}))


def _tasks(plan: Plan) -> str:
    asked = plan.prediction is not None
    weighed = ("files/query", "costs", "saves a day", "paid back in") if asked else ()
    rows = [("group", "policy", "files", "size", *weighed, "level", "partition", "why")]
    rows += [
        (
            task.id,
            task.policy,
            f"{len(task.inputs):,}",
            size(task.input_bytes),
            *(_weighed(task.worth) if asked else ()),
            f"L{task.input_level}->L{task.level}",
            task.partition or "-",
            task.reason,
        )
        for task in plan.tasks[:_SHOWN_TASKS]
    ]
    more = len(plan.tasks) - _SHOWN_TASKS
    right = frozenset({2, 3, 4, 5, 6, 7} if asked else {2, 3})
    return table(rows, right=right) + (f"\n… and {more:,} more groups" if more > 0 else "")


def _weighed(worth: Worth | None) -> tuple[str, str, str, str]:
    """Files that a query opens before and after, what the rewrite costs, what it saves a day, when it has paid."""
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


def _indent(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


def as_html(text: str) -> str:
    """Text for a notebook: the same page, escaped, in a fixed font."""
    return f"<pre style='line-height:1.25'>{html.escape(text)}</pre>"


def render_report(report: MergeReport) -> str:
    """A report in a few lines; groups that did not land are named with the reason."""
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
            lines += [
                f"  rewritten   {report.rewritten_data_files_count:,} files, {size(report.rewritten_bytes_count)}",
                f"  added       {report.added_data_files_count:,} files, {size(report.added_bytes_count)}",
            ]
        if report.removed_delete_files_count:
            instead = report.added_delete_files_count
            into = f", {instead:,} in their place" if instead else ""
            lines.append(f"  removed     {report.removed_delete_files_count:,} delete files{into}")
        rounds = f" in {report.rounds} rounds" if report.rounds else ""
        lines.append(f"  commits     {report.commits}{rounds}; ended: {report.ended}")
        lines.append(f"  run         {', '.join(report.run_ids)}")
    if report.depth_before is not None and report.depth_after is not None:
        lines.insert(
            1, f"  depth       {report.depth_before:g} -> {report.depth_after:g} (average per block)"
        )
    if report.files_per_query_before is not None and report.files_per_query_after is not None:
        told = (
            f"{report.files_per_query_before:,.2f} -> {report.files_per_query_after:,.2f} opened by a query"
        )
        off = (
            f" (predicted {report.files_per_query_predicted:,.2f})"
            if report.files_per_query_predicted
            else ""
        )
        lines.insert(2, f"  files       {told}{off}")
    if report.conflicts:
        replayed = (
            f", {report.replayed_rows_count:,} deleted rows replayed" if report.replayed_rows_count else ""
        )
        lines.append(f"  conflicts   {report.conflicts}{replayed}")
    lost = [g for g in report.groups if g.status in ("dropped", "failed")]
    lines += [f"  {g.status:<11} group {g.id} ({g.files_in} files): {g.detail}" for g in lost]
    return "\n".join(lines)


def render_delete(report: DeleteReport) -> str:
    """A delete in a few lines, with the commits that it went over."""
    head = f"{report.table}: delete where {report.where}"
    if report.changed:
        versions = f"version {report.version_before} -> {report.version_after}"
        rows, files = report.deleted_rows_count, report.touched_data_files_count
        lines = [
            f"{head} in {report.duration_ms / 1000:.1f} s, {versions}",
            f"  deleted     {_many(rows, 'row')} in {_many(files, 'file')}{_unread(report)}",
            f"  run         {report.run_id}",
        ]
    else:
        lines = [f"{head}: no row matches, nothing was committed"]
    if report.retries:
        over = ", ".join(report.winners) or "concurrent commits"
        again = _many(report.followed_rows_count, "row")
        lines.append(f"  retries     {report.retries}, {again} found again after {over}")
    return "\n".join(lines)


def _unread(report: DeleteReport) -> str:
    count = report.unread_data_files_count
    return f", {count:,} of them without reading a row" if count else ""


def render_restore(report: RestoreReport) -> str:
    """What came back, in a line or two."""
    if report.kind == "files":
        return (
            f"{report.table}: {_many(report.files, 'file')} back from the recycle bin ({size(report.bytes)})"
        )
    if report.already:
        return (
            f"{report.table}: the rows where {report.where} came back with version {report.version} already"
        )
    rows, files = _many(report.rows, "row"), _many(report.files, "file")
    return (
        f"{report.table}: {rows} where {report.where} are back, in {files}, version {report.version}\n"
        f"  run         {report.run_id}"
    )


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def render_simulation(report: SimulationReport) -> str:
    """A simulation on one page: what it cost, what queries would have opened, and depth over time."""
    rounds = "until nothing was left to do" if report.final else "one round"
    by = ", ".join(report.policies)
    cost = f"{report.write_amplification:.2f} bytes per byte ingested"
    files = [
        ("files opened by a query", "over time", "without maintenance"),
        ("of one key", f"{report.depth:.2f}", f"{report.untouched_depth:.2f}"),
        ("  95th percentile", f"{report.depth_p95:.2f}", ""),
        ("  at the end", f"{report.depth_at_end:.2f}", f"{report.course.untouched[-1]:.2f}"),
        ("of 1 % of the data", f"{report.range_files:.2f}", ""),
    ]
    lines = [
        f"simulation of {report.ingest}" + (f", key {report.key}" if report.key else ""),
        f"  commits     {report.commits:,}; maintained by {by} after each {report.every} ({rounds})",
        f"  ingested    {_many(report.ingested_files, 'file')}, {size(report.ingested_bytes)}",
        f"  rewritten   {_many(report.rewritten_files, 'file')}, {size(report.rewritten_bytes)}: {cost}",
        f"  tasks       {report.tasks:,}, the largest {size(report.largest_task_bytes)}",
        f"  at the end  {_many(report.files_at_end, 'file')}",
        _indent(table(files, right=frozenset({1, 2}))),
        f"  read        {size(report.point_bytes)} by a query of one key, {size(report.range_bytes)} by one of 1 %",
    ]
    if report.optimum is not None and report.optimum_ratio is not None:
        best = report.optimum
        course = f"{best.rewritten:.2f} bytes at depth {best.depth:.2f}"
        lines += [
            f"  optimum     {report.optimum_ratio:.2f} times the cost of the best course that knows the future",
            f"              ({course}, where opening a file costs {best.price:g} of rewriting it)",
        ]
    lines += [
        "  files opened by a query of one key, by commit:",
        _indent(chart(report.course.depth, report.course.commit)),
    ]
    return "\n".join(lines)
