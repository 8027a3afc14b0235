"""The Spark confs under which data files are read and written: some values that a user sets would change rows.

    the user's session ── no such value ─► itself
                       └─ any of them ───► a clone with other values; the user's session stays as it is

Delta's own writers use the session's values. A rewrite must not: it would make permanent what only this session reads.
A commit has confs of its own for another reason: the time that it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakekeeper_delta.native import Log

Changes = Mapping[tuple[str, str], str]

_READ: Changes = MappingProxyType(
    {
        # Columns of a converted table whose names differ from the file's in case alone would be NULL.
        ("spark.sql.caseSensitive", "true"): "false",
        # Timestamps of files that Spark has not written would be moved by the offset of the time zone.
        ("spark.sql.parquet.int96TimestampConversion", "true"): "false",
        # Of a file that names no writer, Spark reads dates before 1582 and timestamps before 1900 in the calendar of
        # Spark 2, while other readers do not. Which of them is right is not known, so such a file fails to be read.
        ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"): "EXCEPTION",
        ("spark.sql.parquet.int96RebaseModeInRead", "LEGACY"): "EXCEPTION",
    }
)
_WRITE: Changes = MappingProxyType(
    {
        # Microseconds would be lost.
        ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS"): "TIMESTAMP_MICROS",
        # Old dates would be written in the calendar of Spark 2, which other readers misread, or would fail.
        ("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY"): "CORRECTED",
        ("spark.sql.parquet.datetimeRebaseModeInWrite", "EXCEPTION"): "CORRECTED",
        ("spark.sql.parquet.int96RebaseModeInWrite", "LEGACY"): "CORRECTED",
        ("spark.sql.parquet.int96RebaseModeInWrite", "EXCEPTION"): "CORRECTED",
    }
)
# Without concurrent writers Spark may sort rows by the partition again, and such a sort does not preserve the order of
# equal values once it spills.
_ALWAYS_WRITTEN = MappingProxyType(
    {
        "spark.sql.maxConcurrentOutputFileWriters": "1",
        "spark.databricks.delta.stats.collect": "true",
        "spark.sql.files.maxRecordsPerFile": "0",
    }
)
_NO_CHECKSUM = MappingProxyType(
    {
        "spark.databricks.delta.incremental.commit.enabled": "false",
        "spark.databricks.delta.writeChecksumFile.enabled": "false",
    }
)


_WHOLE = MappingProxyType({"spark.sql.parquet.filterPushdown": "false"})


def reading(session: Any, *, whole: bool = False) -> Any:
    """The Java session whose confs a scan of data files uses: ``session``, or a clone of it.

    ``whole``: no row group is skipped by a condition.
    """
    changed = {**_changed(session, _READ), **(_WHOLE if whole else {})}
    return _cloned(session, changed) if changed else session


def writing(session: Any) -> Any:
    """A clone of a Java session that writes data files."""
    return _cloned(session, {**_ALWAYS_WRITTEN, **_changed(session, _WRITE)})


def _changed(session: Any, changes: Changes) -> dict[str, str]:
    conf = session.sessionState().conf()
    names = {name for name, _ in changes}
    found = {name: str(conf.getConfString(name)) for name in names}
    return {name: new for (name, old), new in changes.items() if found[name].lower() == old.lower()}


def _cloned(session: Any, confs: Mapping[str, str]) -> Any:
    made = session.cloneSession()
    for name, value in confs.items():
        made.conf().set(name, value)
    return made


@contextmanager
def committing(log: Log, base: Any) -> Iterator[None]:
    """A context for a commit on a snapshot: no checksum file is written on a version that has none.

    Delta would reconstruct the state of that version for it, within the commit. Other engines write no checksum files.
    """
    if base.checksumOpt().isDefined():
        yield
        return
    with log.jvm.active(_cloned(log.jvm.session, _NO_CHECKSUM)):
        yield
