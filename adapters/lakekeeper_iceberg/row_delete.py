"""Deletes rows by position and whole data files by path: the steps of our own DELETE.

All files are written before the commit lock is taken. The preparation of each data file is independent, so a commit
conflict only invalidates that of the data files that the concurrent commit changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from lakekeeper.core.model.block_changes import only_blocks
from lakekeeper.core.model.blocks import BlockSet, Snapshot
from lakekeeper.errors import AdapterError, LakekeeperError, Rejected
from lakekeeper.spi import Held, Prepared
from lakekeeper_iceberg.commit import RowChange
from lakekeeper_iceberg.copy_on_write import live_copies
from lakekeeper_iceberg.dropped_sources import refuse_removal
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.planning import NO_FORM, Planner, expression
from lakekeeper_iceberg.position_deletes import (
    Mask,
    Masked,
    by_file,
    format_version,
    leaves_with_file,
    unique,
    write_masks,
)

_GRANULARITY = "write.delete.granularity"
_READERS = 8  # delete files read concurrently: reading is bound by storage latency


@dataclass(frozen=True, slots=True)
class _Gone:
    """The change to one data file, as Java objects: it is removed, gets a delete file, or is copied (v1).

    mask       the delete file with its deleted rows; it may also delete rows of other data files of the partition
    replaced   delete files to remove: merged into the mask, or removed with the data file
    copies     data files with the remaining rows
    """

    file: Any
    mask: Any = None
    replaced: tuple[Any, ...] = ()
    copies: tuple[Any, ...] | None = None

    @property
    def written(self) -> Iterator[str]:
        if self.mask is not None:
            yield str(self.mask.location())
        yield from (str(copy.location()) for copy in self.copies or ())


@dataclass(frozen=True, slots=True)
class Removal:
    """The native half of a prepared delete: data file → its change, for one format version (``form``)."""

    form: int
    gone: dict[str, _Gone]


@dataclass(frozen=True, slots=True)
class Preparation:
    """Prepares deletes in the folder of a run; ``table`` is fixed at the snapshot in which the rows were found."""

    jvm: Iceberg
    name: str
    table: Any
    planner: Planner
    snapshot: Snapshot
    run: str

    def prepare(self, hits: Held[DataFrame] | None, whole: Collection[str]) -> Prepared:
        """See ``spi.RowDeletes.prepare``; an error leaves no file behind."""
        try:
            return self._prepare(hits, whole)
        except LakekeeperError:
            raise
        except Exception as error:
            raise Rejected(f"{self.name}: the delete could not be prepared: {error}") from error

    def _prepare(self, hits: Held[DataFrame] | None, whole: Collection[str]) -> Prepared:
        some = [path for path, rows in hits.per_file.items() if rows] if hits else []
        named = only_blocks(self.snapshot.blocks, {*some, *whole})
        least = dict(zip(named.path.to_pylist(), named.least_live_rows.tolist(), strict=True))
        unknown = (set(some) | set(whole)) - least.keys()
        if unknown:
            raise AdapterError(
                f"{self.name}: rows to delete in {min(unknown)}, which the snapshot does not list"
            )
        refuse_removal(self.jvm, self.table, set(named.spec.tolist()))
        places = by_file(self.jvm, hits.hits) if hits is not None and some else {}
        rows = {path: least[path] for path in whole}
        rows |= {path: int(index.cardinality()) for path, index in places.items()}
        paths = sorted(rows)
        version = -1 if self.snapshot.version is None else self.snapshot.version
        tasks = dict(zip(paths, self.planner.described(self.table, version, paths), strict=True))
        leaving = set(whole) | self._emptied(only_blocks(named, places.keys()), rows, tasks)
        gone = {
            path: _Gone(
                tasks[path].file(), replaced=tuple(self._alone(self.jvm.items(tasks[path].deletes())))
            )
            for path in leaving
        }
        masks = [
            Mask(tasks[path].file(), places[path], tuple(self.jvm.items(tasks[path].deletes())))
            for path in paths
            if path not in leaving
        ]
        form = format_version(self.table)
        gone |= self._masked(masks, form) if form > 1 else self._copied(masks)
        return _prepared(Removal(form, gone), rows)

    def _masked(self, masks: Sequence[Mask], form: int) -> dict[str, _Gone]:
        granularity = str(self.table.properties().get(_GRANULARITY) or "file").lower()
        by_partition = form == 2 and granularity == "partition"
        made = write_masks(self.jvm, self.table, masks, self.run, by_partition=by_partition)
        if by_partition:
            of = by_data_file(self.jvm, self.table, masks, made)
            return {m.path: _Gone(m.file, of[m.path]) for m in masks}
        found = dict(zip((m.path for m in masks), in_order(self.jvm, masks, made), strict=True))
        return {m.path: _Gone(m.file, found[m.path], tuple(self._alone(m.known))) for m in masks}

    def _emptied(self, found: BlockSet, rows: Mapping[str, int], tasks: Mapping[str, Any]) -> set[str]:
        """The files without a live row once the ``rows`` that were found in them are deleted.

        A file whose live rows the statistics do not count exactly is only looked at if their lower bound says that it
        may be empty: then its delete files are read. With deletes of unknown effect, it is never removed, only masked.
        """
        counts = (column.tolist() for column in (found.rows, found.live_rows, found.deleted_rows))
        emptied: set[str] = set()
        unsure: dict[str, int] = {}
        for path, count, live, most in zip(found.path.to_pylist(), *counts, strict=True):
            if rows[path] == live:
                emptied.add(path)
            elif live < 0 <= most and rows[path] + most >= count:
                unsure[path] = count
        loader = self.jvm.delete_loader(self.table) if unsure else None

        def live_rows(path: str) -> int:
            dead = self.jvm.deleted_positions(loader, self.jvm.items(tasks[path].deletes()), path)
            return unsure[path] - int(dead.cardinality())

        with ThreadPoolExecutor(_READERS, thread_name_prefix="lakekeeper-iceberg") as pool:
            exact = dict(zip(unsure, pool.map(live_rows, unsure), strict=True))
        return emptied | {path for path, live in exact.items() if rows[path] == live}

    def _copied(self, masks: Sequence[Mask]) -> dict[str, _Gone]:
        made = write_masks(self.jvm, self.table, masks, self.run)
        pairs = list(zip((m.file for m in masks), in_order(self.jvm, masks, made), strict=True))
        copies = live_copies(self.jvm, self.table, pairs, made.paths, self.run)
        return {m.path: _Gone(m.file, copies=tuple(copies[m.path])) for m in masks}

    def _alone(self, deletes: Any) -> Iterator[Any]:
        """File-scoped position deletes: they are removed with their data file, or replaced by its new mask."""
        return (d for d in deletes if not self.jvm.equality(d) and leaves_with_file(self.jvm, d))


def in_order(jvm: Iceberg, masks: Sequence[Mask], made: Masked) -> list[Any]:
    """The new delete file of each mask."""
    target = jvm.static("org.apache.iceberg.util.ContentFileUtil", "referencedDataFileLocation")
    named = {str(target(delete)): delete for delete in made.added}
    return [named[m.path] for m in masks]


def by_data_file(jvm: Iceberg, table: Any, masks: Sequence[Mask], made: Masked) -> dict[str, Any]:
    """Data file → the delete file of its partition."""
    wrapper = jvm.api.util.StructLikeWrapper
    known: dict[int, Any] = {}

    def place(file: Any) -> Any:
        return wrapper.forType(table.specs().get(file.specId()).partitionType()).set(file.partition())

    for number, delete in enumerate(made.added):
        known.setdefault(int(delete.specId()), jvm.view.java.util.HashMap()).put(place(delete), number)
    return {m.path: made.added[int(known[int(m.file.specId())].get(place(m.file)))] for m in masks}


def keep(prepared: Prepared, paths: Collection[str], form: int) -> Prepared:
    """See ``spi.RowDeletes.keep``; nothing is kept if the format version has changed."""
    removal: Removal = prepared.native
    if removal.form != form:
        return Prepared(native=Removal(form, {}))
    gone = {path: one for path, one in removal.gone.items() if path in paths}
    return _prepared(Removal(form, gone), prepared.rows)


def _prepared(removal: Removal, rows: Any) -> Prepared:
    written = dict.fromkeys(path for one in removal.gone.values() for path in one.written)
    return Prepared({path: rows[path] for path in removal.gone}, tuple(written), removal)


def change_of(
    jvm: Iceberg, name: str, table: Any, prepared: Sequence[Prepared], searched: int, run_id: str, where: str
) -> RowChange:
    """The RowChange that deletes the rows of all parts. Raises AdapterError for a data file that is in two parts."""
    parts: list[Removal] = [each.native for each in prepared if each.rows]
    gone = {
        path: part.gone[path]
        for part, each in zip(parts, _with_rows(prepared), strict=True)
        for path in each.rows
    }
    if len(gone) < sum(len(each.rows) for each in prepared):
        raise AdapterError(f"{name}: a file with rows to delete was prepared twice; nothing was committed")
    masked = {path: one for path, one in gone.items() if one.mask is not None}
    return RowChange(
        run_id=run_id,
        searched=searched,
        schema=int(table.schema().schemaId()),
        form=parts[0].form,
        filter=_filter(jvm, table, where),
        removed=[one.file for one in gone.values() if one.mask is None],
        dropped_deletes=unique(jvm, [d for one in gone.values() for d in one.replaced]),
        deletes=unique(jvm, [one.mask for one in masked.values()]),
        rows=[copy for one in gone.values() for copy in one.copies or ()],
        touched=list(masked),
    )


def _with_rows(prepared: Sequence[Prepared]) -> list[Prepared]:
    return [each for each in prepared if each.rows]


def _filter(jvm: Iceberg, table: Any, where: str) -> Any:
    """The predicate as an Iceberg conflict detection filter; ``alwaysTrue`` if Iceberg cannot express it."""
    try:
        return expression(jvm, table, where)
    except NO_FORM:  # it may match any row
        return jvm.static("org.apache.iceberg.expressions.Expressions", "alwaysTrue")()
