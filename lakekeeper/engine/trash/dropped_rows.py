"""Which rows a drop removed, by its predicate on the files that it changed, before and after.

    before   ●●●○○○   ●●●○○○   ●●●○○○     ● a row that matches
    after       ○○○   ●●●○○○     ●○○○
             removed  stayed   refused

A file in which all matches stayed was added while the drop searched. If only some left, the predicate matches other
rows in this session than in that of the drop: ``ts < '2024-01-01'`` depends on the time zone, for example.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.engine.trash.entries import TrashEntry, later_of
from lakekeeper.errors import Unsupported
from lakekeeper.spi import Adapter, Held


@dataclass(frozen=True, slots=True)
class DroppedRows:
    """Rows of the version ``then``: all live ones of the files ``whole``, and those of other files at ``hits``."""

    then: Snapshot
    whole: frozenset[str]
    hits: Held[Any] | None


def dropped_rows(
    adapter: Adapter[Any], entry: TrashEntry, search: Callable[[Snapshot, Sequence[str]], Held[Any]]
) -> DroppedRows:
    """The rows that the drop of ``entry`` removed; ``search`` finds matches in these files of a snapshot.

    Raises Unsupported if the predicate does not mean the rows that the drop removed, and as ``Restores.around``.
    """
    later = later_of(adapter.notes, entry) or entry.dropped
    then, after = adapter.restores.around(entry.dropped, entry.where, later)
    left: list[str] = after.blocks.path.to_pylist()
    stayed = {path: rows for path, rows in search(after, left).per_file.items() if rows} if left else {}
    paths: list[str] = then.blocks.path.to_pylist()
    whole = adapter.deletes.covered(then, entry.where, paths) - frozenset(left)
    rest = [path for path in paths if path not in whole]
    hits = search(then, rest) if rest else None
    matched = hits.per_file if hits else {}
    if any(matched.get(path, 0) != rows for path, rows in stayed.items()):
        raise other_rows(adapter, entry, "some of them are still in the table")
    if stayed:
        rest = [path for path in rest if path not in stayed]
        hits = search(then, rest) if rest else None
    return DroppedRows(then, whole, hits)


def other_rows(adapter: Adapter[Any], entry: TrashEntry, why: str) -> Unsupported:
    """The error for a predicate that matches other rows now than the drop removed."""
    return Unsupported(
        adapter.table,
        "a restore by a predicate that means other rows now",
        f"'{entry.where}' does not match the rows that the drop removed ({why}), so nothing was committed, and the "
        f"entry '{entry.name}' is kept. Restore it in a session with the time zone and the other SQL settings of the "
        f"drop, or read the dropped rows from version {entry.version}",
    )
