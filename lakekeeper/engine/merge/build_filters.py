"""``build_filters``: give files the Bloom filters that the table asks for, where lookups have paid for it.

    plan as if every file lacked them ─► due ─┬─ settled before ──────────────────────────────► left
                                              └─ read footers ─┬─ has them ─► settled ────────► left
                                                               └─ lacks one ─► rewrite ─► outputs are settled

A dry run reads no footer: it plans for all files that may lack a filter.

Which files are settled is kept in a note: a pass in which nothing is new opens no file. The note names a file by a hash
of its path, since files never change. If it is lost, the footers are read again.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.report import MergeReport
from lakekeeper.core.planning.policies.filters import Filters
from lakekeeper.core.planning.policy import Env
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.job import maintain
from lakekeeper.engine.merge.planning import look
from lakekeeper.engine.merge.request import Request
from lakekeeper.engine.retries import SHORT_PAUSES, retried
from lakekeeper.engine.table_session import TableSession, session_of
from lakekeeper.errors import MALFORMED
from lakekeeper.spi import Adapter, Notes, Observer, Runner

_Hashes = npt.NDArray[np.uint64]
_NOTE = "bloom-filters.json"
_MOST_SETTLED = 100_000  # eight bytes each; more are looked at again


def build_filters(
    table: Adapter[Any] | TableSession,
    runner: Runner[Any],
    request: Request,
    *,
    every: bool = False,
    observer: Observer | None = None,
    clock: Clock | None = None,
) -> MergeReport:
    """Rewrite the files that lack a Bloom filter which would pay, or with ``every`` all files that lack one.

    Raises as :func:`lakekeeper.engine.merge.job.maintain`, and AdapterError if a footer cannot be read.
    """
    clock = clock or Clock()
    session = session_of(table)
    adapter = session.adapter
    snapshot = retried(lambda: look(session, request), clock, SHORT_PAUSES)
    columns = retried(adapter.bloom_filters.columns, clock, SHORT_PAUSES)
    policy = Filters(columns, frozenset(), every=every)
    due = policy.due(snapshot, request.options, Env(now_ms=clock.now_ms(), workload=request.workload))
    if not len(due):
        return maintain(session, runner, _by(request, policy), observer=observer, clock=clock)
    settled = _Settled(adapter.notes, columns)
    at = due[~settled.has(_paths(snapshot, due))]
    sizes = dict(zip(_paths(snapshot, at), snapshot.blocks.bytes[at].tolist(), strict=True))
    if request.dry_run:
        policy = replace(policy, unfiltered=frozenset(sizes))
        return maintain(session, runner, _by(request, policy), observer=observer, clock=clock)
    lacking = retried(lambda: adapter.bloom_filters.missing(sizes), clock, SHORT_PAUSES)
    policy = replace(policy, unfiltered=lacking)
    report = maintain(session, runner, _by(request, policy), observer=observer, clock=clock)
    if sizes:
        with suppress(Exception):  # without the note, the footers are read again
            now = retried(lambda: look(session, request), clock, SHORT_PAUSES) if report.changed else snapshot
            runs = {run_id.rpartition("-")[0] for run_id in report.run_ids}
            live = now.blocks.path.to_pylist()
            written = [path for path in live if any(run in path for run in runs)]
            settled.keep(live if now.complete else None, [*(sizes.keys() - lacking), *written])
    return report


def _by(request: Request, policy: Filters) -> Request:
    return replace(request, policies=(policy,))


def _paths(snapshot: Snapshot, at: Any) -> list[str]:
    found: list[str] = snapshot.blocks.path.take(pa.array(at)).to_pylist()
    return found


class _Settled:
    """The files whose footers need not be read: they have the filters on ``columns``, or we wrote them since the table
    names these.

    A writer leaves out the filter of a column that it stores in a dictionary: a file of ours without one stays so.
    """

    def __init__(self, notes: Notes, columns: Sequence[str]) -> None:
        self._notes = notes
        self._columns = sorted(columns)
        self._hashes = _parsed(notes.read(_NOTE), self._columns)

    def has(self, paths: Sequence[str]) -> Any:
        """For each path whether the file is settled."""
        return np.isin(_hashes(paths), self._hashes)

    def keep(self, live: Sequence[str] | None, more: Iterable[str]) -> None:
        """Settle ``more`` files, and forget those that are not ``live`` if the live ones are known."""
        known = self._hashes if live is None else np.intersect1d(self._hashes, _hashes(live))
        kept = np.union1d(known, _hashes(list(more)))[-_MOST_SETTLED:]
        if not np.array_equal(kept, self._hashes):
            text = base64.b64encode(kept.astype("<u8").tobytes()).decode("ascii")
            self._notes.replace(_NOTE, json.dumps({"columns": self._columns, "settled": text}))


def _hashes(paths: Sequence[str]) -> _Hashes:
    digests = b"".join(hashlib.blake2b(path.encode(), digest_size=8).digest() for path in paths)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def _parsed(text: str | None, columns: Sequence[str]) -> _Hashes:
    """The hashes of a note about the same columns; none of a note that cannot be read."""
    try:
        found = json.loads(text or "{}")
        if found.get("columns") == list(columns):
            data = base64.b64decode(found["settled"], validate=True)
            return np.frombuffer(data, "<u8").astype(np.uint64)
    except MALFORMED:
        pass
    return np.zeros(0, np.uint64)
