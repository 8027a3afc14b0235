"""Where outputs are cut: at 500 MB and 1,000,000 rows, and first at the target size."""

from __future__ import annotations

from dataclasses import replace

from lakekeeper.core.config.layout_options import MAX_BLOCK_BYTES, MAX_TARGET_BYTES
from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policy import Env
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.engine.merge.job import maintain
from lakekeeper.engine.merge.request import Request
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter, Parts
from lakekeeper.testing.versions import row_bytes
from tests.engine.scene import POLICIES, Scene, rows


def _scene(batches: int, size: int, *, row_megabytes: int) -> Scene:
    """Overlapping files whose rows all have the same size."""
    measured = row_bytes({"1": 10})
    table = MemoryTable(
        "db.t", {"k": "int"}, settings=Settings(byte_scale=row_megabytes * 1_000_000 // measured)
    )
    for b in range(batches):
        table.append([{"k": 10 + k} for k in range(b, batches * size, batches)])
    table.set_key(["k"])
    return Scene(table)


def _run(scene: Scene, **options: int) -> list[int]:
    """Recluster with the defaults and ``options``; return the megabytes of the resulting files, by key."""
    request = Request("recluster", (POLICIES["ranges"],), resolve(options))
    before = scene.table.fingerprint()
    assert maintain(scene.adapter, scene.runner, request, clock=scene.clock).commits == 1
    assert scene.table.fingerprint() == before
    return [b.bytes // 10**6 for b in sorted(scene.adapter.snapshot().blocks, key=lambda b: b.lo)]


def test_a_merged_block_above_500_mb_is_split() -> None:
    """Twelve rows of 99 MB: five make 495 MB, a sixth would exceed the limit."""
    scene = _scene(3, 4, row_megabytes=99)
    assert MAX_BLOCK_BYTES == 500_000_000
    assert _run(scene, target_file_size_bytes=MAX_TARGET_BYTES, single_task_bytes=1 << 40) == [495, 495, 198]


def test_the_target_size_cuts_before_the_limit() -> None:
    scene = _scene(3, 8, row_megabytes=30)
    sizes = _run(scene, single_task_bytes=1 << 40)
    assert len(sizes) == 5
    assert max(sizes) <= 150  # the fifth row reaches 128 MiB


def test_a_merged_block_above_the_row_limit_is_split() -> None:
    """Tested with a thousandth of the limit of 1,000,000 rows; by default only the size cuts a file."""
    table = MemoryTable("db.t", {"k": "int", "v": "string"})
    for b in range(3):
        table.append(rows(*range(b, 2500, 3)))
    table.set_key(["k"])
    scene = Scene(table)
    (task,) = make_plan(scene.adapter.snapshot(), [POLICIES["ranges"]], resolve(), Env()).tasks
    assert task.target_rows is None
    _run(scene, max_rows_per_file=1000)
    assert sorted(scene.adapter.snapshot().blocks.rows.tolist()) == [500, 1000, 1000]


def test_a_writer_that_cuts_too_late_is_called_again_with_finer_cuts() -> None:
    """Size estimates can be off: no output of more than one row above the limit is accepted."""

    class Late(MemoryAdapter):
        def write(self, rows: Parts, task: MergeTask, run_id: str) -> Rewrite:
            late = replace(task, max_bytes=1 << 60, target_bytes=2 * task.target_bytes)
            return super().write(rows, late, run_id)

    scene = _scene(3, 8, row_megabytes=90)
    scene.adapter = Late(scene.table)
    assert max(_run(scene, target_file_size_bytes=MAX_TARGET_BYTES)) <= 500
    assert scene.table.leftovers() == set()


def test_large_groups_are_cut_into_ranges_by_the_statistics() -> None:
    scene = _scene(4, 10, row_megabytes=40)
    plan = scene.plan(options={"single-task-bytes": 512 << 20, "target-file-size-bytes": 128 << 20})
    (task,) = plan.tasks
    assert len(task.cuts) == 2
    parts = scene.runner.merge(scene.adapter.read(task), task)
    assert sum(len(part) for part in parts) == 40
    assert all(abs(len(part) - 40 / 3) < 3 for part in parts)
    keys = [row["k"] for part in parts for row in part]
    assert keys == sorted(keys)


class _Stubborn(MemoryAdapter):
    """Writes one file whatever the targets are, as a writer that checks them too seldom does."""

    def write(self, rows: Parts, task: MergeTask, run_id: str) -> Rewrite:
        return super().write(rows, replace(task, target_rows=1 << 40, target_bytes=1 << 40), run_id)


def test_a_rewrite_that_stays_above_its_limit_is_never_committed() -> None:
    """Its files were discarded even after the last attempt: committing them would lose every row."""
    table = MemoryTable("db.t", {"k": "int", "v": "string"})
    for b in range(3):
        table.append(rows(*range(b, 60, 3)))
    table.set_key(["k"])
    scene = Scene(table)
    scene.adapter = _Stubborn(table)
    before, disk = table.fingerprint(), set(table.disk)
    report = scene.run(options={"max-rows-per-file": 10, "target-file-size-bytes": 1 << 20})
    assert report.commits == 0
    assert [g.status for g in report.groups] == ["failed"]
    assert report.groups[0].detail is not None
    assert report.groups[0].detail.code == "output_too_large"
    assert "max-rows-per-file" in str(report.groups[0].detail)
    assert table.fingerprint() == before
    assert set(table.disk) == disk
