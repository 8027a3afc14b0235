"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

TableName = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="A name such as catalog.namespace.table, or the path of a Delta table."
    ),
]
Where = Annotated[
    str | None,
    typer.Option(metavar="SQL", help="Only files that may contain rows matching this predicate."),
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help="Cluster key: one to four columns, or a curve such as 'hilbert(A,B)'; overrides the table's own.",
    ),
]
Policy = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,…",
        help="Policies in order of application: adaptive, ranges, peaks, sizes, deletes, universal, full. Default: "
        "the command's own.",
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Limit on the data to rewrite: 10GB, 512MiB or a number of bytes. The first group may exceed it.",
    ),
]
Given = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="Set a lakekeeper option. Repeatable."),
]
Queries = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        metavar="PATH",
        help="A Spark event log (file or directory) or a saved workload. Repeatable.",
    ),
]
Final = Annotated[bool, typer.Option("--final", help="Repeat rounds until no merge is due.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; write nothing.")]
