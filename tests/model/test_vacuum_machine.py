"""Long random histories with vacuums, tags, trash and jumps of time, in any order, with a cleanup at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.model import keeping
from tests.model.asking import COMMIT_FAULTS, SWEEP_FAULTS, possible_faults
from tests.model.bugs import Bug
from tests.model.cells import ROWS, delete, rewrite
from tests.model.keeping import Keep
from tests.model.oracle import Violation
from tests.model.playing import one_of_each, play, play_daily
from tests.model.program import Run, deterministic
from tests.model.sweeps import LINES, WEEKS, restore, sweep, write
from tests.model.vacuum_bugs import VACUUM_BUGS
from tests.model.world import FLAT, Actor, Move, Scope, State, World

KEEPS: Mapping[str, Keep] = {
    "plain": Keep(),
    "writers": Keep(orphans=True),
    "more": Keep(age=48, last=3, named=(2,)),
    "patient": Keep(timeout=200, grace=72),
    "trash": Keep(trash=True),
}
ACTS = (*ROWS, "append", "overwrite", "overwrite", "overwrite", "undo", "restore", "tag", "tag", "untag")
SLOT = (0, 1, 2)
STEPS = 40
EXAMPLES = 500
SOMETIMES = (
    "crash", "died late", "vacuum deleted", "expired", "leftovers deleted",
    "settled runs", "settled files", "kept: is read by", "kept: is tagged t", "kept: is one of the last",
    "kept: is named by the caller", "kept: was the newest within the grace", "ended: Rejected", "ended: Unknown",
    "ended: AdapterError",
)  # fmt: skip
"""A refused vacuum is not required: few random histories meet one, and `test_vacuum_search` always does."""


def programs(keep: Keep) -> dict[str, Run]:
    """By name; vacuums begin with a v, and the writer that does not register with a w."""
    hours: dict[str, Any] = {
        "vacuum_intent_timeout_hours": keep.timeout,
        "vacuum_orphan_grace_hours": keep.grace,
    }
    found = {
        "rewrite": rewrite(**hours),
        "delete": delete(**hours),
        "vacuum": sweep(keep),
        "vorphans": sweep(keep, orphans=True),
    }
    if keep.orphans:
        found |= {"writer": write}
    if keep.trash:
        found |= {"vbin": sweep(keep, trash=True), "vback": restore("vbin")}
    return found


NAMES = ("rewrite", "rewrite", "delete", "vacuum", "vacuum", "vorphans", "writer", "vbin", "vback")


class Sweeps(RuleBasedStateMachine):
    """Each rule is one or a few steps of one actor; the checks after each are in ``tests.model.keeping``."""

    counts: ClassVar[Counter[str]] = Counter()
    world: World
    state: State

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.stack.enter_context(deterministic())
        self.sound = True

    @initialize(line=st.sampled_from(sorted(LINES)), keep=st.sampled_from(sorted(KEEPS)))
    def make(self, line: str, keep: str) -> None:
        scope = Scope(
            line, LINES[line], {}, ACTS, users=STEPS, faults=STEPS, crashes=STEPS, files=FLAT, keep=KEEPS[keep],
            jumps=STEPS,
        )  # fmt: skip
        self.world = World(scope, self.counts)
        no_actors = tuple(Actor(None, 0, 0) for _ in SLOT)
        self.state = self.world.first()._replace(actors=no_actors)
        self.programs = programs(KEEPS[keep])
        self.started = 0

    @rule(act=st.sampled_from(ACTS))
    def user(self, act: str) -> None:
        self._take(Move("user", -1, act))

    @rule(hours=st.sampled_from((30, 30, 60, WEEKS)))
    def advance_clock(self, hours: int) -> None:
        self._take(Move("jump", hours, ""))

    @rule(what=one_of_each(SLOT, NAMES, (1, 3, 6, 30)))
    def go(self, what: tuple[int, str, int]) -> None:
        """Some steps of a program."""
        slot, program, steps = what
        self._busy(slot, program)
        for _ in range(steps):
            if self.state.actors[slot].trace is not None:
                self._take(Move("step", slot, ""))

    @rule(
        what=one_of_each(
            SLOT,
            NAMES,
            ("storage.garbage", "storage.expire", "storage.require_dead", "storage.delete", "commit"),
            ACTS,
        )
    )
    def race(self, what: tuple[int, str, str, str]) -> None:
        """An actor acts just before a program takes a certain step."""
        slot, program, method, act = what
        self._busy(slot, program)
        while (trace := self.state.actors[slot].trace) is not None:
            if trace.asks == method:
                self._take(Move("user", -1, act))
                return
            self._take(Move("step", slot, ""))

    @rule(
        what=one_of_each(
            SLOT, NAMES, (*COMMIT_FAULTS, *SWEEP_FAULTS, "crash", "crash", "crash"), (0, 2, 5, 9)
        )
    )
    def fail(self, what: tuple[int, str, str, int]) -> None:
        """After some steps, the next call that can fail in this way does."""
        slot, program, kind, steps = what
        self.go((slot, program, steps))
        if kind == "crash" and self.state.actors[slot].trace is not None:
            self._take(Move("crash", slot, ""))
        while kind != "crash" and self.state.actors[slot].trace is not None:
            if kind in possible_faults(self.state, slot, (kind,)):
                self._take(Move("fault", slot, kind))
                return
            self._take(Move("step", slot, ""))

    @rule()
    def land(self) -> None:
        if self.state.late is not None:
            self._take(Move("land", -1, ""))

    def _busy(self, slot: int, program: str) -> None:
        """Start a new program in a free slot."""
        if self.state.actors[slot].trace is None and program in self.programs:
            self.started += 1
            actors = list(self.state.actors)
            actors[slot] = self.world.begin(program, self.programs[program], self.started)
            self.state = self.state._replace(actors=tuple(actors))

    def _take(self, move: Move) -> None:
        self.sound = False
        self.state = self.world.take(self.state, move) or self.state
        self.sound = True

    def teardown(self) -> None:
        try:
            if self.sound:
                no_actors = tuple(Actor(None, 0, 0) for _ in SLOT)
                keeping.settle(self.world, self.state._replace(actors=no_actors, late=None))
        finally:
            self.stack.close()


@pytest.mark.slow
def test_long_random_histories_with_vacuums() -> None:
    Sweeps.counts.clear()
    if play_daily(Sweeps, EXAMPLES, STEPS):
        assert {what for what in SOMETIMES if not Sweeps.counts[what]} == set()


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["tags are forgotten", "what the dead have left is forgotten"])
def test_the_machine_finds_a_seeded_bug_of_a_vacuum(name: str) -> None:
    bug: Bug = next(bug for bug in VACUUM_BUGS if bug.name == name)
    with bug.planted(), pytest.raises(Violation):
        play(Sweeps, 200, STEPS, shrink=False)
