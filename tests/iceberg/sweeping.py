"""One vacuum step by step, as the engine runs it, with what must hold afterwards for any reader."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lakekeeper.core.vacuum.retention import Kept, Retention, Versions, keep
from lakekeeper.core.vacuum.vacuum_plan import Garbage, VacuumPlan, plan_vacuum
from tests.iceberg.scene import Scene

LATER = 10**13
"""A time at which every file of these tests is old."""


@dataclass(frozen=True)
class Swept:
    """One vacuum, as the engine runs it, without its records and its deletion limit."""

    versions: Versions
    kept: Kept
    garbage: Garbage
    plan: VacuumPlan
    gone: frozenset[str]

    def of_kind(self, kind: str) -> int:
        return sum(1 for f in self.plan.files if f.kind == kind)


def fill(start: int, stop: int) -> str:
    rows = f"SELECT /*+ COALESCE(1) */ cast(id AS int) AS k, concat('v', id) AS v FROM range({start}, {stop})"
    return f"INSERT INTO {{t}} {rows}"


def on_disk(scene: Scene) -> set[str]:
    """All files below the table's location except checksums and lakekeeper's own."""
    root = Path(str(scene.java().location()).removeprefix("file:"))
    found = (p for p in root.rglob("*") if p.is_file() and not p.name.startswith("."))
    return {str(p) for p in found if "_lakekeeper" not in p.parts}


def sweep(
    scene: Scene,
    *,
    storage: Any = None,
    last: int = 1,
    named: Collection[int] = (),
    hints: Collection[str] = (),
    now_ms: int = LATER,
    age_ms: int = 0,
) -> Swept:
    storage = storage or scene.adapter().storage
    versions = storage.versions()
    kept = keep(scene.sql, versions, Retention(age_ms, last, named, {}, allow_unsafe=True), now_ms)
    garbage = storage.garbage(versions, kept, hints)
    paths = [dead.path for dead in garbage.files]
    found = dict(zip(paths, storage.look(paths), strict=True))
    plan = plan_vacuum(scene.sql, versions, kept, garbage, found, storage.grounds)
    again = storage.expire(versions, kept, {f.path for f in plan.files})
    plan = replace(plan, files=tuple(f for f in plan.files if f.path not in again))
    return Swept(versions, kept, garbage, plan, frozenset(storage.delete(plan.files)))


def check(scene: Scene, **how: object) -> Swept:
    """Sweep; both readers read what was kept as before, and exactly the reported files are gone from disk."""
    before, rows = on_disk(scene), scene.every_version()
    done = sweep(scene, **how)  # type: ignore[arg-type]
    after = scene.every_version()
    assert set(after) == set(done.kept.reasons)
    assert after == {version: rows[version] for version in after}
    deleted = {path.removeprefix("file:") for path in done.gone}
    new = {path for path in on_disk(scene) - before if path.endswith("metadata.json")}
    assert on_disk(scene) - new == before - deleted
    assert {f.path for f in done.plan.files} == done.gone
    assert scene.leftovers() == scene.metadata_leftovers() == set()
    assert done.garbage.outside == ()
    return done
