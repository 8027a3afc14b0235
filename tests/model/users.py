"""What users do: each action on the table, and on the model of what they may expect to read.

An action that has nothing to do in a table is not taken there. There are few values, so that rows are often equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from lakekeeper.testing.values import Row
from lakekeeper.testing.versions import ROW_ID, Entry, Version
from tests.model.oracle import Model, Values
from tests.model.store import ModelTable, Node

Act = Callable[[ModelTable, Node], Model | None]
"""Acts on the table, which is set to the node, and returns the expected rows; None: nothing to do."""

ID, K, V = 0, 1, 2  # positions in a row of the model
K_FIELD, V_FIELD = "1", "2"  # the same columns in a stored row
BASE = 2
"""The version that a restore returns to: before the first delete, see :func:`tests.model.world.first_node`."""


def append(table: ModelTable, node: Node) -> Model | None:
    """One more row that equals an existing one."""
    table.append([_row(node, 1, "a")])
    return node.model.plus([(_id(node, 1), 1, "a", 0)])


def load(table: ModelTable, node: Node) -> Model | None:
    """Three more files with rows of their own and equal ones."""
    files = (((1, "a"), (2, "b"), (6, "f")), ((1, "a"), (7, "g")), ((3, "c"),))
    table.append(*([_row(node, k, v) for k, v in rows] for rows in files))
    loaded = [row for rows in files for row in rows]
    return node.model.plus((_id(node, i), k, v, 0) for i, (k, v) in enumerate(loaded, 1))


def overwrite(table: ModelTable, node: Node) -> Model | None:
    table.overwrite([_row(node, 1, "a"), _row(node, 5, "o")])
    return node.model.of([(_id(node, 1), 1, "a", 0), (_id(node, 2), 5, "o", 0)])


def delete_equal(table: ModelTable, node: Node) -> Model | None:
    """Delete all rows of one value, in several files."""
    return _delete(table, node, lambda row: bool(row["k"] == 1), lambda row: bool(row[K] == 1))


def delete_first(table: ModelTable, node: Node) -> Model | None:
    return _delete_nth(table, node, 0)


def delete_last(table: ModelTable, node: Node) -> Model | None:
    return _delete_nth(table, node, -1)


def delete_widest(table: ModelTable, node: Node) -> Model | None:
    """Delete the first row of the file with most rows: the file stays."""
    live = [(len(entry.live), n) for n, entry in enumerate(node.version.files.values())]
    if not any(size for size, _ in live):
        return None
    widest = max(live, key=lambda found: (found[0], -found[1]))[1]
    return _delete_nth(table, node, sum(size for size, n in live if n < widest))


def drop_file(table: ModelTable, node: Node) -> Model | None:
    """Delete all rows of the oldest file."""
    for path, entry in node.version.files.items():
        table.drop_files(path)
        return node.model.less(_values(node, entry.live))
    return None


def cow_delete(table: ModelTable, node: Node) -> Model | None:
    """A copy-on-write delete, even if the table supports deletion vectors."""
    if not _rewrite_rows(table, "DELETE", 2, None):
        return None
    return node.model.without(lambda row: bool(row[K] == 2))


def cow_update(table: ModelTable, node: Node) -> Model | None:
    if not _rewrite_rows(table, "UPDATE", 1, "u"):
        return None
    changed = ((*row[:V], "u", *row[V + 1 :]) if row[K] == 1 else row for row in node.model.rows)
    return node.model.of(changed)


def restore(table: ModelTable, node: Node) -> Model | None:
    return _back_to(table, node, BASE)


def undo(table: ModelTable, node: Node) -> Model | None:
    return _back_to(table, node, node.number - 1)


def foreign(table: ModelTable, node: Node) -> Model | None:
    """Another engine's rewrite."""
    if not any(entry.live for entry in node.version.files.values()):
        return None
    table.rewrite_foreign()
    return node.model


def add_column(table: ModelTable, node: Node) -> Model | None:
    if len(node.model.columns) > 3:
        return None
    table.add_column("n", "int")
    return replace(node.model, columns=(*node.model.columns, "n"))


def rename(table: ModelTable, node: Node) -> Model | None:
    old = node.model.columns[V - 1]
    new = "w" if old == "v" else "v"
    table.rename_column(old, new)
    columns = tuple(new if name == old else name for name in node.model.columns)
    return replace(node.model, columns=columns)


