"""States of a table with several programs at work on it, and the moves that lead from one to the next.

A move is one step of one actor: a call of the adapter by a program (as it should go, or with a fault), a word to
the observer, an action of a user, a crash, or a late landing of a commit whose answer was lost. The promises are
checked after each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakekeeper.errors import AdapterError, Conflict
from lakekeeper.testing.lake import Settings
from lakekeeper.testing.memory import Fault
from lakekeeper.testing.versions import ROW_ID
from tests.model import promises
from tests.model.oracle import Model, Violation
from tests.model.program import Answer, Done, Question, Run, Stop, Trace
from tests.model.store import Extra, ModelAdapter, ModelTable, Node, Registry
from tests.model.users import ACTS, K, setup_rows

Rows = tuple[tuple[tuple[int, int, str], ...], ...]
FLAT: Rows = (((0, 1, "a"), (0, 2, "b"), (0, 9, "z")), ((0, 1, "a"),), ((0, 3, "c"),))
LONG: Rows = (
    ((0, 1, "a"), (0, 2, "b"), (0, 4, "d"), (0, 5, "e"), (0, 9, "z")),
    ((0, 1, "a"),),
    ((0, 3, "c"),),
)
PARTS: Rows = (((0, 1, "a"), (0, 9, "z")), ((0, 1, "a"),), ((1, 1, "a"),), ((1, 3, "c"),))
"""Files of rows (p, k, v): few values, so that rows are equal; the row of k = 9 is deleted before anything begins."""

COMMIT_FAULTS = ("rejected", "unknown, landed", "unknown, lost", "unknown, late", "conflict with itself")
"""A commit is refused; its answer is lost, and it landed, did not or will; it landed, was sent again and told so."""
_COMMITS = ("commit", "delete")
_WORK = ("read", "write", "traces", "mask", "find")


@dataclass(frozen=True, slots=True)
class Scope:
    """What may happen in a search: programs by name, and how often users act, faults and crashes happen.

    ``acts`` are the users' possible actions; ``restarts`` new runs of the first program after its crash.
    """

    name: str
    settings: Settings
    programs: Mapping[str, Run]
    acts: tuple[str, ...]
    users: int = 0
    faults: int = 0
    crashes: int = 0
    restarts: int = 0
    fault_kinds: tuple[str, ...] = COMMIT_FAULTS
    files: Rows = FLAT
    partitioned: bool = False


class Actor(NamedTuple):
    """A program at a point of its work (None: it ended or crashed), the restarts left to it, and which one this is."""

    trace: Trace | None
    left: int
    nth: int


class State(NamedTuple):
    """Everything that the future depends on."""

    node: Node
    extra: Extra
    actors: tuple[Actor, ...]
    users: int
    faults: int
    crashes: int
    late: Trace | None


class Move(NamedTuple):
    """A step that is possible in a state: ``slot`` of the actor (-1: a user), and what happens."""

    kind: str
    slot: int
    what: str

    def __str__(self) -> str:
        return " ".join(str(part) for part in self if part not in ("", -1))


@dataclass
class World:
    """All that is shared by the states of one scope: the table they are loaded into, and what was learnt."""

    scope: Scope
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        settings = self.scope.settings
        self.registry = Registry(row_ids=settings.row_ids)
        parts = ["p"] if self.scope.partitioned else []
        kinds = {"k": "int", "v": "string", "p": "int"}
        self.table = ModelTable(self.registry, kinds, parts, settings)
        self.adapter = ModelAdapter(self.table)
        self._acted: dict[tuple[Node, str], Node | None] = {}
        self._stepped: dict[Any, Any] = {}

    def first(self) -> State:
        """The state that all begins from: three files, four live rows, one deleted before."""
        node = first_node(self)
        actors = tuple(
            self._start(i, self.scope.restarts if i == 0 else 0, 1) for i in range(len(self.scope.programs))
        )
        scope = self.scope
        return State(node, frozenset(), actors, scope.users, scope.faults, scope.crashes, None)

    def _start(self, slot: int, left: int, count: int) -> Actor:
        name, run = list(self.scope.programs.items())[slot]
        key = ("start", slot, count)
        if key not in self._stepped:
            self._stepped[key] = Trace(f"{name}{count}", run, self.adapter.capabilities)
        return Actor(self._stepped[key], left, count)

    def begin(self, name: str, run: Run, count: int) -> Actor:
        """A program at its start."""
        return Actor(Trace(f"{name}{count}", run, self.adapter.capabilities), 0, count)

    # -- moves --------------------------------------------------------------------------------------------------

    def moves(self, state: State) -> Iterator[Move]:
        """What may happen next; nothing once all programs have ended."""
        live = [(i, actor.trace) for i, actor in enumerate(state.actors) if actor.trace is not None]
        if not live and state.late is None:
            return
        for slot, trace in live:
            question = trace.next
            assert isinstance(question, Question)
            yield Move("step", slot, question.method)
            if state.faults:
                for fault in self.faults(state, slot, self.scope.fault_kinds):
                    yield Move("fault", slot, fault)
            if state.crashes:
                yield Move("crash", slot, "")
        if state.late is not None:
            yield Move("land", -1, "")
        if state.users:
            for act in self.scope.acts:
                yield Move("user", -1, act)

    def faults(self, state: State, slot: int, kinds: Iterable[str]) -> Iterator[str]:
        """Those of ``kinds`` that the next call of a program can be met with."""
        trace = state.actors[slot].trace
        assert trace is not None
        question = trace.next
        assert isinstance(question, Question)
        for fault in kinds:
            if fault in COMMIT_FAULTS:
                possible = question.method in _COMMITS and not (fault.endswith("late") and state.late)
            elif fault.startswith("error"):
                possible = question.method in _WORK
            else:
                possible = True
            if possible:
                yield fault

    def take(self, state: State, move: Move) -> State | None:
        """The state after a move; None where there is nothing to do. Raises Violation."""
        if move.kind == "user":
            node = self._act(state.node, move.what)
            return None if node is None else state._replace(node=node, users=state.users - 1)
        if move.kind == "land":
            return self._land(state)
        if move.kind == "crash":
            return self._crash(state, move.slot)
        return self._step(state, move.slot, move.what if move.kind == "fault" else "")

    def _act(self, node: Node, act: str) -> Node | None:
        key = (node, act)
        if key not in self._acted:
            self.table.load(node, (), f"{act}{node.number}")
            model = ACTS[act](self.table, node)
            self._acted[key] = None if model is None else self._made(node, model, ())
        return self._acted[key]

    def _crash(self, state: State, slot: int) -> State:
        actor = state.actors[slot]
        self.counts["crash"] += 1
        again = self._start(slot, actor.left - 1, actor.nth + 1) if actor.left else actor._replace(trace=None)
        return state._replace(actors=_with(state.actors, slot, again), crashes=state.crashes - 1)

    # -- a step of a program ------------------------------------------------------------------------------------

    def _step(self, state: State, slot: int, fault: str) -> State:
        actor = state.actors[slot]
        trace = actor.trace
        assert trace is not None
        key = (trace, state.node, state.extra, fault)
        known = self._stepped.get(key)
        if known is None:
            known = self._stepped[key] = self._perform(trace, state.node, state.extra, fault)
            if isinstance(known[2].next, Done):
                promises.ended(self, known[2], known[0], known[1])
        node, extra, after = known
        late = trace if fault == "unknown, late" else state.late
        left = state.faults - 1 if fault else state.faults
        actor = actor._replace(trace=None if isinstance(after.next, Done) else after)
        return state._replace(
            node=node, extra=extra, actors=_with(state.actors, slot, actor), faults=left, late=late
        )

    def _perform(self, trace: Trace, node: Node, extra: Extra, fault: str) -> tuple[Node, Extra, Trace]:
        question = trace.next
        assert isinstance(question, Question)
        if question.method == "phase":
            answer = Answer(error=Stop("stopped")) if fault else Answer()
            return node, extra, trace.after(fault, answer, fault)
        self.table.load(node, extra, trace.author)
        answer = self._answer(question, node, fault)
        now = self._after(trace, question, node)
        left = self._left(now, node, extra)
        return now, left, trace.after(self._token(answer, fault), answer, fault)

    def _answer(self, question: Question, node: Node, fault: str) -> Answer:
        """Do what was asked, with the fault; errors are answers too."""
        if fault in ("error", "stop before"):
            return Answer(error=OSError("storage") if fault == "error" else Stop("stopped"))
        lost = fault in ("unknown, lost", "unknown, late")
        self.adapter.fault = "unknown, lost" if lost else _commit_fault(fault)
        try:
            value = self._call(question, node)
        except AdapterError as error:
            raise Violation(f"{question.method}: {error}") from error
        except Exception as error:  # the engine is to deal with it
            return Answer(error=error)
        finally:
            self.adapter.fault = None
        if fault == "conflict with itself":
            return Answer(error=Conflict(f"db.t: lost to version {self.table.current.number}"))
        if fault in ("error after", "stop after"):
            return Answer(error=OSError("storage") if fault == "error after" else Stop("stopped"))
        return Answer(value)

    def _call(self, question: Question, node: Node) -> Any:
        if question.method == "snapshot":
            return self.adapter.snapshot_of(node, *question.args)
        if question.method in ("traces", "mask", "find", "delete", "tidy"):
            return getattr(self.adapter.deletes, question.method)(*question.args)
        return getattr(self.adapter, question.method)(*question.args)

    def _token(self, answer: Answer, fault: str) -> Any:
        if answer.error is not None:
            return (fault, type(answer.error).__name__, str(answer.error))
        return (fault, self.registry.freeze(answer.value))

    def _after(self, trace: Trace, question: Question, node: Node) -> Node:
        """The node after a call of a program: maintenance leaves what users read, a delete takes its rows."""
        if len(self.table.versions) == len(node.chain):
            return node
        run_id = self.table.current.run_id
        if any(version.run_id == run_id for version in node.chain):
            raise Violation(f"run {run_id} committed twice")
        model = node.model
        if question.method == "delete":
            base = node.nodes[question.args[1].version].model
            model = model.less(row for row in base.rows if row[K] == 1)
        return self._made(node, model, (trace.name,))

    def _made(self, node: Node, model: Model, by: tuple[str, ...]) -> Node:
        """The node of the version that was just made; checks what it reads like."""
        versions = self.table.versions
        if len(versions) != len(node.chain) + 1 or any(
            a is not b for a, b in zip(versions, node.chain, strict=False)
        ):
            raise Violation("a step made more than one version, or changed an older one")
        made, new = self.registry.node(node, versions[-1], model)
        if made.reads != model.reads:
            raise Violation(
                f"version {made.number} ({made.version.operation} by {by or 'a user'}) reads {made.reads}, "
                f"expected {model.reads}"
            )
        if new:
            self.counts["versions"] += 1
        return made

    def _left(self, now: Node, before: Node, extra: Extra) -> Extra:
        """The files that no version names; all that are named must be on the disk."""
        disk = self.table.disk
        for path, file in now.disk.items():
            if disk.get(path) is not file:
                raise Violation(f"{path} is named by a version and is gone from the disk")
        if now is before and len(disk) == len(now.disk) + len(extra):
            return extra
        return frozenset(self.registry.number(f) for path, f in disk.items() if path not in now.disk)

    def _land(self, state: State) -> State:
        """A commit whose answer was lost gets through at last, if the table still permits it."""
        trace = state.late
        assert trace is not None
        question = trace.next
        assert isinstance(question, Question)
        self.table.load(state.node, state.extra, trace.author)
        answer = self._answer(question, state.node, "")
        node = self._after(trace, question, state.node)
        if answer.error is None:
            self.counts["landed late"] += 1
        return state._replace(node=node, extra=self._left(node, state.node, state.extra), late=None)


def first_node(world: World) -> Node:
    """Version 1 has the rows, 2 the key, 3 one row deleted."""
    table, scope = world.table, world.scope
    ids = scope.settings.row_ids
    node, _ = world.registry.node(None, table.current, Model((), ("k", "v", "p")))

    def note(model: Model) -> None:
        nonlocal node
        node = world._made(node, model, ("setup",))

    table.append(*(setup_rows(rows) for rows in scope.files))
    stored = [row for entry in table.current.files.values() for row in entry.file.rows]
    note(node.model.of((row[ROW_ID] if ids else 0, row["1"], row["2"], row["3"]) for row in stored))
    table.set_key(["k"])
    note(node.model)
    table.author = "first"
    table.delete("k = 9")
    note(node.model.without(lambda row: bool(row[K] == 9)))
    return node


def _commit_fault(fault: str) -> Fault | None:
    return fault if fault in ("rejected", "unknown, landed") else None  # type: ignore[return-value]


def _with(actors: tuple[Actor, ...], slot: int, actor: Actor) -> tuple[Actor, ...]:
    return (*actors[:slot], actor, *actors[slot + 1 :])
