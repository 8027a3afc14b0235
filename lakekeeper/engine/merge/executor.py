"""Carry out the tasks of a plan side by side: read, merge, write, check. Nothing is visible yet after it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.rewrites import Output, Rewrite
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.events import Events, Halted
from lakekeeper.engine.merge.quiet_window import Watch
from lakekeeper.engine.retries import retried
from lakekeeper.engine.state.leases import Registration
from lakekeeper.engine.uncommitted import removed
from lakekeeper.errors import AdapterError, OptionError, Unsupported, reason
from lakekeeper.spi import Adapter, Runner

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing from Python 3.11 on

T = TypeVar("T")

_FINER_TRIES = 3


@dataclass(frozen=True, slots=True)
class Failed:
    """A task without a rewrite, and why; its files are deleted again. ``raced``: a concurrent commit won its inputs."""

    task: MergeTask
    detail: Reason
    raced: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """Where a run works: adapter, runner, events and the run's id.

    ``columnar`` allows columnar merges.
    ``watch`` names tasks that can no longer land; ``registration`` is the lease of the run while it writes, and its id
    names the folder of the files. ``stopped`` is set before the jobs of the run are cancelled.
    """

    adapter: Adapter[Any]
    runner: Runner[Any]
    events: Events
    run_id: str
    watch: Watch
    registration: Registration
    clock: Clock = field(default_factory=Clock)
    columnar: bool = False
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def writer(self) -> str:
        """The run id in whose folder files are written."""
        return self.registration.intent.run_id

    def lost(self, task: MergeTask, *, at_once: bool = False) -> Reason | None:
        """Why the task can no longer land (:meth:`Watch.lost`)."""
        return self.watch.lost(task, at_once=at_once)

    def require_going(self) -> None:
        """Raise CancelledError once the run is stopped: a job that begins after the cancellation may not see it."""
        if self.stopped.is_set():
            raise CancelledError(f"{self.adapter.table}: run {self.run_id} was stopped")


class Execution:
    """The tasks of a plan, rewritten by at most ``threads`` driver threads; closed by leaving its ``with`` block.

    Left early, it cancels what still runs and discards finished outputs that were not handed over. After Halted
    nothing is discarded, as after a crash.
    """

    def __init__(self, work: Work, tasks: Sequence[MergeTask], threads: int) -> None:
        workers = max(1, min(threads, len(tasks)))
        self._work, self._tasks = work, iter(tasks)
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="lakekeeper")
        self._waiting: set[Future[Rewrite | Failed]] = set()
        self._start(workers)

    def __enter__(self) -> Self:
        return self

    def results(self) -> Iterator[Rewrite | Failed]:
        """Results as they complete; each then belongs to the caller. Raises errors that hold for every group."""
        while self._waiting:
            done, _ = wait(self._waiting, return_when=FIRST_COMPLETED)
            self._start(len(done))
            for future in done:
                self._waiting.remove(future)
                yield future.result()

    def _start(self, count: int) -> None:
        """Start the next tasks. None waits in the pool: a program that ends would first run all that wait there.

        Raises RuntimeError once the program ends.
        """
        for task in islice(self._tasks, count):
            self._waiting.add(self._pool.submit(_one, self._work, task))

    def __exit__(self, _kind: object, stop: BaseException | None, _trace: object) -> None:
        if stop is not None:
            for future in self._waiting:
                future.cancel()
            self._work.stopped.set()
            self._work.runner.cancel(self._work.run_id)
        self._pool.shutdown(wait=True)
        if stop is not None and not isinstance(stop, Halted):
            self._discard_finished()

    def _discard_finished(self) -> None:
        finished = [f for f in self._waiting if f.done() and not f.cancelled() and f.exception() is None]
        results = [f.result() for f in finished]
        _discard(self._work, [r for r in results if isinstance(r, Rewrite)])


def _one(work: Work, task: MergeTask) -> Rewrite | Failed:
    """One task, in its thread. An error of Spark, of the storage or of the catalog fails this group only.

    Raises Unsupported or OptionError, which hold for every group.
    """
    hopeless = work.lost(task)
    if hopeless:
        return Failed(task, hopeless.plus(Reason.of(Code.STOPPED_EARLY)), raced=True)
    with work.runner.working(work.run_id, task.label):
        try:
            rewrite = _write(work, task)
            return rewrite if isinstance(rewrite, Failed) else checked(work, task, rewrite)
        except Exception as error:
            if isinstance(error, Unsupported | OptionError):
                raise
            # The job may have failed because a concurrent commit, or an expiry, removed its inputs.
            hopeless = work.lost(task, at_once=True)
            failed = Reason.of(Code.FAILED, error=reason(error))
            return Failed(task, hopeless.plus(failed) if hopeless else failed, raced=hopeless is not None)
        finally:
            with suppress(Exception):  # memory that is not freed must not cost the group
                work.adapter.release(task)


def _write(work: Work, task: MergeTask) -> Rewrite | Failed:
    """Write, and repeat with finer cuts while an output exceeds a hard bound, since estimates can be wrong.

    Every rewrite that exceeds a bound is discarded, also the last one: only a rewrite with its files is returned.
    """
    attempt = task
    for _ in range(_FINER_TRIES):
        work.registration.renew()
        rewrite = _merged(work, attempt)
        over = _over(task, rewrite)
        if not over:
            work.events.emit("written", task=task.id, rows=rewrite.rows_out, bytes=rewrite.bytes_out)
            return replace(rewrite, task=task)
        _discard(work, [rewrite])
        attempt = _finer(task, attempt, over)
    worst = max(over, key=lambda o: o.rows)
    bounds = {"limit_bytes": task.max_bytes}
    if task.target_rows is not None:
        bounds["limit_rows"] = task.target_rows
    facts = {"rows": worst.rows, "bytes": worst.bytes, "attempts": _FINER_TRIES, **bounds}
    return Failed(task, Reason.of(Code.OUTPUT_TOO_LARGE, **facts))


def _discard(work: Work, rewrites: Sequence[Rewrite]) -> None:
    paths = [path for rewrite in rewrites for path in rewrite.paths]
    if not removed(work.adapter, paths, lambda: work.adapter.discard(rewrites)):
        work.registration.clean = False


def _merged(work: Work, task: MergeTask) -> Rewrite:
    """The merge by columnar workers where the adapter admits it, else by rows in Spark."""
    half = work.adapter.columnar if work.columnar else None
    if half is None:
        return _by_rows(work, task)
    try:
        planned = _retried(work, task, lambda: half.plan(task, work.writer))
    except (OptionError, Unsupported):
        raise
    except Exception as error:  # nothing is written yet
        planned = Reason.of(Code.MERGED_BY_ROWS, cause=reason(error))
    if isinstance(planned, Reason):
        return replace(_by_rows(work, task), by_rows=planned)
    _has_read(work, task)
    work.require_going()
    try:
        written = work.runner.merge_files(planned)
    except AdapterError:  # a damaged file, whose wrong values Spark would copy
        raise
    # A worker died or cannot read a file: Spark reads the file, or reports why it cannot.
    except Exception as error:
        if work.stopped.is_set():
            raise  # it did not fail: it was cancelled
        written = Reason.of(Code.MERGED_AGAIN_BY_ROWS, cause=reason(error))
    if isinstance(written, Reason):
        return replace(_by_rows(work, task, announced=True), by_rows=written)
    return retried(lambda: half.adopt(planned, written, task, work.writer), work.clock)


def _by_rows(work: Work, task: MergeTask, *, announced: bool = False) -> Rewrite:
    work.require_going()
    rows = _retried(work, task, lambda: work.adapter.read(task))
    if not announced:
        _has_read(work, task)
    return work.adapter.write(work.runner.merge(rows, task), task, work.writer)


def _retried(work: Work, task: MergeTask, read: Callable[[], T]) -> T:
    """A read of the task's inputs, until they are gone: formats report that as they report an outage."""
    return retried(read, work.clock, hopeless=lambda: work.stopped.is_set() or work.lost(task, at_once=True))


