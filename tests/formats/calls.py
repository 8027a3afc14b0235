"""SQL statements of lakekeeper, each with the Python call that does the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lakekeeper as lk

LOGGED = {
    "run_ids",
    "duration_ms",
    "version_before",
    "version_after",
    "version",
    "run_id",
    "added_bytes_count",
    "statistics_files",
}
"""Columns that differ between two runs on two tables with the same rows."""

CALLS: dict[str, tuple[str, Callable[[lk.Table], Any]]] = {
    "alter": ("ALTER TABLE {t} RECLUSTER FINAL", lambda t: t.recluster(final=True)),
    "alter_where": ("alter table {t} recluster where k < 500", lambda t: t.recluster(where="k < 500")),
    "recluster": ("CALL lakekeeper.system.recluster('{t}', 'k')", lambda t: t.recluster("k")),
    "compact": (
        "CALL lakekeeper.system.compact(table => '{t}', options => map('min-input-files', '2'))",
        lambda t: t.compact(options={"min-input-files": "2"}),
    ),
    "compact_dry": (
        "CALL lakekeeper.system.compact(dry_run => true, table => '{t}')",
        lambda t: t.compact(dry_run=True),
    ),
    "merge_deletes": ("CALL lakekeeper.system.merge_deletes('{t}')", lambda t: t.merge_deletes()),
    "build_filters": (
        "CALL lakekeeper.system.build_filters('{t}', all_files => true)",
        lambda t: t.build_filters(all_files=True),
    ),
    "delete": ("CALL lakekeeper.system.delete('{t}', 'id = 7')", lambda t: t.delete("id = 7")),
    "drop_partition": (
        "CALL lakekeeper.system.drop_partition('{t}', where => 'k < 10', force => true)",
        lambda t: t.drop_partition("k < 10", force=True),
    ),
    "vacuum": (
        "CALL lakekeeper.system.vacuum('{t}', dry_run => true, retention_hours => 200.0)",
        lambda t: t.vacuum(dry_run=True, retention_hours=200.0),
    ),
    "alter_key": ("ALTER TABLE {t} CLUSTER BY (id, k)", lambda t: t.cluster_by("id", "k")),
    "alter_no_key": ("ALTER TABLE {t} CLUSTER BY NONE", lambda t: t.cluster_by(None)),
    "cluster_by": (
        "CALL lakekeeper.system.cluster_by('{t}', array('id', 'k'), layout => 'hilbert')",
        lambda t: t.cluster_by("id", "k", layout="hilbert"),
    ),
    "compute_statistics": (
        "CALL lakekeeper.system.compute_statistics('{t}', columns => array('id'))",
        lambda t: t.compute_statistics(["id"]),
    ),
    "compact_metadata": ("CALL lakekeeper.system.compact_metadata('{t}')", lambda t: t.compact_metadata()),
}

WRONG = [
    ("CALL lakekeeper.system.recluser('{t}')", "did you mean recluster"),
    ("CALL lakekeeper.system.recluster()", "a table name as text"),
    (
        "CALL lakekeeper.system.recluster('{t}', colums => 'k')",
        "a parameter of recluster: table, columns",
    ),
    ("CALL lakekeeper.system.recluster('{t}', table => 'x')", "each parameter once"),
    ("CALL lakekeeper.system.trash('{t}', map(), 3)", "at most 2 arguments"),
    ("CALL lakekeeper.system.compact('{t}', where => 'nope = 1')", "nope"),
    ("CALL lakekeeper.system.cluster_by('{t}', 'nope')", "nope"),
    ("CALL lakekeeper.system.restore('{t}', 'nope')", "nope"),
    ("CALL lakekeeper.system.undo('{t}', 'nope')", "nope"),
    ("CALL lakekeeper.system.vacuum('{t}', retention_hours => 1)", "allow_unsafe_retention"),
    ("CALL lakekeeper.system.compact('{t}', options => map('min-input-fils', '2'))", "min-input-files"),
    ("CALL lakekeeper.system.delete('{t}', 'id IN (SELECT 1)')", "subquer"),
    ("SELECT * FROM lakekeeper_blocks('{t}', 3)", "at most 1 argument"),
    ("CALL lakekeeper.system.empty_trash('{t}', all_entries => 'false')", "all_entries: got 'false'"),
    ("CALL lakekeeper.system.compact('{t}', dry_run => NULL)", "leave the argument out"),
    (
        "CALL lakekeeper.system.vacuum('{t}', older_than => try_cast('soon' AS TIMESTAMP))",
        "leave the argument out",
    ),
    ("CALL lakekeeper.system.compact('{t}', options => map('budget-bytes', NULL))", "without NULL"),
    ("CALL lakekeeper.system.compact('{t}', where => 7)", "Spark SQL or a Column"),
    ("CALL lakekeeper.system.delete('{t}', where => NULL)", "a value, which delete needs"),
]
"""Statements that are refused however they are issued, and a part of the message."""
