"""A vacuum takes what no kept snapshot needs, and nothing else: read by two readers, and counted on the disk."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakekeeper.core.retention import Kept, Retention, Versions, keep
from lakekeeper.core.vacuum import Garbage, VacuumPlan, plan_vacuum
from lakekeeper_iceberg.storage import IcebergStorage
from tests.iceberg.scene import Scene, recluster

pytestmark = pytest.mark.iceberg

LATER = 10**13
"""A moment at which everything of these tests is old."""


@dataclass(frozen=True)
class Swept:
    """One vacuum, as the engine does it but for its records and its brake."""

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
    """All files below the table's location but checksums and lakekeeper's own."""
    root = Path(str(scene.java().location()).removeprefix("file:"))
    found = (p for p in root.rglob("*") if p.is_file() and not p.name.startswith("."))
    return {str(p) for p in found if "_lakekeeper" not in p.parts}


def sweep(
    scene: Scene,
    *,
    storage: IcebergStorage | None = None,
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
    storage.expire(versions, kept, "run")
    return Swept(versions, kept, garbage, plan, frozenset(storage.delete(plan.files)))


def check(scene: Scene, **how: object) -> Swept:
    """Sweep; what was kept reads as before by both readers, and what is gone from the disk is what was told."""
    before, rows = on_disk(scene), scene.every_version()
    done = sweep(scene, **how)  # type: ignore[arg-type]
    after = scene.every_version()
    assert set(after) == set(done.kept.reasons)
    assert after == {version: rows[version] for version in after}
    told = {path.removeprefix("file:") for path in done.gone}
    new = {p for p in on_disk(scene) - before if p.endswith("metadata.json")}
    assert on_disk(scene) - new == before - told
    assert {f.path for f in done.plan.files} == done.gone
    assert {f.path for f in done.plan.files} <= {d.path for d in done.garbage.files}
    assert scene.leftovers() == scene.metadata_leftovers() == set()
    again = sweep(scene)
    assert again.gone == frozenset() or how
    return done


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_only_gone_snapshots_name_goes_and_nothing_else(scene: Scene, version: int) -> None:
    scene.create("k INT, v STRING", version).run(fill(0, 20), fill(20, 40), "DELETE FROM {t} WHERE k % 7 = 3")
    recluster(scene, level=1)
    scene.run("DELETE FROM {t} WHERE k = 5", fill(40, 50))
    done = check(scene)
    assert len(done.kept.gone) == 5
    assert done.of_kind("data") >= 2
    assert done.of_kind("manifest list") == 5
    assert done.of_kind("manifest") >= 2
    assert (done.of_kind("deletes") > 0) == (version > 1)
    assert [f.version for f in done.plan.files] == sorted(
        (f.version for f in done.plan.files), key=done.kept.gone.index
    )
