"""The commands, and how errors are reported."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from lakekeeper.arguments import columns_and_layout
from lakekeeper.cli import records, run, statistics, storage, undo
from lakekeeper.cli.asking import agreed, failed
from lakekeeper.cli.help import plain_arguments
from lakekeeper.cli.information import Information
from lakekeeper.cli.logs import logs
from lakekeeper.cli.output import escape_what_cannot_be_encoded, open_closed_streams, say
from lakekeeper.cli.page_server import TOKEN, PageSettings
from lakekeeper.cli.parameters import Budget, Columns, DryRun, Final, Given, Policy, Queries, TableName, Where
from lakekeeper.cli.service import repeat
from lakekeeper.cli.setup import Setup, with_setup
from lakekeeper.cli.submitted import separate_stderr
from lakekeeper.cli.synonyms import with_hint
from lakekeeper.cli.values import byte_count, pairs
from lakekeeper.core.config.options import overridden
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import MergeReport
from lakekeeper.core.text.formatting import counted
from lakekeeper.engine.event_log import require_logs
from lakekeeper.engine.plugins import find_policies, installed_formats
from lakekeeper.errors import LakekeeperError, OptionError, reason, traceback_of
from lakekeeper.spark.interrupts import INTERRUPTED, Interrupts

_INTERRUPTED = "interrupted; the table has only the work that was committed"

app = typer.Typer(
    name="lakekeeper",
    help="Table maintenance for Delta Lake and Apache Iceberg on Spark. "
    "Exit codes: 0 done, 1 failed, 2 usage error, 130 interrupted.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    *,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if show_version:
        typer.echo(f"lakekeeper {version('lakekeeper-spark')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


@app.command(short_help="Show how well a table is clustered.")
@with_setup
def info(setup: Setup, table: TableName, *, where: Where = None, columns: Columns = None) -> int:
    """Show how well a table is clustered, and which streams write into it.

    Prints depth, overlaps, a histogram, levels, and what a vacuum keeps for each stream. Reads no data files.
    """
    setup.check({})
    opened = setup.table(table)
    setup.show(Information(opened.clustering_information(columns, where=where), opened.streams()))
    return 0


@app.command()
@with_setup
def plan(
    setup: Setup,
    table: TableName,
    *,
    where: Where = None,
    columns: Columns = None,
    policy: Policy = None,
    budget: Budget = None,
    workload: Queries = None,
    option: Given = None,
) -> int:
    """Show what recluster would do, and why.

    Prints why each block would or would not be merged, and how many files queries read before and after. Writes
    nothing.
    """
    call = _call(setup, where=where, policy=policy, budget=budget, option=option)
    require_logs(workload or ())
    setup.show(setup.table(table).plan(columns, workload=workload or None, **call))
    return 0


@app.command()
@with_setup
def report(
    setup: Setup,
    tables: Annotated[
        list[str],
        typer.Argument(metavar="TABLES", help="Names, patterns (ice.db.*) or paths of Delta tables."),
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")] = Path(
        "report.html"
    ),
    columns: Columns = None,
    workload: Queries = None,
    option: Given = None,
) -> int:
    """Write a report on tables as one HTML page.

    Shows depth along the key, levels, the plan with reasons, the files that queries read, bytes and costs over time,
    and the tables by maintenance debt. The page loads nothing from the network. The exit code is 1 if a table cannot
    be read.
    """
    from lakekeeper.reporting import report as report_of

    options = dict(pairs("--option", option or ()))
    setup.check(options)
    require_logs(workload or ())
    _require_place("--output", output)
    made = report_of(setup.session(), tables, columns, workload=workload or None, options=options)
    made.save(output)
    setup.show(made)
    if not setup.silent:
        say(f"wrote {output}", err=True)
    return made.exit_code


@app.command()
@with_setup
def advise(
    setup: Setup,
    table: TableName,
    *,
    workload: Queries = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Consider only keys of these one to four columns.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save the table's workload as JSON, for --workload."),
    ] = None,
    option: Given = None,
) -> int:
    """Recommend a cluster key for the queries of a workload.

    Compares keys by the number of files that queries read, and estimates when a rewrite pays for itself. Reads only
    the log and the statistics; changes nothing.
    """
    resolved = setup.check(dict(pairs("--option", option or ())))
    if not workload and not resolved.workload.sources:
        raise OptionError("--workload", None, "the path of a Spark event log (spark.eventLog.enabled=true)")
    require_logs(workload or resolved.workload.sources)
    if keep is not None:
        _require_place("--keep", keep)
    opened = setup.table(table)
    seen = opened.workload(workload or None, options=dict(pairs("--option", option or ())))
    if keep is not None and seen is not None:
        keep.write_text(seen.to_json(), encoding="utf-8")
    setup.show(opened.advise(seen, columns=columns, options=dict(pairs("--option", option or ()))))
    return 0


@app.command()
@with_setup
def simulate(  # noqa: PLR0913 - each is an option of the command line
    setup: Setup,
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="The table to simulate; required without --stream."),
    ] = None,
    *,
    stream: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Simulate this stream: wide, late, windows, backfill, jitter, time."
        ),
    ] = None,
    commits: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of commits to simulate; default for a stream: 300."),
    ] = None,
    every: Annotated[int, typer.Option(metavar="N", help="Run maintenance after every N commits.")] = 10,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the random commits.")] = 0,
    columns: Columns = None,
    final: Final = False,
    policy: Policy = None,
    option: Given = None,
) -> int:
    """Simulate maintenance of a table under a policy.

    Replays the table's own commits, or those of a stream, on metadata only. Without a table, it does not start Spark.
    """
    from lakekeeper.arguments import VERB_POLICIES
    from lakekeeper.engine.simulate import Course, simulate_stream

    call = _call(setup, where=None, policy=policy, budget=None, option=option)
    course = Course(stream, commits, every, seed, final)
    if table is None:
        if stream is None:
            raise OptionError("--stream", stream, "the name of a stream, since no table is given")
        if columns is not None:
            raise OptionError("--columns", columns, "none: a named stream has its own key")
        resolved = setup.check(overridden(call["options"], {"policy": policy} if policy else {}))
        policies = find_policies(resolved.table.policies or VERB_POLICIES["recluster"])
        setup.show(simulate_stream(policies, resolved, course))
        return 0
    given = {"policy": policy, "options": call["options"]}
    played = {name: getattr(course, name) for name in ("stream", "commits", "every", "seed", "final")}
    setup.show(setup.table(table).simulate(columns, **given, **played))
    return 0


@app.command()
@with_setup
def cluster_by(
    setup: Setup,
    table: TableName,
    columns: Annotated[
        str,
        typer.Argument(
            metavar="KEY",
            help="One to four columns, A,B; a curve, 'hilbert(A,B)'; or none, to remove the key.",
        ),
    ],
    *,
    native: Annotated[
        bool,
        typer.Option(
            "--native",
            help="Store it as the format's own key. On Delta, this permanently adds writer features.",
        ),
    ] = False,
    dry_run: DryRun = False,
) -> int:
    """Store the cluster key in a table, or remove it.

    Prints the key before and after, and what else changes in the table: protocol, features, sort order. Rewrites no
    data files.
    """
    setup.check({})
    named, layout = ((), "linear") if columns.strip().lower() == "none" else columns_and_layout(columns)
    opened = setup.table(table)
    setup.show(opened.cluster_by(*(named or (None,)), layout=layout, native=native, dry_run=dry_run))
    return 0


@app.command()
@with_setup
def recluster(  # noqa: PLR0913 - each is an option of the command line
    setup: Setup,
    table: TableName,
    *,
    where: Where = None,
    columns: Columns = None,
    final: Final = False,
    dry_run: DryRun = False,
    policy: Policy = None,
    budget: Budget = None,
    option: Given = None,
) -> int:
    """Merge files whose key ranges overlap.

    Queries that filter on the key then read fewer files.
    """
    call = _call(setup, where=where, policy=policy, budget=budget, option=option)
    with setup.progress() as progress:
        report = setup.table(table).recluster(
            columns, final=final, dry_run=dry_run, observer=progress, **call
        )
    return _reported(setup, report)


@app.command()
@with_setup
def compact(
    setup: Setup,
    table: TableName,
    *,
    where: Where = None,
    final: Final = False,
    dry_run: DryRun = False,
    policy: Policy = None,
    budget: Budget = None,
    option: Given = None,
) -> int:
    """Merge small adjacent files.

    Needs no cluster key; preserves the order of one that exists.
    """
    call = _call(setup, where=where, policy=policy, budget=budget, option=option)
    with setup.progress() as progress:
        report = setup.table(table).compact(final=final, dry_run=dry_run, observer=progress, **call)
    return _reported(setup, report)


@app.command()
@with_setup
def merge_deletes(
    setup: Setup,
    table: TableName,
    *,
    where: Where = None,
    dry_run: DryRun = False,
    policy: Policy = None,
    budget: Budget = None,
    option: Given = None,
) -> int:
    """Rewrite files with many deleted rows.

    Also removes delete files that no longer apply to any row, and merges small ones. Needs no cluster key; preserves
    the order of one that exists.
    """
    call = _call(setup, where=where, policy=policy, budget=budget, option=option)
    with setup.progress() as progress:
        report = setup.table(table).merge_deletes(dry_run=dry_run, observer=progress, **call)
    return _reported(setup, report)


@app.command()
@with_setup
def build_filters(
    setup: Setup,
    table: TableName,
    *,
    where: Where = None,
    all_files: Annotated[
        bool,
        typer.Option(
            "--all-files",
            help="Rewrite every file that lacks a filter, even if lookups have not paid for it.",
        ),
    ] = False,
    dry_run: DryRun = False,
    workload: Queries = None,
    budget: Budget = None,
    option: Given = None,
) -> int:
    """Rewrite files that lack Bloom filters.

    The properties of the table name the columns. A file is rewritten once lookups in the workload have paid for it.
    Every other merge writes the filters too.
    """
    call = _call(setup, where=where, policy=None, budget=budget, option=option)
    call.pop("policy")
    require_logs(workload or ())
    with setup.progress() as progress:
        report = setup.table(table).build_filters(
            all_files=all_files, dry_run=dry_run, observer=progress, workload=workload or None, **call
        )
    return _reported(setup, report)


@app.command()
@with_setup
def delete(
    setup: Setup,
    table: TableName,
    *,
    where: Annotated[
        str,
        typer.Option(metavar="SQL", help="A predicate over the columns; 'true' deletes every row."),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    option: Given = None,
) -> int:
    """Delete rows, even while maintenance is running.

    Asks for confirmation at a terminal; requires --yes elsewhere. Finds rows that a concurrent rewrite has moved.
    """
    options = dict(pairs("--option", option or ()))
    setup.check(options)
    if not where.strip():
        raise OptionError("--where", where, "a predicate over the table's columns; 'true' deletes every row")
    if not yes and not agreed(f"Delete the rows of {table} where {where}?"):
        return failed("Aborted", "no row was deleted", 1, setup.as_json)
    with setup.progress() as progress:
        report = setup.table(table).delete(where, observer=progress, options=options)
    setup.show(report)
    return 0


@app.command()
@with_setup
def doctor(
    setup: Setup,
    *,
    session: Annotated[
        bool, typer.Option("--session", help="Also start a Spark session and check it; implied by --catalog.")
    ] = False,
) -> int:
    """Check this machine and a Spark session.

    Checks Java, versions and the workers' Python; with a session also jars, extensions, catalogs and write access to
    the warehouse. Prints a remedy for each problem. The exit code is 1 if a check fails.
    """
    from lakekeeper.spark.doctor import examine

    spark = setup.session() if session or setup.catalog else None
    findings = [*examine(spark, warehouse=setup.warehouse)]
    if spark is not None:
        findings += [finding for form in installed_formats() for finding in form.examine(spark)]
    wrong = sum(not finding.ok for finding in findings)
    if setup.as_json:
        typer.echo(json.dumps({"ok": not wrong, "findings": [finding.to_dict() for finding in findings]}))
    else:
        say("\n".join(map(str, findings)))
        say(f"{wrong} of {counted(len(findings), 'check')} failed" if wrong else "all checks passed")
    return 1 if wrong else 0


storage.add_to(app)
undo.add_to(app)
statistics.add_to(app)
records.add_to(app)
run.add_to(app)


@app.command()
@with_setup
def auto(
    setup: Setup,
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLES", help="Names or patterns (ice.db.*); overrides spark.lakekeeper.auto.tables."
        ),
    ] = None,
    *,
    once: Annotated[bool, typer.Option("--once", help="Run one pass, then exit.")] = False,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="PAUSE", help="Pause between passes, e.g. 15m; overrides spark.lakekeeper.auto.every."
        ),
    ] = None,
    dry_run: DryRun = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Serve /metrics for Prometheus and /healthz; HOST defaults to 127.0.0.1.",
        ),
    ] = None,
    ui: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Serve a page with tables, queue, running tasks and history; HOST defaults to 127.0.0.1.",
        ),
    ] = None,
    ui_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Name by which browsers on other machines reach the page; needed to serve it beyond 127.0.0.1. "
            "Repeatable.",
        ),
    ] = None,
) -> int:
    """Maintain many tables, once or repeatedly.

    Settings come from Spark confs: --conf, --properties-file or spark-defaults.conf. Each pass prints one line of JSON
    on stdout and, without --json, a table on stderr. On SIGTERM, the command commits the work in progress and exits.
    With --ui, a page shows the tables; it can also pause them if the environment variable LAKEKEEPER_UI_TOKEN holds a
    token of at least 16 characters, which the page then requires.
    """
    if once and every:
        raise OptionError("--every", every, "no --every together with --once")
    page = PageSettings(ui, tuple(ui_host or ()), os.environ.get(TOKEN, ""))
    names = tuple(tables or ())
    return repeat(setup, names, every=every, once=once, dry_run=dry_run, metrics=metrics, page=page)


plain_arguments(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line. Errors are one line on stderr, and with --json also an object on stdout.

    Returns the exit code, 130 after SIGINT and SIGTERM; see :mod:`lakekeeper.spark.interrupts`.
    """
    open_closed_streams()
    escape_what_cannot_be_encoded()
    given = list(sys.argv[1:] if arguments is None else arguments)
    flags = [] if given[:1] == ["run"] else given  # they may be those of the program
    as_json = "--json" in flags or given[:1] == ["auto"]
    log = logs(as_json="--log-json" in flags)
    with separate_stderr(), log, Interrupts(partial(_last_words, as_json=as_json)) as interrupts:
        try:
            code = int(app(given, prog_name="lakekeeper", standalone_mode=False) or 0)
            # Typer turns a KeyboardInterrupt into 130; automatic runs also return 130 if they ended a pass early.
            if code != INTERRUPTED or (interrupts.drained and not interrupts.signal):
                return code
        except KeyboardInterrupt:
            pass
        except Exception as error:
            # Many calls fail with an error of their own when an interrupt cuts them off.
            if not interrupts.signal:
                return _failed(error, as_json)
        interrupts.settle()
        if arguments is None:  # the process exits next: no signal may interrupt that
            interrupts.ignore()
        return failed("Interrupted", _INTERRUPTED, INTERRUPTED, as_json)


