"""What a program accesses besides the log: notes and files. A call is a question unless its effect is private.

Notes are read as of the last answered question: a reader of notes never acts at the same time. That way a scan of 64
slots for an intent is not 64 steps, and a history is the same for two programs that read the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.core.vacuum.path_guard import Grounds
from lakekeeper.core.vacuum.retention import Kept, Versions
from lakekeeper.core.vacuum.stream_positions import SinkCommit
from lakekeeper.core.vacuum.vacuum_plan import (
    NO_BACKLOG,
    Backlog,
    Doomed,
    FileInfo,
    Garbage,
)
from lakekeeper.spi import Commit, Followed, Held, Lost, Places, Prepared, Remains, Tidied, Traces
from lakekeeper.testing.memory import Parts

if TYPE_CHECKING:
    from tests.model.program import Scripted

UUID = str(uuid5(NAMESPACE_URL, "db.t"))
"""The table's id."""


class PrivateNotes:
    """Notes of one program that no other program reads."""

    readers = 1

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def read(self, name: str) -> str | None:
        return self.texts.get(name)

    def keep(self, name: str, text: str) -> str:
        return self.texts.setdefault(name, text)

    def replace(self, name: str, text: str) -> None:
        self.texts[name] = text

    def remove(self, name: str) -> None:
        self.texts.pop(name, None)


class SharedNotes:
    """Notes that all programs share: each write is a step, a read belongs to the step before it."""

    readers = 1

    def __init__(self, scripted: Scripted) -> None:
        self._scripted = scripted

    def read(self, name: str) -> str | None:
        return self._scripted.noted(name)

    def keep(self, name: str, text: str) -> str:
        return self._scripted.ask("notes.keep", name, text)

    def replace(self, name: str, text: str) -> None:
        self._scripted.ask("notes.replace", name, text)

    def remove(self, name: str) -> None:
        self._scripted.ask("notes.remove", name)


class ScriptedStorage:
    """The files of the table, as questions."""

    grounds = Grounds(("mem:/db.t",))

    def __init__(self, scripted: Scripted) -> None:
        self._ask = scripted.ask

    def allowing(self, locations: Sequence[str]) -> ScriptedStorage:
        return self

    def same_table(self, table_uuid: str, version: int | None) -> bool:
        return table_uuid == UUID

    def refuses_trash(self) -> str:
        return ""

    def foreign_tables(self, runs: Sequence[str] | None = None) -> Sequence[str]:
        return ()

    def sinks(self) -> Sequence[SinkCommit]:
        return ()

    def recognised(self, paths: Collection[str]) -> set[str]:
        return {path for path in paths if path.startswith("mem:/db.t/data/")}

    def forget(self, run: str) -> None:
        """A table in memory keeps nothing for a run."""

    def versions(self, since: int | None = None) -> Versions:
        return self._ask("storage.versions", since)

    def garbage(
        self,
        versions: Versions,
        kept: Kept,
        hints: Collection[str] = (),
        backlog: Backlog = NO_BACKLOG,
    ) -> Garbage:
        assert backlog == NO_BACKLOG, "the memory adapter's log never loses a commit"
        return self._ask("storage.garbage", versions, kept, frozenset(hints))

    def expire(self, versions: Versions, kept: Kept, files: Collection[str]) -> set[str]:
        return set(self._ask("storage.expire", versions, kept, tuple(sorted(files))))

    def require_dead(self, versions: Versions, kept: Kept, files: Collection[str]) -> None:
        self._ask("storage.require_dead", versions, kept, tuple(sorted(files)))

    def look(self, paths: Sequence[str]) -> list[FileInfo | None]:
        return list(self._ask("storage.look", tuple(paths))) if paths else []

    def missing(self, paths: Collection[str]) -> set[str]:
        return set(self._ask("storage.missing", tuple(sorted(paths)))) if paths else set()

    def delete(self, files: Sequence[Doomed]) -> list[str]:
        return list(self._ask("storage.delete", tuple(files)))

    def move(self, moves: Mapping[str, str]) -> list[str]:
        return list(self._ask("storage.move", dict(moves)))

    def files(self) -> Iterator[FileInfo]:
        return iter(self._ask("storage.files"))

    def left_by(self, runs: Sequence[str]) -> Iterator[FileInfo]:
        return iter(self._ask("storage.left_by", tuple(runs)))

    def named(self, versions: Versions, paths: Collection[str]) -> set[str]:
        return set(self._ask("storage.named", versions, tuple(sorted(paths))))

    def live(self, versions: Versions, paths: Collection[str]) -> set[str]:
        return set(self._ask("storage.live", versions, tuple(sorted(paths))))


class ScriptedDeletes:
    """The row-level half of the adapter, as questions."""

    def __init__(self, scripted: Scripted) -> None:
        self._ask = scripted.ask

    def compared(
        self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, files: Sequence[str]
    ) -> Followed | None:
        return self._ask("compared", rewrite, snapshot, changes, tuple(files))

    def remains(
        self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, files: Sequence[str]
    ) -> Remains[Parts] | None:
        return self._ask("remains", rewrite, snapshot, changes, tuple(files))

    def lost(
        self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, followed: Followed | None = None
    ) -> Lost:
        return self._ask("lost", rewrite, snapshot, changes, followed)

    def places(self, lost: Lost) -> Places | None:
        return self._ask("places", lost)

    def traces(self, lost: Lost) -> Traces[Parts]:
        return self._ask("traces", lost)

    def mask(self, lost: Lost, hits: Parts | Places) -> Rewrite:
        return self._ask("mask", lost, hits)

    def covered(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> frozenset[str]:
        return self._ask("covered", snapshot, where, None if paths is None else tuple(paths))

    def find(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> Parts:
        return self._ask("find", snapshot, where, None if paths is None else tuple(paths))

    def release(self, found: Parts) -> None:
        """A program holds no resource that another could see."""

    def prepare(
        self, hits: Held[Parts] | None, whole: Collection[str], snapshot: Snapshot, run_id: str
    ) -> Prepared:
        return self._ask("prepare", hits, tuple(sorted(whole)), snapshot, run_id)

    def keep(self, prepared: Prepared, paths: Collection[str], snapshot: Snapshot) -> Prepared:
        return self._ask("keep", prepared, tuple(sorted(paths)), snapshot)

    def delete(self, prepared: Sequence[Prepared], snapshot: Snapshot, run_id: str, where: str) -> Commit:
        return self._ask("delete", tuple(prepared), snapshot, run_id, where)

    def discard(self, prepared: Sequence[Prepared]) -> None:
        self._ask("deletes.discard", tuple(prepared))

    def may_tidy(self, snapshot: Snapshot) -> bool:
        """Always, so that the tidying itself is explored."""
        return True

    def tidy(self, snapshot: Snapshot, run_id: str) -> Tidied:
        return self._ask("tidy", snapshot, run_id)
