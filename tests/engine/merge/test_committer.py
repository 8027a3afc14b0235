"""Outcomes of a commit other than done or lost, crashes, failing groups, and dry runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.errors import AdapterError, Conflict, NotSent, Rejected, Unknown, Unsupported
from lakekeeper.spi import Commit
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter, Parts
from tests.engine.scene import IN_PARTS, Scene, groups_apart, overlapping


def test_an_unknown_outcome_that_landed_is_settled_by_the_run_id() -> None:
    scene = groups_apart(2)
    before = scene.table.fingerprint()
    scene.adapter.faults.outcomes.append("unknown, landed")
    report = scene.run()
    assert report.commits == 1
    assert scene.table.touched.attempts == 1
    assert scene.table.current.run_id == report.run_ids[0]
    assert scene.table.fingerprint() == before
    assert scene.table.leftovers() == set()
    assert scene.table.touched.discarded == []


@pytest.mark.parametrize("landed", [True, False])
def test_reads_that_fail_while_an_outcome_is_settled_leave_it_unknown(landed: bool) -> None:
    """Files stay, and the error names the run to look for instead of saying that the table cannot be read."""
    scene = groups_apart(2)
    looks = iter(range(100))

    class Blinded(MemoryAdapter):
        def changes_since(self, snapshot: Snapshot) -> Any:
            if self.store.current.run_id and next(looks) < (2 if landed else 100):
                raise OSError("503")
            return super().changes_since(snapshot)

    scene.adapter = Blinded(scene.table)
    scene.adapter.faults.outcomes.append("unknown, landed")
    if landed:
        assert scene.run().commits == 1
    else:
        with pytest.raises(Unknown, match=r"the commit of run [0-9a-f]{16}-1 is not known"):
            scene.run()
    assert scene.table.touched.discarded == []
    assert sum(scene.pauses) < 60


def test_a_last_attempt_whose_loss_cannot_be_confirmed_keeps_its_files() -> None:
    """The answer may be wrong: a client that repeats a commit gets a conflict with its own first attempt."""
    scene = groups_apart(2)

    class Blinded(MemoryAdapter):
        def commit(self, rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
            super().commit(rewrites, snapshot, run_id)
            raise Conflict("409 against itself")

        def changes_since(self, snapshot: Snapshot) -> Any:
            if self.store.current.run_id:
                raise OSError("503")
            return super().changes_since(snapshot)

    scene.adapter = Blinded(scene.table)
    with pytest.raises(Unknown, match="none of its files was removed"):
        scene.run(options={"commit.retry.num-retries": 0})
    assert scene.table.touched.discarded == []
    assert len(scene.table.rows()) == 48


def test_an_unknown_outcome_that_landed_is_found_under_a_later_commit() -> None:
    scene = groups_apart(2)
    scene.adapter.faults.outcomes.append("unknown, landed")
    landing = scene.table.apply

    def land_and_go_on(operation: str, change: Any, run_id: str = "") -> int:
        number = landing(operation, change, run_id)
        if operation == "lakekeeper":
            scene.table.delete("k = 0")  # a user deletes a row of our new file before we check
        return number

    scene.table.apply = land_and_go_on  # type: ignore[method-assign, assignment]  # the race of this test
    report = scene.run()
    assert report.version_after == scene.table.current.number - 1
    assert len(scene.table.rows()) == 47
    assert scene.table.leftovers() == set()


class _Contradicted(MemoryAdapter):
    """A catalog that lands a commit, retries it by itself, and then answers that another writer won."""

    def commit(self, rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
        super().commit(rewrites, snapshot, run_id)
        raise Conflict("409 against itself", "version 99")


@pytest.mark.parametrize("retries", [0, 4])
def test_a_conflict_with_ourselves_is_a_commit(retries: int) -> None:
    """apache/iceberg 12818: the commit landed, the answer was a conflict, and its live files were deleted."""
    scene = groups_apart(2)
    scene.adapter = _Contradicted(scene.table)
    before, version = scene.table.fingerprint(), scene.table.current.number
    report = scene.run(options={"commit.retry.num-retries": retries})
    assert [g.status for g in report.groups] == ["committed", "committed"]
    assert report.version_after == scene.table.current.number == version + 1
    assert scene.table.fingerprint() == before
    assert scene.table.touched.discarded == []
    assert scene.table.leftovers() == set()


def test_after_an_unknown_outcome_nothing_is_deleted_or_retried() -> None:
    scene = groups_apart(2)
    before, version = scene.table.fingerprint(), scene.table.current.number
    scene.adapter.faults.outcomes.append("unknown, lost")
    with pytest.raises(Unknown, match="orphans"):
        scene.run()
    assert scene.table.touched.attempts == 1
    assert scene.table.touched.discarded == []
    assert len(scene.table.leftovers()) > 0
    assert (scene.table.fingerprint(), scene.table.current.number) == (before, version)


def test_a_rejected_commit_is_cleaned_up() -> None:
    scene = groups_apart(2)
    before = scene.table.fingerprint()
    scene.adapter.faults.outcomes.extend(["rejected"] * 3)
    with pytest.raises(Rejected):
        scene.run()
    assert scene.table.leftovers() == set()
    assert scene.table.fingerprint() == before
    assert scene.run().commits == 1


def test_a_commit_that_did_not_reach_the_log_is_retried_with_the_same_files() -> None:
    scene = groups_apart(2)
    before = scene.table.fingerprint()
    scene.adapter.faults.outcomes.extend(["rejected"] * 2)
    report = scene.run()
    assert (report.commits, [g.status for g in report.groups]) == (1, ["committed"] * 2)
    assert scene.table.fingerprint() == before
    assert scene.table.leftovers() == set()


def _answers(scene: Scene, *errors: Exception) -> None:
    """The errors of the next commits, which are not sent."""
    left = list(errors)

    class Failing(MemoryAdapter):
        def commit(self, rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
            if left:
                raise left.pop(0)
            return super().commit(rewrites, snapshot, run_id)

    scene.adapter = Failing(scene.table)


def test_a_commit_of_a_table_that_has_become_unsupported_is_cleaned_up() -> None:
    """Its outputs remained until a vacuum looked for them, as after an unknown outcome."""
    scene = groups_apart(4)
    before = scene.table.fingerprint()
    _answers(scene, Unsupported("db.t", "a feature"))
    with pytest.raises(Unsupported, match="a feature"):
        scene.run()
    assert scene.table.leftovers() == set()
    assert scene.table.fingerprint() == before
    assert scene.run().changed


@pytest.mark.parametrize("options", [{}, IN_PARTS], ids=["one commit", "in parts"])
def test_errors_before_a_commit_was_sent_cost_pauses_and_no_group(options: Mapping[str, Any]) -> None:
    scene = groups_apart(4)
    before = scene.table.fingerprint()
    _answers(scene, *[NotSent("the note cannot be written (503)")] * 5)
    report = scene.run(options=options)
    assert [g.status for g in report.groups] == ["committed"] * 4
    assert scene.table.fingerprint() == before
    assert scene.table.leftovers() == set()
    assert sum(scene.pauses) < 60


def test_an_error_that_does_not_say_whether_a_commit_was_sent_is_settled_by_the_log() -> None:
    """Adapters raise no such error; if one does, files that may be live must stay."""
    scene = groups_apart(2)
    before = scene.table.fingerprint()

    class Landed(MemoryAdapter):
        def commit(self, rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
            super().commit(rewrites, snapshot, run_id)
            raise AdapterError("503")

    scene.adapter = Landed(scene.table)
    assert scene.run("full").commits == 1
    assert scene.table.fingerprint() == before

    scene = groups_apart(2)
    _answers(scene, AdapterError("503"))
    with pytest.raises(Unknown, match="none of its files was removed"):
        scene.run("full")
    assert scene.table.touched.discarded == []


@pytest.mark.parametrize("phase", ["planned", "read", "written", "before_commit", "committed"])
def test_a_crash_at_any_phase_leaves_the_table_as_before_or_after(phase: str) -> None:
    class Crash(BaseException):
        pass

    def observer(now: str, info: Mapping[str, Any]) -> None:
        if now == phase:
            raise Crash

    scene = groups_apart(3)
    before = {v.number: scene.table.fingerprint(v.number) for v in scene.table.versions}
    with pytest.raises(Crash):
        scene.run(observer=observer)
    assert {n: scene.table.fingerprint(n) for n in before} == before
    assert scene.table.fingerprint() == before[max(before)]
    assert scene.table.touched.discarded == [], "a crash cleans nothing up"
    report = scene.run()
    assert report.commits == (0 if phase == "committed" else 1)


def test_a_read_that_fails_after_the_commit_hides_no_commit() -> None:
    """apache/iceberg 4673: an error after a successful commit counted as a failed commit."""

    class Blinded(MemoryAdapter):
        def snapshot(self, columns: Sequence[str] | None = None, where: str | None = None) -> Snapshot:
            if self.store.touched.attempts:
                raise OSError("the storage is busy")
            return super().snapshot(columns, where)

        def refresh(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> Snapshot | None:
            return self.snapshot(columns)

    scene = groups_apart(2)
    scene.adapter = Blinded(scene.table)
    report = scene.run()
    assert (report.commits, report.depth_after) == (1, None)
    assert report.ended.codes == ("one_round", "depth_unknown")
    assert "busy" in str(report.ended)
    assert report.version_after == scene.table.current.number


def test_an_error_in_the_cleanup_after_a_commit_is_not_a_failed_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A replay rewrote an output, and the old one cannot be removed: it is an orphan, and the commit is valid."""
    scene = overlapping(settings=Settings(row_deletes=False))
    scene.adapter.faults.races.append(lambda: scene.table.delete("k = 3"))

    def fail(_: object) -> None:
        raise OSError("storage is gone")

    right = scene.adapter.commit

    def then_fail(*args: Any) -> Any:
        made = right(*args)
        monkeypatch.setattr(scene.adapter, "discard", fail)
        return made

    monkeypatch.setattr(scene.adapter, "commit", then_fail)
    report = scene.run()
    assert report.commits == 1
    assert 3 not in {row["k"] for row in scene.table.rows()}
    assert scene.table.leftovers()


