"""The storage half of a vacuum of a Delta table, and what a reader could lose by it."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from lakekeeper.core.vacuum.retention import Kept, Retention, Versions, keep
from lakekeeper.core.vacuum.vacuum_plan import Garbage, VacuumPlan, plan_vacuum
from lakekeeper_delta.storage import DeltaStorage
from tests.delta.scene import Scene
from tests.oracles import delta_log


@dataclass(frozen=True)
class Look:
    """What the vacuum found, before it deletes anything."""

    storage: DeltaStorage
    versions: Versions
    kept: Kept
    garbage: Garbage
    plan: VacuumPlan

    @property
    def files(self) -> frozenset[str]:
        """Full paths of the files to delete."""
        return frozenset(f.path for f in self.plan.files)

    def names(self, kind: str = "") -> set[str]:
        """Paths of the files to delete, relative to the table."""
        root = self.storage.grounds.roots[0] + "/"
        return {f.path.removeprefix(root) for f in self.plan.files if not kind or f.kind == kind}

    def sweep(self) -> set[str]:
        """Delete them; return the deleted paths, relative to the table."""
        assert not self.storage.expire(self.versions, self.kept, self.files)
        root = self.storage.grounds.roots[0] + "/"
        return {path.removeprefix(root) for path in self.storage.delete(self.plan.files)}


def look(
    scene: Scene,
    *,
    last: int = 1,
    since: int | None = None,
    storage: DeltaStorage | None = None,
    hints: Collection[str] = (),
) -> Look:
    """Plan a vacuum that keeps only the newest ``last`` versions."""
    storage = storage or scene.adapter().storage
    versions = storage.versions(since)
    now = time.time_ns() // 1_000_000 + 1_000
    kept = keep(str(scene.path), versions, Retention(age_ms=0, last=last, allow_unsafe=True), now)
    garbage = storage.garbage(versions, kept, hints)
    paths = [dead.path for dead in garbage.files]
    found = dict(zip(paths, storage.look(paths), strict=True))
    plan = plan_vacuum(str(scene.path), versions, kept, garbage, found, storage.grounds)
    return Look(storage, versions, kept, garbage, plan)


def swept(scene: Scene, *, last: int = 1, since: int | None = None) -> Look:
    """Vacuum; exactly the reported files are gone, and both readers read each kept version as before."""
    looked = look(scene, last=last, since=since)
    kept = sorted(looked.kept.reasons)
    before = {version: scene.log_rows(version) for version in kept}
    there = on_disk(scene.path)
    gone = looked.sweep()
    assert gone == looked.names()
    assert there - on_disk(scene.path) == gone
    for version in kept:
        assert scene.log_rows(version) == before[version]
        assert scene.spark_rows(version) == before[version]
    return looked


def on_disk(table: Path) -> set[str]:
    """Files below the table except metadata, whatever their names."""
    found = (p.relative_to(table) for p in table.rglob("*") if p.is_file() and not p.name.endswith(".crc"))
    return {str(p) for p in found if p.parts[0] not in ("_delta_log", "_lakekeeper")}


def named(scene: Scene, first: int) -> set[str]:
    """Files that versions from ``first`` on reference, by the log replayer."""
    found: set[str] = set()
    for version in delta_log.versions(scene.path):
        if version >= first:
            adds = delta_log.replay(scene.path, version).adds.values()
            found |= {name for add in adds for name in delta_log.files_of(add)}
    return found
