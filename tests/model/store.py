"""A table whose histories are values: every version is interned, so that equal histories are one object.

The memory adapter works on it as on any other table. Files, deletes and rows are named after their author and the step
in its work, so that two orders of the same independent steps end in the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.vacuum.retention import Ref
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import Fault, MemoryAdapter
from lakekeeper.testing.values import Row
from lakekeeper.testing.versions import DataFile, Entry, Version
from tests.model.oracle import Model, Read, read

Extra = frozenset[int]
"""Numbers of the files on disk that no version references."""


@dataclass(slots=True, eq=False)
class Node:
    """A table's history up to one version. ``model``: what users may expect to read, ``disk``: all referenced files."""

    version: Version
    parent: Node | None
    chain: tuple[Version, ...]
    nodes: tuple[Node, ...]
    disk: Mapping[str, DataFile]
    reads: Read
    state_key: Any
    model: Model
    reads_ids: bool

    @property
    def number(self) -> int:
        return self.version.number


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
    """Everything besides the versions, each state of it one object.

    gone     numbers of files that a version references and that are no longer at their path
    moved    files in the trash: path → number
    """

    notes: Mapping[str, str]
    refs: Mapping[str, Ref]
    expired: frozenset[int]
    gone: frozenset[int]
    moved: Mapping[str, int]


BARE = Shelf({}, {}, frozenset(), frozenset(), {})
"""The shelf of a table that was never cleaned up."""


class Registry:
    """Files and versions by content."""

    def __init__(self, *, row_ids: bool) -> None:
        self.row_ids = row_ids
        self.files: dict[Any, DataFile] = {}
        self.numbers: dict[int, int] = {}
        self.by_number: list[DataFile] = []
        self.nodes: dict[Any, Node] = {}
        self.shelves: dict[Any, Shelf] = {((), (), BARE.expired, BARE.gone, ()): BARE}
        self.written_ms: dict[int, int] = {}

    def file(self, key: Any, make: Callable[[], DataFile]) -> DataFile:
        found = self.files.get(key)
        if found is None:
            found = self.files[key] = make()
            self.number(found)
        return found

    def number(self, file: DataFile) -> int:
        """A file's number; the registry keeps the file alive, so its id stays unique."""
        known = self.numbers.get(id(file))
        if known is None:
            known = self.numbers[id(file)] = len(self.by_number)
            self.by_number.append(file)
        return known

    def node(self, parent: Node | None, version: Version, model: Model) -> tuple[Node, bool]:
        """The node of a version made upon ``parent``, and whether it is new."""
        entries = tuple(self._entry(entry) for entry in version.files.values())
        shape = (version.schema, version.partition_by, version.spec, version.key, version.layout)
        state_key = (version.number, shape, tuple(version.properties.items()), entries)
        key = (id(parent), version.operation, version.run_id, version.at_ms, state_key)
        found = self.nodes.get(key)
        if found is not None:
            return found, False
        disk = {**(parent.disk if parent else {}), **{p: e.file for p, e in version.files.items()}}
        node = Node(
            version=version,
            parent=parent,
            chain=(*(parent.chain if parent else ()), version),
            nodes=(),
            disk=disk,
            reads=read(version, row_ids=self.row_ids),
            state_key=state_key,
            model=model,
            reads_ids=self.row_ids,
        )
        node.nodes = (*(parent.nodes if parent else ()), node)
        self.nodes[key] = node
        return node, True

    def shelf(self, table: ModelTable, node: Node) -> Shelf:
        """What exists besides the versions of a table whose newest version is ``node``."""
        disk = table.disk
        gone = frozenset(self.numbers[id(f)] for path, f in node.disk.items() if disk.get(path) is not f)
        moved = tuple(
            sorted((path, self.number(f)) for path, f in disk.items() if path.startswith(OURS)),
        )
        key = (
            tuple(sorted(table.notes.items())),
            tuple(sorted(table.refs.items(), key=lambda ref: ref[0])),
            frozenset(table.expired),
            gone,
            moved,
        )
        found = self.shelves.get(key)
        if found is None:
            notes, refs, expired, gone, moved = key
            found = self.shelves[key] = Shelf(dict(notes), dict(refs), expired, gone, dict(moved))
        return found

    def _entry(self, entry: Entry) -> Any:
        return (
            self.numbers[id(entry.file)],
            entry.delete_id,
            entry.deleted,
            entry.level,
            entry.key_id,
            entry.added_at,
        )

    def freeze(self, value: Any) -> Any:
        """Any SPI value as a hashable value that is equal for equal values."""
        kind = type(value)
        if kind in (str, int, bool, float, type(None), frozenset):
            return value
        if kind is tuple or kind is list:
            return tuple(map(self.freeze, value))
        if kind is Snapshot:
            return ("snapshot", id(value))  # the adapter caches one for each state
        if kind is DataFile:
            return ("file", self.numbers[id(value)])
        if isinstance(value, Mapping):
            return tuple((name, self.freeze(each)) for name, each in value.items())
        if is_dataclass(value):
            return (kind.__name__, *(self.freeze(getattr(value, f.name)) for f in fields(value)))
        return value