def _has_read(work: Work, task: MergeTask) -> None:
    work.events.emit("read", task=task.id, bytes=task.input_bytes)
    work.registration.renew()


def _over(task: MergeTask, rewrite: Rewrite) -> list[Output]:
    """Outputs of more than one row that are over the task's bounds; a single row cannot be split."""
    most = rewrite.rows_out if task.target_rows is None else task.target_rows
    return [o for o in rewrite.outputs if o.rows > 1 and (o.bytes > task.max_bytes or o.rows > most)]


def _finer(task: MergeTask, attempt: MergeTask, over: list[Output]) -> MergeTask:
    """The attempt with targets lowered by as much as its outputs exceeded the task's bounds, and a little more."""
    largest, most = max(o.bytes for o in over), max(o.rows for o in over)
    share = 0.8 / max(largest / task.max_bytes, most / task.target_rows if task.target_rows else 0.0)
    target_rows = attempt.target_rows
    if largest > task.max_bytes:
        target_rows = max(1, min(int(most * share), target_rows or most))
    return replace(
        attempt,
        target_bytes=max(1, int(min(attempt.target_bytes, largest) * share)),
        target_rows=target_rows,
    )


def checked(work: Work, task: MergeTask, rewrite: Rewrite) -> Rewrite | Failed:
    """Rows in − deleted = rows out, or nothing of this group is committed.

    The rows that the plan expected and the rows that were read must both agree with the rows written; where the plan
    knows only a lower bound of the rows, as many must be written. A rewrite without outputs removes its inputs from the
    table: the adapter itself must confirm that it read them and that none of their rows is live.
    """
    known = {count for count in (rewrite.rows_in, task.live_rows) if count is not None}
    proven = rewrite.rows_in == 0 if not rewrite.outputs else rewrite.rows_out <= task.input_rows
    if proven and known <= {rewrite.rows_out} and rewrite.rows_out >= task.least_rows:
        return rewrite
    _discard(work, [rewrite])
    if not rewrite.outputs and rewrite.rows_in is None:
        return Failed(task, Reason.of(Code.ROWS_NOT_PROVEN))
    differs = known - {rewrite.rows_out}
    read = tuple(sorted(known)) if differs else (task.least_rows, task.input_rows)
    return Failed(task, Reason.of(Code.ROWS_DIFFER, written=rewrite.rows_out, read=read))
