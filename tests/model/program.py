"""The engine as a deterministic program: its next call of the adapter depends only on the answers so far.

A :class:`Trace` is one history of answers. To find the next question of a history, the engine runs from its start with
these answers and is stopped where they end. Each history runs once: equal answers lead to the same trace, whatever
else happened to the table.

    trace () ─ snapshot? ─► (S3) ─ phase planned ─► … ─ commit? ─┬─► (version 4) ─► done: report
                                                                 └─► (Conflict) ─► …
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, get_type_hints
from unittest.mock import patch

from lakekeeper.core.config.options import Options
from lakekeeper.core.cost import prediction
from lakekeeper.core.layout import clustering_info
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.report import KeyReport
from lakekeeper.core.planning import planner
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.delete import row_delete as engine_delete
from lakekeeper.engine.merge import executor as engine_rewrite
from lakekeeper.engine.merge import job as engine_maintain
from lakekeeper.engine.merge import planning as engine_planning
from lakekeeper.engine.merge import replay as engine_replay
from lakekeeper.engine.state import leases as engine_intents
from lakekeeper.engine.trash import entries as engine_trash
from lakekeeper.engine.vacuum import deleter as engine_removal
from lakekeeper.engine.vacuum import job as engine_sweep
from lakekeeper.errors import Conflict
from lakekeeper.spi import BloomFilters, Capabilities, Commit, Observer, Restores, Statistics, Undos
from lakekeeper.testing.memory import Parts
from tests.model.ports import PrivateNotes, ScriptedDeletes, ScriptedStorage, SharedNotes

_MOST_QUESTIONS = 400
_START_MS = 5_000  # ms, when programs begin: the time of version 4; later versions are in the future
_SLOTS = 4  # of intents and of the trash: scanning 64 each time would dominate the search


_PARTS = tuple(get_type_hints(Options).keys() - {"origins", "ignored"})
_DIRTY = ("error after", "stop before", "stop after", "down", "down after")


class Pause(BaseException):
    """The answers are used up: the engine stops here."""


class Stop(BaseException):
    """An interruption from outside (Ctrl-C, a cancelled job) after which the engine may clean up."""


@dataclass(frozen=True, slots=True)
class Question:
    """A call of the adapter, or ``phase``: a notification of the observer."""

    method: str
    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call returned or raised; and, in a shared world, the notes and the time right after it.

    With both, the call took effect, and the program sees only the error.
    """

    value: Any = None
    error: BaseException | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    now: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """How a program ended: its return value or its error."""

    value: Any = None
    error: BaseException | None = None


Run = Callable[["Scripted", Observer, Clock], Any]
"""A call of the engine on an adapter."""


