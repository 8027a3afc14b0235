"""The command that computes statistics."""

from __future__ import annotations

from typing import Annotated

import typer

from lakekeeper.cli.parameters import DryRun, Given, TableName
from lakekeeper.cli.setup import Setup, with_setup
from lakekeeper.cli.values import pairs
from lakekeeper.core.model.report import PARTIAL


def add_to(app: typer.Typer) -> None:
    """Add this command to ``app``."""
    app.command()(compute_statistics)


@with_setup
def compute_statistics(
    setup: Setup,
    table: TableName,
    *,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Columns to compute statistics on. Default on Delta: the cluster key and "
            "delta.dataSkippingStatsColumns; on Iceberg: all.",
        ),
    ] = None,
    dry_run: DryRun = False,
    option: Given = None,
) -> int:
    """Compute statistics that are missing or outdated.

    Delta: data-skipping statistics of files without any. Iceberg: distinct values of columns, and statistics of
    partitions. Changes no row and no data file.
    """
    options = dict(pairs("--option", option or ()))
    setup.check(options)
    with setup.progress() as progress:
        report = setup.table(table).compute_statistics(
            columns, dry_run=dry_run, observer=progress, options=options
        )
    setup.show(report)
    return 1 if report.status == PARTIAL else 0
