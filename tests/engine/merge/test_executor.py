"""Groups are read, merged, written and checked; a group that fails costs only itself."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.engine.events import Events
from lakekeeper.engine.merge.executor import Execution, Failed, Work
from lakekeeper.engine.merge.quiet_window import Watch
from lakekeeper.engine.state.leases import registered_run
from lakekeeper.errors import AdapterError, Unsupported
from lakekeeper.testing.memory import MemoryAdapter, Parts
from tests.engine.scene import Scene, groups_apart


def test_a_failing_group_costs_only_itself() -> None:
    class Failing(MemoryAdapter):
        def read(self, task: MergeTask) -> Parts:
            parts = super().read(task)
            if parts[0][0]["k"] < 1000:
                raise OSError("a file that cannot be read")
            return parts

    scene = groups_apart(3)
    scene.adapter = Failing(scene.table)
    before = scene.table.fingerprint()
    report = scene.run()
    assert sorted(group.status for group in report.groups) == ["committed", "committed", "failed"]
    assert "cannot be read" in next(str(g.detail) for g in report.groups if g.status == "failed")
    assert report.failed_data_files_count == 3
    assert scene.table.fingerprint() == before
    assert scene.table.leftovers() == set()


def test_files_of_columnar_workers_survive_an_answer_that_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter reads the footers of the files from the store: merged groups were thrown away for one bad answer."""
    reads: list[str] = []

    class Half:
        def __init__(self, adapter: MemoryAdapter) -> None:
            self.adapter = adapter

        def plan(self, task: MergeTask, _: str) -> MergeTask:
            return task

        def adopt(self, _: Any, written: Any, task: MergeTask, run_id: str) -> Rewrite:
            reads.append(task.id)
            if reads.count(task.id) == 1:
                raise ConnectionError("premature end of the answer")
            return self.adapter.write(written, task, run_id)

    class Columnar(MemoryAdapter):
        @property
        def columnar(self) -> Any:
            return Half(self)

    scene = groups_apart(4)
    scene.adapter = Columnar(scene.table)
    read, merge = scene.adapter.read, scene.runner.merge
    monkeypatch.setattr(scene.runner, "merge_files", lambda task: merge(read(task), task))
    before = scene.table.fingerprint()
    report = scene.run()
    assert [group.status for group in report.groups] == ["committed"] * 4
    assert len(reads) == 8
    assert scene.table.fingerprint() == before


