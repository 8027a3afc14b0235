"""One look at a table for all verbs of a pass: the newest snapshot is read once and then kept up to date.

    snapshot() ─► kept? ─┬─ no ──────────────────────────────────────► adapter.snapshot(): reads the whole log
                         └─ yes ─► adapter.refresh(kept) ─┬─ unchanged: the same snapshot
                                                          ├─ the same as a whole read, from new commits alone
                                                          └─ None: that cannot be done exactly ─► adapter.snapshot()

Each call checks with the log that the snapshot is still the newest, so that no call works on an older one than it would
have read itself; only within :meth:`TableSession.one_look`, the log is read once. Commits are checked against the log
in any case. A predicate selects from that snapshot, without reading the log again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.errors import OptionError
from lakekeeper.spi import Adapter

Kept = Mapping[tuple[str, ...] | None, Snapshot]
"""Snapshots of one table, by key columns."""
_KEY_PARTS = 16  # most arrays of one kind: one for each column of a key
_KEYS = 2  # the table's own key, and that of a call or of a conf


class TableSession:
    """The snapshots of one table, by key columns, for one thread. The selections of predicates are not kept."""

    def __init__(self, adapter: Adapter[Any]) -> None:
        self.adapter = adapter
        self._kept: OrderedDict[tuple[str, ...] | None, Snapshot] = OrderedDict()
        self._look: _Look | None = None

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """Within the block, the log and the properties are read once, for plans of several verbs that agree."""
        outer, self._look = self._look, self._look or _Look()
        try:
            yield
        finally:
            self._look = outer

    def properties(self) -> Mapping[str, str]:
        """The table's current properties."""
        if self._look is None:
            return self.adapter.properties()
        if self._look.properties is None:
            self._look.properties = self.adapter.properties()
        return self._look.properties

    def snapshot(self, columns: Sequence[str] | None = None, where: str | None = None) -> Snapshot:
        """As :meth:`lakekeeper.spi.Adapter.snapshot`."""
        if where is not None:
            return self.adapter.matching(self.snapshot(columns), where)
        named = None if columns is None else tuple(columns)
        kept = self._kept.get(named)
        if kept is not None and self._look is not None and named in self._look.seen:
            newest: Snapshot | None = kept
        else:
            newest = None if kept is None else self.adapter.refresh(kept, columns)
        if newest is None:
            newest = self.adapter.snapshot(columns, where)
        self._kept[named] = newest
        self._kept.move_to_end(named)
        if self._look is not None:
            self._look.seen.add(named)
        while len(self._kept) > _KEYS:
            self._kept.popitem(last=False)
        return newest

    def files(self, where: str) -> Snapshot:
        """The files that may hold a match, for a call that needs no key: under whatever key a snapshot is kept."""
        columns = next(reversed(self._kept), None)
        try:
            return self.snapshot(columns, where)
        except OptionError:  # a column of the kept key may be gone
            if columns is None:
                raise
            self._kept.pop(columns, None)
            return self.snapshot(None, where)

    @property
    def kept(self) -> Kept:
        """The snapshots as they are now, for a later session: without the adapter, and what that has read."""
        return self._kept.copy()

    @property
    def nbytes(self) -> int:
        """Memory held by the kept snapshots; see :func:`nbytes_of`."""
        return nbytes_of(self._kept)

    def resume(self, kept: Kept) -> None:
        """Take over the snapshots of an earlier session of the same name; each is checked against the log when used."""
        self._kept = OrderedDict(kept)

    def forget(self) -> None:
        """Keep no snapshot; the next call reads the log."""
        self._kept.clear()


@dataclass(slots=True)
class _Look:
    """What was read within one look."""

    seen: set[tuple[str, ...] | None] = field(default_factory=set)
    properties: Mapping[str, str] | None = None


def nbytes_of(kept: Kept) -> int:
    """Memory held by snapshots, in bytes: their blocks, the indexes of plans, and what an adapter keeps with them."""
    seen: set[int] = set()
    return sum(_held(each, seen) for one in kept.values() for each in (one.blocks, *one.memo.values()))


def _held(value: Any, seen: set[int]) -> int:
    """Bytes of the arrays in a value, each counted once."""
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if is_dataclass(value) and not isinstance(value, type):
        inside = [getattr(value, each.name) for each in fields(value)]
    elif isinstance(value, tuple | list):
        # A longer one, such as the queries of a workload, holds no arrays.
        inside = list(value) if len(value) <= _KEY_PARTS else []
    else:
        inside = list(getattr(value, "__dict__", {}).values())
    if inside or not hasattr(value, "nbytes"):
        return sum(_held(each, seen) for each in inside)
    return int(value.nbytes)


def session_of(table: Adapter[Any] | TableSession) -> TableSession:
    """The session itself; for an adapter, a new one."""
    return table if isinstance(table, TableSession) else TableSession(table)
