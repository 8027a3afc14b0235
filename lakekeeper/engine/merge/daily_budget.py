"""How much was rewritten on a table in the last 24 hours, for ``budget-bytes-per-day``.

No ledger is kept next to the table: it could be lost or shared wrongly. Each of four sources knows a part, and the
largest figure counts:

* the table's log, where it shows them without further reads (Iceberg: the summaries of our own snapshots);
* else the live blocks that a merge of ours wrote in that time: about as many bytes as it read, but what was merged
  twice counts once, and blocks that were packed without a key are not known to be ours (Delta);
* what this process rewrote itself, even if it was not committed: passes of a service share this figure;
* the history, if there is one: what all processes have recorded there (``Request.recorded_bytes``).
"""

from __future__ import annotations

import threading
from collections import defaultdict

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.scheduling.last_day import LastDay

_MINUTE_MS = 60_000

_lock = threading.Lock()
_of: defaultdict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
"""Table's uuid → minute → (last time in it in ms, bytes), by this process: a day has no more than 1,440 entries."""


def note_spent(snapshot: Snapshot, now_ms: int, size: int) -> None:
    """This process rewrote ``size`` bytes of the table."""
    minute, day = now_ms // _MINUTE_MS, LastDay(now_ms)
    with _lock:
        minutes = _of[snapshot.table_uuid]
        at, before = minutes.get(minute, (now_ms, 0))
        minutes[minute] = max(at, now_ms), before + size
        for other in [each for each, (last, _) in minutes.items() if not day.has(last)]:
            del minutes[other]


def spent_bytes(snapshot: Snapshot, now_ms: int) -> int:
    """Bytes rewritten on the table in the 24 hours before ``now_ms``, as far as it is known."""
    day = LastDay(now_ms)
    with _lock:
        mine = sum(size for at, size in _of.get(snapshot.table_uuid, {}).values() if day.has(at))
    if snapshot.rewritten is not None:
        at, size = snapshot.rewritten
        logged = int(size[day.has(at)].sum())
    else:
        blocks = snapshot.blocks
        logged = int(blocks.bytes[(blocks.key_id >= 0) & day.has(blocks.added_at)].sum())
    return max(mine, logged)
