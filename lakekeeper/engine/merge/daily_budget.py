"""How much was rewritten on a table in the last 24 hours, for ``budget-bytes-per-day``.

No ledger is kept next to the table: it would be lost or shared wrongly. Three sources each know a part, and the
largest figure counts:

* the table's log, where it shows them without further reads (Iceberg: the summaries of our own snapshots);
* else the live blocks that a merge of ours wrote in that time: about as many bytes as it read, but what was merged
  twice counts once, and blocks that were packed without a key are not known to be ours (Delta);
* what this process rewrote itself, even if it was not committed: passes of a service share this figure.
"""

from __future__ import annotations

import threading
from collections import defaultdict

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.units import DAY_MS

_lock = threading.Lock()
_of: defaultdict[str, list[tuple[int, int]]] = defaultdict(
    list
)  # table's uuid → (when in ms, bytes), by this process


def note_spent(snapshot: Snapshot, now_ms: int, size: int) -> None:
    """This process rewrote ``size`` bytes of the table."""
    with _lock:
        kept = [(at, many) for at, many in _of[snapshot.table_uuid] if at > now_ms - DAY_MS]
        _of[snapshot.table_uuid] = [*kept, (now_ms, size)]


def spent_bytes(snapshot: Snapshot, now_ms: int) -> int:
    """Bytes rewritten on the table in the 24 hours before ``now_ms``, as far as it is known."""
    start = now_ms - DAY_MS
    with _lock:
        mine = sum(size for at, size in _of.get(snapshot.table_uuid, ()) if start < at <= now_ms)
    if snapshot.rewritten is not None:
        at, size = snapshot.rewritten
        told = int(size[at > start].sum())
    else:
        blocks = snapshot.blocks
        told = int(blocks.bytes[(blocks.key_id >= 0) & (blocks.added_at > start)].sum())
    return max(mine, told)
