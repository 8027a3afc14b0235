"""States of a table with several concurrent programs, and the moves that lead from one to the next.

A move is one step of one actor: a program's call of the adapter (correct, or with a fault), a notification of the
observer, a user's action, a crash, or the late landing of a commit whose response was lost. The guarantees are checked
after each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lakekeeper.core.units import HOUR_MS
from lakekeeper.testing.lake import Settings
from lakekeeper.testing.versions import ROW_ID
from tests.model import keeping, promises
from tests.model.asking import COMMIT_FAULTS, answered, possible_faults
from tests.model.keeping import Keep
from tests.model.oracle import Model, Violation
from tests.model.program import Answer, Done, Question, Run, Stop, Trace
from tests.model.store import BARE, OURS, Extra, ModelAdapter, ModelTable, Node, Registry, Shelf
from tests.model.users import ACTS, BESIDE, K, setup_rows, staged_row

Rows = tuple[tuple[tuple[int, int, str], ...], ...]
FLAT: Rows = (((0, 1, "a"), (0, 2, "b"), (0, 9, "z")), ((0, 1, "a"),), ((0, 3, "c"),))
LONG: Rows = (
    ((0, 1, "a"), (0, 2, "b"), (0, 4, "d"), (0, 5, "e"), (0, 9, "z")),
    ((0, 1, "a"),),
    ((0, 3, "c"),),
)
PARTS: Rows = (((0, 1, "a"), (0, 9, "z")), ((0, 1, "a"),), ((1, 1, "a"),), ((1, 3, "c"),))
"""Files of rows (p, k, v): few values, so that rows are equal; the row of k = 9 is deleted before programs start."""

_ALONG = ("storage.look", "storage.missing", "storage.named", "covered", "keep")
"""Calls made together with the previous step: a later call returns the same, or no program sees a difference."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What may happen in a search: programs by name, and how many user actions, faults and crashes occur.

    ``acts`` are the users' possible actions; ``restarts`` new runs of the first program after its crash. ``keep``: the
    table is vacuumed with this retention; ``jumps`` of that many ``hours`` happen.
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
    keep: Keep | None = None
    jumps: int = 0
    hours: tuple[int, ...] = ()


class Actor(NamedTuple):
    """A program at a point of its work (None: it ended or crashed), its remaining restarts, and its number."""

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
    shelf: Shelf = BARE
    jumped: int = 0
    jumps: int = 0


class Move(NamedTuple):
    """A possible step in a state: ``slot`` of the actor (-1: a user), and what happens."""

    kind: str
    slot: int
    what: str

    def __str__(self) -> str:
        return " ".join(str(part) for part in self if part not in ("", -1))


