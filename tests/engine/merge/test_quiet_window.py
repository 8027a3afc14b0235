"""Commits wait for users' statements for a bounded time; hopeless work stops; raced partitions rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.changes import Changes, Winner
from lakekeeper.core.planning.planner import cold_first
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.job import maintain
from lakekeeper.engine.merge.quiet_window import WATCH_MS, QuietWindow, Watch
from lakekeeper.errors import Conflict
from tests.engine.scene import groups_apart, rows


class Log:
    """The log as ``changes_since`` returns it: one answer after the other, and then the last one forever."""

    def __init__(self, *answers: Changes) -> None:
        self.answers = list(answers)
        self.looks = 0

    def changes_since(self, _: Any) -> Changes:
        self.looks += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def at(*times: int, layout: bool = False, appends: bool = False) -> Changes:
    return Changes(
        9, tuple(Winner(i, "X", layout=layout, appends=appends, at_ms=ms) for i, ms in enumerate(times))
    )


class Time:
    """A clock that only waits advance."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.waited: list[float] = []

    @property
    def clock(self) -> Clock:
        return Clock(now_ms=lambda: self.now_ms, wait=self.wait)

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now_ms += int(seconds * 1000)


def waited(log: Log, *, window: int = 2000, most: int = 10_000, now: int = 100_000) -> list[float]:
    time = Time(now)
    quiet = QuietWindow(time.clock, window, most)
    while not quiet.passed(quiet.look(lambda: log.changes_since(None))):
        pass
    return time.waited


def test_recent_deletes_are_waited_out() -> None:
    assert sum(waited(Log(at(99_500)))) == 1.5
    assert waited(Log(at(98_000))) == []
    assert sum(waited(Log(at(99_500), at(99_500, 100_250)))) == 0.25, (
        "right after a delete is the best time to commit"
    )
    assert max(waited(Log(at(99_500)))) <= 0.25, "it checks often enough to see the end of the next one"


def test_a_clock_that_is_set_back_adds_no_more_than_the_longest_wait() -> None:
    time = Time(10**9)
    quiet = QuietWindow(time.clock, 2_000, 10_000)
    log = Log(at(10**9 - 100))
    while not quiet.passed(quiet.look(lambda: log.changes_since(None))) and sum(time.waited) < 100:
        time.now_ms -= 86_400_000 if len(time.waited) == 1 else 0
    assert sum(time.waited) < 11


@pytest.mark.parametrize("kind", ["layout", "appends"])
def test_appends_and_rewrites_cause_no_wait(kind: str) -> None:
    assert waited(Log(at(99_900, layout=kind == "layout", appends=kind == "appends"))) == []


def test_deletes_of_our_own_cause_no_wait() -> None:
    """Three calls of ``delete`` and ``merge_deletes`` made the third wait for seconds: they looked like a stream."""
    ours = tuple(replace(each, run_id=f"run-{each.at_ms}") for each in at(98_000, 99_000, 99_900).winners)
    assert waited(Log(Changes(9, ours))) == []
    assert waited(Log(replace(at(), earlier=ours))) == []


def test_the_wait_for_a_steady_stream_is_bounded() -> None:
    class Stream(Log):
        def changes_since(self, _: Any) -> Changes:
            self.looks += 1
            return at(100_000 + 1000 * self.looks)

    assert sum(waited(Stream(at(0)), most=5000)) == 5.0


