"""The live files of a version: those of a version that was read before, and what the commits since changed.

    base   version 7, whose files Spark keeps     ─ without those that a later commit touched ─┐
    tail   the commits 8 to 10, read on their own ─────────────────────────────────────────────┴─► version 10

Delta reads the whole log for each version whose files are needed, and drops the files of the version before once there
is a newer one. A table with a small log is left to it; of a larger one, the log is read once, and then what is new.
The base is a Snapshot object of our own, which Delta does not know: nothing else drops its files. A new one is made
where the log was rolled back or replaced, and where the log's files that it is read from are gone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.errors import AdapterError, NotFound
from lakekeeper_delta.json_commits import commit_files, commits_between
from lakekeeper_delta.log_files import is_readable
from lakekeeper_delta.log_lineage import follows
from lakekeeper_delta.named_adds import named_adds
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.per_log import PerLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LARGE_LOG = 8 << 20
"""Bytes above which a log is not read again for each version, nor for a few of its files."""
MOST_COMMITS = 100  # most commits since the base
_MOST_ACTIONS = 100_000  # most actions in these commits
_KEPT_TAILS = 2
_KEPT_TASKS = 64  # tasks whose AddFiles are cached between read and write; evicted ones are queried again


@dataclass(frozen=True, slots=True)
class Parts:
    """The live files of a version: those of ``base`` that are not ``touched``, and those of ``tail``.

    Both are Snapshot objects; without a tail, ``base`` has all files. ``kept`` is whether Delta does not know the base.
    ``tail`` has no metadata: of its methods, only those that list files work. ``found`` has the files that the last
    look found for a predicate. Only the call of that look uses them: a function may mean something else in the next.
    """

    base: Any
    kept: bool = False
    tail: Any = None
    touched: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    found: dict[tuple[str, str], pa.Array] = field(default_factory=dict)

    def untouched(self, paths: pa.Array) -> pa.Array:
        """Those of ``paths`` that no commit after the base touched."""
        return paths.filter(pc.invert(pc.is_in(paths, value_set=self.touched)))


class _Known:
    """What is kept of one log: the base, parts by version with their State, and the AddFiles of tasks."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.base: tuple[State, Any] | None = None
        self.parts: OrderedDict[int, tuple[State, Parts]] = OrderedDict()
        self.inputs: OrderedDict[tuple[int, str, str], Any] = OrderedDict()

    def parts_of(self, log: Log, state: State) -> Parts:
        with self.lock:
            if self.base is not None and self.base[0].table_uuid != state.table_uuid:
                self._drop()
            if self.base is None and not _is_large(state):
                return Parts(state.snapshot)
            made_for, known = self.parts.get(state.version, (None, None))
            # Another State of the version: other commits, or other files of the log, since a checkpoint replaced some.
            if known is None or made_for is not state:
                self._forget(state.version)
                known = self._tailed(log, state) or self._based(log, state)
                self.parts[state.version] = state, known
            self.parts.move_to_end(state.version)
            while len(self.parts) > _KEPT_TAILS:
                self._forget(next(iter(self.parts)))
            return known

    def _tailed(self, log: Log, state: State) -> Parts | None:
        """The version as the base with the commits since; None if it has to be read as a whole."""
        if self.base is None:
            return None
        before, base = self.base
        if not 0 <= state.version - before.version <= MOST_COMMITS:
            return None
        if not follows(log, state, before.version, before.log_mark):
            return None
        if state is not before and not is_readable(log, before):
            return None
        if state.version == before.version:
            return Parts(base, kept=True)
        try:
            since = commits_between(log, before.version, state.version)
            if since.renewed or since.files.num_rows > _MOST_ACTIONS or _survives(log, base, since.bare):
                return None
            deltas = commit_files(log, range(before.version + 1, state.version + 1))
        except NotFound:
            return None
        touched = pc.unique(since.files["path"]).cast(pa.string())
        return Parts(base, kept=True, tail=_tail(log, state, deltas), touched=touched)

    def _based(self, log: Log, state: State) -> Parts:
        """A new base; an older version than the base is left to Delta."""
        if self.base is not None and state.version < self.base[0].version:
            return Parts(state.snapshot)
        self._drop()
        made = state.snapshot
        base = log.delta.Snapshot(
            made.path(), made.version(), made.logSegment(), made.deltaLog(), made.checksumOpt()
        )
        self.base = state, base
        return Parts(base, kept=True)

    def _drop(self) -> None:
        if self.base is not None:
            _uncache(self.base[1])
        for version in list(self.parts):
            self._forget(version)
        self.base = None

    def _forget(self, version: int) -> None:
        if version in self.parts:
            _uncache(self.parts.pop(version)[1].tail)


_known = PerLog(lambda _: _Known())


