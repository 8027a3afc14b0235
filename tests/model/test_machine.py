"""Long random histories: several programs of the engine open at once, users, faults and crashes, in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policies.sizes import SIZES
from tests.model.asking import COMMIT_FAULTS, possible_faults
from tests.model.bugs import BUGS, trusting
from tests.model.cells import ALL, ROWS, STOPS, TABLES, UNCOUNTED, delete, rewrite
from tests.model.oracle import Violation, read
from tests.model.playing import one_of_each, play, play_daily
from tests.model.program import Run, deterministic
from tests.model.world import LONG, PARTS, Actor, Move, Scope, State, World

PROGRAMS: dict[str, Run] = {
    "full": rewrite(),
    "sizes": rewrite(
        SIZES,
        max_rows_per_file=10,
        commit_retry_num_retries=3,
        commit_quiet_window_ms=500,
    ),
    "final": rewrite(RANGES, final=True, max_rounds=3),
    "parts": rewrite(watchful=True),
    "delete": delete(),
}
KINDS = {**TABLES, **UNCOUNTED}
SLOT = (0, 1, 2)
DELETES = (*ROWS, *["delete_widest"] * 3)
REST = [act for act in ALL if act not in ROWS]
STEPS = 50
SOMETIMES = (
    "replay", "second replay", "retry", "drop", "crash", "gave up", "unknown, settled",
    "unknown, reported", "landed late", "delete followed rows", "early abort",
)  # fmt: skip
RARELY = ("third replay", "delete over a rewrite", "failed", "came back")


class Histories(RuleBasedStateMachine):
    """Each rule is one or a few steps of one actor; the checks after each are in ``tests.model.world``."""

    counts: ClassVar[Counter[str]] = Counter()
    world: World
    state: State

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.stack.enter_context(deterministic())  # a new one each time: it caches all plans

    @initialize(table=st.sampled_from(sorted(KINDS)), parts=st.booleans())
    def make(self, table: str, parts: bool) -> None:
        scope = Scope(
            table, KINDS[table], {}, ALL, users=STEPS, faults=STEPS, crashes=STEPS,
            files=PARTS if parts else LONG, partitioned=parts,
        )  # fmt: skip
        self.world = World(scope, self.counts)
        no_actors = tuple(Actor(None, 0, 0) for _ in SLOT)
        self.state = self.world.first()._replace(actors=no_actors)
        self.started = 0

    @rule(act=st.sampled_from([*DELETES, "load", "load", "load", "append", *REST]))
    def user(self, act: str) -> None:
        self._take(Move("user", -1, act))

    @rule(what=one_of_each(SLOT, sorted(PROGRAMS), (1, 2, 4, 8)))
    def go(self, what: tuple[int, str, int]) -> None:
        """Some steps of a program."""
        slot, program, steps = what
        self._busy(slot, program)
        for _ in range(steps):
            if self.state.actors[slot].trace is not None:
                self._take(Move("step", slot, ""))

    @rule(what=one_of_each(SLOT, sorted(PROGRAMS), DELETES, (1, 2, 3)))
    def race(self, what: tuple[int, str, str, int]) -> None:
        """A user deletes rows each time a program is about to commit."""
        slot, program, act, times = what
        self._busy(slot, program)
        while times and (trace := self.state.actors[slot].trace) is not None:
            if trace.asks in ("commit", "delete"):
                self._take(Move("user", -1, act))
                times -= 1
            self._take(Move("step", slot, ""))

    @rule(what=one_of_each(SLOT, sorted(PROGRAMS), (*COMMIT_FAULTS, *STOPS, "crash")))
    def fail(self, what: tuple[int, str, str]) -> None:
        """The next call that can fail in this way does."""
        slot, program, kind = what
        self._busy(slot, program)
        if kind == "crash":
            self._take(Move("crash", slot, ""))
        while kind != "crash" and self.state.actors[slot].trace is not None:
            if kind in possible_faults(self.state, slot, (kind,)):
                self._take(Move("fault", slot, kind))
                return
            self._take(Move("step", slot, ""))

    def _busy(self, slot: int, program: str) -> None:
        """Start a new program in a free slot."""
        if self.state.actors[slot].trace is None:
            self.started += 1
            actors = list(self.state.actors)
            actors[slot] = self.world.begin(program, PROGRAMS[program], self.started)
            self.state = self.state._replace(actors=tuple(actors))

    @rule()
    def land(self) -> None:
        if self.state.late is not None:
            self._take(Move("land", -1, ""))

    def _take(self, move: Move) -> None:
        self.state = self.world.take(self.state, move) or self.state

    @invariant()
    def versions_still_read_the_same(self) -> None:
        """The newest version, and an older one."""
        nodes = self.state.node.nodes
        for node in (nodes[-1], nodes[len(nodes) // 2]):
            if read(node.version, row_ids=node.reads_ids) != node.model.reads:
                raise Violation(f"version {node.number} no longer reads as when it was made")

    def teardown(self) -> None:
        self.stack.close()
        for node in self.state.node.nodes:
            if read(node.version, row_ids=node.reads_ids) != node.model.reads:
                raise Violation(f"version {node.number} no longer reads as when it was made")


@pytest.mark.slow
@pytest.mark.parametrize(
    "examples, share, seen",
    [(400, 10, SOMETIMES), pytest.param(2_000, 1, (*SOMETIMES, *RARELY), marks=pytest.mark.deep)],
    ids=["some", "many"],
)
def test_long_random_histories(examples: int, share: int, seen: Sequence[str]) -> None:
    Histories.counts.clear()
    if not play_daily(Histories, examples, STEPS, share):
        seen = ()
    assert {what for what in seen if not Histories.counts[what]} == set()


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name",
    [
        "masks are off by one",
        "files are removed after an unknown outcome",
        "a delete replaces files that are gone",
        "a file whose rows were not counted has none",
    ],
)
def test_the_machine_finds_a_seeded_bug(name: str) -> None:
    bug = next(bug for bug in BUGS if bug.name == name)
    with bug.planted(), trusting(), pytest.raises(Violation):
        play(Histories, 400, STEPS, shrink=False)
