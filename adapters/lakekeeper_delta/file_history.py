"""The effect of commits on files, replayed in order: files dropped and not added again, and vector files in use.

    version      5         6            9             12
    x.parquet   add     remove      add (RESTORE)   remove      dropped by 12: no version from 12 on contains it
    y.parquet   add     remove, add (new deletion vector)       not dropped

Only dropped files are held, not live ones: memory grows with the garbage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakekeeper.core.vacuum.vacuum_plan import FileInfo
from lakekeeper_delta.file_marks import names_vectors
from lakekeeper_delta.locations import Locator

_VECTORS = re.compile(r"(^|/)deletion_vector_[^/]*\.bin$")
_FEED = "delta.enableChangeDataFeed"
ADD_LINE = r'^\s*\{\s*"add"\s*:'
"""Lines (a pattern for both Java and Python) with an add action."""


def kind_of(location: str) -> str:
    """The kind of a file, by its folder and name."""
    if "/_change_data/" in location:
        return "changes"
    return "deletes" if _VECTORS.search(location) else "data"


@dataclass(frozen=True, slots=True)
class Gone:
    """A file that a version dropped. ``at_ms``: the time in the action; 0 if it has none.

    The change feed of a version is read from its change data files; where it has none, from the files that it dropped
    (``feed``). Both are needed as long as that version can be read.
    """

    version: int
    kind: str
    at_ms: int
    partition: str
    feed: bool = False

    def needed_by(self, oldest: int) -> bool:
        """Whether a version needs the file, if versions from ``oldest`` on are kept."""
        return self.version >= oldest if self.kind == "changes" or self.feed else self.version > oldest


def _engine(action: Mapping[str, Any]) -> str | None:
    info = action.get("commitInfo")
    return info.get("engineInfo") if isinstance(info, Mapping) else None


@dataclass(slots=True)
class Journal:
    """Commits ``first`` … ``newest``, in the order in which they were applied.

    memory     the version whose live files can be queried; ``undone``, ``added`` and ``late`` hold the changes after it
    since      removes up to this version were processed before, but for those that its change feed needs; -1 for none
    whole      all commits of the table were read
    masks_rows whether files of the table may have deletion vectors
    twofold    a file of the table has an absolute path: the same file may be live under another spelling
    ambiguous  files whose remove may not be that of the add that is still live: it may spell them differently, or lack
               their deletion vector
    undone     (path in the action, deletion vector file) that may be live in ``memory``, and were removed since
    added      the same of those that were added since, and are live
    late       files that were added after ``memory``
    bytes      change of live bytes since ``memory``; None if an action has no size
    metadata   the parts of the metadata in ``memory`` that vacuum depends on
    renewed    a later commit changed these parts or the protocol, or is too large for the driver
    checked    commits up to this one are known to restore no garbage
    last       the newest commit's file as it was read
    searched   files to search for; ``met`` are those that an action names
    users      deletion vector file → files that use it, as far as was seen
    """

    locator: Locator
    partition_columns: Mapping[str, str]
    memory: int
    metadata: Mapping[str, Any]
    since: int = -1
    first: int = 0
    newest: int = -1
    examined: int = 0
    whole: bool = False
    masks_rows: bool = True
    twofold: bool = False
    renewed: bool = False
    checked: int = -1
    bytes: int | None = 0
    gone: dict[str, Gone] = field(default_factory=dict)
    outside: dict[str, int] = field(default_factory=dict)
    users: dict[str, set[str]] = field(default_factory=dict)
    ambiguous: set[str] = field(default_factory=set)
    undone: set[tuple[str, str]] = field(default_factory=set)
    added: set[tuple[str, str]] = field(default_factory=set)
    late: set[str] = field(default_factory=set)
    times: dict[int, int | None] = field(default_factory=dict)
    last: FileInfo | None = None
    searched: Collection[str] = ()
    met: set[str] = field(default_factory=set)

    def needs_adds(self, version: int) -> bool:
        """Whether the adds of a commit are needed."""
        return bool(self.gone or self.searched) or self.whole or version > self.memory

    def drop(self, version: int, actions: Collection[Mapping[str, Any]]) -> None:
        """Apply the actions of a commit other than its adds. Raises ValueError, KeyError or TypeError."""
        feeds = self._has_feed() and not any("cdc" in action for action in actions)
        exact = any(names_vectors(_engine(action)) for action in actions)
        for action in actions:
            if "remove" in action:
                feed = feeds and action["remove"].get("dataChange") is not False
                if feed or version > self.since:
                    self._remove(version, action["remove"], feed=feed, exact=exact)
            elif "cdc" in action:
                self._change_file(version, action["cdc"])
            elif version > self.memory and ("protocol" in action or self._renews(action)):
                self.renewed = True

    def bring(self, version: int, adds: Iterable[Mapping[str, Any]]) -> set[str]:
        """Then apply its adds, and return the files that they name.

        A file that the same commit removes and adds is live.
        """
        named: set[str] = set()
        for add in adds:
            path = str(add["path"])
            vector = self.locator.vector(add.get("deletionVector"))
            locations = self.locator.readings(path)
            self._meet(*locations, vector)
            for location in locations:
                self.gone.pop(location, None)
                self._look_at_spelling(path, location)
            named.update(locations)
            if version > self.memory:
                self._weigh(add.get("size"), 1)
                self.added.add((path, vector))
            if vector:
                self._look_at_vector(add["deletionVector"], vector)
                named.add(vector)
                if self.whole or version > self.memory:
                    self.users.setdefault(vector, set()).update(locations)
        if version > self.memory:
            self.late |= named
        return named

    def dropped_at(self, gone: Gone) -> int | None:
        """When a file was dropped (epoch milliseconds), by its action, else its commit; None if neither has a time."""
        return gone.at_ms or self.times.get(gone.version)

    def still_used(self, vector: str) -> bool:
        """Whether a file whose add was seen uses a deletion vector file."""
        return bool(self.users.get(vector))

    def _renews(self, action: Mapping[str, Any]) -> bool:
        """Whether an action is metadata that affects which files may be deleted; columns and identity marks do not."""
        metadata = action.get("metaData")
        return metadata is not None and any(
            metadata.get(key, type(value)()) != value for key, value in self.metadata.items()
        )

    def _has_feed(self) -> bool:
        """Whether the table records its changes."""
        return str(self.metadata.get("configuration", {}).get(_FEED, "")).lower() == "true"

    def _remove(self, version: int, remove: Mapping[str, Any], *, feed: bool, exact: bool) -> None:
        path, descriptor = str(remove["path"]), remove.get("deletionVector")
        vector = self.locator.vector(descriptor)
        location = self.locator.of(path)
        self._meet(*self.locator.readings(path), vector)
        at = remove.get("deletionTimestamp")
        at_ms = at if isinstance(at, int) and at > 0 else 0
        removed = Gone(version, kind_of(path), at_ms, self._partition(remove, path), feed)
        if version > self.memory:
            self._weigh(remove.get("size"), -1)
            self.undone.add((path, vector))
            self.added.discard((path, vector))
        if self.locator.is_ambiguous(path) or (not vector and not exact and self.masks_rows):
            self.ambiguous |= {*self.locator.readings(path), vector}
        if location is None:
            self.outside[path] = version
        else:
            self._look_at_spelling(path, location)
            self._drop(location, removed)
        if vector:
            self._look_at_vector(descriptor or {}, vector)
            self._drop(vector, replace(removed, kind="deletes"))
            for reading in self.locator.readings(path):
                self.users.get(vector, set()).discard(reading)

    def _change_file(self, version: int, change: Mapping[str, Any]) -> None:
        path = str(change["path"])
        location = self.locator.of(path)
        self._meet(*self.locator.readings(path))
        if location is None:
            self.outside[path] = version
        else:
            self._drop(location, Gone(version, "changes", 0, self._partition(change, path)))

    def _meet(self, *locations: str) -> None:
        if self.searched:
            self.met.update(location for location in locations if location in self.searched)

    def _drop(self, location: str, gone: Gone) -> None:
        if self.locator.inside(location):
            before = self.gone.get(location)
            if before is not None and before.version == gone.version:  # a vector file of several files
                gone = replace(gone, feed=gone.feed or before.feed)
            self.gone[location] = gone
        else:
            self.outside[location] = gone.version

    def _look_at_spelling(self, path: str, location: str) -> None:
        if self.locator.is_absolute(path) and self.locator.inside(location):
            self.twofold = True

    def _look_at_vector(self, descriptor: Mapping[str, Any], vector: str) -> None:
        if descriptor["storageType"] == "p" and self.locator.inside(vector):
            self.twofold = True

    def _weigh(self, size: Any, sign: int) -> None:
        known = isinstance(size, int) and self.bytes is not None
        self.bytes = (self.bytes or 0) + sign * size if known else None

    def _partition(self, action: Mapping[str, Any], path: str) -> str:
        """The partition as in ``BlockSet.partition``, or the folder if the action has no partition values."""
        if not self.partition_columns:
            return ""
        values = action.get("partitionValues")
        if not isinstance(values, Mapping):
            return path.rpartition("/")[0]
        named = {name: values.get(physical) for name, physical in sorted(self.partition_columns.items())}
        return json.dumps(named, ensure_ascii=False, separators=(",", ":"))