def set_property(table: ModelTable, node: Node) -> Model | None:
    if "x" in node.version.properties:
        return None
    table.set_property("x", "1")
    return node.model


def repartition(table: ModelTable, node: Node) -> Model | None:
    if node.version.spec:
        return None
    table.repartition("k")
    return node.model


def tag(table: ModelTable, node: Node) -> Model | None:
    """Tag the second newest version."""
    if _TAG in table.refs:
        return None
    table.tag(_TAG, node.number - 1)
    return node.model


def untag(table: ModelTable, node: Node) -> Model | None:
    return None if table.refs.pop(_TAG, None) is None else node.model


_TAG = "t"
BESIDE: Mapping[str, Callable[[Node], int]] = {
    "tag": lambda node: node.number - 1,
    "undo": lambda node: node.number - 1,
    "restore": lambda _node: BASE,
}
"""Actions that rely on an older version, and on which."""

ACTS: Mapping[str, Act] = {
    act.__name__: act
    for act in (
        append, load, overwrite, delete_equal, delete_first, delete_last, delete_widest, drop_file, cow_delete,
        cow_update, restore, undo, foreign, add_column, rename, set_property, repartition, tag, untag,
    )
}  # fmt: skip


def _id(node: Node, count: int) -> int:
    return 10 * node.number + count if node.reads_ids else 0


def _row(node: Node, k: int, v: str) -> Row:
    return {"k": k, node.model.columns[V - 1]: v, "p": 0}


def _values(node: Node, stored: Iterable[Row]) -> list[Values]:
    """Rows of a file in the model's form."""
    ids = [c.field_id for c in node.version.schema.columns]
    known = set(node.model.rows)
    found = []
    for row in stored:
        whole = (row[ROW_ID] if node.reads_ids else 0, *(row.get(i) for i in ids))
        found.append(next(whole[:n] for n in range(len(whole), 0, -1) if whole[:n] in known))
    return found


def _delete(
    table: ModelTable, node: Node, where: Callable[[Row], bool], gone: Callable[[Values], bool]
) -> Model | None:
    if not any(gone(row) for row in node.model.rows):
        return None
    table.delete(where)
    return node.model.without(gone)


def _delete_nth(table: ModelTable, node: Node, at: int) -> Model | None:
    """Delete one row, by its position in the table; from the end if ``at`` is negative."""
    live = [row for entry in node.version.files.values() for row in entry.live]
    if not live:
        return None
    at %= len(live)
    calls = itertools.count()  # called for each live row, in order: ids may not be unique here
    table.delete(lambda _row: next(calls) == at)
    return node.model.less(_values(node, [live[at]]))


def _rewrite_rows(table: ModelTable, operation: str, k: int, v: str | None) -> bool:
    """Rewrite the files that hold ``k``, with another value, or without those rows."""

    def change(now: Version) -> Version:
        files = dict(now.files)
        for path, entry in now.files.items():
            if any(row[K_FIELD] == k for row in entry.live):
                del files[path]
                changed = [{**row, V_FIELD: v} if row[K_FIELD] == k else row for row in entry.live]
                kept = [row for row in changed if v is not None or row[K_FIELD] != k]
                if kept:
                    made = Entry(table.write_file(now, kept), now.at_ms + 1000)
                    files[made.file.path] = made
        return replace(now, files=files)

    if not any(row[K_FIELD] == k for entry in table.current.files.values() for row in entry.live):
        return False
    table.apply(operation, change)
    return True


def _back_to(table: ModelTable, node: Node, number: int) -> Model | None:
    """Restore the files of an older version; the columns stay the current ones."""
    old = node.nodes[number]
    if old.version.files == node.version.files:
        return None
    table.apply("RESTORE", lambda now: replace(now, files=old.version.files))
    return replace(node.model, rows=old.model.rows)


def staged_row(node: Node) -> tuple[Row, Values]:
    """A row of a file that is committed later: as it is stored, and in the model's form."""
    return {K_FIELD: 8, V_FIELD: "s", "3": 0, ROW_ID: 8}, (8 if node.reads_ids else 0, 8, "s", 0)


def setup_rows(rows: Iterable[tuple[Any, ...]]) -> list[Row]:
    """Rows of the first columns, ``(p, k, v)``."""
    return [{"p": p, "k": k, "v": v} for p, k, v in rows]
