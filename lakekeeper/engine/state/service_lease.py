"""A note by which services leave a table to the one that is maintaining it.

The lease is advisory: it saves work that would lose a race, and no commit depends on it. It is renewed while the work
goes on. A service that dies leaves its note, which is valid for five more minutes; if it ran where this one runs, it is
ignored at once.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lakekeeper.core.units import CLOCKS_DIFFER_MS
from lakekeeper.engine.clock import Clock
from lakekeeper.errors import MALFORMED
from lakekeeper.spi import Notes

NOTE = "service.json"
LASTS_MS = 5 * 60_000
_RENEWED_MS = LASTS_MS // 3
_FURTHEST_MS = LASTS_MS + CLOCKS_DIFFER_MS
"""How far ahead a lease may end; no service with a right clock wrote a later end."""


def new_owner() -> str:
    """A name for a service of this process: host, process id, where that id is valid, and a part of its own."""
    return f"{socket.gethostname()}:{os.getpid()}:{_place()}:{uuid.uuid4().hex[:6]}"


def _place() -> str:
    """The boot and the namespace in which process ids mean what they mean here; empty if they are not known.

    Containers on one host, or with one host name on several, do not see each other's processes.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = Path("/proc/self/ns/pid").readlink()
    except (OSError, ValueError):
        return ""
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{boot} {namespace}").hex[:12]


@contextmanager
def service_lease(
    notes: Notes,
    owner: str,
    clock: Clock,
    repeat: Callable[[Callable[[], None]], Callable[[], None]] | None = None,
) -> Iterator[str]:
    """Yields the owner of a lease that another service holds, or an empty text once the lease is ours.

    If the storage does not respond, yields an empty text too: the work itself reports the error. ``repeat`` calls what
    renews the lease again and again, and returns what ends that; by default a thread does.
    """
    other = ""
    with suppress(Exception):  # a courtesy
        ours = _text(owner, clock.now_ms())
        found = notes.keep(NOTE, ours)
        other = _holder(found, owner, clock.now_ms())
        if found != ours and not other:
            notes.replace(NOTE, ours)
    if other:
        yield other
        return

    def renew() -> None:
        with suppress(Exception):  # two more attempts follow before it expires
            if _owner(notes.read(NOTE)) == owner:
                notes.replace(NOTE, _text(owner, clock.now_ms()))

    end = (repeat or _repeated)(renew)
    try:
        yield ""
    finally:
        end()
        with suppress(Exception):  # it expires by itself
            if _owner(notes.read(NOTE)) == owner:
                notes.remove(NOTE)


def _repeated(renew: Callable[[], None]) -> Callable[[], None]:
    ended = threading.Event()

    def loop() -> None:
        while not ended.wait(_RENEWED_MS / 1000):
            renew()

    thread = threading.Thread(target=loop, name="lakekeeper-lease", daemon=True)
    thread.start()

    def end() -> None:
        ended.set()
        thread.join()  # a renewal after the removal would bring the note back

    return end


def _text(owner: str, now_ms: int) -> str:
    return json.dumps({"owner": owner, "until_ms": now_ms + LASTS_MS})


def _read(text: str | None) -> tuple[str, int]:
    """Owner and end of a lease; the owner is empty for a note that cannot be read."""
    try:
        plain = json.loads(text or "")
        return str(plain["owner"]), int(plain["until_ms"])
    except MALFORMED:
        return "", 0


def _owner(text: str | None) -> str:
    return _read(text)[0]


def _holder(text: str, owner: str, now_ms: int) -> str:
    """The holder of an unexpired lease; empty for our own, for that of a dead process, and for an unreadable note."""
    holder, until_ms = _read(text)
    if holder == owner or not now_ms < until_ms <= now_ms + _FURTHEST_MS:
        return ""
    return "" if _died(holder, owner) else holder


def _died(holder: str, owner: str) -> bool:
    """Whether the holder was a process that we would see, and has ended."""
    host, process, place, *_ = [*holder.split(":"), "", "", ""]
    ours, _, here, *_ = [*owner.split(":"), "", "", ""]
    if not place or (host, place) != (ours, here):
        return False
    if not process.isdecimal() or not 0 < int(process) < 1 << 31:
        return False
    try:
        os.kill(int(process), 0)  # sends nothing
    except ProcessLookupError:
        return True
    except OSError:  # another user's
        return False
    return False
