"""The page of a running service: its last pass, the pass in progress, the queue, and the newest operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from lakekeeper.core.scheduling.auto_report import TableResult
from lakekeeper.core.scheduling.debt import NO_DEBT
from lakekeeper.core.scheduling.live import LivePass
from lakekeeper.core.scheduling.metrics import ServiceMetrics
from lakekeeper.core.scheduling.queue import priority
from lakekeeper.core.text.charts import bar
from lakekeeper.core.text.formatting import counted, duration, size
from lakekeeper.core.text.markup import Child, Markup, joined, rows_table, tag
from lakekeeper.history.costs import Prices, costs_of
from lakekeeper.history.history import Recorded
from lakekeeper.page.figures import figure, note, number, scrolled, tiles, unreadable
from lakekeeper.page.head import whole_page
from lakekeeper.page.history_part import at_utc, history_part, totals

REFRESH_S = 10
_MOST_TABLES, _MOST_QUEUED, _MOST_OPERATIONS = 200, 50, 25
_WRONG = ("failed", "parked")


@dataclass(frozen=True, slots=True)
class ServiceView:
    """What the page shows.

    now_ms      time of the page
    pause_ms    between two passes
    metrics     counts since the start of the service, with the report of its last pass
    live        the pass in progress
    recorded    the newest operations on all tables
    controls    whether tables can be paused here
    """

    now_ms: int
    pause_ms: int
    metrics: ServiceMetrics
    live: LivePass
    recorded: Recorded
    prices: Prices
    controls: bool = False

    @property
    def results(self) -> tuple[TableResult, ...]:
        """The tables as the last pass left them: what needs attention first, then by debt."""
        found = self.metrics.last.tables if self.metrics.last else ()
        gain = {each.table: each.debt.query_seconds_per_day for each in found}
        return tuple(
            sorted(found, key=lambda each: (each.status not in _WRONG, -gain[each.table], each.table))
        )

    @property
    def names(self) -> tuple[str, ...]:
        """All tables that are known, in the order of the page."""
        return tuple(dict.fromkeys([*(each.table for each in self.results), *self.live.names]))


def service_page(view: ServiceView) -> Markup:
    """The whole page, which reloads every ten seconds."""
    pausing = tag("p", tag("a", "Pause or resume a table", href="/tables"), class_="facts")
    body = tag(
        "main",
        tag("h1", "lakekeeper service"),
        tag("p", _passes(view), class_="facts"),
        tag("p", f"The last pass failed: {view.metrics.error}", class_="error")
        if view.metrics.error
        else None,
        pausing if view.controls else None,
        tag(
            "section", _numbers(view), tag("h3", "Running"), _running(view), tag("h3", "Queue"), _queue(view)
        ),
        tag("section", _tables(view)),
        tag("section", tag("h2", "Operations"), *_operations(view)),
    )
    return whole_page("lakekeeper service", body, refresh_s=REFRESH_S)


def table_page(view: ServiceView, name: str, recorded: Recorded) -> Markup:
    """One table: what the last pass did, its tasks, and its operations."""
    result = next((each for each in view.results if each.table == name), None)
    tasks = [task for task in view.live.tasks if task.table == name]
    if not tasks and result is not None:
        tasks = list(result.tasks)
    rows: list[Sequence[Child]] = [("verb", "state", "to rewrite", "failures", "reason")]
    rows += [
        (
            task.verb,
            task.state,
            size(task.bytes),
            task.failures,
            tag("span", str(task.reason or ""), class_="why"),
        )
        for task in tasks
    ]
    status = f"{result.status}: {result.reason}" if result else "not planned yet"
    body = tag(
        "main",
        tag("p", tag("a", "All tables", href="/"), class_="facts"),
        tag(
            "section",
            tag("h2", name),
            tag("p", _with_pause(view, name, status), class_="facts"),
            tag("h3", "Tasks"),
            scrolled(rows_table(rows, right=frozenset({2, 3}))) if tasks else note("No task is known."),
            tag("h3", "History"),
            _extent(recorded),
            unreadable(recorded.error)
            or history_part(
                recorded.operations, costs_of(recorded.operations or (), view.prices), view.prices
            ),
        ),
    )
    return whole_page(f"{name}: lakekeeper service", body, refresh_s=REFRESH_S)


def control_page(view: ServiceView, message: str = "") -> Markup:
    """A form that pauses and resumes tables. It does not reload, so that a token can be typed."""
    rows: list[Sequence[Child]] = [("table", "state", "")]
    for name in view.names:
        paused = name in view.live.paused
        action = "resume" if paused else "pause"
        button = tag("button", action.capitalize(), type="submit", name=action, value=name)
        rows.append((tag("span", name, class_="name"), "paused" if paused else "maintained", button))
    token = tag("input", type="password", name="token", autocomplete="current-password", required="required")
    form = tag(
        "form",
        tag("p", tag("label", "Token ", token)),
        scrolled(rows_table(rows)) if len(rows) > 1 else note("No table is known before the first pass."),
        method="post",
        action="/tables",
    )
    below = (
        "No new task of a paused table is started; a running one finishes. Pauses end when the service stops. To "
        "exclude a table permanently, set its property lakekeeper.auto.enabled=false."
    )
    body = tag(
        "main",
        tag("p", tag("a", "All tables", href="/"), class_="facts"),
        tag("section", tag("h2", "Pause or resume a table"), tag("p", message, class_="error") if message else None,
            form, note(below)),
    )  # fmt: skip
    return whole_page("Pause or resume: lakekeeper service", body)


def _ago(then_ms: int, now_ms: int) -> str:
    return f"{duration(max(now_ms - then_ms, 0) / 1000)} ago"


def _passes(view: ServiceView) -> str:
    metrics, live = view.metrics, view.live
    parts = [f"{at_utc(view.now_ms)} UTC", "1 pass" if metrics.passes == 1 else f"{metrics.passes:,} passes"]
    if metrics.passes:
        parts.append(f"the last one ended {_ago(metrics.ended_ms, view.now_ms)}")
    if live.began_ms:
        parts.append(
            f"a pass over {counted(len(live.names), 'table')} began {_ago(live.began_ms, view.now_ms)}"
        )
    elif metrics.passes:
        wait_s = max(metrics.ended_ms + view.pause_ms - view.now_ms, 0) / 1000
        parts.append(f"the next one begins in {duration(wait_s)}")
    return " · ".join(parts)


def _numbers(view: ServiceView) -> Markup:
    metrics, results = view.metrics, view.results
    wrong = sum(each.status in _WRONG for each in results)
    debt = sum((each.debt for each in results), NO_DEBT)
    gain = debt.query_seconds_per_day
    known, running, freed = len(view.names), len(view.live.running), size(metrics.deleted_bytes)
    return tiles(
        [
            ("tables", number("tables", known, f"{known:,}"), f"{wrong:,} failed or parked"),
            ("running", number("running", running, f"{running:,}"), "task" if running == 1 else "tasks"),
            ("maintenance debt", number("debt", gain, f"{gain:,.0f}"),
             f"query-seconds a day; {size(debt.bytes)} to rewrite, before the last pass"),
            ("rewritten", number("rewritten", metrics.rewritten_bytes, size(metrics.rewritten_bytes)),
             f"since the start; {freed} deleted"),
        ]
    )  # fmt: skip


def _running(view: ServiceView) -> Markup:
    rows: list[Sequence[Child]] = [("table", "verb", "done", "", "step", "written", "for")]
    for task, progress in view.live.running:
        done = f"{progress.finished:,} of {progress.total:,}" if progress.total else ""
        spent = duration(max(view.now_ms - progress.began_ms, 0) / 1000)
        written = size(progress.bytes) if progress.bytes else ""
        rows.append(
            (_linked(task.table), task.verb, done, bar(progress.share), progress.step, written, spent)
        )
    return (
        scrolled(rows_table(rows, right=frozenset({2, 5, 6})))
        if len(rows) > 1
        else note("No task is running.")
    )


def _queue(view: ServiceView) -> Markup:
    queue = view.live.queue(view.now_ms)
    if not queue:
        return note("No task is waiting.")
    rows: list[Sequence[Child]] = [
        ("table", "verb", "priority", "to rewrite", "waiting", "held back because")
    ]
    rows += [
        (
            _linked(task.table),
            task.verb,
            f"{priority(task, view.now_ms):,.1f}",
            size(task.bytes) if task.bytes else "",
            duration(max(view.now_ms - task.since_ms, 0) / 1000),
            tag("span", str(task.reason or ""), class_="why"),
        )
        for task in queue[:_MOST_QUEUED]
    ]
    table = scrolled(rows_table(rows, right=frozenset({2, 3, 4})))
    return joined([table, _more(len(queue) - _MOST_QUEUED, "task")])


def _tables(view: ServiceView) -> Markup:
    results = {each.table: each for each in view.results}
    top = max((each.debt.query_seconds_per_day for each in results.values()), default=0.0) or 1.0
    rows: list[Sequence[Child]] = [("table", "status", "reason", "query-s/day", "to rewrite", "")]
    for name in view.names[:_MOST_TABLES]:
        found = results.get(name)
        gain = found.debt.query_seconds_per_day if found else 0.0
        rows.append(
            (
                _linked(name),
                _with_pause(view, name, found.status if found else "not planned yet"),
                tag("span", str(found.reason) if found else "", class_="why"),
                f"{gain:,.0f}" if found else "",
                size(found.debt.bytes) if found else "",
                bar(gain / top),
            )
        )
    if len(rows) == 1:
        return joined([tag("h2", "Tables"), note("No table is known before the first pass.")])
    patterns = view.metrics.last.patterns if view.metrics.last else ()
    wrong = [tag("p", f"{each.pattern}: {each.reason}", class_="error") for each in patterns if each.reason]
    table = scrolled(rows_table(rows, right=frozenset({3, 4})))
    below = "Tables that need attention come first, then those with the largest maintenance debt."
    more = _more(len(view.names) - _MOST_TABLES, "table")
    return joined([tag("h2", "Tables"), *wrong, figure("", table, below), more])


def _operations(view: ServiceView) -> list[Child]:
    operations = view.recorded.operations
    if operations is None:
        why = unreadable(view.recorded.error)
        return [why or history_part(None, costs_of((), view.prices), view.prices)]
    if not operations:
        return [note("No operation has been recorded yet.")]
    worked = [each for each in reversed(operations) if each.operation_status != "idle"]
    rows: list[Sequence[Child]] = [
        ("ended (UTC)", "table", "operation", "status", "rewritten", "core-s", "reason")
    ]
    rows += [
        (
            at_utc(each.end_ms),
            tag("span", str(each.table), class_="name"),
            each.operation_type,
            each.operation_status,
            size(each.operation_metrics.get("rewritten_bytes_count", 0)),
            "" if each.core_seconds is None else f"{each.core_seconds:,.1f}",
            tag("span", str(each.reason), class_="why"),
        )
        for each in operations[:_MOST_OPERATIONS]
    ]
    charts = tag("div", *totals(worked, view.prices), class_="charts") if worked else None
    newest = scrolled(rows_table(rows, right=frozenset({4, 5})))
    below = f"The newest {min(_MOST_OPERATIONS, len(operations))} of {len(operations):,}."
    return [_extent(view.recorded), charts, figure("Newest operations", newest, below)]


def _extent(recorded: Recorded) -> Markup | None:
    """A remark where charts and costs do not cover all operations."""
    count = len(recorded.operations or ())
    text = f"Charts and costs cover the newest {count:,} operations; lakekeeper cost covers all."
    return note(text) if recorded.cut else None


def _with_pause(view: ServiceView, name: str, status: str) -> str:
    return f"paused ({status})" if name in view.live.paused else status


def _linked(name: str) -> Markup:
    return tag("span", tag("a", name, href=f"/table?name={quote(name, safe='')}"), class_="name")


def _more(count: int, what: str) -> Markup | None:
    return note(f"{counted(count, f'more {what}')} not shown.") if count > 0 else None