@dataclass(slots=True, eq=False)
class Trace:
    """One history of answers to a program of one name.

    ``clean``: it must leave no files of its own; ``replays``, ``conflicts``: so far. ``ahead``: its next questions
    after an observer notification without a fault, as far as they are known. ``shared``: notes and time are the
    world's, and observer notifications are not steps; ``reads``: the notes read since the last answer.
    """

    name: str
    run: Run
    capabilities: Capabilities
    shared: bool = False
    parent: Trace | None = None
    answer: Answer | None = None
    depth: int = 0
    clean: bool = True
    faults: tuple[str, ...] = ()
    replays: int = 0
    conflicts: int = 0
    ahead: tuple[Question | Done, ...] = ()
    reads: Mapping[str, str | None] = field(default_factory=dict)
    next: Question | Done = field(init=False)
    children: dict[Any, list[Trace]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first, *later = self.ahead or _run(self)
        self.next, self.ahead = first, tuple(later)
        if isinstance(self.next, Question) and self.next.method == "phase":
            phase, info = self.next.args
            if phase == "conflict":
                self.replays += info.get("replayed", 0) > 0

    def after(self, token: Any, answer: Answer, fault: str) -> Trace:
        """The history with one more answer; ``token`` is equal for equal answers."""
        known = self.children.setdefault(token, [])
        for found in known:
            if all(answer.notes.get(name) == text for name, text in found.reads.items()):
                return found
        dirty = fault in _DIRTY or fault.startswith("unknown")
        found = Trace(
            name=self.name,
            run=self.run,
            capabilities=self.capabilities,
            shared=self.shared,
            parent=self,
            answer=answer,
            depth=self.depth + 1,
            clean=self.clean and not dirty,
            faults=(*self.faults, fault) if fault else self.faults,
            replays=self.replays,
            conflicts=self.conflicts + isinstance(answer.error, Conflict),
            ahead=() if fault else self.ahead,
        )
        known.append(found)
        return found

    def answers(self) -> list[Answer]:
        found: list[Answer] = []
        at: Trace | None = self
        while at is not None and at.answer is not None:
            found.append(at.answer)
            at = at.parent
        return found[::-1]

    def last_run_id(self) -> str:
        """The run id of the last attempted commit."""
        at: Trace | None = self
        while at is not None:
            if isinstance(at.next, Question) and at.next.method in ("commit", "delete"):
                return str(at.next.args[2])
            at = at.parent
        return ""

    @property
    def asks(self) -> str:
        """The method called next; empty at the end."""
        return self.next.method if isinstance(self.next, Question) else ""

    @property
    def author(self) -> str:
        """Names the files of the next call."""
        return f"{self.name}.{self.depth}"


class Scripted:
    """An adapter that replays the answers of a history, then stops the engine at its next question."""

    def __init__(self, trace: Trace) -> None:
        self.capabilities = trace.capabilities
        self.table = "db.t"
        self.question: Question | None = None
        self.passed: list[Question] = []
        self.notes: Any = SharedNotes(self) if trace.shared else PrivateNotes()
        self.storage: Any = ScriptedStorage(self)
        self.seen = Answer()
        self.reads: dict[str, str | None] = {}
        self._shared = trace.shared
        self._answers = trace.answers()
        self._next = 0

    def noted(self, name: str) -> str | None:
        """A note as of the last answered question; a program without a question so far calls ``look`` first."""
        if self.question is not None:
            return None
        if self._next == 0:
            self.ask("look")
        text = self.seen.notes.get(name)
        if self._next == len(self._answers):
            self.reads[name] = text
        return text

    def ask(self, method: str, *args: Any) -> Any:
        if self.question is None and self._next < len(self._answers):
            answer = self.seen = self._answers[self._next]
            self._next += 1
            if answer.error is not None:
                raise answer.error.with_traceback(None)
            return answer.value
        if self.question is None:
            self.question = Question(method, args)
        elif "discard" in method or method.startswith("notes."):
            return None  # cleanup after we stopped the engine: it never happens
        raise Pause

    def observe(self, phase: str, info: Mapping[str, Any]) -> None:
        if self._shared:
            return
        if self.question is None and self._next >= len(self._answers):
            self.passed.append(Question("phase", (phase, info)))
        else:
            self.ask("phase", phase, info)

    @property
    def deletes(self) -> ScriptedDeletes:
        return ScriptedDeletes(self)

    @property
    def restores(self) -> Restores[Parts]:
        raise NotImplementedError

    @property
    def undos(self) -> Undos:
        raise NotImplementedError

    @property
    def statistics(self) -> Statistics:
        raise NotImplementedError

    @property
    def bloom_filters(self) -> BloomFilters:
        raise NotImplementedError

    @property
    def columnar(self) -> None:
        return None

    def properties(self) -> Mapping[str, str]:
        return {}

    def set_cluster_key(self, columns: Sequence[str], *_: object, **__: object) -> KeyReport:
        raise NotImplementedError

    def snapshot(self, columns: Sequence[str] | None = None, where: str | None = None) -> Snapshot:
        return self.ask("snapshot", columns, where)

    def refresh(self, *_: object) -> Snapshot | None:
        """A program reads the whole table each time: the read is then one step that others can precede."""
        return None

    def matching(self, snapshot: Snapshot, where: str) -> Snapshot:
        """All blocks: this adapter cannot rule any of them out."""
        return replace(snapshot, complete=False)

    def version(self) -> Snapshot:
        return self.ask("snapshot", None, "false")

    def require_writable(self, *_: object) -> None:
        """Commits are atomic."""

    def release(self, _: object) -> None:
        """A program holds no resource that another could see."""

    def read(self, task: MergeTask) -> Parts:
        return self.ask("read", task)

    def write(self, rows: Parts, task: MergeTask, run_id: str) -> Rewrite:
        return self.ask("write", rows, task, run_id)

    def commit(self, rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
        return self.ask("commit", tuple(rewrites), snapshot, run_id)

    def discard(self, rewrites: Sequence[Rewrite]) -> None:
        self.ask("discard", tuple(rewrites))

    def changes_since(self, snapshot: Snapshot) -> Changes:
        return self.ask("changes_since", snapshot)


@dataclass(slots=True)
class _Passing:
    """Time of a program: each read of the clock takes a millisecond, and a wait passes at once."""

    ms: int

    def tick(self) -> int:
        self.ms += 1
        return self.ms - 1

    def wait(self, seconds: float) -> None:
        self.ms += int(1000 * seconds)


def _run(trace: Trace) -> list[Question | Done]:
    """What the engine asks after the answers of ``trace``: observer notifications, then a question or its end."""
    if trace.depth > _MOST_QUESTIONS:
        raise AssertionError(f"{trace.name} does not end: {trace.depth} questions")
    adapter = Scripted(trace)
    passing = _Passing(_START_MS)
    # In a shared world, time is the world's.
    wait = (lambda _seconds: None) if trace.shared else passing.wait
    clock = Clock(now_ms=lambda: adapter.seen.now + passing.tick(), wait=wait)
    Names.current = trace.name
    done = Done()
    try:
        value = trace.run(adapter, adapter.observe, clock)
    except Pause:
        if adapter.question is None:
            raise
    except (Exception, Stop) as error:
        done = Done(error=error.with_traceback(None))
    else:
        done = Done(value)
    trace.reads = adapter.reads
    return [*adapter.passed, adapter.question or done]


class Names:
    """Replaces the module ``uuid`` in the engine: ids are the names of the programs."""

    current = ""

    def __init__(self) -> None:
        self.hex = Names.current

    @classmethod
    def uuid4(cls) -> Names:
        return cls()


class _Inline(Future):
    """A future that runs its work when it is waited for, in the caller's thread."""

    def __init__(self, work: Callable[[], Any], number: int) -> None:
        super().__init__()
        self.work = work
        self.number = number

    def perform(self) -> None:
        if not self.set_running_or_notify_cancel():
            return
        try:
            self.set_result(self.work())
        except BaseException as error:
            self.set_exception(error)


class _InlinePool:
    """Replaces a pool of one thread; its work runs in one order only."""

    def __init__(self, **_options: Any) -> None:
        self._count = 0

    def submit(self, call: Callable[..., Any], *args: Any) -> _Inline:
        self._count += 1
        return _Inline(lambda: call(*args), self._count)

    def shutdown(self, *, wait: bool) -> None:
        """No thread remains."""


class _Pool:
    """Replaces a pool; its work is waited for one by one."""

    def __init__(self, *_args: Any, **_options: Any) -> None:
        """Threads make no difference here."""

    def __enter__(self) -> _Pool:  # noqa: PYI034  # Self is not in Python 3.10
        return self

    def __exit__(self, *_error: object) -> None:
        """No thread remains."""

    def submit(self, call: Callable[..., Any], *args: Any) -> _Awaited:
        return _Awaited(lambda: call(*args))

    def map(self, call: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return map(call, items)


@dataclass(frozen=True, slots=True)
class _Awaited:
    """Work that runs when it is waited for."""

    result: Callable[[], Any]


def _wait_inline(futures: Iterable[_Inline], **_options: Any) -> tuple[set[_Inline], set[_Inline]]:
    waiting = sorted(futures, key=lambda f: f.number)
    waiting[0].perform()
    return {waiting[0]}, set(waiting[1:])


@contextmanager
def deterministic() -> Iterator[None]:
    """The engine without threads and random ids; the planner, which is pure, caches its results."""
    plans: dict[Any, Any] = {}
    make_plan, mean_depth, explained = planner.make_plan, clustering_info.mean_depth, prediction.explained

    def remembered(snapshot: Snapshot, policies: Any, options: Any, env: Any) -> Any:
        # Of a call's options only the budget changes: the remainder of it.
        rest = tuple(id(getattr(options, part)) for part in _PARTS if part != "budget")
        key = (id(snapshot), tuple(p.name for p in policies), rest, options.budget, env)
        if key not in plans:
            plans[key] = (make_plan(snapshot, policies, options, env), snapshot, options)
        return plans[key][0]

    def predicted(plan: Any, *rest: Any) -> Any:
        if ("explained", id(plan)) not in plans:
            plans["explained", id(plan)] = (explained(plan, *rest), plan)
        return plans["explained", id(plan)][0]

    def depth(snapshot: Snapshot) -> float:
        if ("depth", id(snapshot)) not in plans:
            plans["depth", id(snapshot)] = (mean_depth(snapshot), snapshot)
        return plans["depth", id(snapshot)][0]

    with (
        patch.object(engine_rewrite, "ThreadPoolExecutor", _InlinePool),
        patch.object(engine_rewrite, "wait", _wait_inline),
        patch.object(engine_replay, "ThreadPoolExecutor", _Pool),
        patch.object(engine_maintain, "uuid", Names),
        # Each program is a process of its own.
        patch.object(engine_maintain, "note_spent", lambda *_args: None),
        patch.object(engine_delete, "uuid", Names),
        patch.object(engine_sweep, "uuid", Names),
        patch.object(engine_removal, "ThreadPoolExecutor", _Pool),
        patch.object(engine_intents, "SLOTS", _SLOTS),
        # Files of a run whose slot was given up are orphans, which no vacuum promises to delete: with so few slots,
        # every history would give some up.
        patch.object(engine_intents, "given_up_slots", lambda *_args: []),
        patch.object(engine_intents, "VACUUMS", 4),
        patch.object(engine_trash, "SLOTS", _SLOTS),
        patch.object(engine_planning, "make_plan", remembered),
        patch.object(engine_planning, "explained", predicted),
        patch.object(engine_maintain, "mean_depth", depth),
        patch.object(planner, "mean_depth", depth),
        patch.object(planner, "deepest_stretch", lambda _snapshot: ""),  # a drawing for humans
        # pytest keeps the message of each lost race: hundreds of thousands
        patch.object(logging.getLogger("lakekeeper.events"), "disabled", new=True),
    ):
        yield
