"""Statistics of files of the memory lake that have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakekeeper.core.model.reason import Reason
from lakekeeper.spi import Computed, Outdated
from lakekeeper.testing.values import Statistics
from lakekeeper.testing.versions import Entry, Version

if TYPE_CHECKING:
    from lakekeeper.testing.memory import MemoryAdapter


class MemoryStatistics:
    """``lakekeeper.spi.Statistics`` over the table of a :class:`MemoryAdapter`."""

    def __init__(self, adapter: MemoryAdapter) -> None:
        self._adapter = adapter
        self._store = adapter.store

    def find(self, columns: Sequence[str] | None, min_changed_ratio: float) -> Outdated:
        """Files that have no statistics on some column; they never become outdated."""
        now = self._store.current
        wanted = {now.schema.find(name).field_id for name in columns or ()}
        return _outdated(now, [e for e in now.files.values() if _lacks(e, wanted)])

    def compute(self, outdated: Outdated, most_bytes: int, run_id: str) -> Computed:
        """Statistics over all rows of the first files, deleted or not."""
        now, entries = outdated.native
        size = 0
        described: dict[str, tuple[str, dict[str, Statistics]]] = {}
        for entry in entries:
            if described and size + entry.file.bytes > most_bytes:
                break
            size += entry.file.bytes
            self._store.touched.data_reads.append(entry.file.path)
            described[entry.file.path] = (entry.delete_id, self._store.measured(now, entry.file.rows))
        rest = _outdated(now, entries[len(described) :])
        return Computed(len(described), size, rest, native=(now, described))

    def commit(self, computed: Computed, run_id: str) -> int | None:
        """One attempt to commit, with the faults and races of the adapter."""
        fault = self._adapter.attempt()
        then, described = computed.native
        with self._store.lock:
            now = self._store.current
            if (now.schema, now.spec) != (then.schema, then.spec):
                return None
            found = {
                path: replace(entry, file=replace(entry.file, statistics=described[path][1]))
                for path, entry in now.files.items()
                if path in described and described[path][0] == entry.delete_id
            }
            if not found:
                return None
            number = self._store.apply(
                "lakekeeper", lambda at: replace(at, files={**at.files, **found}), run_id
            )
        self._adapter.answer(fault)
        return number

    def landed(self, computed: Computed, run_id: str) -> int | None:
        """The version that carries the run id."""
        return next((v.number for v in self._store.versions if v.run_id == run_id), None)

    def discard(self, computed: Computed) -> None:
        """Without effect: statistics are stored only in versions."""


def _lacks(entry: Entry, wanted: set[str]) -> bool:
    return not entry.file.statistics or not wanted <= entry.file.statistics.keys()


def _outdated(now: Version, entries: Sequence[Entry]) -> Outdated:
    why = Reason.of("statistics_missing", "{files:count file} without statistics", files=len(entries))
    size = sum(entry.file.bytes for entry in entries)
    return Outdated(now.number, len(entries), size, why, (now, list(entries)))
