"""The tables of a history, and what changes in a file that an earlier lakekeeper created."""

from __future__ import annotations

import sqlite3

VERSION = 1
_OPERATIONS = """(
    number INTEGER PRIMARY KEY,
    operation_id TEXT NOT NULL,
    operation_type TEXT NOT NULL,
    operation_status TEXT NOT NULL,
    start_time TEXT NOT NULL,
    end_time TEXT NOT NULL,
    catalog_name TEXT NOT NULL,
    schema_name TEXT NOT NULL,
    table_name TEXT NOT NULL,
    table_format TEXT NOT NULL,
    operation_metrics TEXT NOT NULL,
    usage_unit TEXT NOT NULL,
    usage_quantity REAL,
    origin TEXT NOT NULL,
    policies TEXT NOT NULL,
    cluster_key TEXT NOT NULL,
    version_before INTEGER,
    version_after INTEGER,
    run_ids TEXT NOT NULL,
    reason TEXT NOT NULL,
    application_id TEXT NOT NULL,
    user_name TEXT NOT NULL,
    versions TEXT NOT NULL
)"""
_INDEXES = """
CREATE INDEX operations_of_table ON operations (catalog_name, schema_name, table_name, operation_type, number);
CREATE INDEX operations_by_end ON operations (end_time);
"""
_OTHERS = """
CREATE TABLE merge_groups (
    operation INTEGER NOT NULL REFERENCES operations ON DELETE CASCADE,
    number INTEGER NOT NULL,
    group_id TEXT NOT NULL,
    group_status TEXT NOT NULL,
    level INTEGER NOT NULL,
    partition TEXT NOT NULL,
    files_in INTEGER NOT NULL,
    bytes_in INTEGER NOT NULL,
    rows_in INTEGER NOT NULL,
    files_out INTEGER NOT NULL,
    bytes_out INTEGER NOT NULL,
    rows_out INTEGER NOT NULL,
    replayed_rows INTEGER NOT NULL,
    score REAL,
    reason TEXT,
    detail TEXT,
    PRIMARY KEY (operation, number)
);
CREATE TABLE tasks (
    table_name TEXT NOT NULL,
    verb TEXT NOT NULL,
    task TEXT NOT NULL,
    updated TEXT NOT NULL,
    PRIMARY KEY (table_name, verb)
);
CREATE TABLE decisions (
    operation INTEGER NOT NULL REFERENCES operations ON DELETE CASCADE,
    number INTEGER NOT NULL,
    blocks INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (operation, number)
);
"""


def create(db: sqlite3.Connection) -> None:
    """Create the tables, in a transaction of the caller."""
    _execute(db, f"CREATE TABLE operations {_OPERATIONS}; {_INDEXES}; {_OTHERS}")
    db.execute(f"PRAGMA user_version = {VERSION}")


def allow_repeated_ids(db: sqlite3.Connection) -> None:
    """Let attempts share an ``operation_id``, as those of one restore do; no effect on a file that allows it.

    Earlier files refuse the second attempt. The version stays, because an earlier lakekeeper reads and writes the
    changed file as before. Foreign keys must be off, or the rows of other tables would go with the old table.
    """
    if not _has_unique_ids(db):
        return
    db.execute("PRAGMA foreign_keys = OFF")
    db.execute("BEGIN IMMEDIATE")
    if _has_unique_ids(db):  # no other process has changed it in the meantime
        _execute(db, f"CREATE TABLE operations_copy {_OPERATIONS}")
        _execute(db, "INSERT INTO operations_copy SELECT * FROM operations")
        _execute(db, f"DROP TABLE operations; ALTER TABLE operations_copy RENAME TO operations; {_INDEXES}")
    db.execute("COMMIT")


def _has_unique_ids(db: sqlite3.Connection) -> bool:
    # The pragma's function reads like a table; SQLite marks an index that a UNIQUE made by ``u``.
    found = db.execute("SELECT 1 FROM pragma_index_list('operations') WHERE origin = 'u'").fetchone()
    return found is not None


def _execute(db: sqlite3.Connection, statements: str) -> None:
    for statement in filter(str.strip, statements.split(";")):
        db.execute(statement)
