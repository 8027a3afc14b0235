"""Tables of the memory lake, with every optional method, for the contract suite and the tests of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakekeeper.core.vacuum.retention import Ref
from lakekeeper.core.vacuum.stream_positions import FLINK_CHECKPOINT, FLINK_JOB
from lakekeeper.spi import TableName
from lakekeeper.testing.bloom_filters import PROPERTY
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import Lake, MemoryAdapter, MemoryFormat
from lakekeeper.testing.optional_methods import Opening
from lakekeeper.testing.runner import MemoryRunner
from lakekeeper.testing.values import Row
from lakekeeper.testing.versions import Kinds


class MemoryContractTable:
    def __init__(self, lake: Lake, store: MemoryTable) -> None:
        self.lake = lake
        self.store = store

    def adapter(self) -> MemoryAdapter:
        name = self.store.name
        return MemoryFormat(self.lake).open(None, TableName(name, "memory", name, name=name))

    def append(self, rows: Sequence[Row]) -> None:
        self.store.append(rows)

    def delete(self, where: str) -> None:
        self.store.delete(where)

    def overwrite(self, rows: Sequence[Row]) -> None:
        self.store.overwrite(rows)

    def rewrite_foreign(self) -> None:
        self.store.rewrite_foreign()

    def set_property(self, name: str, value: str) -> None:
        self.store.set_property(name, value)

    def rows(self, version: int | None = None) -> list[Row]:
        return self.store.rows(version)

    def leftovers(self) -> set[str]:
        return self.store.leftovers()

    def tag(self, name: str, version: int) -> None:
        self.store.tag(name, version)

    def branch(self, name: str, version: int) -> None:
        self.store.refs[name] = Ref(name, version)

    def restore_version(self, version: int) -> None:
        files = self.store.readable(version).files
        self.store.apply("RESTORE", lambda now: replace(now, files=files))

    def stream(self, rows: Sequence[Row], batch: int) -> None:
        """The lake's own writers record no position: an append, and a commit of nothing with the position."""
        self.store.append(rows)
        position = {FLINK_JOB: "5ba1", FLINK_CHECKPOINT: str(batch)}
        self.store.apply("WRITE", lambda now: now, summary=position)

    def add_column(self, name: str, kind: str) -> None:
        self.store.add_column(name, kind)

    def drop_column(self, name: str) -> None:
        self.store.drop_column(name)

    def protect_file(self, path: str) -> None:
        self.store.stuck.add(path.removeprefix(f"mem:/{self.store.location}/"))

    def create_inside(self) -> None:
        """The lake has no folders: a table names the others that are in its own."""
        self.store.foreign_tables = ("db.inner",)

    def append_undescribed(self, rows: Sequence[Row]) -> None:
        self.store.append(rows, with_statistics=False)

    def opening(self) -> Opening:
        name = self.store.name
        return Opening(MemoryFormat(self.lake), None, TableName(name, "memory", name, name=name))

    def keep_files(self) -> None:
        self.store.set_property("keeps-files", "the table shares its files")

    def filter_column(self, name: str) -> None:
        self.store.set_property(PROPERTY, name)


class MemoryHarness:
    def __init__(self, settings: Settings) -> None:
        self.lake = Lake()
        self.settings = settings
        self.runner = MemoryRunner()

    def create(
        self, kinds: Kinds, batches: Sequence[Sequence[Row]], *, partition_by: Sequence[str] = ()
    ) -> MemoryContractTable:
        name = f"db.t{len(self.lake.tables)}"
        store = self.lake.create(name, kinds, partition_by=partition_by, settings=self.settings)
        for batch in batches:
            store.append(batch)
        return MemoryContractTable(self.lake, store)
