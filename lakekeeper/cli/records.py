"""Commands that read the history: they start no Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Annotated

import typer

from lakekeeper.cli.output import say
from lakekeeper.cli.setup import SESSION, Setup, with_setup
from lakekeeper.core.config.quantities import TIME_EXAMPLES, parse_time
from lakekeeper.engine.clock import Clock
from lakekeeper.errors import OptionError
from lakekeeper.history.costs import costs_of
from lakekeeper.history.history import History
from lakekeeper.history.operation import Operation
from lakekeeper.history.status import Released, status_of
from lakekeeper.history.store import HistoryStore
from lakekeeper.history.table_id import TableId
from lakekeeper.recording import configured_store, prices_of

_NAMES = "Names, patterns (ice.db.*) or paths"
_Tables = Annotated[
    list[str] | None,
    typer.Argument(metavar="TABLES", help=f"{_NAMES}; default: all tables."),
]
_Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only operations that ended in the last TIME, e.g. 7d.")
]


def add_to(app: typer.Typer) -> None:
    """Add these commands to ``app``."""
    app.command(short_help="Show what was done to tables.")(history)
    app.command()(cost)
    app.command(short_help="Show tables that are due, failed or parked.")(status)
    app.command(short_help="Let parked tables run again.")(release)


@partial(with_setup, hidden=SESSION)
def history(
    setup: Setup,
    tables: _Tables = None,
    *,
    since: _Since = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000_000, help="Maximum number of operations per table.")
    ] = 20,
) -> int:
    """Show what was done to tables, by calls and by automatic runs.

    Reads the file that spark.lakekeeper.history.path names. The exit code is 1 if no table matches one of TABLES.
    """
    store = configured_store(setup.check({}).history)
    chosen = _recorded_tables(store, tables)
    setup.show(History(_operations(store, chosen, since, limit, details=setup.as_json)))
    return _report_unmatched(tables, chosen)


@partial(with_setup, hidden=SESSION)
def cost(setup: Setup, tables: _Tables = None, *, since: _Since = None) -> int:
    """Show the costs of maintenance, by table and verb.

    Shows bytes and core-seconds, and money if spark.lakekeeper.cost.per-core-hour or
    spark.lakekeeper.cost.per-gb-written is set. The exit code is 1 if no table matches one of TABLES.
    """
    options = setup.check({}).history
    store = configured_store(options)
    chosen = _recorded_tables(store, tables)
    setup.show(costs_of(_operations(store, chosen, since, None, details=False), prices_of(options)))
    return _report_unmatched(tables, chosen)


@partial(with_setup, hidden=SESSION)
def status(setup: Setup, tables: _Tables = None) -> int:
    """Show which tables have work due, have failed or are parked.

    Shows the state after the last pass of automatic runs. The exit code is 1 if a table has failed or is parked, or if
    no table matches one of TABLES.
    """
    tasks = configured_store(setup.check({}).history).tasks()
    names = {task.table for task in tasks}
    chosen = _chosen(names, tables) if tables else names
    found = status_of(
        (task for task in tasks if task.table in chosen),
        Clock().now_ms(),
        _unmatched(names, tables or ()),
    )
    setup.show(found)
    return found.exit_code


@partial(with_setup, hidden=SESSION)
def release(
    setup: Setup, tables: Annotated[list[str], typer.Argument(metavar="TABLES", help=f"{_NAMES}.")]
) -> int:
    """Let parked tables run again in the next pass of automatic runs.

    The exit code is 1 if no table matches one of TABLES.
    """
    store = configured_store(setup.check({}).history)
    names = {task.table for task in store.tasks()}
    released = store.release(_chosen(names, tables))
    found = Released(released, _unmatched(released, tables), _unmatched(names, tables))
    setup.show(found)
    return found.exit_code


def _chosen(names: Iterable[str], patterns: Sequence[str]) -> set[str]:
    """The tables that match one of the patterns, by the names that automatic runs give them."""
    return {name for name in names if any(map(TableId.named(name).matches, patterns))}


def _unmatched(names: Collection[str], patterns: Sequence[str]) -> tuple[str, ...]:
    """The patterns that match none of the tables."""
    return tuple(pattern for pattern in patterns if not _chosen(names, [pattern]))


def _recorded_tables(store: HistoryStore, patterns: Sequence[str] | None) -> list[TableId]:
    """The tables with operations that match one of the patterns; all of them without patterns."""
    return [table for table in store.tables() if not patterns or any(map(table.matches, patterns))]


def _report_unmatched(patterns: Sequence[str] | None, tables: Sequence[TableId]) -> int:
    """Print the patterns that match none of the tables on stderr; returns the exit code."""
    unmatched = [each for each in patterns or () if not any(table.matches(each) for table in tables)]
    for pattern in unmatched:
        say(f"lakekeeper: no table in the history matches {pattern}", err=True)
    return 1 if unmatched else 0


def _operations(
    store: HistoryStore, tables: Sequence[TableId], since: str | None, limit: int | None, *, details: bool
) -> tuple[Operation, ...]:
    """Operations of the tables, newest first within each table."""
    since_ms = None if since is None else Clock().now_ms() - _age_ms(since)
    return tuple(
        operation
        for table in tables
        for operation in store.operations(table, since_ms=since_ms, limit=limit, details=details)
    )


def _age_ms(text: str) -> int:
    try:
        return parse_time(text, None)
    except ValueError:
        raise OptionError("--since", text, f"a time ({TIME_EXAMPLES})") from None
