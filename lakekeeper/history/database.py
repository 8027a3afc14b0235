"""The file of the history: its schema, and one transaction on it.

Nothing is written to a file that is not a history. A reader creates no file, and finds nothing in an empty one.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from lakekeeper.errors import HistoryError, reason

_VERSION = 1
_WAIT_S = 10.0
_SCHEMA = """
CREATE TABLE operations (
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
);
CREATE INDEX operations_of_table ON operations (catalog_name, schema_name, table_name, operation_type, number);
CREATE INDEX operations_by_end ON operations (end_time);
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
_OURS = frozenset({"operations", "merge_groups", "decisions"})
_CONF = "spark.lakekeeper.history.path"


@contextmanager
def transaction(path: Path, *, write: bool) -> Iterator[sqlite3.Connection]:
    """A connection in a transaction, which is committed at the end. Raises HistoryError, also for what the body raises
    over a value that it cannot read.
    """
    try:
        with closing(_connected(path, write)) as db:  # without COMMIT, rolls back
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield db
            db.execute("COMMIT")
    except (sqlite3.Error, OSError, ValueError, TypeError, KeyError) as error:
        raise HistoryError(_message(path, error, write)) from error


def _message(path: Path, error: Exception, write: bool) -> str:
    outside = isinstance(error, sqlite3.OperationalError | OSError)  # locks, permissions, a full disk
    advice = f"check {_CONF}" if outside else "if it is damaged, move it away: a new one is then created"
    if outside and not write and not os.access(path.parent, os.W_OK):
        advice += "; while another process writes it, a reader needs write access to its folder"
    return f"{path}: the history cannot be {'written' if write else 'read'}: {reason(error)}; {advice}"


def _connected(path: Path, write: bool) -> sqlite3.Connection:
    new = _is_new(path)
    if new and not write:
        db = sqlite3.connect(":memory:", isolation_level=None)
    else:
        if write:
            path.parent.mkdir(parents=True, exist_ok=True)
        db = _opened(path, "rwc" if write else "rw")
    try:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA foreign_keys = ON")
        if new:
            _create(db, path)
        if not write:
            db.execute("PRAGMA query_only = ON")
    except BaseException:
        db.close()
        raise
    return db


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    db = _with_mode(path, mode)
    try:
        if mode != "rwc":
            db.execute("PRAGMA user_version")  # SQLite creates its files beside this one at the first access
    except sqlite3.Error:
        db.close()
        if os.access(path.parent, os.W_OK) or path.with_name(path.name + "-wal").exists():
            raise
        # The folder is read-only here, and no writer has the file open.
        return _with_mode(path, "ro&immutable=1")
    return db


def _with_mode(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=_WAIT_S, isolation_level=None)


def _is_new(path: Path) -> bool:
    """Whether the file does not exist or is empty. Raises HistoryError if it is not a history."""
    if path.is_dir():
        raise HistoryError(f"{path}: is a folder; set {_CONF} to a file")
    if not path.exists() or not path.stat().st_size:
        return True
    # Opened for writing, SQLite would move the write-ahead log of another application into its file.
    with closing(_opened(path, "ro")) as db:
        db.execute("BEGIN")
        return _is_empty(db, path)


def _is_empty(db: sqlite3.Connection, path: Path) -> bool:
    """Whether a database has no tables yet. Raises HistoryError if it has others than a history of this version."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    names = {str(row[0]) for row in db.execute("SELECT name FROM sqlite_master")}
    if not names and not version:
        return True
    if not names >= _OURS:
        raise HistoryError(
            f"{path}: another application's database, not a history; set {_CONF} to another file"
        )
    if version != _VERSION:
        raise HistoryError(
            f"{path}: the history has version {version}, but this lakekeeper reads version {_VERSION}; set {_CONF} to "
            "another file"
        )
    return False


def _create(db: sqlite3.Connection, path: Path) -> None:
    """Create the tables, unless another process has created them in the meantime."""
    with suppress(sqlite3.OperationalError):  # another process is creating the tables, and has set it
        db.execute("PRAGMA journal_mode = WAL")
    db.execute("BEGIN IMMEDIATE")
    if _is_empty(db, path):
        for statement in filter(str.strip, _SCHEMA.split(";")):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {_VERSION}")
    db.execute("COMMIT")
