"""What the races of two drivers share."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lakekeeper.spi import Observer
from lakekeeper.testing.values import text
from tests.stores.driver import Driver
from tests.stores.faulty_s3 import Call, FaultyS3
from tests.stores.kinds import StoreTable


class Meeting:
    """The first two calls that write a key with such a name happen at the same time."""

    def __init__(self, verb: str, part: str) -> None:
        self._verb, self._part = verb, part
        self._left = 2
        self._lock = threading.Lock()
        self._barrier = threading.Barrier(2)

    def __call__(self, call: Call) -> threading.Barrier | None:
        with self._lock:
            if call.verb != self._verb or self._part not in call.key or not self._left:
                return None
            self._left -= 1
            return self._barrier

    @property
    def happened(self) -> bool:
        return self._left == 0 and not self._barrier.broken


@contextmanager
def meeting_at(relay: FaultyS3, verb: str, part: str) -> Iterator[Meeting]:
    """A meeting at a relay while the context lasts."""
    made = Meeting(verb, part)
    relay.held = made
    try:
        yield made
    finally:
        relay.held = lambda _: None


@contextmanager
def dying_at(relay: FaultyS3, users: Driver, verb: str, key: str) -> Iterator[None]:
    """The second driver dies at such a call. None of them is passed on while the context lasts."""

    def held(call: Call) -> threading.Barrier | None:
        if call.verb != verb or not call.key.endswith(key):
            return None
        if users.running():
            users.kill()
        broken = threading.Barrier(2)
        broken.abort()
        return broken

    relay.held = held
    try:
        yield
    finally:
        relay.held = lambda _: None


def calling(users: Driver) -> Observer:
    """Start the second driver just before our commit, so that neither waits long at the barrier."""
    waiting = [users]

    def observe(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "before_commit" and waiting:
            waiting.pop().go()

    return observe


def with_users(rows: Counter[str], *, times: int = 1) -> Counter[str]:
    """These rows and the ones that the second driver appends, so many times."""
    users = (text({"id": i, "k": i % 101, "v": f"v{i}"}) for i in range(1_000, 1_010))
    return rows + Counter(dict.fromkeys(users, times))


def next_version(table: StoreTable) -> int:
    """The number of the next Delta commit."""
    names = [key.rpartition("/")[2] for key in table.store.keys(f"{table.prefix}/_delta_log/")]
    return 1 + max(
        int(name.removesuffix(".json")) for name in names if name[:20].isdigit() and name.endswith(".json")
    )