def test_a_group_with_a_damaged_file_fails_and_is_not_merged_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark checks no checksum of a page: it would copy the wrong values."""

    def damaged(_: Any) -> Any:
        raise AdapterError("data/a.parquet is damaged: a page does not match its checksum")

    monkeypatch.setattr(MemoryAdapter, "columnar", SimpleNamespace(plan=lambda task, _: task))
    scene = groups_apart(2)
    monkeypatch.setattr(scene.runner, "merge_files", damaged)
    before = scene.table.fingerprint()
    report = scene.run()
    assert [group.status for group in report.groups] == ["failed"] * 2
    assert all("a.parquet is damaged" in str(group.detail) for group in report.groups)
    assert (scene.table.touched.data_reads, scene.runner.merged) == ([], [])
    assert scene.table.fingerprint() == before


@pytest.mark.parametrize("answer", ["raises", "leaves it to rows", "cannot plan"])
def test_a_merge_that_is_cancelled_does_not_start_again_by_rows(
    monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """On Spark 3.5, a job that began after the cancellation ran to its end, and the interrupted call waited for it."""
    begun, cancelled = threading.Event(), threading.Event()

    def until_cancelled(*given: Any) -> Any:
        begun.set()
        assert cancelled.wait(60)
        if answer == "leaves it to rows":
            return Reason.of(Code.MERGED_AGAIN_BY_ROWS, cause="a worker says so")
        raise RuntimeError("Job 7 cancelled part of cancelled job group")

    half = SimpleNamespace(plan=until_cancelled if answer == "cannot plan" else lambda task, _: task)
    monkeypatch.setattr(MemoryAdapter, "columnar", half)
    scene = groups_apart(1)
    monkeypatch.setattr(scene.runner, "merge_files", until_cancelled)
    monkeypatch.setattr(scene.runner, "cancel", lambda _: cancelled.set())
    task, snapshot = scene.plan().tasks[0], scene.adapter.snapshot()
    with registered_run(scene.adapter, "run-1", snapshot, scene.clock, 1 << 40) as registration:
        work = Work(
            scene.adapter,
            scene.runner,
            Events("db.t", "run-1"),
            "run-1",
            Watch(scene.adapter, snapshot, scene.clock),
            registration,
            scene.clock,
            columnar=True,
        )

        def interrupted() -> None:
            with Execution(work, [task], 1):
                assert begun.wait(60)
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
    assert (scene.table.touched.data_reads, scene.runner.merged) == ([], [])
    assert scene.table.leftovers() == set()
    assert scene.pauses == []


def test_a_columnar_plan_that_fails_is_merged_by_rows() -> None:
    class Half:
        def plan(self, *_: Any) -> MergeTask:
            raise MemoryError("positions of deleted rows")

    class Columnar(MemoryAdapter):
        @property
        def columnar(self) -> Any:
            return Half()

    scene = groups_apart(2)
    scene.adapter = Columnar(scene.table)
    before = scene.table.fingerprint()
    report = scene.run()
    assert [group.status for group in report.groups] == ["committed"] * 2
    assert all("positions of deleted rows" in str(group.detail) for group in report.groups)
    assert scene.table.fingerprint() == before


@pytest.mark.parametrize(
    "change", [lambda part: part[1:], lambda part: [*part, part[0]]], ids=["lost", "doubled"]
)
def test_a_rewrite_that_loses_or_doubles_a_row_is_not_committed(change: Any) -> None:
    class Careless(MemoryAdapter):
        def read(self, task: MergeTask) -> Parts:
            return [change(part) for part in super().read(task)]

    scene = groups_apart(2)
    scene.adapter = Careless(scene.table)
    before = scene.table.fingerprint()
    report = scene.run()
    assert {group.status for group in report.groups} == {"failed"}
    assert {group.detail and group.detail.code for group in report.groups} == {"rows_differ"}
    assert report.commits == 0
    assert scene.table.fingerprint() == before
    assert scene.table.leftovers() == set()


@pytest.mark.parametrize("rows_in", [None, 0])
@pytest.mark.parametrize("planned", [None, 0, 8])
def test_an_adapter_that_writes_nothing_has_to_prove_it(rows_in: int | None, planned: int | None) -> None:
    """An unknown number of rows is not 0: three files would leave the table, with their rows."""

    class Silent(MemoryAdapter):
        def write(self, rows: Parts, task: MergeTask, run_id: str) -> Rewrite:
            super().write([], task, run_id)
            return Rewrite(task, (), rows_in=rows_in, native=(), run_id=run_id)

    scene = groups_apart(1)
    scene.adapter = Silent(scene.table)
    result = executed(scene, replace(scene.plan().tasks[0], live_rows=planned, least_rows=planned or 0))
    # An empty output counts only where the adapter read the inputs and found no live row, and the plan agrees.
    assert isinstance(result, Failed) == (rows_in is None or planned == 8)


@pytest.mark.parametrize("written, fails", [(19, True), (20, False), (24, False), (25, True)])
def test_where_the_rows_read_are_not_counted_those_written_are_within_the_bounds_of_the_plan(
    written: int, *, fails: bool
) -> None:
    """Of 24 rows, 4 at most are deleted."""

    class Uncounted(MemoryAdapter):
        def write(self, rows: Parts, task: MergeTask, run_id: str) -> Rewrite:
            found = [row for part in rows for row in part]
            return replace(super().write([[*found, found[0]][:written]], task, run_id), rows_in=None)

    scene = groups_apart(1)
    scene.adapter = Uncounted(scene.table)
    [task] = scene.plan().tasks
    assert task.input_rows == 24
    result = executed(scene, replace(task, live_rows=None, least_rows=20))
    assert isinstance(result, Failed) == fails


def executed(scene: Scene, task: MergeTask) -> Rewrite | Failed:
    """The result of one group."""
    snapshot = scene.adapter.snapshot()
    with registered_run(scene.adapter, "run-1", snapshot, scene.clock, 1 << 40) as registration:
        watch = Watch(scene.adapter, snapshot, scene.clock)
        work = Work(scene.adapter, scene.runner, Events("db.t", "run-1"), "run-1", watch, registration)
        with Execution(work, [task], 1) as execution:
            [result] = execution.results()
    return result


def test_an_error_of_lakekeeper_stops_the_run_and_leaves_no_file() -> None:
    class Broken(MemoryAdapter):
        def read(self, task: MergeTask) -> Parts:
            parts = super().read(task)
            if parts[0][0]["k"] >= 2000:
                raise Unsupported("db.t", "variant")
            return parts

    for threads in range(1, 20):  # several groups may be done before the failure is seen
        scene = groups_apart(4)
        scene.adapter = Broken(scene.table)
        with pytest.raises(Unsupported, match="variant"):
            scene.run(options={"max-concurrent-file-group-rewrites": threads})
        assert scene.table.leftovers() == set()
        assert scene.runner.working_now == []
        assert len(scene.runner.cancelled) == 1


def test_each_input_is_read_once() -> None:
    scene = groups_apart(3)
    report = scene.run(final=True)
    assert len(scene.table.touched.data_reads) == report.rewritten_data_files_count == 9


def test_threads_are_bounded() -> None:
    scene = groups_apart(8)
    most = 0

    class Counting(MemoryAdapter):
        def write(self, rows: Parts, task: MergeTask, run_id: str) -> Any:
            nonlocal most
            most = max(most, len(scene.runner.working_now))
            return super().write(rows, task, run_id)

    scene.adapter = Counting(scene.table)
    scene.run(options={"max-concurrent-file-group-rewrites": 2})
    assert 1 <= most <= 2


ENDING = """
import threading
from concurrent.futures import ThreadPoolExecutor
from tests.engine.scene import groups_apart

scene, begun, pool = groups_apart(8), threading.Event(), ThreadPoolExecutor(1)
merge = scene.runner.merge

def until_the_program_ends(*given):
    print("group", flush=True)
    begun.set()
    try:
        while True:
            pool.submit(int).result()
    except RuntimeError:
        return merge(*given)

scene.runner.merge = until_the_program_ends
one_thread = {"max-concurrent-file-group-rewrites": 1}
threading.Thread(target=scene.run, kwargs={"options": one_thread}, daemon=True).start()
assert begun.wait(60)
"""


def test_a_program_that_ends_waits_for_no_group_that_has_not_begun() -> None:
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["group"]
