"""What the author of an adapter provides to the contract suite: tables, writers and an independent reader.

class TestMine(AdapterContract):
    capabilities = Capabilities(...)          # tests of what the format cannot do are not collected
    kinds = ("int", "string")                 # orderable kinds that have statistics
    lacks = {"tag": "the format has no tags"}     # optional methods that its tables do not have, and why
    notyet = {"test_x": "upstream issue 7"}   # expected to fail, strictly, for this reason

    @pytest.fixture
    def harness(self): return MyHarness()
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import pytest

from lakekeeper.core.config.layout_options import MAX_BLOCK_BYTES
from lakekeeper.core.layout.rank_boundaries import placed
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.file_merge import FileMerge
from lakekeeper.core.model.plan import MergeTask, task_id
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.spi import Adapter, Capabilities, Commit, Runner
from lakekeeper.testing.optional_methods import METHODS
from lakekeeper.testing.values import Row
from lakekeeper.testing.versions import Kinds

Test = TypeVar("Test", bound=Callable[..., None])

RUN = "run-1"
"""The run id of what a contract test writes, unless the test names another."""


class ContractTable(Protocol):
    """One table under test, as its users see it: everything except ``adapter`` bypasses the adapter."""

    def adapter(self) -> Adapter[Any]:
        """The adapter of the table, newly opened."""
        ...

    def append(self, rows: Sequence[Row]) -> None:
        """One commit, one file for each partition of the rows."""
        ...

    def delete(self, where: str) -> None:
        """DELETE; if the format can, it masks rows and leaves files in place."""
        ...

    def overwrite(self, rows: Sequence[Row]) -> None:
        """Replace all rows in one commit."""
        ...

    def rewrite_foreign(self) -> None:
        """Run the format's own compaction of all files into a few."""
        ...

    def set_property(self, name: str, value: str) -> None:
        """Set one table property."""
        ...

    def rows(self, version: int | None = None) -> list[Row]:
        """All rows of a version (default: the newest); timestamps with a zone are aware."""
        ...

    def leftovers(self) -> set[str]:
        """Data files in the table's storage that no version names."""
        ...


class Harness(Protocol):
    """Creates tables of one format, and provides the runner that sorts its rows."""

    @property
    def runner(self) -> Runner[Any]:
        """The runner for rows of the format's adapter."""
        ...

    def create(
        self, kinds: Kinds, batches: Sequence[Sequence[Row]], *, partition_by: Sequence[str] = ()
    ) -> ContractTable:
        """A new table to which each batch was appended as one commit."""
        ...


def needs(*names: str) -> Callable[[Test], Test]:
    """Restrict a contract test to adapters with these capabilities, and to tables with these optional methods."""

    def mark(test: Test) -> Test:
        test.__dict__["needs"] = names
        return test

    return mark


class Selected:
    """Base of contract classes: removes and marks tests by what the subclass declares."""

    capabilities: ClassVar[Capabilities]
    kinds: ClassVar[tuple[str, ...]] = ()
    lacks: ClassVar[Mapping[str, str]] = {}
    notyet: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **rest: object) -> None:
        super().__init_subclass__(**rest)
        if not hasattr(cls, "capabilities"):
            return
        unknown = set(cls.notyet) - set(dir(cls))
        if unknown:
            raise TypeError(f"{cls.__name__}.notyet names no test: {', '.join(sorted(unknown))}")
        unknown = set(cls.lacks) - set(METHODS)
        if unknown:
            raise TypeError(f"{cls.__name__}.lacks names no optional method: {', '.join(sorted(unknown))}")
        for name in [n for n in dir(cls) if n.startswith("test_")]:
            test = getattr(cls, name)
            if not all(map(cls._has, getattr(test, "needs", ()))):
                setattr(cls, name, None)
            elif name in cls.notyet:
                setattr(cls, name, pytest.mark.xfail(reason=cls.notyet[name], strict=True)(_own(test)))

    @classmethod
    def _has(cls, name: str) -> bool:
        return name not in cls.lacks if name in METHODS else bool(getattr(cls.capabilities, name))


def _own(test: Callable[..., None]) -> Callable[..., None]:
    """The same test as another object, so that a mark on it stays with one class."""

    @functools.wraps(test)
    def same(*args: object, **named: object) -> None:
        test(*args, **named)

    return same


def task_for(
    snapshot: Snapshot,
    paths: Sequence[str] | None = None,
    *,
    level: int = 1,
    target_rows: int | None = None,
) -> MergeTask:
    """A task over the named blocks of a snapshot (default: all of them), without a planner."""
    known = snapshot.blocks.path.to_pylist()
    at = np.array([i for i, path in enumerate(known) if paths is None or path in paths], dtype=np.intp)
    blocks = snapshot.blocks.take(at)
    inputs = tuple(blocks.path.to_pylist())
    version = -1 if snapshot.version is None else snapshot.version
    return MergeTask(
        id=task_id(snapshot.table_uuid, version, inputs),
        policy="contract",
        table=snapshot.table,
        table_uuid=snapshot.table_uuid,
        read_version=version,
        inputs=inputs,
        delete_ids=tuple(blocks.delete_id.to_pylist()),
        partition=blocks.partitions[int(blocks.partition[0])],
        spec=int(blocks.spec[0]),
        key=snapshot.key,
        input_level=max(0, level - 1),
        level=level,
        target_bytes=128 << 20,
        target_rows=target_rows,
        max_bytes=MAX_BLOCK_BYTES,
        input_bytes=int(blocks.bytes.sum()),
        input_rows=int(blocks.rows.sum()),
        live_rows=None,
        score=1.0,
        reason=Reason.of("contract", "a test of the contract suite"),
        boundaries=placed(snapshot).boundaries,
    )


def rewrite(harness: Harness, adapter: Adapter[Any], task: MergeTask, run_id: str = RUN) -> Rewrite:
    """Merge one task: by columnar workers if the adapter admits it, otherwise by rows."""
    with harness.runner.working("contract", task.label):
        return merged(harness.runner, adapter, task, run_id)


def merged(
    runner: Runner[Any], adapter: Adapter[Any], task: MergeTask, run_id: str = RUN, *, columnar: bool = True
) -> Rewrite:
    """The rewrite of a task, made as by the engine."""
    half = adapter.columnar if columnar else None
    planned = half.plan(task, run_id) if half else None
    if half and isinstance(planned, FileMerge):
        written = runner.merge_files(planned)
        if not isinstance(written, Reason):
            return half.adopt(planned, written, task, run_id)
    return adapter.write(runner.merge(adapter.read(task), task), task, run_id)


def recluster(
    harness: Harness,
    table: ContractTable,
    *,
    columns: Sequence[str] = ("k",),
    level: int = 1,
    run_id: str = RUN,
) -> tuple[Snapshot, Commit]:
    """Rewrite and commit all blocks, a task for each partition; the snapshot before and the commit."""
    adapter = table.adapter()
    snapshot = adapter.snapshot(columns)
    by_place: dict[str, list[str]] = {}
    for block in snapshot.blocks:
        by_place.setdefault(block.partition, []).append(block.path)
    tasks = [task_for(snapshot, paths, level=level) for paths in by_place.values()]
    done = [rewrite(harness, adapter, task, run_id) for task in tasks]
    return snapshot, adapter.commit(done, snapshot, run_id)
