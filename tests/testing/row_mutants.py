"""Adapters that are wrong about changes, restores, undos, notes, statistics, Bloom filters or the format itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lakekeeper.core.model.block_changes import differing
from lakekeeper.errors import Unsupported
from lakekeeper.spi import Prepared, Tidied
from lakekeeper.testing.bloom_filters import MemoryBloomFilters
from lakekeeper.testing.deletes import MemoryDeletes, fresh
from lakekeeper.testing.memory import MemoryAdapter, MemoryFormat
from lakekeeper.testing.notes import MemoryNotes
from lakekeeper.testing.restores import MemoryRestores
from lakekeeper.testing.statistics import MemoryStatistics
from lakekeeper.testing.undos import MemoryUndos
from lakekeeper.testing.versions import Version
from tests.testing.mutants import Mutant, Patch, always, changed


def _copies_what_is_left() -> list[Patch]:
    real = MemoryRestores.copy

    def copy(self: MemoryRestores, *args: Any) -> Prepared:
        try:
            return real(self, *args)
        except Unsupported:
            return Prepared({}, ())

    return [(MemoryRestores, "copy", copy)]


def _around_any_version(self: Any, version: int, where: str, later: int) -> Any:
    then = self._adapter.seen(self._store.readable(version - 1), where=where)
    return differing(then, self._adapter.seen(self._store.version(version), where=where))


def _undo_on_any_columns() -> list[Patch]:
    real = MemoryUndos.commit

    def commit(self: Any, reversal: Any, run_id: str) -> Any:
        return real(self, replace(reversal, seen=self._store.current.number), run_id)

    return [(MemoryUndos, "commit", commit)]


def _no_block(_self: Any, found: Any, *_: Any) -> Any:
    return replace(found, blocks=found.blocks.take(np.zeros(len(found.blocks), np.bool_)))


def _tidy_all_deletes(self: Any, _snapshot: Any, run_id: str) -> Tidied:
    def change(now: Version) -> Version:
        return replace(now, files={path: fresh(entry.file) for path, entry in now.files.items()})

    return Tidied(self._store.apply("lakekeeper", change, run_id), 1)


_NOTES = "test_what_is_kept_beside_the_table_stays_and_is_no_part_of_it"

ROWS = (
    Mutant(
        "a change of the columns is no obstacle", "test_a_key_whose_column_was_dropped_is_an_obstacle",
        changed(MemoryAdapter, "changes_since", lambda _self, found, *_: replace(found, obstacle=None)),
    ),
    Mutant(
        "a snapshot is never refreshed", "test_a_refreshed_snapshot_is_what_a_whole_read_shows",
        [(MemoryAdapter, "refresh", lambda _self, snapshot, *_: snapshot)],
    ),
    Mutant(
        "no block matches", "test_where_keeps_every_block_that_may_match",
        changed(MemoryAdapter, "matching", _no_block),
    ),
    Mutant(
        "an undo ignores a change of the columns",
        "test_no_undo_is_committed_after_a_change_of_the_columns", _undo_on_any_columns(),
    ),
    Mutant(
        "a dropped column is left out of restored rows",
        "test_rows_are_not_restored_without_a_column_that_they_had", _copies_what_is_left(),
    ),
    Mutant(
        "a restore of the format is overlooked",
        "test_rows_that_a_restore_of_the_format_brought_back_are_not_added_again",
        [(MemoryRestores, "around", _around_any_version)],
    ),
    Mutant(
        "what was prepared for any file is kept", "test_only_the_part_of_these_files_is_kept",
        [(MemoryDeletes, "keep", lambda _self, prepared, *_: prepared)],
    ),
    Mutant("all deletes are tidied away", "test_tidying_changes_no_row", [(MemoryDeletes, "tidy", _tidy_all_deletes)]),
    Mutant("no note is replaced", _NOTES, always(MemoryNotes, "replace", None)),
    Mutant("no note is removed", _NOTES, always(MemoryNotes, "remove", None)),
)  # fmt: skip


_ONCE = "test_statistics_are_computed_once"
_FILTERS = "test_files_without_a_filter_are_found_until_they_are_rewritten"

OTHERS = (
    Mutant(
        "no statistics are due", _ONCE,
        changed(MemoryStatistics, "find", lambda _self, found, *_: replace(found, files=0)),
    ),
    Mutant("statistics are not committed", _ONCE, always(MemoryStatistics, "commit", None)),
    Mutant("statistics never landed", _ONCE, always(MemoryStatistics, "landed", None)),
    Mutant("statistics always landed", _ONCE, always(MemoryStatistics, "landed", 1)),
    Mutant("no column has a filter", _FILTERS, always(MemoryBloomFilters, "columns", ())),
    Mutant("each file has all filters", _FILTERS, always(MemoryBloomFilters, "missing", frozenset())),
    Mutant(
        "no file has a filter", _FILTERS,
        [(MemoryBloomFilters, "missing", lambda _self, files: frozenset(files))],
    ),
    Mutant(
        "each error is a lost race", "test_an_error_of_another_kind_is_no_lost_race",
        always(MemoryFormat, "lost_race", True),
    ),
    Mutant(
        "no table keeps its files", "test_a_table_keeps_its_files_if_the_format_says_so",
        always(MemoryFormat, "keeps_files", ""),
    ),
    Mutant(
        "each table keeps its files", "test_a_table_keeps_its_files_if_the_format_says_so",
        always(MemoryFormat, "keeps_files", "in doubt"),
    ),
)  # fmt: skip