def _failed(error: Exception, as_json: bool) -> int:
    """Report an error; returns the exit code."""
    if isinstance(error, LakekeeperError):
        return failed(type(error).__name__, str(error), 2 if isinstance(error, OptionError) else 1, as_json)
    if hasattr(error, "format_message"):  # click's own, which Typer carries or imports by its version
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "lakekeeper"
        return failed("UsageError", with_hint(str(error.format_message()), command), 2, as_json)
    if os.environ.get("LAKEKEEPER_TRACEBACK"):
        say(traceback_of(error), err=True)
    text = reason(error)
    return failed(text.partition(":")[0], f"{text} (set LAKEKEEPER_TRACEBACK=1 for a traceback)", 1, as_json)


def _last_words(stderr: int, *, as_json: bool) -> None:
    """Like :func:`failed`, for a signal handler: writes to the descriptor directly, without buffers or locks."""
    cursor = b"\n\x1b[?25h" if os.isatty(stderr) else b""  # a progress bar hides the cursor
    os.write(stderr, cursor + f"lakekeeper: {_INTERRUPTED}\n".encode())
    if as_json:
        line = {"error": {"type": "Interrupted", "message": _INTERRUPTED}}
        os.write(1, (json.dumps(line) + "\n").encode())


def _call(
    setup: Setup, *, where: str | None, policy: str | None, budget: str | None, option: Sequence[str] | None
) -> dict[str, Any]:
    """Arguments of a verb, checked as far as possible before Spark starts."""
    options: dict[str, Any] = dict(pairs("--option", option or ()))
    budget_bytes = None if budget is None else byte_count(budget)
    given = {"policy": policy, "budget-bytes": budget_bytes}
    setup.check(overridden(options, {key: value for key, value in given.items() if value is not None}))
    return {"where": where, "policy": policy, "budget_bytes": budget_bytes, "options": options}


def _require_place(option: str, file: Path) -> None:
    """Raise OptionError unless the file can be created. Checked before Spark starts, which takes seconds."""
    if file.is_dir() or not file.parent.is_dir():
        raise OptionError(option, str(file), "a file in a directory that exists")


def _reported(setup: Setup, report: MergeReport) -> int:
    """Show a report; returns the exit code. A run that an error ended, or that lost all groups, has failed."""
    setup.show(report)
    if Code.ENDED_BY_ERROR in report.ended.codes:
        return 1
    statuses = {group.status for group in report.groups}
    return 1 if statuses & {"failed", "dropped"} and "committed" not in statuses else 0
