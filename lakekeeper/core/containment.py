"""May this path be deleted at all? The last question before every delete, asked of text alone.

A location is ``scheme:[//authority]/step/step``, decoded, as Hadoop's ``Path.toString`` has it. It may go only if it
lies strictly below the table's root, or a root that was declared beside it, by plain steps. Whoever may write a table's
metadata could name any path in it; a service that deletes must not become their hand (reference: CWE-22).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lakekeeper.errors import RetentionError

_LOCATION = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.\-]*):)?(?://([^/]*))?(/.*)?", re.DOTALL)
_SAME = {"s3n": "s3", "s3a": "s3", "wasbs": "wasb", "abfss": "abfs"}
"""Schemes that are one store under several names."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """Where a table's files may be deleted.

    roots      the table's location and those declared beside it
    reserved   folders (relative to the first root) in which nothing is deleted but what ``allowed`` matches
    """

    roots: tuple[str, ...]
    reserved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    store: tuple[str, str]
    steps: tuple[str, ...]


def require_roots(table: str, grounds: Grounds) -> None:
    """Raise RetentionError for a root that is a whole file system or bucket, or is no absolute location."""
    for root in grounds.roots:
        place = _place(root.rstrip("/") or "/")
        if place is None or not place.steps or _odd(place.steps):
            raise RetentionError(
                f"{table}: its location {root} is no folder below a file system's root; nothing was deleted"
            )


def refusal(path: str, grounds: Grounds, *, reserved: bool = False) -> str:
    """Why a path must not be deleted; empty where it may be.

    ``reserved`` permits paths in the reserved folders, to whoever owns them.
    """
    place = _place(path)
    if place is None or not place.steps:
        return "it is no absolute location"
    if path.endswith("/"):
        return "it names a folder"
    if _odd(place.steps):
        return "its steps are not plain names"
    for number, root in enumerate(grounds.roots):
        home = _place(root.rstrip("/"))
        if home is None or not home.steps:
            continue
        inside = place.store == home.store and place.steps[: len(home.steps)] == home.steps
        if not inside or len(place.steps) == len(home.steps):
            continue
        below = place.steps[len(home.steps) :]
        if number == 0 and not reserved and below[0] in grounds.reserved:
            return f"it lies in {below[0]}, which is not this step's to delete from"
        return ""
    return "it lies outside of the table's location"


def same_place(one: str, other: str) -> bool:
    """Do two spellings name one location? ``file:/x``, ``file:///x`` and ``/x`` do."""
    first, second = _place(one.rstrip("/")), _place(other.rstrip("/"))
    return first is not None and first == second


def spelled(path: str) -> str:
    """One spelling for all of a location's, for sets and comparisons: ``file:///x`` and ``/x`` → ``file:/x``."""
    place = _place(path)
    if place is None:
        return path
    scheme, authority = place.store
    return f"{scheme}:" + (f"//{authority}" if authority else "") + "/" + "/".join(place.steps)


def below(path: str, roots: Sequence[str]) -> str:
    """The path relative to the root that it lies under; itself where there is none. For messages."""
    for root in roots:
        place, home = _place(path), _place(root.rstrip("/"))
        if place and home and place.store == home.store and place.steps[: len(home.steps)] == home.steps:
            return "/".join(place.steps[len(home.steps) :])
    return path


def _place(location: str) -> _Place | None:
    found = _LOCATION.fullmatch(location)
    if found is None or not found[3]:
        return None
    scheme = (found[1] or "file").lower()
    # Without a leading slash; a slash at the end is told apart by who asks.
    return _Place((_SAME.get(scheme, scheme), found[2] or ""), tuple(found[3][1:].split("/")))


def _odd(steps: Sequence[str]) -> bool:
    """Steps that a file system may take for something else than a name."""
    return any(step in ("", ".", "..") or "\x00" in step or "\\" in step for step in steps)
