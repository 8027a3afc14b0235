"""A table of the memory lake with everything that the engine needs to maintain it, and a clock that never waits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakekeeper.core.config.options import Options, resolve
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.model.report import MergeReport
from lakekeeper.core.model.run_folders import run_folder
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.adaptive import ADAPTIVE
from lakekeeper.core.planning.policies.deletes import DELETES
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.planning.policies.peaks import PEAKS
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policies.sizes import SIZES
from lakekeeper.core.planning.policies.universal import UNIVERSAL
from lakekeeper.core.planning.policy import Env, Policy
from lakekeeper.core.units import DAY_MS, HOUR_MS
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.job import maintain
from lakekeeper.engine.merge.request import Request
from lakekeeper.engine.state.leases import Intent
from lakekeeper.errors import Unsupported
from lakekeeper.spi import Observer
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.runner import MemoryRunner
from lakekeeper.testing.values import Row

POLICIES: Mapping[str, Policy] = {
    p.name: p for p in (ADAPTIVE, RANGES, PEAKS, SIZES, DELETES, FULL, UNIVERSAL)
}
IN_PARTS = {"partial-progress.bytes-per-commit": 1}
"""Every table is large enough for commits in parts."""
SMALL = {"max-rows-per-file": 10, "target-file-size-bytes": 1024}


@dataclass
class Scene:
    """A table, its adapter, a runner, and the pauses that the engine requested (seconds).

    ``tick_ms`` is how far the clock moves each time it is read, ``passed_ms`` what ``later`` added to it.
    """

    table: MemoryTable
    adapter: MemoryAdapter = field(init=False)
    runner: MemoryRunner = field(default_factory=MemoryRunner)
    pauses: list[float] = field(default_factory=list)
    tick_ms: int = 1
    passed_ms: int = 0

    def __post_init__(self) -> None:
        self.adapter = MemoryAdapter(self.table)
        self._ticks = itertools.count(1_000_000, 1)

    @property
    def clock(self) -> Clock:
        return Clock(
            now_ms=lambda: next(self._ticks) * self.tick_ms + self.passed_ms, wait=self.pauses.append
        )

    def later(self, days: float) -> None:
        """Time passes, on the clock and in the table."""
        self.passed_ms += int(days * DAY_MS)
        self.table.later(int(days * DAY_MS))

    def request(
        self,
        *policies: str,
        final: bool = False,
        dry_run: bool = False,
        where: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Request:
        resolved = resolve({**SMALL, **(options or {})}, properties=self.adapter.properties())
        chosen = tuple(POLICIES[name] for name in policies or ("ranges",))
        return Request("recluster", chosen, resolved, where=where, final=final, dry_run=dry_run)

    def run(
        self,
        *policies: str,
        observer: Observer | None = None,
        final: bool = False,
        dry_run: bool = False,
        where: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> MergeReport:
        request = self.request(*policies, final=final, dry_run=dry_run, where=where, options=options)
        return maintain(self.adapter, self.runner, request, observer=observer, clock=self.clock)

    def plan(self, *policies: str, options: Mapping[str, Any] | None = None) -> Plan:
        request = self.request(*policies, options=options)
        return make_plan(self.adapter.snapshot(), request.policies, request.options, Env())

    def untouched(self, act: Callable[[], object]) -> None:
        """Assert that ``act`` commits nothing, writes nothing and reads no data file."""
        touched = self.table.touched
        before = (touched.commits, touched.attempts, len(touched.data_reads), set(self.table.disk))
        act()
        assert (touched.commits, touched.attempts, len(touched.data_reads), set(self.table.disk)) == before

    def refused(self, act: Callable[[], object]) -> None:
        """Assert that ``act`` raises what a :class:`ReadOnly` table does, and is :meth:`untouched`."""

        def raises() -> None:
            with pytest.raises(Unsupported, match="a feature"):
                act()

        self.untouched(raises)


class ReadOnly(MemoryAdapter):
    """A table that may not be written, for a feature that the adapter does not know."""

    def require_writable(self, options: Options) -> None:
        raise Unsupported(self.table, "a feature")


def intent(table: MemoryTable, run_id: str = "r-1", **changed: Any) -> Intent:
    """The intent of a rewrite that registers now, with a timeout of a day."""
    known = {"kind": "rewrite", "at_ms": table.now_ms, "table_uuid": table.uuid, "timeout_ms": 24 * HOUR_MS}
    return Intent(run_id, **{**known, **changed})


def written(table: MemoryTable, run_id: str = "", key: int = 1) -> str:
    """The path of a file that no version names, in the folder of a run if one is given."""
    stored = table.current.schema.store({"k": key, "_row_id": 99})
    run = run_folder(table.uuid, run_id) if run_id else ""
    return table.write_file(table.current, [stored], run=run).path


def rows(*values: Any) -> list[Row]:
    return [{"k": k, "v": f"v{k}"} for k in values]


def overlapping(batches: int = 6, size: int = 10, *, settings: Settings | None = None) -> Scene:
    """Every batch spans the whole key: fully overlapping files."""
    table = MemoryTable("db.t", {"k": "int", "v": "string"}, settings=settings)
    for b in range(batches):
        table.append(rows(*range(b, batches * size, batches)))
    table.set_key(["k"])
    return Scene(table)


def groups_apart(groups: int = 4, *, files: int = 3, size: int = 8) -> Scene:
    """``groups`` ranges of the key, far from one another, each of ``files`` fully overlapping files."""
    table = MemoryTable("db.t", {"k": "int", "v": "string"})
    for g in range(groups):
        for f in range(files):
            table.append(rows(*(1000 * g + k for k in range(f, files * size, files))))
    table.set_key(["k"])
    return Scene(table)
