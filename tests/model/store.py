"""A table whose histories are values: every version is interned, so that equal histories are one object.

The memory adapter works on it as on any other table. Files, deletes and rows are named after who makes them and
when in his own work, so that two orders of the same independent steps end in the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from lakekeeper.core.blocks import Snapshot
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import Fault, MemoryAdapter
from lakekeeper.testing.values import Row
from lakekeeper.testing.versions import DataFile, Entry, Version
from tests.model.oracle import Model, Read, read

Extra = frozenset[int]
"""Numbers of the files on the disk that no version names."""


@dataclass(slots=True, eq=False)
class Node:
    """A table's history up to one version. ``model`` is what users may expect to read, ``disk`` all files named."""

    version: Version
    parent: Node | None
    chain: tuple[Version, ...]
    nodes: tuple[Node, ...]
    disk: Mapping[str, DataFile]
    reads: Read
    picture: Any
    model: Model
    reads_ids: bool

    @property
    def number(self) -> int:
        return self.version.number


class Registry:
    """Files and versions by content."""

    def __init__(self, *, row_ids: bool) -> None:
        self.row_ids = row_ids
        self.files: dict[Any, DataFile] = {}
        self.numbers: dict[int, int] = {}
        self.by_number: list[DataFile] = []
        self.nodes: dict[Any, Node] = {}

    def file(self, key: Any, make: Callable[[], DataFile]) -> DataFile:
        found = self.files.get(key)
        if found is None:
            found = self.files[key] = make()
            self.number(found)
        return found

    def number(self, file: DataFile) -> int:
        """A file's number; it is kept alive, so that its id is its own."""
        known = self.numbers.get(id(file))
        if known is None:
            known = self.numbers[id(file)] = len(self.by_number)
            self.by_number.append(file)
        return known

    def node(self, parent: Node | None, version: Version, model: Model) -> tuple[Node, bool]:
        """The node of a version made upon ``parent``, and whether it is new."""
        entries = tuple(self._entry(entry) for entry in version.files.values())
        shape = (version.schema, version.partition_by, version.spec, version.key, version.layout)
        picture = (version.number, shape, tuple(version.properties.items()), entries)
        key = (id(parent), version.operation, version.run_id, picture)
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
            picture=picture,
            model=model,
            reads_ids=self.row_ids,
        )
        node.nodes = (*(parent.nodes if parent else ()), node)
        self.nodes[key] = node
        return node, True

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
        """Any value of the SPI as something hashable that is equal for equal values."""
        kind = type(value)
        if kind in (str, int, bool, float, type(None), frozenset):
            return value
        if kind is tuple or kind is list:
            return tuple(map(self.freeze, value))
        if kind is Snapshot:
            return ("snapshot", id(value))  # the adapter makes one for each picture, and keeps it
        if kind is DataFile:
            return ("file", self.numbers[id(value)])
        if isinstance(value, Mapping):
            return tuple((name, self.freeze(each)) for name, each in value.items())
        if is_dataclass(value):
            return (kind.__name__, *(self.freeze(getattr(value, f.name)) for f in fields(value)))
        return value


class ModelTable(MemoryTable):
    """A memory table that can be set to any node; ``author`` is who acts now."""

    def __init__(
        self, registry: Registry, kinds: Mapping[str, str], parts: Sequence[str], settings: Settings
    ) -> None:
        super().__init__("db.t", kinds, partition_by=parts, settings=settings)
        self.registry = registry
        self.author = "setup"
        self._made: dict[str, int] = {}
        self._forced = ""

    def load(self, node: Node, extra: Iterable[int], author: str) -> None:
        """Be the table of ``node`` with some more files on the disk."""
        self.versions = list(node.chain)
        self.disk = dict(node.disk)
        for number in extra:
            file = self.registry.by_number[number]
            self.disk[file.path] = file
        self.author = author
        self._made = {}

    def write_file(self, at: Version, stored: Sequence[Row], *, with_statistics: bool = True) -> DataFile:
        path = named(self, "file", "data/")
        content = tuple(tuple(row.items()) for row in stored)
        key = (path, at.spec, at.partition_by, at.schema, content)

        def make() -> DataFile:
            self._forced = path
            return MemoryTable.write_file(self, at, stored, with_statistics=with_statistics)

        file = self.registry.file(key, make)
        self.disk[path] = file
        return file

    def _count(self, what: str) -> int:
        self._made[what] = self._made.get(what, 0) + 1
        return 10 * self.current.number + self._made[what] if what == "row" else self._made[what]

    def _next(self, what: str, prefix: str) -> str:
        if what == "file" and self._forced:
            path, self._forced = self._forced, ""
            return path
        return named(self, what, prefix)


def named(table: ModelTable, what: str, prefix: str) -> str:
    """A name made of the author's and his own count."""
    return f"{prefix}{table.author}.{table._count(what)}"


class ModelAdapter(MemoryAdapter):
    """The memory adapter with a fault for the next commit, and one snapshot for each picture."""

    store: ModelTable

    def __init__(self, table: ModelTable) -> None:
        super().__init__(table)
        self.fault: Fault | None = None
        self._snapshots: dict[Any, Snapshot] = {}

    def attempt(self) -> Fault | None:
        return self.fault

    def snapshot_of(self, node: Node, columns: Sequence[str] | None, where: str | None) -> Snapshot:
        """The snapshot of the table as it is set now, to ``node``."""
        key = (node.picture, tuple(columns or ()), where)
        found = self._snapshots.get(key)
        if found is None:
            found = self._snapshots[key] = self.snapshot(columns, where)
        return found
