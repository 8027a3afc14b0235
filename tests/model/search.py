"""The search: depth first over all states of a scope, each expanded once."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.model.cells import scopes
from tests.model.oracle import Violation
from tests.model.program import deterministic
from tests.model.world import Move, Scope, State, World

History = tuple[Any, ...]


@dataclass
class Found:
    """What a search saw: distinct states, moves, what happened how often, and the first broken promise."""

    scope: str
    states: int = 0
    moves: int = 0
    complete: bool = True
    counts: Counter[str] = field(default_factory=Counter)
    violation: str = ""
    seconds: float = 0.0


def search(scope: Scope, most: int | None = None) -> Found:
    """All states of a scope, or the first ``most``; ends at the first broken promise."""
    started = time.perf_counter()
    with deterministic():
        world = World(scope)
        found = Found(scope.name, counts=world.counts)
        history: History | None = None
        try:
            first = world.first()
            seen = {hash(first)}
            stack: list[tuple[State, History]] = [(first, ())]
            while stack:
                state, before = stack.pop()
                if most is not None and len(seen) >= most:
                    found.complete = False
                    break
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
            found.states = len(seen)
        except Violation as broken:
            found.violation = f"{scope.name}: {broken}\n  after: {' → '.join(map(str, _moves(history)))}"
    found.seconds = time.perf_counter() - started
    return found


def _moves(history: History | None) -> list[Move]:
    found: list[Move] = []
    while history:
        history, move = history
        found.append(move)
    return found[::-1]


def main() -> int:
    for scope in scopes(int(sys.argv[1]) if len(sys.argv) > 1 else 0):
        found = search(scope)
        print(f"{found.scope:45} {found.states:>9,} states {found.moves:>10,} moves {found.seconds:6.1f} s {found.states/found.seconds:,.0f}/s", flush=True)
        print(dict(found.counts))
        if found.violation: print(found.violation)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
