"""The table's files as vacuum sees them: satisfies ``spi.Storage``. Delta's own VACUUM is never called.

reading    commits by name, never listed          file_history  files dropped and not added again
garbage    dropped files that no version needs    live_files    lookups in the newest state, by one Spark job
orphans    listings, and files the log names      filesystem    Hadoop's file system        locations  spellings
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property

from lakekeeper.core.model.run_name import is_restore_id
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.path_guard import Grounds
from lakekeeper.core.vacuum.retention import Kept, Ref, Version, Versions
from lakekeeper.core.vacuum.stream_positions import SinkCommit
from lakekeeper.core.vacuum.vacuum_plan import (
    NO_BACKLOG,
    Backlog,
    Doomed,
    FileInfo,
    Garbage,
)
from lakekeeper.errors import AdapterError, Conflict, LakekeeperError, NotFound, reason
from lakekeeper.spi import TableName
from lakekeeper.spi.storage import MetadataChange
from lakekeeper_delta import file_ops, foreign_tables, metadata, orphans
from lakekeeper_delta.backlog import is_cleaned_early
from lakekeeper_delta.filesystem import Disk
from lakekeeper_delta.garbage import find_garbage
from lakekeeper_delta.live_adds import live_bytes
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.reading import History, actions_of, commit_file, newest_after, read_history, trusted
from lakekeeper_delta.transactions import transactions

USUAL_AGE_MS = 168 * HOUR_MS
LOG_FOLDER = "_delta_log"
_RETENTION = "delta.deletedfileretentionduration"


class DeltaStorage:
    """Files of one table; safe to use from several driver threads."""

    def __init__(self, log: Log, identifier: TableName, disk: Disk | None = None) -> None:
        self._log = log
        self._identifier = identifier
        self._given = disk

    @cached_property
    def _disk(self) -> Disk:
        return self._given or Disk(self._log)

    @property
    def grounds(self) -> Grounds:
        """The table's folder, without the log and lakekeeper's own files."""
        with self._answering("its location"):
            return Grounds((self._disk.root,), (LOG_FOLDER,))

    def allowing(self, locations: Sequence[str]) -> DeltaStorage:
        """The same object: all files of a Delta table that may ever be deleted are in its folder."""
        return self

    def same_table(self, table_uuid: str, version: int | None) -> bool:
        """Whether the table has this id, or had it at ``version``: CREATE OR REPLACE changes the id, not the log."""
        with self._answering("its newest version"):
            newest = self.newest()
        if newest.table_uuid == table_uuid:
            return True
        if version is None or not 0 <= version < newest.version:
            return False
        with suppress(NotFound):  # another table's, or a version that the log cannot show
            return self._log.at(version, table_uuid).table_uuid == table_uuid
        return False

    def versions(self, since: int | None = None) -> Versions:
        """Versions from ``since`` on whose commit still exists, as a linear history."""
        with self._answering("its log"):
            history = read_history(self._log, self._disk, since)
            journal, state = history.journal, history.state
            items = [
                Version(v, journal.times[v], v - 1 if v > journal.first else None)
                for v in range(journal.first, journal.newest + 1)
            ]
            return Versions(
                table_uuid=state.table_uuid,
                items=tuple(items),
                refs=(Ref("main", journal.newest),),
                linear=True,
                usual_age_ms=USUAL_AGE_MS,
                min_age_ms=self._own_age(state),
                live_bytes=_live_bytes(self._log, history),
                native=history,
            )

    def sinks(self) -> Sequence[SinkCommit]:
        """The ``txn`` actions of the newest state. No version has to be kept for them: each new state repeats them.

        Restores record such an action too, to be committed once (see ``restore``); they are no streams.
        """
        with self._answering("its transactions"):
            return [
                SinkCommit(
                    sink=f"Delta application {each.app}",
                    position=f"transaction {each.version}",
                    version=None,
                    at_ms=each.at_ms,
                )
                for each in transactions(self._log, self.newest())
                if not is_restore_id(each.app)
            ]

    def garbage(
        self,
        versions: Versions,
        kept: Kept,
        hints: Collection[str] = (),
        backlog: Backlog = NO_BACKLOG,
    ) -> Garbage:
        """Files that commits up to the oldest kept version dropped and no commit added again."""
        with self._answering("its log"):
            found = find_garbage(self._log, self._disk, versions.native, kept, hints, backlog)
            if backlog.files or is_cleaned_early(self._log, versions.native.state, kept):
                return found
            return replace(found, backlog=NO_BACKLOG)

    def expire(self, versions: Versions, kept: Kept, files: Collection[str]) -> set[str]:
        """Commits nothing, as the versions are a line; see :meth:`require_dead`."""
        self.require_dead(versions, kept, files)
        return set()

    def require_dead(self, versions: Versions, kept: Kept, files: Collection[str]) -> None:
        """Raise Conflict if a newer commit names one of the files again or changes the metadata."""
        journal = versions.native.journal
        with self._answering("its log"):
            if self._disk.status(commit_file(self._disk, versions.newest)) != journal.last:
                raise Conflict(
                    f"{self._log.name}: another table was created in its place; nothing was deleted"
                )
            checked = max(versions.newest, journal.checked)
            for version in range(checked + 1, newest_after(self._log, self._disk, checked) + 1):
                actions = actions_of(self._disk, version)
                journal.drop(version, [a for a in actions if "metaData" in a or "protocol" in a])
                named = journal.bring(version, [action["add"] for action in actions if "add" in action])
                if journal.renewed or not named.isdisjoint(files):
                    raise Conflict(
                        f"{self._log.name}: version {version} changed the table's id, partitioning, properties or "
                        "protocol, or restored files that were to be deleted; nothing was deleted",
                        f"version {version}",
                    )
                journal.checked = version

    def look(self, paths: Sequence[str]) -> list[FileInfo | None]:
        """The current status of each file."""
        with self._answering("its files"):
            return file_ops.look(self._disk, paths)

    def missing(self, paths: Collection[str]) -> set[str]:
        """Those of ``paths``, as actions name them, that name no file."""
        with self._answering("its new files"):
            places = {path: self._disk.locator.readings(path) for path in paths}
            candidates = [place for found in places.values() for place in found]
            there = {
                place
                for place, kind in zip(candidates, self._disk.kinds(candidates), strict=True)
                if kind == "file"
            }
            return {path for path, found in places.items() if there.isdisjoint(found)}

    def delete(self, files: Sequence[Doomed]) -> list[str]:
        """Delete these files and check; the paths that are gone."""
        with self._answering("its files"):
            return file_ops.delete(self._disk, self.grounds, files)

    def refuses_trash(self) -> str:
        """Why there can be no trash; empty if a rename is one step."""
        with self._answering("its location"):
            return (
                ""
                if self._disk.renames
                else f"its storage ({self._disk.scheme}) renames a file by copying it"
            )

    def move(self, moves: Mapping[str, str]) -> list[str]:
        """Rename files, never over an existing one; the sources that are now at their targets."""
        with self._answering("its files"):
            return file_ops.move(self._disk, self.grounds, moves)

    def files(self) -> Iterator[FileInfo]:
        """LIST: the files of the table."""
        with self._answering("its folders"):
            yield from orphans.files(self._log, self._disk)

    def left_by(self, runs: Sequence[str]) -> Iterator[FileInfo]:
        """LIST: the files in the folders of these runs."""
        with self._answering("its folders"):
            yield from orphans.left_by(self._disk, runs)

    def forget(self, run: str) -> None:
        """Drop the folder of a run from Delta's cache, and delete the folder if it is empty."""
        with suppress(Exception):  # a failure costs memory for an hour, or leaves an empty folder
            self._log.forget_folder(run)
            self._disk.prune(f"{self._disk.root}/{run}")

    def recognised(self, paths: Collection[str]) -> set[str]:
        """Those of ``paths`` that Delta writers made, by folder and name."""
        with self._answering("its metadata"):
            return orphans.of_writers(self._log, self._disk, paths)

    def named(self, versions: Versions, paths: Collection[str]) -> set[str]:
        """Those of ``paths`` that the log names, in any commit or in its state; they may be stored anywhere."""
        with self._answering("its log"):
            return orphans.named(self._log, self._disk, versions.native, paths)

    def live(self, versions: Versions, paths: Collection[str]) -> set[str]:
        """Those of ``paths`` that the newest state names: a RESTORE may ignore missing files, if a conf says so."""
        with self._answering("its newest version"):
            return orphans.live(self._log, self._disk, self.newest(), paths)

    def newest(self) -> State:
        """The newest version: the snapshot that Delta has in memory if it is current, else a fresh one, which lists."""
        with self._answering("its log"):
            state = trusted(self._log, self._disk)
            if newest_after(self._log, self._disk, state.version) == state.version:
                return state
        return self._log.latest()

    def compact_metadata(self, *, dry_run: bool) -> MetadataChange:
        """Write a checkpoint; see ``metadata.compact_metadata``."""
        return metadata.compact_metadata(self._log, dry_run=dry_run)

    def foreign_tables(self, runs: Sequence[str] | None = None) -> Sequence[str]:
        """LIST: other tables in or around the table's folder, or the folders of runs."""
        with self._answering("its folders"):
            return foreign_tables.find(self._log, self._disk, self._identifier, runs)

    def _own_age(self, state: State) -> int | None:
        """The retention that the table sets, as Delta parses it; None if it sets none."""
        if not any(key.lower() == _RETENTION for key in state.properties):
            return None
        return self._log.retention_ms(state)

    @contextmanager
    def _answering(self, what: str) -> Iterator[None]:
        """Raise any error as AdapterError: a partial snapshot must not pass for a complete one."""
        try:
            yield
        except LakekeeperError:
            raise
        except Exception as error:
            raise AdapterError(
                f"{self._log.name}: {what} cannot be read ({reason(error)}); nothing was deleted"
            ) from error


def _live_bytes(log: Log, history: History) -> int | None:
    """Live bytes of the newest version: from the checksum file, else its files, plus the change by later commits."""
    journal, snapshot = history.journal, history.state.snapshot
    if journal.bytes is None:
        return None
    recorded = snapshot.checksumOpt()
    size = int(recorded.get().tableSizeBytes()) if recorded.isDefined() else live_bytes(log, history.state)
    if size is None:
        size = int(snapshot.sizeInBytes())  # builds Delta's state, by Spark jobs
    return max(size + journal.bytes, 0)
