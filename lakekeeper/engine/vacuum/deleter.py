"""The deletes of a vacuum: in batches, oldest version first, partitions in parallel, within a rate limit.

partition a   ├─ v1 v1 v2 ─┤├─ v3 v4 ─┤        a batch ends with a version once it is large enough
partition b   ├─ v1 ───────┤                   several partitions at once
metadata                      ├─ v1 v2 ─┤      last: as long as it is there, it names what else there is
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.vacuum.vacuum_plan import (
    METADATA_KINDS,
    Doomed,
    VacuumPlan,
    batches,
    by_partition,
    count_by_kind,
)
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.events import Events
from lakekeeper.engine.retries import SHORT_PAUSES, retried
from lakekeeper.engine.trash.put import TrashFolder
from lakekeeper.errors import AdapterError, Conflict, Rejected, Unknown, message
from lakekeeper.spi import Adapter
from lakekeeper.spi.storage import Storage

MIN_BATCH = 100
"""Files from which a batch ends with its version; StarRocks' default of ``lake_vacuum_min_batch_delete_size``."""
_STEP_SECONDS = 1.0  # after which a delete that waits for its turn checks whether the deletes have stopped


@dataclass(frozen=True, slots=True)
class Removed:
    """The result of the deletes: files and bytes removed, by kind; files that stayed; the number of batches.

    ``stopped`` gives the reason if a concurrent commit or an error stopped the deletes.
    """

    files: int
    bytes: int
    failed: int
    batches: int
    by_kind: Mapping[str, tuple[int, int]]
    stopped: str = ""


NOTHING = Removed(0, 0, 0, 0, {})


def foretold(plan: VacuumPlan) -> Removed:
    """The result if each file of the plan is deleted; a dry run reports it."""
    return Removed(len(plan.files), plan.bytes, 0, 0, plan.by_kind())


@dataclass(slots=True)
class _Pace:
    """Limits the files deleted per second, over all threads, also when the clock is set back."""

    clock: Clock
    per_second: int | None
    lock: threading.Lock = field(default_factory=threading.Lock)
    free_at: float = 0.0
    seen: float = 0.0

    def wait(self, files: int, stopped: Callable[[], bool]) -> None:
        """Wait until so many files may be deleted, or until the deletes have ``stopped``."""
        if self.per_second is None or stopped():
            return
        with self.lock:
            now = self.clock.now_ms() / 1000
            self.free_at -= max(self.seen - now, 0)
            self.seen = now
            start = max(now, self.free_at)
            self.free_at = start + files / self.per_second
        left = start - now
        while left > 0 and not stopped():
            self.clock.wait(min(left, _STEP_SECONDS))
            left -= _STEP_SECONDS


@dataclass(slots=True)
class Removal:
    """Deletes what a plan names, or moves it to the trash. An error of the storage stops the deletes; it is not raised.

    ``check`` is called before each batch, and raises Conflict, Rejected or AdapterError if no more may be deleted: in a
    log whose versions cannot be locked, a user may restore an old one, and the vacuum may no longer be registered.
    """

    adapter: Adapter[Any]
    storage: Storage
    options: Options
    events: Events
    clock: Clock
    check: Callable[[], object] | None = None
    gone: list[Doomed] = field(default_factory=list)
    stopped: str = ""
    batches: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, plan: VacuumPlan, trash: str = "") -> Removed:
        """Delete all files of the plan; ``trash`` names the folder of the trash that they are moved to instead."""
        pace = _Pace(self.clock, self.options.vacuum.max_deletes_per_second)
        folder = TrashFolder(self.adapter, self.storage, trash, self.options, self.clock) if trash else None
        if folder:
            folder.open(plan)
        data = [f for f in plan.files if f.kind not in METADATA_KINDS]
        rest = [f for f in plan.files if f.kind in METADATA_KINDS]
        for files in (data, rest):
            parts = list(by_partition(files).values())
            threads = min(self.options.vacuum.max_concurrent_deletes, len(parts))
            if threads:
                with ThreadPoolExecutor(threads, thread_name_prefix="lakekeeper-vacuum") as pool:
                    try:
                        for done in [pool.submit(self._partition, part, pace, folder) for part in parts]:
                            done.result()
                    except BaseException:
                        self.stopped = self.stopped or "interrupted"  # all partitions end with their batch
                        raise
        return self._removed(plan)

    def _partition(self, files: Sequence[Doomed], pace: _Pace, folder: TrashFolder | None) -> None:
        for batch in batches(files, MIN_BATCH, self.options.vacuum.max_batch):
            pace.wait(len(batch), lambda: bool(self.stopped))
            if not self._goes_on():
                return
            self.events.emit("before_delete", files=len(batch), version=batch[-1].version)
            gone = self._taken(batch, folder)
            with self._lock:
                self.gone += [file for file in batch if file.path in gone]
                self.batches += 1
            self.events.emit("deleted", files=len(gone), version=batch[-1].version)

    def _taken(self, batch: Sequence[Doomed], folder: TrashFolder | None) -> set[str]:
        """The paths of a batch that are gone. An error ends the deletes, for the report: files are gone by then."""
        try:
            return set(folder.take(batch) if folder else self.storage.delete(batch))
        except Exception as error:
            with self._lock:
                self.stopped = self.stopped or message(error)
        with suppress(Exception):  # what is not certainly gone counts as still there
            paths = [file.path for file in batch]
            found = retried(lambda: self.storage.look(paths), self.clock, SHORT_PAUSES)
            return {path for path, info in zip(paths, found, strict=True) if info is None}
        return set()

    def _goes_on(self) -> bool:
        with self._lock:
            if self.check and not self.stopped:
                try:
                    self.check()
                except (Conflict, Rejected, Unknown, AdapterError) as error:
                    self.stopped = str(error)
            return not self.stopped

    def _removed(self, plan: VacuumPlan) -> Removed:
        failed = len(plan.files) - len(self.gone)
        return Removed(
            files=len(self.gone),
            bytes=sum(file.bytes for file in self.gone),
            failed=failed,
            batches=self.batches,
            by_kind=count_by_kind(self.gone),
            stopped=self.stopped if failed else "",
        )
