"""One look at a table for all verbs of a pass: the newest snapshot is read once and then kept up to date.

    snapshot() ─► kept? ─┬─ no ──────────────────────────────────────► adapter.snapshot(): reads the whole log
                         └─ yes ─► adapter.refresh(kept) ─┬─ unchanged: the same snapshot
                                                          ├─ the same as a whole read, from new commits alone
                                                          └─ None: that cannot be done exactly ─► adapter.snapshot()

Each call asks the log whether the snapshot is still the newest, so that no call works on an older one than it would
have read itself. Commits are checked against the log in any case.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.spi import Adapter

_KEYS = 2  # the table's own key, and that of a call or of a conf


class TableSession:
    """The snapshots of one table, by key columns, for one thread. Snapshots of a part of the table are not kept."""

    def __init__(self, adapter: Adapter[Any]) -> None:
        self.adapter = adapter
        self._kept: OrderedDict[tuple[str, ...] | None, Snapshot] = OrderedDict()

    def snapshot(self, columns: Sequence[str] | None = None, where: str | None = None) -> Snapshot:
        """As :meth:`lakekeeper.spi.Adapter.snapshot`."""
        if where is not None:
            return self.adapter.snapshot(columns, where)
        named = None if columns is None else tuple(columns)
        kept = self._kept.pop(named, None)
        newest = None if kept is None else self.adapter.refresh(kept, columns)
        if newest is None:
            newest = self.adapter.snapshot(columns, where)
        self._kept[named] = newest
        while len(self._kept) > _KEYS:
            self._kept.popitem(last=False)
        return newest

    @property
    def nbytes(self) -> int:
        """Memory held by the blocks of the kept snapshots, in bytes."""
        return sum(snapshot.blocks.nbytes for snapshot in self._kept.values())

    def forget(self) -> None:
        """Keep no snapshot; the next call reads the log."""
        self._kept.clear()


def session_of(table: Adapter[Any] | TableSession) -> TableSession:
    """The session itself; for an adapter, a new one."""
    return table if isinstance(table, TableSession) else TableSession(table)