def parts_of(log: Log, state: State) -> Parts:
    """The live files of ``state``, in parts; reads nothing but the commits since an earlier version."""
    return _known(log).parts_of(log, state)


def all_files(log: Log, state: State) -> DataFrame:
    """All live AddFile actions as a PySpark DataFrame; statistics are JSON text."""
    parts = parts_of(log, state)
    whole: DataFrame = log.jvm.dataframe(parts.base.allFiles().toDF())
    if parts.tail is None or not len(parts.touched):
        return whole
    rest = log.jvm.dataframe(whole._jdf.where(_named(log, parts.touched.to_pylist(), among=False)))
    found: DataFrame = rest.union(log.jvm.dataframe(parts.tail.allFiles().toDF()))
    return found


def add_files(log: Log, state: State, paths: Iterable[str]) -> Any:
    """The AddFile objects of these paths, as a java.util.List; AdapterError if one is missing."""
    wanted = list(paths)
    found = live_add_files(log, state, wanted)
    if int(found.size()) != len(wanted):
        missing = len(wanted) - int(found.size())
        raise AdapterError(f"{log.name}: {missing} of {len(wanted)} files are not in version {state.version}")
    return found


def live_add_files(log: Log, state: State, paths: Collection[str]) -> Any:
    """Those of :func:`add_files` that are in the version.

    Of a small log they are read in the driver; of a large one, by a Spark job for each part that may have one.
    """
    parts = parts_of(log, state)
    if not parts.kept:
        named = named_adds(log, state, paths, LARGE_LOG)
        if named is not None:
            return log.add_files(named)
    wanted = pa.array(list(paths), pa.string())
    old = parts.untouched(wanted)
    found = log.jvm.array_list([])
    for snapshot, some in ((parts.base, old), (parts.tail, _others(wanted, old))):
        if len(some):
            rows = snapshot.allFiles().where(_named(log, some.to_pylist()))
            found.addAll(rows.collectAsList())
    return found


def inputs_of(log: Log, state: State, task: str, paths: Iterable[str]) -> Any:
    """The AddFile objects of a task, as a java.util.List; cached, since both read and write need them.

    The version is kept too.
    """
    log.pin(state)
    known, at = _known(log), (state.version, state.log_mark, task)
    with known.lock:
        kept = known.inputs.get(at)
    if kept is not None:
        return kept
    found = add_files(log, state, paths)
    with known.lock:
        known.inputs[at] = found
        while len(known.inputs) > _KEPT_TASKS:
            known.inputs.popitem(last=False)
    return found


def _survives(log: Log, base: Any, bare: Collection[str]) -> bool:
    """Whether a file stays live because its remove does not name its deletion vector."""
    if not bare:
        return False
    masked = base.allFiles().where("deletionVector IS NOT NULL").where(_named(log, bare))
    return not masked.isEmpty()


def _others(wanted: pa.Array, old: pa.Array) -> pa.Array:
    return wanted.filter(pc.invert(pc.is_in(wanted, value_set=old)))


def _named(log: Log, paths: Collection[str], *, among: bool = True) -> Any:
    """A condition on ``path``. PySpark's ``isin`` takes three calls for each path."""
    from pyspark.sql import functions as F

    column: Any = F.col("path")._jc
    named = column.isInCollection(log.jvm.text_list(paths))
    return named if among else getattr(log.jvm.java_class("org.apache.spark.sql.functions"), "not")(named)


def _is_large(state: State) -> bool:
    """Whether the log of a version is large, by the sizes of its files, the sidecars of a v2 checkpoint included."""
    made = state.snapshot
    return int(made.checkpointSizeInBytes()) + int(made.deltaFileSizeInBytes()) > LARGE_LOG


def _tail(log: Log, state: State, deltas: Collection[Any]) -> Any:
    """A Snapshot of these commits alone, with the metadata and protocol of ``state``."""
    made, none = state.snapshot, log.jvm.none()
    metadata, protocol = made.metadata(), made.protocol()
    at_ms = int(made.logSegment().lastCommitFileModificationTimestamp())
    segment = log.delta.LogSegment(
        log.log.logPath(),
        state.version,
        log.jvm.seq(deltas),
        log.singleton("EmptyCheckpointProvider"),
        at_ms,
    )
    committed = log.jvm.some(at_ms) if state.switched_on("enableInCommitTimestamps") else none
    # Delta takes both from the checksum of a version, if it has one, and does not look for them in commits.
    checksum = log.delta.VersionChecksum(
        none, 0, 0, none, none, 1, 1, committed, none, none, metadata, protocol, none, none, none
    )
    return log.delta.Snapshot(made.path(), state.version, segment, log.log, log.jvm.some(checksum))


def _uncache(snapshot: Any) -> None:
    if snapshot is not None:
        snapshot.uncache()
