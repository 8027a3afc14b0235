"""Commands that free storage: vacuum, the trash, dropping partitions."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from typing import Annotated, Any

import typer

from lakekeeper.cli.asking import agreed, failed, require_terminal
from lakekeeper.cli.output import say
from lakekeeper.cli.parameters import DryRun, Given, TableName
from lakekeeper.cli.setup import Setup, with_setup
from lakekeeper.cli.values import pairs
from lakekeeper.core.config.options import overridden
from lakekeeper.core.model.report import FAILED, PLANNED
from lakekeeper.core.text.formatting import counted, size, table
from lakekeeper.core.text.result import Result
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.core.vacuum.vacuum_text import expiring
from lakekeeper.engine.trash.entries import KEPT, TrashEntry

_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

trash = typer.Typer(
    name="trash", help="Manage the trash of a table.", rich_markup_mode=None, no_args_is_help=True
)


def add_to(app: typer.Typer) -> None:
    """Add these commands to ``app``."""
    app.command()(vacuum)
    app.command(short_help="Delete partitions, and keep them in the trash.")(drop_partition)
    app.command(short_help="Delete rows that a lifecycle rule expires.")(expire_rows)
    app.command()(compact_metadata)
    app.add_typer(trash)


@with_setup
def vacuum(  # noqa: PLR0913 - each is an option of the command line
    setup: Setup,
    table: TableName,
    *,
    retention_hours: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Keep versions that were current within this time: hours, or a time such as 7d. Default: the table's "
            "retention.",
        ),
    ] = None,
    older_than: Annotated[
        datetime | None,
        typer.Option(
            metavar="TIME", help="UTC time, e.g. 2026-01-31; keep versions that were current since then."
        ),
    ] = None,
    retain_last: Annotated[
        int | None, typer.Option(metavar="N", help="Minimum number of versions to keep.")
    ] = None,
    orphans: Annotated[
        bool,
        typer.Option("--orphans", help="Also delete files that no version references; lists all folders."),
    ] = False,
    keep_version: Annotated[
        list[int] | None, typer.Option(metavar="V", help="Keep this version. Repeatable.")
    ] = None,
    shared_with: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE",
            help="A table that uses files of this one, such as a shallow clone; they are kept. Repeatable.",
        ),
    ] = None,
    to_trash: Annotated[
        bool, typer.Option("--trash", help="Move files to the trash instead of deleting them.")
    ] = False,
    dry_run: DryRun = False,
    allow_unsafe_retention: Annotated[
        bool,
        typer.Option(
            "--allow-unsafe-retention",
            help="Allow less than 24 hours, or less than the table's own retention.",
        ),
    ] = False,
    yes: _Yes = False,
    option: Given = None,
) -> int:
    """Delete files that no kept version references.

    Shows what would be deleted and why the rest is kept, then asks for confirmation at a terminal; requires --yes
    elsewhere.
    """
    options = dict(pairs("--option", option or ()))
    given = {} if retention_hours is None else {"retention-hours": retention_hours}
    setup.check(overridden(options, given))
    call: dict[str, Any] = {
        "retention_hours": retention_hours,
        "older_than": older_than.replace(tzinfo=timezone.utc) if older_than else None,
        "retain_last": retain_last,
        "orphans": orphans,
        "keep_versions": keep_version or (),
        "shared_with": shared_with or (),
        "trash": to_trash,
        "allow_unsafe_retention": allow_unsafe_retention,
        "options": options,
    }
    if not dry_run and not yes:
        require_terminal()  # before Spark starts
    opened = setup.table(table)
    with setup.progress() as progress:
        if dry_run or not yes:
            planned = opened.vacuum(dry_run=True, observer=progress, **call)
            if dry_run or planned.status != PLANNED:
                setup.show(planned)
                return 0
            say(str(planned.plan), err=True)
            if not agreed(_question(table, planned, to_trash=to_trash)):
                return failed("Aborted", "nothing was deleted", 1, setup.as_json)
        report = opened.vacuum(observer=progress, **call)
    setup.show(report)
    return 1 if report.failed_files_count else 0


def _question(table: str, planned: VacuumReport, *, to_trash: bool) -> str:
    """Which confirmation a vacuum asks for."""
    count, expired = planned.deleted_files_count, expiring(planned)
    files = f"{counted(count, 'file')} ({size(planned.deleted_bytes_count)})"
    if to_trash:
        return f"Move {files} of {table} to the trash?"
    if not expired:
        return f"Delete {files} of {table}?"
    return f"Expire {expired} of {table}, and delete {files}?" if count else f"Expire {expired} of {table}?"


@with_setup
def drop_partition(
    setup: Setup,
    table: TableName,
    *,
    where: Annotated[str, typer.Option(metavar="SQL", help="A predicate over the columns.")],
    force: Annotated[
        bool, typer.Option("--force", help="Bypass the trash: the rows cannot be restored from it.")
    ] = False,
    yes: _Yes = False,
    option: Given = None,
) -> int:
    """Delete the rows of partitions, and keep them in the trash.

    They can be restored until the retention of the trash ends.
    """
    options = dict(pairs("--option", option or ()))
    setup.check(options)
    final = " They cannot be restored from the trash." if force else ""
    if not yes and not agreed(f"Drop the rows of {table} where {where}?{final}"):
        return failed("Aborted", "no row was deleted", 1, setup.as_json)
    with setup.progress() as progress:
        report = setup.table(table).drop_partition(where, force=force, observer=progress, options=options)
    setup.show(report)
    return 0


@with_setup
def expire_rows(
    setup: Setup,
    table: TableName,
    *,
    dry_run: DryRun = False,
    yes: _Yes = False,
    option: Given = None,
) -> int:
    """Delete rows that are older than the table's lifecycle rule.

    The rule is lifecycle.column and lifecycle.retain. Shows what may be deleted, then asks for confirmation at a
    terminal; requires --yes elsewhere. The rows can be restored from the trash.
    """
    options = dict(pairs("--option", option or ()))
    setup.check(options)
    asks = not (dry_run or yes)
    if asks:
        require_terminal()  # before Spark starts
    opened = setup.table(table)
    if asks:
        planned = opened.expire_rows(dry_run=True, options=options)
        if not planned.due_data_files_count:  # a call now could delete rows that expired since
            setup.show(planned)
            return 0
        say(str(planned), err=True)
        if not agreed(f"Delete the expired rows of {table}?"):
            return failed("Aborted", "no row was deleted", 1, setup.as_json)
    with setup.progress() as progress:
        report = opened.expire_rows(dry_run=dry_run, observer=progress, options=options)
    setup.show(report)
    return 1 if report.status == FAILED else 0


@with_setup
def compact_metadata(setup: Setup, table: TableName, *, dry_run: DryRun = False) -> int:
    """Compact the metadata that query planning reads.

    Merges small manifests (Iceberg) or writes a checkpoint (Delta). Changes no row and no data file.
    """
    setup.check({})
    setup.show(setup.table(table).compact_metadata(dry_run=dry_run))
    return 0


@trash.command("list")
@with_setup
def list_trash(setup: Setup, table: TableName) -> int:
    """List the entries of the trash, oldest first."""
    setup.check({})
    setup.show(_Entries(setup.table(table).trash()))
    return 0


@trash.command()
@with_setup
def restore(
    setup: Setup,
    table: TableName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the entry, or a prefix of it.")],
    *,
    option: Given = None,
) -> int:
    """Restore an entry of the trash.

    Files return to their old paths. Rows of a partition are appended exactly once, however often this is run.
    """
    options = dict(pairs("--option", option or ()))
    setup.check(options)
    with setup.progress() as progress:
        report = setup.table(table).restore(name, observer=progress, options=options)
    setup.show(report)
    return 0


@trash.command()
@with_setup
def empty(
    setup: Setup,
    table: TableName,
    *,
    all_entries: Annotated[
        bool, typer.Option("--all", help="Also delete entries that are still within their retention.")
    ] = False,
    yes: _Yes = False,
    option: Given = None,
) -> int:
    """Permanently delete the entries whose retention has ended.

    The exit code is 1 if one of them had to be kept.
    """
    options = dict(pairs("--option", option or ()))
    setup.check(options)
    if not yes and not agreed(
        f"Delete {'all' if all_entries else 'the expired'} entries of the trash of {table}?"
    ):
        return failed("Aborted", "nothing was deleted", 1, setup.as_json)
    found = setup.table(table).empty_trash(all_entries=all_entries, options=options)
    setup.show(_Deleted(found))
    return 1 if any(entry.state == KEPT for entry in found) else 0


class _Entries(Result):
    """Entries of the trash, as a page or as JSON."""

    def __init__(self, found: tuple[TrashEntry, ...]) -> None:
        self._found = found

    def to_dict(self) -> dict[str, Any]:
        return {"entries": [asdict(entry) for entry in self._found]}

    def __str__(self) -> str:
        return _listed(self._found) if self._found else "the trash is empty"


class _Deleted(_Entries):
    """Entries that were to be deleted from the trash."""

    def __str__(self) -> str:
        kept = tuple(entry for entry in self._found if entry.state == KEPT)
        deleted = tuple(entry for entry in self._found if entry.state != KEPT)
        parts = (
            ("deleted permanently", deleted),
            ("kept: a file could not be deleted, or a vacuum still adds files", kept),
        )
        shown = [f"{what}:\n{_listed(entries)}" for what, entries in parts if entries]
        return "\n\n".join(shown) or "no entry of the trash is due"


def _listed(entries: tuple[TrashEntry, ...]) -> str:
    rows = [["name", "since", "what", "files", "size", "version"]]
    for entry in entries:
        counts = [f"{entry.files:,}", size(entry.bytes), str(entry.version)]
        rows.append([entry.name, entry.put_at, entry.what, *counts])
    return table(rows, right=frozenset({3, 4}))
