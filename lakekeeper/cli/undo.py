"""The command that undoes a run."""

from __future__ import annotations

from typing import Annotated

import typer

from lakekeeper.cli.parameters import DryRun, Given, TableName
from lakekeeper.cli.setup import Setup, with_setup
from lakekeeper.cli.values import pairs


def add_to(app: typer.Typer) -> None:
    """Add this command to ``app``."""
    app.command()(undo)


@with_setup
def undo(
    setup: Setup,
    table: TableName,
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run id, or an operation id of lakekeeper history.")
    ],
    *,
    allow_rollback: Annotated[
        bool,
        typer.Option(
            "--allow-rollback",
            help="On Iceberg: allow a rollback to the snapshot before the run. Streams that have already read past the "
            "run then fail.",
        ),
    ] = False,
    dry_run: DryRun = False,
    option: Given = None,
) -> int:
    """Bring back the files that a run replaced.

    Changes no row. Possible as long as nothing was built on the run and no vacuum has deleted the files.
    """
    options = dict(pairs("--option", option or ()))
    setup.check(options)
    with setup.progress() as progress:
        report = setup.table(table).undo(
            run, dry_run=dry_run, allow_rollback=allow_rollback, observer=progress, options=options
        )
    setup.show(report)
    return 0
