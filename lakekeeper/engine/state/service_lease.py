"""A note by which services leave a table to the one that is maintaining it.

A courtesy: it saves work that would lose a race, and no commit depends on it. A service that dies leaves its note,
which counts for half an hour.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lakekeeper.engine.clock import Clock
from lakekeeper.spi import Notes

NOTE = "service.json"
LASTS_MS = 30 * 60_000


@contextmanager
def service_lease(notes: Notes, owner: str, clock: Clock) -> Iterator[str]:
    """Yields the owner of a lease that another service holds, or an empty text once the lease is ours.

    A storage that does not answer yields an empty text too: the work itself reports it.
    """
    other, ours = "", _text(owner, clock.now_ms())
    with suppress(Exception):  # a courtesy
        found = notes.keep(NOTE, ours)
        other = _holder(found, owner, clock.now_ms())
        if found != ours and not other:
            notes.replace(NOTE, ours)
    try:
        yield other
    finally:
        if not other:
            with suppress(Exception):  # it runs out by itself
                if notes.read(NOTE) == ours:
                    notes.remove(NOTE)


def _text(owner: str, now_ms: int) -> str:
    return json.dumps({"owner": owner, "until_ms": now_ms + LASTS_MS})


def _holder(text: str, owner: str, now_ms: int) -> str:
    """Who holds a lease that has not run out; empty for our own, and for a note that cannot be read."""
    try:
        plain = json.loads(text)
        holder, until_ms = str(plain["owner"]), int(plain["until_ms"])
    except (ValueError, TypeError, KeyError):
        return ""
    return holder if holder != owner and now_ms < until_ms <= now_ms + LASTS_MS else ""
