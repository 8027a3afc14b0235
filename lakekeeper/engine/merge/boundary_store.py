"""Rank boundaries of curved keys: read from the notes of the table, or derived and stored there.

    boundaries/<key id>/0.json ─ outgrown ─► 1.json ─ outgrown ─► 2.json      each written once, never changed

A generation keeps the boundaries of the one that it follows. One that cannot be read, or that belongs to other columns,
is skipped like an outgrown one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakekeeper.core.layout.rank_boundaries import derive, newest_generation, outgrown, placed, refined
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.boundaries import Boundaries
from lakekeeper.spi import Adapter


def on_its_curve(adapter: Adapter[Any], snapshot: Snapshot) -> Snapshot:
    """The snapshot with its blocks placed on the curve of its key, under the boundaries in force.

    These are the stored boundaries, else derived ones that are not stored yet.
    """
    return placed(_with_boundaries(adapter, snapshot))


def _with_boundaries(adapter: Adapter[Any], snapshot: Snapshot) -> Snapshot:
    """The snapshot with the boundaries in force; the search starts at the newest generation under which a block stores
    its range.

    Only a complete snapshot shows that a table has outgrown its boundaries.
    """
    key, blocks = snapshot.key, snapshot.blocks
    if key is None or not key.curved:
        return snapshot
    generation = newest_generation(blocks, key)
    today = finer = derive(blocks, key, generation)
    while True:
        text = adapter.notes.read(note_name(key.key_id, generation))
        if text is None:
            return replace(snapshot, boundaries=replace(finer, generation=generation))
        found = _parsed(text)
        if found is not None and found.fits(key):
            old = snapshot.complete and outgrown(found, today, len(blocks))
            if not old:
                return replace(snapshot, boundaries=found)
            finer = refined(found, today)
        generation += 1


def keep_boundaries(adapter: Adapter[Any], snapshot: Snapshot) -> bool:
    """Store the boundaries of a snapshot before a rewrite uses them. False if another run stored some first."""
    kept = snapshot.boundaries
    if kept is None:
        return True
    text = kept.to_json()
    return adapter.notes.keep(note_name(kept.key_id, kept.generation), text) == text


def note_name(key_id: str, generation: int) -> str:
    """The name of the note with the boundaries of a key."""
    return f"boundaries/{key_id}/{generation}.json"


def _parsed(text: str) -> Boundaries | None:
    try:
        return Boundaries.from_json(text)
    except ValueError:
        return None