class Steady(Log):
    """A user commits every ``period`` ms; each statement takes the last ``length`` ms of a period.

    New deletes have to be replayed, which takes ``replay`` ms; the first time, ``first``. The log is read from
    ``since`` on: the snapshot holds everything that was committed before the rewrite began.
    """

    def __init__(
        self,
        period: int,
        length: int,
        replay: int,
        time: Time,
        first: int = 0,
        ahead: int = 0,
        since: int = 0,
    ) -> None:
        self.period, self.length, self.replay, self.time = period, length, replay, time
        self.first, self.ahead = first or replay, ahead
        self.since = -(-max(since, period) // period) * period
        self.seen = self.replays = 0

    def changes_since(self, _: Any) -> Changes:
        times = list(range(self.since, self.time.now_ms + 1, self.period))
        if len(times) > self.seen:
            self.time.now_ms += self.replay if self.seen else self.first
            self.seen = len(times)
            self.replays += 1
        return at(*(each + self.ahead for each in times))

    def hurts(self) -> bool:
        """Would a commit now conflict with one of the user's statements?"""
        return self.time.now_ms % self.period > self.period - self.length


@pytest.mark.parametrize("ahead", [0, 3000, -700], ids=["one clock", "a clock ahead", "a clock behind"])
@pytest.mark.parametrize("start", range(40_000, 46_000, 300))
@pytest.mark.parametrize(
    "period,length,replay,first",
    [
        (5000, 2000, 400, 0),
        (6000, 5000, 300, 4000),
        (1500, 600, 150, 2500),
        (800, 500, 150, 0),
        (9000, 4000, 400, 0),
    ],
)
def test_a_commit_falls_into_the_gap_of_a_steady_stream(
    period: int, length: int, replay: int, first: int, start: int, ahead: int
) -> None:
    """A user deletes again and again; the gap starts right after each statement's commit."""
    time = Time(start)
    stream = Steady(period, length, replay, time, first, ahead)
    quiet = QuietWindow(time.clock, 2000, 30_000)
    while not quiet.passed(quiet.look(lambda: stream.changes_since(None))):
        pass
    assert not stream.hurts()
    assert sum(time.waited) <= 2 * period / 1000
    assert stream.replays <= 4


@pytest.mark.parametrize("rewrite", [4000, 6000, 9000])
@pytest.mark.parametrize("period,length,replay", [(3000, 2000, 300), (4000, 3000, 500), (1900, 1300, 300)])
def test_a_short_rewrite_that_saw_one_or_two_statements_finds_the_gap_too(
    period: int, length: int, replay: int, rewrite: int
) -> None:
    for start in range(40_000, 40_000 + 2 * period, 100):
        time = Time(start)
        stream = Steady(period, length, replay, time, since=start - rewrite)
        quiet = QuietWindow(time.clock, 5000, 10_000)
        while not quiet.passed(quiet.look(lambda s=stream: s.changes_since(None))):  # type: ignore[misc]
            pass
        assert not stream.hurts(), start
        assert time.now_ms <= start + 2 * period + 2 * replay, start


@pytest.mark.parametrize("period,length,replay", [(1000, 500, 150), (1500, 1000, 300)])
def test_a_rewrite_that_saw_no_statement_of_a_stream_finds_the_gap_too(
    period: int, length: int, replay: int
) -> None:
    """Beside Trino with a statement each second, rewrites of half a second once made statements fail."""
    for start in range(40_000, 40_000 + period, 50):
        last, time = start // period * period, Time(start)
        before = at(*range(last - 2 * period, last + 1, period)).winners
        stream = Steady(period, length, replay, time, since=start + 1)
        quiet = QuietWindow(time.clock, 5000, 10_000)

        while not quiet.passed(
            quiet.look(lambda s=stream, e=before: replace(s.changes_since(None), earlier=e))  # type: ignore[misc]
        ):
            pass
        assert not stream.hurts(), start
        assert time.now_ms <= start + 2 * period + 2 * replay, start


def by(writer: str, *times: int, appends: tuple[int, ...] = ()) -> tuple[Winner, ...]:
    return tuple(
        Winner(ms, "X", appends=ms in appends, at_ms=ms, writer=writer) for ms in sorted((*times, *appends))
    )


def until_it_commits(log: Callable[[int], Changes], start: int) -> int:
    """When a call commits that first looks at ``start``; the log at a time is given."""
    time = Time(start)
    quiet = QuietWindow(time.clock, 5000, 10_000)
    while not quiet.passed(quiet.look(lambda: log(time.now_ms))):
        pass
    return time.now_ms


@pytest.mark.parametrize("start", range(96_050, 100_000, 150))
def test_an_append_between_the_statements_of_one_writer_ends_one_too(start: int) -> None:
    """One INSERT, UPDATE, DELETE or MERGE each second: a call that met the INSERT waited for two seconds."""
    times = [(ms, ms % 4000 == 0) for ms in range(86_000, 110_000, 1000)]

    def log(now: int, writer: str = "trino u") -> Changes:
        seen = [(ms, appends) for ms, appends in times if ms <= now]
        found = by(writer, *(ms for ms, a in seen if not a), appends=tuple(ms for ms, a in seen if a))
        return Changes(
            9, tuple(w for w in found if w.at_ms > start), earlier=tuple(w for w in found if w.at_ms <= start)
        )

    done = until_it_commits(log, start)
    assert done % 1000 <= 60, "right after a statement"
    assert done - start <= 1060
    unnamed = until_it_commits(lambda now: log(now, ""), start)
    assert unnamed // 1000 % 4 != 0, "of a writer without a name, an append says nothing"


@pytest.mark.parametrize(
    "appender", ["flink j", "spark a"], ids=["another writer", "another thread of the writer"]
)
def test_an_append_beside_the_statements_of_a_writer_ends_none(appender: str) -> None:
    def log(now: int) -> Changes:
        rows = by("spark a", *range(88_000, now + 1, 1500))
        new = by(appender, appends=tuple(range(88_100, now + 1, 700)))
        return Changes(9, earlier=tuple(sorted((*rows, *new), key=lambda w: w.at_ms)))

    for start in range(96_050, 100_000, 150):
        assert (until_it_commits(log, start) - 88_000) % 1500 <= 60, start


def test_one_or_two_deletes_before_a_call_cause_no_wait() -> None:
    """A script that deletes rows and then merges the deletes."""
    for times in ((99_900,), (99_000, 99_900)):
        assert waited(Log(replace(at(), earlier=at(*times).winners)), window=5000) == []


def test_a_stream_with_occasional_appends_is_still_a_stream() -> None:
    """One INSERT, UPDATE, DELETE or MERGE each second: around an INSERT, deletes are two seconds apart."""
    times = (93_000, 94_000, 95_000, 97_000, 98_000, 99_000)
    stream = replace(at(), earlier=at(*times).winners)
    assert sum(waited(Log(stream), window=5000, now=101_100)) > 0.5


def test_a_stream_that_ended_before_a_call_causes_no_wait() -> None:
    earlier = at(91_000, 92_000, 93_000, 94_000).winners
    assert waited(Log(replace(at(), earlier=earlier)), window=5000) == []


@pytest.mark.parametrize("replay", [900, 4750])
def test_waits_for_a_stream_without_a_gap_are_few(replay: int) -> None:
    """A statement lands during each replay: 60 replays in a row once made one commit take 285 s."""
    time = Time(100_000)
    stream = Steady(500, 450, replay, time)
    quiet = QuietWindow(time.clock, 2000, 10_000)
    while not quiet.passed(quiet.look(lambda: stream.changes_since(None))):
        pass
    assert stream.replays <= 8
    assert time.now_ms <= 100_000 + replay + 10_000 + replay, "counted from the end of the first replay"


def test_a_commit_is_not_delayed_past_the_time_for_retries() -> None:
    scene = groups_apart(2)
    time = Time(scene.table.now_ms + 1000)
    seen: list[int] = []
    real = scene.adapter.changes_since

    def look(snapshot: Snapshot) -> Changes:
        scene.table.delete(f"k = {len(seen)}")
        time.now_ms = max(time.now_ms, scene.table.now_ms) + 500
        seen.append(time.now_ms)
        return real(snapshot)

    scene.adapter.changes_since = look  # type: ignore[method-assign]  # a spy on the one instance
    options = {"commit.retry.total-timeout-ms": 4000, "commit.quiet-window-ms": 1_800_000}
    request = scene.request(options=options)
    with pytest.raises(Conflict):
        maintain(scene.adapter, scene.runner, request, clock=time.clock)
    assert seen[-1] - seen[0] <= 8000
    assert scene.table.leftovers() == set()


@pytest.mark.parametrize("earlier", [True, False], ids=["before the rewrite", "during the rewrite"])
def test_a_statement_delayed_by_the_cores_of_a_rewrite_is_not_made_to_fail(earlier: bool) -> None:
    """On two cores, the user's next statement ended two seconds after a rewrite of 27 s."""
    times = (66_000, 68_000, 70_000)

    def look(_: Any = None) -> Changes:
        new = (102_000,) if time.now_ms >= 102_000 else ()
        return replace(at(*new), earlier=at(*times).winners) if earlier else at(*times, *new)

    time = Time(100_000)
    quiet = QuietWindow(time.clock, 5000, 10_000, began_ms=73_000 if earlier else 65_000)
    while not quiet.passed(quiet.look(look)):
        pass
    assert 102_000 <= time.now_ms <= 102_300


def test_the_wait_for_a_stream_that_ended_during_a_rewrite_is_at_most_three_periods() -> None:
    assert 5.9 < sum(waited(Log(at(75_000, 77_000, 79_000)))) < 6.1


@pytest.mark.parametrize("missing", [1, 2], ids=["a statement fails", "a statement also writes a checkpoint"])
def test_a_stream_that_skips_a_commit_is_still_a_stream(missing: int) -> None:
    """Our last commit made a statement fail, or Delta writes a checkpoint: the next commit is periods later."""
    times = [100_000 - 1500 * n for n in range(4, 0, -1)]
    late = times[-1] + (1 + missing) * 1500 - 200
    time = Time(100_000)
    quiet = QuietWindow(time.clock, 5000, 10_000)
    while not quiet.passed(quiet.look(lambda: at(*times, *([late] if time.now_ms >= late else [])))):
        pass
    assert late <= time.now_ms <= late + 100


def test_a_failed_statement_before_a_call_does_not_hide_the_stream() -> None:
    """Statements of four seconds, one of which failed: three commits in the last sixteen seconds are a stream."""
    earlier = at(84_000, 88_000, 96_000).winners
    assert sum(waited(Log(replace(at(), earlier=earlier)), window=5000)) > 1


def test_a_commit_with_a_clock_ahead_of_ours_causes_one_bounded_wait() -> None:
    assert sum(waited(Log(at(10_000_000)), most=5000)) == 5.0
    assert waited(Log(at(99_900)), window=0) == []
    assert waited(Log(replace(at(99_900), obstacle=Reason.of(Code.TABLE_RECREATED)))) == []


def test_an_obstacle_or_lost_inputs_stop_work_that_has_not_begun() -> None:
    scene = groups_apart(6)
    reads: list[str] = []

    def observe(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "read":
            reads.append(phase)
            if len(reads) == 1:
                scene.table.overwrite(rows(1))

    scene.tick_ms = WATCH_MS
    options = {"max-concurrent-file-group-rewrites": 1}
    report = scene.run(observer=observe, options=options)
    assert {g.status for g in report.groups} == {"dropped"}
    early = [g for g in report.groups if g.detail and "stopped_early" in g.detail.codes]
    assert len(early) == 6 - len(reads) >= 4
    assert scene.table.leftovers() == set()


@pytest.mark.parametrize("columnar", [False, True], ids=["by rows", "by columns"])
def test_a_job_that_fails_on_a_removed_file_lost_a_race(
    monkeypatch: pytest.MonkeyPatch, columnar: bool
) -> None:
    """The version that it reads expired: not a failure of ours, not read again, and the report gives the reason."""
    scene = groups_apart(2)

    def gone(*_: Any) -> Any:
        scene.table.overwrite(rows(1))
        raise FileNotFoundError("f000001")

    monkeypatch.setattr(scene.adapter, "read", gone)
    if columnar:
        monkeypatch.setattr(type(scene.adapter), "columnar", SimpleNamespace(plan=gone), raising=False)
    report = scene.run(options={"max-concurrent-file-group-rewrites": 1})
    assert {g.status for g in report.groups} == {"dropped"}
    assert {g.detail and g.detail.code for g in report.groups} == {"inputs_removed"}
    assert report.groups[0].detail is not None
    assert report.groups[0].detail.codes == ("inputs_removed", "failed")
    assert "FileNotFoundError: f000001" in str(report.groups[0].detail)
    assert scene.pauses == []


def test_a_slow_read_of_the_log_delays_no_other_group() -> None:
    """Each group that began during the read used to wait for its end."""
    scene, begun, answered = groups_apart(2), threading.Event(), threading.Event()
    real = scene.adapter.changes_since

    def slow(snapshot: Snapshot) -> Changes:
        begun.set()
        assert answered.wait(60)
        return real(snapshot)

    scene.adapter.changes_since = slow  # type: ignore[method-assign]  # a spy on the one instance
    task = scene.plan().tasks[0]
    watch = Watch(scene.adapter, scene.adapter.snapshot(), scene.clock)
    with ThreadPoolExecutor(2) as pool:
        looking = pool.submit(watch.lost, task, at_once=True)
        assert begun.wait(60)
        assert pool.submit(watch.lost, task).result(60) is None
        assert not looking.done()
        scene.table.overwrite(rows(1))
        answered.set()
        found = looking.result(60)
    assert found is not None
    assert found.code == "inputs_removed"
    assert watch.lost(task) == found


def test_a_short_run_never_reads_the_log_early() -> None:
    scene = groups_apart(3)
    calls: list[int] = []
    real = scene.adapter.changes_since

    def counted(snapshot: Snapshot) -> Changes:
        calls.append(1)
        return real(snapshot)

    scene.adapter.changes_since = counted  # type: ignore[method-assign]  # a spy on the one instance
    scene.run()
    assert len(calls) == 2, "one read by the engine before the commit, and one by the commit"


def test_tasks_on_cold_blocks_come_first() -> None:
    scene = groups_apart(4)
    plan = scene.plan()
    snapshot = scene.adapter.snapshot()
    added = dict(zip(snapshot.blocks.path.to_pylist(), snapshot.blocks.added_at.tolist(), strict=True))
    ordered = cold_first(plan.tasks, snapshot)
    youngest = [max(added[p] for p in task.inputs) for task in ordered]
    assert youngest == sorted(youngest)
    assert sorted(t.id for t in ordered) == sorted(t.id for t in plan.tasks)
