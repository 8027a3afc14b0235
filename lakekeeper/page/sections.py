"""One table of a report as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakekeeper.core.layout.clustering_info import ClusteringInformation
from lakekeeper.core.layout.clustering_info_html import histogram_table
from lakekeeper.core.layout.key_profile import KeyProfile, LevelProfile
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.model.plan_html import groups_table, left_table, more_groups, more_left
from lakekeeper.core.text.charts import Interval, intervals, steps
from lakekeeper.core.text.formatting import counted, labels, significant, size
from lakekeeper.core.text.markup import Markup, joined, tag
from lakekeeper.history.costs import money
from lakekeeper.page.figures import figure, note, number, scrolled, tiles, unreadable
from lakekeeper.page.history_part import history_part
from lakekeeper.page.table_view import TableView

_LONGEST_TICK = 14
_LEVEL_HEIGHT = 48


def table_section(view: TableView, anchor: str) -> Markup:
    """A table: its numbers, its layout along the key, the plan with reasons, and its history."""
    plan, info = view.plan, view.information
    version = "no version yet" if plan.version is None else f"version {plan.version}"
    key = f"clustered by {plan.key}" if plan.key else "no cluster key"
    return tag(
        "section",
        tag("h2", view.table),
        tag("p", f"{view.format} · {version} · {key}", class_="facts"),
        _numbers(view),
        note(f"Note: {info.notes}.") if info and info.notes else None,
        tag("h3", "Layout"),
        *_layout(view),
        tag("h3", "Plan"),
        *_plan(plan),
        tag("h3", "History"),
        unreadable(view.recorded.error) or history_part(view.recorded.operations, view.costs, view.prices),
        id=anchor,
    )


def _numbers(view: TableView) -> Markup:
    plan, info = view.plan, view.information
    shown = [
        ("files", number("files", plan.blocks, f"{plan.blocks:,}"), size(plan.bytes)),
    ]
    if info is not None:
        depth, most = info.average_depth, info.max_depth
        shown += [
            ("average depth", number("average_depth", depth, significant(depth)), "per block; 1 is perfect"),
            ("deepest point", number("max_depth", most, f"{most:,}"), "files over one key"),
        ]
    if view.files_per_query is not None and plan.prediction is not None:
        before, after = view.files_per_query
        now = number("files_per_query_before", before, significant(before))
        then = number("files_per_query_after", after, significant(after))
        value = joined([now, " → ", then]) if plan.tasks else now
        shown.append(
            ("files per query", value, "predicted, now → after the plan" if plan.tasks else "predicted")
        )
    if view.measured is not None:
        files = view.measured.files
        value = number("measured_files_per_query", files, significant(files))
        shown.append(("files per query", value, f"measured by Spark, {counted(view.measured.scans, 'scan')}"))
    debt = view.debt
    gain = number("query_seconds_per_day", debt.query_seconds_per_day, f"{debt.query_seconds_per_day:,.0f}")
    shown.append(("maintenance debt", gain, f"query-seconds a day; {size(debt.bytes)} to rewrite"))
    if view.costs.total is not None:
        total = number("cost", view.costs.total, money(view.costs.total))
        shown.append(
            ("cost so far", total, counted(sum(c.operations for c in view.costs.costs), "operation"))
        )
    return tiles(shown)


def _layout(view: TableView) -> Iterator[Markup]:
    info, profile = view.information, view.profile
    if info is None:
        yield note(
            "Without a cluster key there is no depth. Store one in the table, or name columns in the call."
        )
        return
    if profile is None:
        yield note("The table has no files.")
        return
    ticks = labels([text for _, text in profile.ticks], _LONGEST_TICK)
    yield _depth(info, profile, ticks, planned=bool(view.plan.tasks))
    yield _runs(profile, ticks)
    yield _histogram(info)


def _depth(
    info: ClusteringInformation, profile: KeyProfile, ticks: Sequence[str], *, planned: bool
) -> Markup:
    series = [("now", profile.depth.tolist())]
    title = f"Depth along the key, at most {info.max_depth:,} files over one point"
    if planned:
        series.append(("then", profile.after.tolist()))
        title += f", {profile.after.max():,} after the plan"
    highest = max(max(depths) for _, depths in series)
    chart = steps(series, title=title, left=(f"{highest:,}", "0"), ticks=ticks)
    then = (tag("b", "after the plan", class_="then"),) if planned else ()
    caption = joined(["Depth along the key ", tag("b", "now", class_="now"), *then])
    below = "How many files cover each point, which a query for one key reads. The width is the share of the data."
    return figure(caption, chart, below)


def _runs(profile: KeyProfile, ticks: Sequence[str]) -> Markup:
    drawn = [_level(level, ticks if level is profile.levels[-1] else ()) for level in profile.levels]
    legend = [tag("b", "merged by the plan", class_="merge"), tag("b", "left", class_="leave")]
    below = "Each bar is a file, from its lowest to its highest key. The files of a sorted run fill one line."
    if any(level.lanes is None for level in profile.levels):
        below += " If a level has too many files to draw, an area shows how deeply they overlap."
    return figure(joined(["Levels ", *legend]), joined(drawn), below)


def _level(level: LevelProfile, ticks: Sequence[str]) -> Markup:
    deepest = int(level.depth.max(initial=0))
    title = f"Level {level.level}: {counted(level.blocks, 'file')}, up to {deepest:,} deep"
    name, lanes = f"L{level.level}", level.lanes
    if lanes is None:
        both = [("leave", level.depth.tolist()), ("merge", level.merged_depth.tolist())]
        series = [(which, depth) for which, depth in both if any(depth)]
        chart = steps(series, title=title, left=(name, ""), ticks=ticks, height=_LEVEL_HEIGHT)
    else:
        bars = [
            Interval(float(first), float(last), int(lane), "merge" if merged else "leave")
            for first, last, lane, merged in zip(
                lanes.first, lanes.last, lanes.lane, lanes.merged, strict=True
            )
        ]
        chart = intervals(bars, lanes.count, title=title, label=name, ticks=ticks)
    return joined([tag("p", title, class_="level"), chart])


def _histogram(info: ClusteringInformation) -> Markup:
    table = tag("div", histogram_table(info), class_="bars")
    return figure("Files by depth", table, "The depth of a file is that of its deepest point.")


def _plan(plan: Plan) -> Iterator[Markup]:
    predicted = plan.prediction
    policies = f"Planned by {', '.join(plan.policies)}"
    basis = f", predicted for {predicted.basis}" if predicted else ""
    off = f"; median error for these scans {predicted.error:.0%}" if predicted and predicted.error else ""
    yield note(f"{policies}{basis}{off}.")
    if plan.tasks:
        files = f"{counted(plan.input_files, 'file')}, {size(plan.input_bytes)}"
        count = number("groups", len(plan.tasks), counted(len(plan.tasks), "group"))
        yield figure(
            tag("span", count, " to merge: ", files), scrolled(groups_table(plan)), more_groups(plan)
        )
    else:
        yield note("Nothing to merge.")
    if plan.left:
        yield figure("Left as they are", scrolled(left_table(plan)), more_left(plan))
