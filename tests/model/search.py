"""The search: depth first over all states of a scope, each expanded once.

    python -m tests.model.search --states 1000000

searches all scopes, deeper and deeper, until one round has seen that many distinct states.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import logging
import multiprocessing
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.model.cells import scopes
from tests.model.oracle import Violation, read
from tests.model.program import deterministic
from tests.model.sweeps import sweep_scopes
from tests.model.world import Move, Scope, State, World

History = tuple[Any, ...]
"""The moves up to a state, last first: ``(history before, move)``."""


@dataclass
class Found:
    """What a search saw: distinct states, moves, counts of events, and the first broken guarantee."""

    scope: str
    states: int = 0
    moves: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    violation: str = ""
    seconds: float = 0.0
    most_mib: int = 0

    def __str__(self) -> str:
        speed = self.states / max(self.seconds, 0.001)
        return (
            f"{self.scope:45} {self.states:>9,} states {self.moves:>10,} moves {self.seconds:7.1f} s "
            f"{speed:>7,.0f} states/s {self.most_mib:>6,} MiB{self.violation and ' BROKEN'}"
        )


def search(scope: Scope) -> Found:
    """Search all states of a scope; stop at the first broken guarantee. Seconds are this process's CPU time."""
    started = time.process_time()
    found = Found(scope.name)
    collects = gc.isenabled()
    gc.disable()  # millions of small values that all stay alive: garbage collection would dominate the search
    try:
        with deterministic():
            _search(World(scope, found.counts), found)
    finally:
        if collects:
            gc.enable()
    found.seconds = time.process_time() - started
    found.most_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return found


def _search(world: World, found: Found) -> None:
    history: History = ()
    seen: set[int] = set()
    try:
        first = world.first()
        seen.add(hash(first))
        stack: list[tuple[State, History]] = [(first, ())]
        while stack:
            state, before = stack.pop()
            history = before
            for move in world.moves(state):
                history = (before, move)
                after = world.take(state, move)
                if after is None:
                    continue
                found.moves += 1
                key = hash(after)
                if key not in seen:
                    seen.add(key)
                    stack.append((after, history))
        _read_again(world)
    except Violation as broken:
        after_moves = " → ".join(str(move) for move in moves_of(history))
        found.violation = f"{world.scope.name}: {broken}\n  after: {after_moves}"
    found.states = len(seen)


def _read_again(world: World) -> None:
    """Every version still reads as when it was made."""
    for node in world.registry.nodes.values():
        if read(node.version, row_ids=node.reads_ids) != node.reads:
            raise Violation(f"version {node.number} no longer reads as when it was made")


def moves_of(history: History) -> list[Move]:
    """The moves of a history, in order."""
    found: list[Move] = []
    while history:
        history, move = history
        found.append(move)
    return found[::-1]


def search_all(chosen: Sequence[Scope], processes: int = 1) -> Iterator[Found]:
    """Results as they arrive, in the order of the scopes."""
    if processes == 1:
        yield from map(search, chosen)
        return
    # One scope for each process: its memory is freed with the process.
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=1) as pool:
        yield from pool.imap(_by_name, [(scope.name, depth_of(chosen)) for scope in chosen])


def all_scopes(depth: int) -> list[Scope]:
    """The scopes of maintenance, and the scopes with a vacuum."""
    return [*scopes(depth), *sweep_scopes(depth)]


def depth_of(chosen: Sequence[Scope]) -> int:
    """How much deeper than the minimum these scopes are."""
    least = {scope.name: scope.users for scope in scopes(0)}
    return chosen[0].users - least[chosen[0].name]


def _by_name(what: tuple[str, int]) -> Found:
    """A scope holds functions, which cannot be pickled: the other process looks it up by name."""
    name, depth = what
    quiet()
    return search(next(scope for scope in all_scopes(depth) if scope.name == name))


def quiet() -> None:
    """The engine logs each conflict of each history: that would be millions of lines."""
    logging.getLogger("lakekeeper").setLevel(logging.CRITICAL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print each scope as it finishes, then a summary by outcome; return 1 if a guarantee was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--states", type=int, default=1_000_000, help="distinct states to be seen in a round")
    parser.add_argument("--processes", type=int, default=2)
    arguments_given = parser.parse_args(arguments)
    quiet()
    for depth in itertools.count():
        started = time.perf_counter()
        total = Found(f"all scopes, depth {depth}")
        for found in search_all(all_scopes(depth), arguments_given.processes):
            print(found, flush=True)
            if found.violation:
                print(found.violation, flush=True)
            total.states += found.states
            total.moves += found.moves
            total.seconds += found.seconds
            total.counts += found.counts
            total.most_mib = max(total.most_mib, found.most_mib)
            total.violation = total.violation or found.violation
        print(f"{total}; {time.perf_counter() - started:,.0f} s by the clock")
        print(
            "\n".join(f"  {count:>12,}  {what}" for what, count in sorted(total.counts.items())), flush=True
        )
        if total.violation or total.states >= arguments_given.states:
            return 1 if total.violation else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
