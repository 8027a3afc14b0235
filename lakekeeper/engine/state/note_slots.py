"""Notes that are found without a listing: a fixed number of slots, and long lists in parts.

intents/00.json   intents/01.json   …                the first free one is taken, all are read
vacuum/<run>/list-0000.json   …-0001.json   …        20,000 paths in each; their number is stored elsewhere
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
