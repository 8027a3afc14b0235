"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

TableName = Annotated[
    str, typer.Argument(metavar="TABLE", help="catalog.namespace.table, or the path of a Delta table.")
]
Where = Annotated[
    str | None,
    typer.Option(metavar="SQL", help="Only files that may hold a match of this predicate over the columns."),
]
Columns = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="Cluster key in place of the table's own: one to four columns."),
]
Policy = Annotated[
    str | None, typer.Option(metavar="NAME,…", help="Policies in order, in place of the verb's own.")
]
Budget = Annotated[
    str | None, typer.Option(metavar="SIZE", help="The most that is rewritten: 10GB, 512MiB, bytes.")
]
Given = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of lakekeeper. Repeatable."),
]
Queries = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        metavar="PATH",
        help="Spark event log, file or directory, or a kept workload. Repeatable.",
    ),
]
Final = Annotated[bool, typer.Option("--final", help="Repeat rounds until the thresholds hold.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; write nothing.")]