OURS = "_lakekeeper/"


class ModelTable(MemoryTable):
    """A memory table that can be set to any node; ``author`` acts now, ``jumped`` is the ms passed in jumps."""

    def __init__(
        self, registry: Registry, kinds: Mapping[str, str], parts: Sequence[str], settings: Settings
    ) -> None:
        super().__init__("db.t", kinds, partition_by=parts, settings=settings)
        self.registry = registry
        self.author = "setup"
        self.jumped = 0
        self._made: dict[str, int] = {}
        self._forced = ""

    def load(
        self, node: Node, extra: Iterable[int], author: str, shelf: Shelf | None = None, jumped: int = 0
    ) -> None:
        """Become the table of ``node`` with the given further files on disk, and the given shelf, if any."""
        self.versions = list(node.chain)
        self.disk = dict(node.disk)
        files = self.registry.by_number
        for number in extra:
            self.disk[files[number].path] = files[number]
        self.author = author
        self._made = {}
        if shelf is None:
            return
        for number in shelf.gone:
            del self.disk[files[number].path]
        for path, number in shelf.moved.items():
            self.disk[path] = files[number]
        self.notes, self.refs, self.expired = dict(shelf.notes), dict(shelf.refs), set(shelf.expired)
        self.jumped = jumped
        self._jump_ms = jumped - jumped_at(node.version)
        written_ms = self.registry.written_ms
        self.made_at = {
            path: 1000 + written_ms.get(self.registry.numbers[id(f)], 0) for path, f in self.disk.items()
        }

    def write_file(
        self, at: Version, stored: Sequence[Row], *, with_statistics: bool = True, run: str = ""
    ) -> DataFile:
        path = named(self, "file", f"data/{run}/" if run else "data/")
        content = tuple(tuple(row.items()) for row in stored)
        key = (path, at.spec, at.partition_by, at.schema, content, self.jumped)

        def make() -> DataFile:
            self._forced = path
            return MemoryTable.write_file(self, at, stored, with_statistics=with_statistics, run=run)

        file = self.registry.file(key, make)
        self.disk[path] = file
        self.registry.written_ms[self.registry.numbers[id(file)]] = self.jumped
        self.made_at[path] = 1000 + self.jumped
        return file

    def stage(self, stored: Row) -> DataFile:
        """Write a file that its writer has yet to commit."""
        return self.write_file(self.current, [stored])

    def publish(self, file: DataFile) -> int:
        """Commit the file."""
        return self.apply(
            "WRITE",
            lambda now: replace(now, files={**now.files, file.path: Entry(file, now.at_ms + 1000)}),
        )

    def next_number(self, what: str) -> int:
        self._made[what] = self._made.get(what, 0) + 1
        return 10 * self.current.number + self._made[what] if what == "row" else self._made[what]

    def _next(self, what: str, prefix: str) -> str:
        if what == "file" and self._forced:
            path, self._forced = self._forced, ""
            return path
        return named(self, what, prefix)


def jumped_at(version: Version) -> int:
    """The time passed in jumps when a version was made: without jumps, each is a second after the previous one."""
    return version.at_ms - 1000 * (version.number + 1)


def author_of(path: str) -> str:
    """The writer of a file, by its name."""
    return path.rpartition("/")[2].split(".")[0]


def named(table: ModelTable, what: str, prefix: str) -> str:
    """A name made of the author and its own counter."""
    return f"{prefix}{table.author}.{table.next_number(what)}"


class ModelAdapter(MemoryAdapter):
    """The memory adapter with a fault for the next commit, and one snapshot for each state."""

    store: ModelTable

    def __init__(self, table: ModelTable) -> None:
        super().__init__(table)
        self.fault: Fault | None = None
        self._snapshots: dict[Any, Snapshot] = {}

    def attempt(self) -> Fault | None:
        if self.fault is not None:
            self.faults.outcomes.append(self.fault)
        return super().attempt()

    def snapshot_of(self, node: Node, columns: Sequence[str] | None, where: str | None) -> Snapshot:
        """The snapshot of the table, which is set to ``node``."""
        key = (node.state_key, tuple(columns or ()), where)
        found = self._snapshots.get(key)
        if found is None:
            found = self._snapshots[key] = self.snapshot(columns, where)
        return found
