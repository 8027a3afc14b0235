"""Which rows a lifecycle rule expires, and the blocks that may hold them.

    now ─ retain ─► start of that day in UTC = cutoff        a row expires if its value is before the cutoff

The cutoff is the same for a whole day, so a table changes once a day at most. NULL is before nothing: such rows stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.keys import KeyColumn, arrow_type
from lakekeeper.core.units import DAY_MS, HOUR_MS
from lakekeeper.errors import OptionError

LATE_MS = HOUR_MS
"""Files may be committed this long after they were written."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class ExpiredRows:
    """Blocks that may hold expired rows.

    files, bytes   how many, and their size
    whole_files    those of them of which all rows are expired, by their bounds
    rows           their live rows, of which at most all are expired; None if a number is not known
    """

    files: int = 0
    bytes: int = 0
    whole_files: int = 0
    rows: int | None = 0


def cutoff_ms(retain_ms: int, now_ms: int) -> int:
    """Rows before this instant are expired: the start of the UTC day in which ``retain_ms`` before now falls."""
    return (now_ms - retain_ms) // DAY_MS * DAY_MS


def before(column: KeyColumn, cutoff: int) -> str:
    """The predicate for expired rows, in Spark SQL. Raises OptionError for a column that is not a date or time.

    A date, and a timestamp without a zone, are compared as if they were in UTC.
    """
    at = _EPOCH + timedelta(milliseconds=cutoff)
    literals = {
        "date": f"DATE '{at:%Y-%m-%d}'",
        "timestamp": f"TIMESTAMP '{at:%Y-%m-%d} 00:00:00+00:00'",
        "timestamp_ntz": f"TIMESTAMP_NTZ '{at:%Y-%m-%d} 00:00:00'",
    }
    if column.kind not in literals:
        expected = f"a date or a timestamp; its type is {column.kind}"
        raise OptionError("lifecycle.column", column.name, expected)
    return f"{column.name} < {literals[column.kind]}"


def expired_rows(snapshot: Snapshot, cutoff: int, searched_ms: int | None = None) -> ExpiredRows:
    """The blocks that may hold rows before the cutoff in the snapshot's key column.

    Leaves out the blocks that an earlier search for the same rows covered at ``searched_ms``: only later ones count.
    """
    blocks, key = snapshot.blocks, snapshot.key
    if key is None or not len(blocks):
        return ExpiredRows()
    kind = arrow_type(key.columns[0].kind)
    limit = pa.scalar(cutoff // DAY_MS, pa.int32()) if pa.types.is_date(kind) else pa.scalar(cutoff * 1000)
    lo, hi = (
        bounds[0].cast(limit.type) if pa.types.is_date(kind) else bounds[0].cast(pa.int64())
        for bounds in (blocks.lo, blocks.hi)
    )
    nulls, unknown = blocks.null_count[0], np.asarray(lo.is_null())
    early = np.asarray(pc.fill_null(pc.less(lo, limit), fill_value=False))
    may = early | (unknown & (nulls != blocks.rows))
    if searched_ms is not None:
        may &= (blocks.added_at <= 0) | (blocks.added_at > searched_ms - LATE_MS)
    late = np.asarray(pc.fill_null(pc.less(hi, limit), fill_value=False))
    live = blocks.live_rows[may]
    return ExpiredRows(
        files=int(may.sum()),
        bytes=int(blocks.bytes[may].sum()),
        whole_files=int((may & late & (nulls == 0)).sum()),
        rows=None if (live < 0).any() else int(live.sum()),
    )