class _Noting(MemoryAdapter):
    """Records the run id of each attempt to commit."""

    def __init__(self, table: MemoryTable) -> None:
        super().__init__(table)
        self.tried: list[str] = []
        self.sent: Callable[[Sequence[Rewrite], Snapshot, str], None] = lambda *_: None

    def commit(self, rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
        self.tried.append(run_id)
        self.sent(rewrites, snapshot, run_id)
        return super().commit(rewrites, snapshot, run_id)


def test_a_batch_after_a_failed_one_has_its_own_run_id() -> None:
    """The run id shows in the log whether a commit landed: two commits with one id would be indistinguishable."""
    scene = groups_apart(4)
    scene.adapter = noting = _Noting(scene.table)
    before = scene.table.fingerprint()

    def fail_the_second(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "committed" and len(noting.tried) == 1:
            # A commit that did not land is tried three times.
            scene.adapter.faults.outcomes.extend(["rejected"] * 3)

    options = {**IN_PARTS, "partial-progress.max-commits": 4}
    report = scene.run(options={**options, "max-concurrent-file-group-rewrites": 1}, observer=fail_the_second)
    assert [group.status for group in report.groups].count("failed") == 1
    tried = list(dict.fromkeys(noting.tried))
    assert [noting.tried.count(run) for run in tried] == [1, 3, *[1] * (len(tried) - 2)]
    assert len(tried) >= 3
    assert [run for run in tried if run in report.run_ids] == list(report.run_ids)
    assert scene.table.fingerprint() == before


ONE_BY_ONE = {**IN_PARTS, "partial-progress.max-commits": 8, "max-concurrent-file-group-rewrites": 1}


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("late", [False, True])
def test_a_part_of_unknown_outcome_costs_the_other_parts_nothing(nth: int, late: bool) -> None:
    """Its files stay, since it may land later, even before the next part."""
    scene = groups_apart(8)
    scene.adapter = noting = _Noting(scene.table)
    before = scene.table.fingerprint()
    arriving: list[Callable[[], object]] = []
    unsure: set[str] = set()

    def doubt(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "before_commit" and len(noting.tried) == nth - 1:
            scene.adapter.faults.outcomes.append("unknown, lost")
        elif phase == "before_commit" and late and arriving:
            arriving.pop()()

    def sent(rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> None:
        if len(noting.tried) == nth:
            arriving.append(lambda: MemoryAdapter(scene.table).commit(rewrites, snapshot, run_id))
            unsure.update(rewrite.task.id for rewrite in rewrites)

    noting.sent = sent
    report = scene.run(options=ONE_BY_ONE, observer=doubt)
    assert {group.id for group in report.groups if group.status == "failed"} == unsure
    assert {group.status for group in report.groups if group.id not in unsure} == {"committed"}
    said = {str(group.detail) for group in report.groups if group.id in unsure}
    assert all(
        f"the outcome of the commit of run {noting.tried[nth - 1]} is not known" in each for each in said
    )
    assert noting.tried[nth - 1] not in report.run_ids
    assert (report.commits, report.conflicts) == (len(noting.tried) - 1, 0)
    assert len(set(noting.tried)) == len(noting.tried) > nth, "nothing is sent again"
    assert scene.table.touched.discarded == []
    assert bool(arriving) != late
    for land in arriving:
        land()
    assert scene.table.fingerprint() == before
    assert scene.table.leftovers() == set(), "all files that were written are in the table"


def test_where_all_else_fails_the_unknown_outcome_is_raised() -> None:
    scene = groups_apart(8)
    scene.adapter = noting = _Noting(scene.table)
    before = scene.table.fingerprint()
    unsure: set[str] = set()

    def sent(rewrites: Sequence[Rewrite], _snapshot: Snapshot, _run_id: str) -> None:
        if len(noting.tried) == 1:
            unsure.update(output.path for rewrite in rewrites for output in rewrite.outputs)

    noting.sent = sent
    scene.adapter.faults.outcomes.append("unknown, lost")
    scene.adapter.faults.outcomes.extend(["rejected"] * 30)
    with pytest.raises(Unknown, match="orphans"):
        scene.run(options=ONE_BY_ONE)
    assert len(set(noting.tried)) > 1
    assert scene.table.fingerprint() == before
    assert scene.table.leftovers() == unsure, "the other files are gone"


def test_an_error_of_every_group_does_not_hide_an_unknown_outcome() -> None:
    scene = groups_apart(8)

    scene.adapter = noting = _Noting(scene.table)
    was_sent, read = threading.Event(), noting.read

    def broken(task: MergeTask) -> Parts:
        if len(scene.table.touched.data_reads) < 6:  # two groups of three files: the first commit
            return read(task)
        assert was_sent.wait(60)
        raise Unsupported("db.t", "variant")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noting, "read", broken)
        noting.sent = lambda *_: was_sent.set()
        scene.adapter.faults.outcomes.append("unknown, lost")
        with pytest.raises(Unknown, match="orphans") as raised:
            scene.run(options=ONE_BY_ONE)
    assert isinstance(raised.value.__cause__, Unsupported)
