"""Notes that are found without a listing: a fixed number of slots, and long lists in parts.

intents/00.json   intents/01.json   …                the first free one is taken, all are read
intents/00-<hash>.json                               while a run replaces the text with this hash in slot 00
vacuum/<run>/list-0000.json   …-0001.json   …        20,000 paths in each; their number is stored elsewhere
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from lakekeeper.spi import Notes

_T = TypeVar("_T")
_PART = 20_000


def slot_note(folder: str, number: int) -> str:
    """The note of a slot."""
    return f"{folder}/{number:02d}.json"


def claim(notes: Notes, slots: Iterable[str], text: str) -> str | None:
    """Write a text into the first free slot; returns the slot, None if none is free. Texts differ from run to run."""
    return next((each for each in slots if notes.keep(each, text) == text), None)


def take_over(notes: Notes, slot: str, old: str, text: str) -> bool:
    """Replace the text ``old`` of a slot by ``text``; False if another writer does so, or the slot has changed.

    Notes have no compare-and-swap, so writers race for a note that names the slot and the old text, and only the one
    that creates it replaces that text. It removes the note afterwards. A writer that creates it again then reads a
    slot that has changed, since texts differ and none returns to a slot. A writer that dies in between leaves the note,
    and one whose write failed too, since that write may still arrive: no other writer takes over this text then.
    """
    right = f"{slot.removesuffix('.json')}-{hashlib.sha256(old.encode()).hexdigest()[:16]}.json"
    if notes.keep(right, text) != text:
        return False
    if notes.read(slot) == old:
        notes.replace(slot, text)
    ours = notes.read(slot) == text
    with suppress(Exception):  # a note that stays is in no one's way: the text that it is about is gone
        notes.remove(right)
    return ours


def filled(notes: Notes, slots: Iterable[str]) -> list[tuple[str, str]]:
    """The slots that are taken, each with its text. Raises AdapterError if one cannot be read."""
    names = list(slots)
    if notes.readers == 1:
        texts = [notes.read(name) for name in names]
    else:
        with ThreadPoolExecutor(notes.readers) as pool:
            texts = list(pool.map(notes.read, names))
    return [(name, text) for name, text in zip(names, texts, strict=True) if text is not None]


def part(stem: str, number: int) -> str:
    """The note of one part of a list."""
    return f"{stem}-{number:04d}.json"


def in_parts(items: Sequence[_T]) -> list[Sequence[_T]]:
    """A list cut into parts that fit a note each."""
    return [items[i : i + _PART] for i in range(0, len(items), _PART)]


def write_parts(notes: Notes, stem: str, parts: Sequence[Sequence[object]], first: int = 0) -> None:
    """Write the parts of a list, numbered from ``first``."""
    for number, items in enumerate(parts, first):
        notes.replace(part(stem, number), json.dumps(items))
