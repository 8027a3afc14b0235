"""The adapter's own DELETE: rows by position and whole files by path, in one commit with ``dataChange=true``.

    with vectors      no data file is written; Delta derives the change data feed from the vectors and removes
    without them      files are copied without the rows, and the rows are written to the feed if it is on

Readers take the feed of a commit that has change data files from these files alone. So if rows of one file are written
to the feed, those of all files are; and if no file is copied, none are: the feed shows RemoveFiles of whole files.

Everything is written before the commit, file by file, so that the valid parts of a lost attempt can be reused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakekeeper.core.model.block_changes import only_blocks
from lakekeeper.core.model.blocks import BlockSet, Snapshot
from lakekeeper.core.model.run_folders import run_folder
from lakekeeper.errors import AdapterError, LakekeeperError, Rejected, Unknown, Unsupported, reason
from lakekeeper.spark.predicates import split_conjunction
from lakekeeper.spi import Commit, Held, Prepared
from lakekeeper_delta import partition_values
from lakekeeper_delta.bulk_removes import removes
from lakekeeper_delta.commit import (
    attempt,
    commit_tags,
    preparing,
    read_all_rows,
    refuse_obstacle,
    register_metrics,
)
from lakekeeper_delta.deletion_vectors import masked
from lakekeeper_delta.deletion_writer import (
    count_places,
    keep_vectors,
    rows_by_file,
    write_copies,
    write_vectors,
)
from lakekeeper_delta.known_state import add_files
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.rewrite import carried_marks, described, discard, write_files
from lakekeeper_delta.row_counts import rows_of_footers
from lakekeeper_delta.where import table_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The metrics that Delta's own DELETE registers: it fails if one that it looks up is missing.
_METRICS = (
    "numAddedFiles",
    "numRemovedFiles",
    "numDeletedRows",
    "numCopiedRows",
    "numDeletionVectorsAdded",
    "numDeletionVectorsRemoved",
    "numDeletionVectorsUpdated",
    "numAddedChangeFiles",
    "numAddedBytes",
    "numRemovedBytes",
)


@dataclass(frozen=True, slots=True)
class _Gone:
    """The outcome for one file: it is removed as a whole, gets a deletion vector, or is copied.

    rows      physical rows of the file
    vector    the descriptor of all its deletes (``mask`` is the vector's file), or None
    copy      the AddFile with the remaining rows, or None
    feed      the change data file with its deleted rows, or None
    """

    rows: int
    vector: Any = None
    mask: str = ""
    copy: Any = None
    feed: Any = None

    @property
    def is_whole(self) -> bool:
        """Whether the file is removed, and nothing takes its place."""
        return self.vector is None and self.copy is None

    @property
    def files(self) -> list[str]:
        copy = [_path(self.copy, "add")] if self.copy is not None else []
        feed = [_path(self.feed, "cdc")] if self.feed is not None else []
        return [*([self.mask] if self.mask else []), *copy, *feed]


@dataclass(slots=True)
class _Actions:
    """A commit under construction: its actions, the paths that it adds, and its metrics."""

    actions: list[Any] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    metrics: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_METRICS, 0))

    def count(self, **more: int) -> None:
        for name, value in more.items():
            self.metrics[name] += value

    def count_whole(self, blocks: BlockSet) -> None:
        """Count files that are removed as a whole."""
        self.count(
            numRemovedFiles=len(blocks),
            numRemovedBytes=int(blocks.bytes.sum()),
            numDeletionVectorsRemoved=_with_vector(blocks),
        )


def refuse_append_only(log: Log, state: State) -> None:
    """Raise Unsupported if the table is append-only."""
    if state.switched_on("appendOnly"):
        raise Unsupported(
            log.name,
            "appendOnly",
            "the table property delta.appendOnly is true, which forbids deleting rows; nothing was written",
        )


def prepare(
    log: Log, hits: Held[DataFrame] | None, whole: Collection[str], snapshot: Snapshot, run_id: str
) -> Prepared:
    """See ``spi.RowDeletes.prepare``. Files of a failed attempt are deleted."""
    run = run_folder(snapshot.table_uuid, run_id)
    state = log.at(-1 if snapshot.version is None else snapshot.version, snapshot.table_uuid)
    refuse_append_only(log, state)
    wanted = {path for path, rows in hits.per_file.items() if rows} if hits else set()
    blocks = only_blocks(snapshot.blocks, wanted | set(whole))
    physical, live = (
        dict(zip(blocks.path.to_pylist(), counts.tolist(), strict=True))
        for counts in (blocks.rows, blocks.live_rows)
    )
    if not (wanted | set(whole)) <= physical.keys():
        raise AdapterError(
            f"{log.name}: row positions in files that are not in the snapshot; nothing was written"
        )
    gone = {path: _Gone(physical[path]) for path in whole}
    rows = {path: live[path] for path in whole}
    written: list[str] = []
    try:
        if hits is not None and wanted:
            adds = {str(add.path()): add for add in add_files(log, state, sorted(wanted))}
            counts = count_places(log, hits.hits, {path: physical[path] for path in wanted})
            touched = _Touched(log, state, run, hits.hits, adds, counts, physical)
            gone |= touched.by_vectors(written) if state.masks_rows else touched.by_copies(written)
            rows |= counts
        if _feeds(state, gone):
            gone |= _with_feed(log, state, run, {path: gone[path] for path in whole}, written)
    except LakekeeperError:
        discard(log, written)
        raise
    except Exception as error:
        discard(log, written)
        raise Rejected(f"{log.name}: the delete could not be prepared ({reason(error)})") from error
    return Prepared(rows, _files(gone.values()), gone)


def keep(log: Log, prepared: Prepared, paths: Collection[str], snapshot: Snapshot) -> Prepared:
    """See ``spi.RowDeletes.keep``: vectors remain valid while the table takes them, copies while it takes none."""
    state = log.at(-1 if snapshot.version is None else snapshot.version, snapshot.table_uuid)
    feed = state.switched_on("enableChangeDataFeed")

    def is_valid(one: _Gone) -> bool:
        if one.copy is not None:
            return not state.masks_rows and (one.feed is not None) == feed
        return one.vector is None or state.masks_rows

    gone = {path: one for path, one in prepared.native.items() if path in paths and is_valid(one)}
    return Prepared({path: prepared.rows[path] for path in gone}, _files(gone.values()), gone)


def delete(log: Log, prepared: Sequence[Prepared], snapshot: Snapshot, run_id: str, where: str) -> Commit:
    """See ``spi.RowDeletes.delete``. The transaction has read the snapshot, the files and the predicate.

    So Delta's own conflict checker checks it against later commits, at the table's isolation level.
    """
    gone, rows = _together(log, prepared)
    late: list[str] = []
    try:
        with preparing(log, "the delete"):
            now = log.latest()
            refuse_append_only(log, now)
            refuse_obstacle(log, snapshot, now)
            state = log.at(-1 if snapshot.version is None else snapshot.version, snapshot.table_uuid)
            if not gone:
                return Commit(now.version, run_id, (), ())
            whole = _blocks_of(log, snapshot, {path for path, one in gone.items() if one.is_whole})
            changed = sorted(path for path, one in gone.items() if not one.is_whole)
            adds = {str(add.path()): add for add in add_files(log, state, changed)} if changed else {}
            if _feeds(state, gone):
                run = run_folder(snapshot.table_uuid, run_id)
                bare = {path: one for path, one in gone.items() if one.copy is None}
                gone |= _with_feed(log, state, run, bare, late)
            made = _actions(log, state, gone, adds, rows)
            reads, actions = log.jvm.array_list(adds.values()), log.jvm.array_list(made.actions)
            if len(whole):
                made.count_whole(whole)
                removed = add_files(log, state, whole.path.to_pylist())
                reads.addAll(removed)
                actions.addAll(removes(log.jvm, removed, time.time_ns() // 1_000_000, data_change=True))
            transaction = log.transaction(state)
            transaction.trackFilesRead(log.scala_seq(reads))
            _track_predicate(log, state, transaction, where)
            register_metrics(log, transaction, made.metrics)
            tags = commit_tags(log, state, run_id)
            with log.jvm.parser() as parser:
                predicate = parser.parseExpression(where)
            operation = getattr(log.delta, "DeltaOperations$Delete")(log.jvm.seq([predicate]))
    except LakekeeperError:
        discard(log, late)
        raise
    had = sum(add.deletionVector() is not None for add in adds.values()) + _with_vector(whole)
    try:
        version = attempt(log, transaction, state, actions, operation, tags, run_id)
    except Unknown:
        raise
    except LakekeeperError:
        discard(log, late)
        raise
    return Commit(version, run_id, tuple(gone), tuple(made.added), had)


def _together(log: Log, prepared: Sequence[Prepared]) -> tuple[dict[str, _Gone], dict[str, int]]:
    """The outcome and the rows to delete of each file. Raises Rejected for a file that is in two parts."""
    rows = {path: count for each in prepared for path, count in each.rows.items()}
    if len(rows) < sum(len(each.rows) for each in prepared):
        raise Rejected(f"{log.name}: a file with rows to delete was prepared twice; nothing was committed")
    return {path: each.native[path] for each in prepared for path in each.rows}, rows


def _track_predicate(log: Log, state: State, transaction: Any, where: str) -> None:
    """Add the predicate to the transaction's reads, as Delta's own DELETE does."""
    try:
        conditions = split_conjunction(log.jvm, table_frame(log, state), where)
    except ValueError:
        # Spark computes a part below the filter (in BETWEEN over an expression), which Delta's conflict checker cannot
        # evaluate. A read of everything is stricter: the delete also loses to appends without a match, and runs again.
        read_all_rows(log, transaction)
        return
    transaction.trackReadPredicates(log.jvm.seq(conditions), False, True)


def _feeds(state: State, gone: Mapping[str, _Gone]) -> bool:
    """Whether the commit has change data files; then these must contain all its deleted rows."""
    return state.switched_on("enableChangeDataFeed") and any(one.copy is not None for one in gone.values())


def _with_feed(
    log: Log, state: State, run: str, gone: Mapping[str, _Gone], written: list[str]
) -> dict[str, _Gone]:
    """Files removed as a whole, with their live rows written to the change data feed."""
    from pyspark.sql import functions as F

    bare = [path for path, one in gone.items() if one.feed is None]
    if not bare:
        return dict(gone)
    adds = {str(add.path()): add for add in add_files(log, state, sorted(bare))}
    rows = rows_by_file(log, state, None, adds, row_ids=False)
    made = write_files(log, state, rows.withColumn("_change_type", F.lit("delete")), run)
    written += [_path(action, "cdc") for action in made]
    made = partition_values.like(log, state, made, adds.values())
    return {**gone, **{p: replace(gone[p], feed=action) for p, action in zip(adds, made, strict=True)}}


def _actions(
    log: Log, state: State, gone: Mapping[str, _Gone], adds: Mapping[str, Any], rows: Mapping[str, int]
) -> _Actions:
    """The actions for files that get a vector, are copied, or have a feed."""
    made, feeds = _Actions(), _feeds(state, gone)
    made.count(numDeletedRows=sum(rows[path] for path in gone))
    for path, one in gone.items():
        if feeds and one.feed is not None:
            made.actions.append(one.feed)
            made.count(numAddedChangeFiles=1)
        if one.is_whole:
            continue
        add, had = adds[path], adds[path].deletionVector() is not None
        if one.vector is not None:
            added, removed = masked(log, _counted(log, add, one.rows), one.vector, data_change=True)
            made.actions += [removed, added]
            made.added.append(path)
            made.count(numDeletionVectorsUpdated=int(had), numDeletionVectorsAdded=int(not had))
            continue
        made.actions.append(add.removeWithTimestamp(time.time_ns() // 1_000_000, True))
        made.count(numRemovedFiles=1, numRemovedBytes=int(add.size()), numDeletionVectorsRemoved=int(had))
        output, data = described(log, one.copy)
        made.actions.append(log.edited(one.copy, dataChange=True, **carried_marks(add, data)))
        made.added.append(output.path)
        made.count(numAddedFiles=1, numAddedBytes=output.bytes, numCopiedRows=output.rows)
    return made


def _blocks_of(log: Log, snapshot: Snapshot, paths: Collection[str]) -> BlockSet:
    """The blocks with these paths. Raises AdapterError if one is missing."""
    blocks = only_blocks(snapshot.blocks, paths)
    if len(blocks) != len(paths):
        missing = len(paths) - len(blocks)
        raise AdapterError(f"{log.name}: {missing} of {len(paths)} files to delete are not in the snapshot")
    return blocks


def _with_vector(blocks: BlockSet) -> int:
    """Number of files with a deletion vector."""
    return sum(each != "" for each in blocks.delete_id.to_pylist())


@dataclass(frozen=True, slots=True)
class _Touched:
    """Files with rows to delete: the AddFile, rows to delete and physical rows of each, by path.

    ``run`` is the folder of the run, into which everything is written.
    """

    log: Log
    state: State
    run: str
    places: DataFrame
    adds: Mapping[str, Any]
    counts: Mapping[str, int]
    rows: Mapping[str, int]

    def by_vectors(self, written: list[str]) -> dict[str, _Gone]:
        present = {path: self.adds[path].deletionVector() for path in self.counts}
        vectors = write_vectors(self.log, self.state, self.run, self.places, present, self.counts)
        written += vectors.files
        dead = {path: int(vector.cardinality()) for path, vector in vectors.by_file.items()}
        left = {path: rows for path, rows in self._left(dead).items() if rows}
        keep_vectors(self.log, vectors, list(left))
        gone = {path: _Gone(self.rows[path]) for path in self.counts}
        for path, rows in left.items():
            vector = vectors.by_file[path]
            gone[path] = _Gone(dead[path] + rows, vector, vectors.file_of(self.log, path))
        return gone

    def by_copies(self, written: list[str]) -> dict[str, _Gone]:
        log, state = self.log, self.state
        dead = {path: self._dead(path) + count for path, count in self.counts.items()}
        kept = {path: rows for path, rows in self._left(dead).items() if rows}
        readable = {path: self.adds[path] for path in kept}
        copies = write_copies(log, state, self.run, self.places, readable, kept)
        written += [_path(copy, "add") for copy in copies.values()]
        gone = {path: _Gone(self.rows[path], copy=copies.get(path)) for path in self.counts}
        if not _feeds(state, gone):
            return gone
        from pyspark.sql import functions as F

        adds = {path: self.adds[path] for path in self.counts}
        deleted = rows_by_file(log, state, (self.places, "left_semi"), adds, row_ids=False)
        made = write_files(log, state, deleted.withColumn("_change_type", F.lit("delete")), self.run)
        written += [_path(action, "cdc") for action in made]
        made = partition_values.like(log, state, made, adds.values())
        return {path: replace(gone[path], feed=action) for path, action in zip(adds, made, strict=True)}

    def _left(self, dead: Mapping[str, int]) -> dict[str, int]:
        """Path → live rows after the delete, of files in which so many rows are ``dead`` then.

        Where none would be left, the footer must agree: Trino's ANALYZE records the live rows of a file as all of its
        rows, and a file that is removed takes those beyond with it.
        """
        empty = [path for path, rows in dead.items() if rows >= self.rows[path]]
        rows = {**self.rows, **rows_of_footers(self.log, empty)}
        return {path: rows[path] - count for path, count in dead.items()}

    def _dead(self, path: str) -> int:
        vector = self.adds[path].deletionVector()
        return int(vector.cardinality()) if vector is not None else 0


def _counted(log: Log, add: Any, rows: int) -> Any:
    """An action with the right row count, which a file with a deletion vector must have."""
    known = add.numPhysicalRecords()
    if known.isDefined() and int(known.get()) == rows:
        return add
    return log.edited(add, stats=json.dumps({"numRecords": rows, "tightBounds": False}))


def _path(action: Any, kind: str) -> str:
    return str(json.loads(action.json())[kind]["path"])


def _files(gone: Collection[_Gone]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(file for one in gone for file in one.files))