@dataclass
class World:
    """All that the states of one scope share: the table they are loaded into, and the results cached so far."""

    scope: Scope
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        settings = self.scope.settings
        self.registry = Registry(row_ids=settings.row_ids)
        parts = ["p"] if self.scope.partitioned else []
        kinds = {"k": "int", "v": "string", "p": "int"}
        self.table = ModelTable(self.registry, kinds, parts, settings)
        self.adapter = ModelAdapter(self.table)
        self._acted: dict[Any, tuple[Node, Shelf] | None] = {}
        self._stepped: dict[Any, Any] = {}
        self.checked: set[Any] = set()
        self.settled: set[Any] = set()

    def first(self) -> State:
        """The initial state: three files, four live rows, one row deleted before."""
        node = first_node(self)
        actors = tuple(
            self._start(i, self.scope.restarts if i == 0 else 0, 1) for i in range(len(self.scope.programs))
        )
        scope = self.scope
        users, faults, crashes = scope.users, scope.faults, scope.crashes
        return State(node, frozenset(), actors, users, faults, crashes, None, jumps=scope.jumps)

    def _start(self, slot: int, left: int, count: int) -> Actor:
        name, run = list(self.scope.programs.items())[slot]
        key = ("start", slot, count)
        if key not in self._stepped:
            self._stepped[key] = self.begin(name, run, count).trace
        return Actor(self._stepped[key], left, count)

    def begin(self, name: str, run: Run, count: int) -> Actor:
        """A program at its start."""
        shared = self.scope.keep is not None
        return Actor(Trace(f"{name}{count}", run, self.adapter.capabilities, shared), 0, count)

    # -- moves --------------------------------------------------------------------------------------------------

    def moves(self, state: State) -> Iterator[Move]:
        """The possible next moves; none once all programs have ended."""
        live = [(i, actor.trace) for i, actor in enumerate(state.actors) if actor.trace is not None]
        if not live and state.late is None:
            keeping.settle(self, state)
            return
        for slot, trace in live:
            question = trace.next
            assert isinstance(question, Question)
            yield Move("step", slot, question.method)
            if state.faults:
                for fault in possible_faults(state, slot, self.scope.fault_kinds):
                    yield Move("fault", slot, fault)
            if state.crashes:
                yield Move("crash", slot, "")
        yield from self._outside(state)

    def _outside(self, state: State) -> Iterator[Move]:
        """Moves that no program makes."""
        if state.late is not None:
            yield Move("land", -1, "")
        if state.users:
            yield from (Move("user", -1, act) for act in self.scope.acts)
        if state.jumps:
            yield from (Move("jump", hours, "") for hours in self.scope.hours)

    def take(self, state: State, move: Move) -> State | None:
        """The state after a move; None if there is nothing to do. Raises Violation."""
        if move.kind == "user":
            acted = self._act(state, move.what)
            if acted is None:
                return None
            return state._replace(node=acted[0], shelf=acted[1], users=state.users - 1)
        if move.kind == "jump":
            # After this long it never lands.
            jumped = state.jumped + move.slot * HOUR_MS
            return state._replace(jumped=jumped, jumps=state.jumps - 1, late=None)
        if move.kind == "land":
            return self._land(state)
        if move.kind == "crash":
            return self._crash(state, move.slot)
        return self._step(state, move.slot, move.what if move.kind == "fault" else "")

    def _act(self, state: State, act: str) -> tuple[Node, Shelf] | None:
        node, shelf = state.node, state.shelf
        key = (node, act, shelf, state.jumped)
        if key not in self._acted:
            self._load(node, frozenset(), f"{act}{node.number}", shelf, state.jumped)
            self._acted[key] = self._done(state, act)
        return self._acted[key]

    def _done(self, state: State, act: str) -> tuple[Node, Shelf] | None:
        """The table after a user's action; a version is accessed by name only if readers can rely on it."""
        node, shelf, keep = state.node, state.shelf, self.scope.keep
        if keep is not None and (back := BESIDE.get(act)) is not None:
            number = back(node)
            if not keeping.relied_on(self, keep, node, shelf, state.jumped, number):
                return None
        model = ACTS[act](self.table, node)
        if model is None:
            return None
        if len(self.table.versions) > len(node.chain):
            node = self.made(node, model, ())
        return node, self._shelf(node, shelf, state.jumped)

    def _load(self, node: Node, extra: Extra, author: str, shelf: Shelf, jumped: int) -> None:
        self.table.load(node, extra, author, shelf if self.scope.keep else None, jumped)

    def _shelf(self, node: Node, before: Shelf, jumped: int) -> Shelf:
        """The shelf of the table now; every version that must be kept still has its files."""
        if self.scope.keep is None:
            return BARE
        shelf = self.registry.shelf(self.table, node)
        keeping.check(self, self.scope.keep, node, shelf, jumped)
        if shelf.gone - before.gone:
            self.counts["a file of a version was freed"] += 1
        return shelf

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
        if self.scope.keep is not None and keeping.overtaken(self, trace, state):
            self.counts["died late"] += 1
            return state._replace(actors=_with(state.actors, slot, actor._replace(trace=None)))
        key = (trace, state.node, state.extra, state.shelf, state.jumped, fault)
        known = self._stepped.get(key)
        if known is None:
            known = self._stepped[key] = self._perform(trace, state, fault)
            if isinstance(known[3].next, Done):
                promises.ended(self, known[3], known[0], known[1])
        node, extra, shelf, after = known
        if self.scope.keep is not None and len(extra) < len(state.extra):
            keeping.in_flight(self, state, trace, extra)
        late = trace if fault == "unknown, late" else state.late
        left = state.faults - 1 if fault else state.faults
        actor = actor._replace(trace=None if isinstance(after.next, Done) else after)
        actors = _with(state.actors, slot, actor)
        return state._replace(node=node, extra=extra, shelf=shelf, actors=actors, faults=left, late=late)

    def _perform(self, trace: Trace, state: State, fault: str) -> tuple[Node, Extra, Shelf, Trace]:
        """One step, and the calls made together with it."""
        node, extra, shelf, after = self._once(trace, state, fault)
        while isinstance(after.next, Question) and after.next.method in _ALONG:
            now = state._replace(node=node, extra=extra, shelf=shelf)
            node, extra, shelf, after = self._once(after, now, "")
        return node, extra, shelf, after

    def _once(self, trace: Trace, state: State, fault: str) -> tuple[Node, Extra, Shelf, Trace]:
        node, extra, shelf, question = state.node, state.extra, state.shelf, trace.next
        assert isinstance(question, Question)
        if question.method == "phase":
            answer = Answer(error=Stop("stopped")) if fault else Answer()
            return node, extra, shelf, trace.after(fault, answer, fault)
        self._load(node, extra, trace.author, shelf, state.jumped)
        answer = answered(self, question, node, fault)
        now = self._after(trace, question, node)
        left = self._left(now, node, extra)
        token = self._token(answer, fault)
        if self.scope.keep is not None:
            shelf = self._shelf(now, shelf, state.jumped)
            answer = replace(answer, notes=shelf.notes, now=keeping.START_MS + state.jumped)
            token = (token, state.jumped)
        return now, left, shelf, trace.after(token, answer, fault)

    def _token(self, answer: Answer, fault: str) -> Any:
        if answer.error is not None:
            return (fault, type(answer.error).__name__, str(answer.error))
        return (fault, self.registry.freeze(answer.value))

    def _after(self, trace: Trace, question: Question, node: Node) -> Node:
        """The node after a call of a program: maintenance keeps what users read, a delete removes its rows."""
        if len(self.table.versions) == len(node.chain):
            return node
        run_id = self.table.current.run_id
        if run_id and any(version.run_id == run_id for version in node.chain):
            raise Violation(f"run {run_id} committed twice")
        model = node.model
        if question.method == "publish":
            model = model.plus([staged_row(node)[1]])
        if question.method == "delete":
            # A table with serializable deletes shows no row that matched when the delete was committed.
            if self.scope.settings.serializable:
                model = model.without(lambda row: bool(row[K] == 1))
            else:
                base = node.nodes[question.args[1].version].model
                model = model.less(row for row in base.rows if row[K] == 1)
        return self.made(node, model, (trace.name,))

    def made(self, node: Node, model: Model, by: tuple[str, ...]) -> Node:
        """The node of the version just made; checks its rows."""
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
        """The unreferenced files; if the table is not vacuumed, all referenced files must be on disk."""
        disk = self.table.disk
        if self.scope.keep is None:
            for path, file in now.disk.items():
                if disk.get(path) is not file:
                    raise Violation(f"{path} is referenced by a version and is missing on disk")
            if now is before and len(disk) == len(now.disk) + len(extra):
                return extra
        return frozenset(
            self.registry.number(f)
            for path, f in disk.items()
            if path not in now.disk and not path.startswith(OURS)
        )

    def _land(self, state: State) -> State:
        """A commit whose response was lost lands late, if the table still permits it."""
        trace = state.late
        assert trace is not None
        question = trace.next
        assert isinstance(question, Question)
        self._load(state.node, state.extra, trace.author, state.shelf, state.jumped)
        answer = answered(self, question, state.node, "")
        node = self._after(trace, question, state.node)
        if answer.error is None:
            self.counts["landed late"] += 1
        left = self._left(node, state.node, state.extra)
        shelf = self._shelf(node, state.shelf, state.jumped)
        return state._replace(node=node, extra=left, shelf=shelf, late=None)


def first_node(world: World) -> Node:
    """Version 1 has the rows, 2 the key, 3 one row deleted."""
    table, scope = world.table, world.scope
    ids = scope.settings.row_ids
    node, _ = world.registry.node(None, table.current, Model((), ("k", "v", "p")))

    def note(model: Model) -> None:
        nonlocal node
        node = world.made(node, model, ("setup",))

    table.append(*(setup_rows(rows) for rows in scope.files))
    stored = [row for entry in table.current.files.values() for row in entry.file.rows]
    note(node.model.of((row[ROW_ID] if ids else 0, row["1"], row["2"], row["3"]) for row in stored))
    table.set_key(["k"])
    note(node.model)
    table.author = "first"
    table.delete("k = 9")
    note(node.model.without(lambda row: bool(row[K] == 9)))
    return node


def _with(actors: tuple[Actor, ...], slot: int, actor: Actor) -> tuple[Actor, ...]:
    return (*actors[:slot], actor, *actors[slot + 1 :])
