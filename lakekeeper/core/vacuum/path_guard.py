"""Whether a path may be deleted at all: the last check before every delete, on the text of the path alone.

A location is ``scheme:[//authority]/step/step``, decoded, as Hadoop's ``Path.toString`` prints it. It may be deleted
only if plain steps lead from the table's location, or from another root that the operator allows, strictly down to it.
A user who may write a table's metadata can name any path in it: without this check a service with more rights would
delete that path on the user's behalf (CWE-22, the confused deputy).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lakekeeper.errors import RetentionError

Region = Literal["data", "metadata", "trash"]
"""The part of a table in which a file must be: its data, its metadata, or an entry of its trash."""

NOTES = "_lakekeeper"
"""The folder below a table's location that is lakekeeper's own."""
TRASH = "trash"
"""The folder in it that is the trash; each entry has a folder of its own there."""

_LOCATION = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.\-]*):)?(?://([^/]*))?(/.*)?", re.DOTALL)
_SAME = {"s3n": "s3", "s3a": "s3", "wasb": "abfs", "wasbs": "abfs", "abfss": "abfs"}
"""Different schemes of one store."""
_BLOB = re.compile(r"(?<=@)([^.@]+)\.blob\.")
"""An account of Azure by its other endpoint: ``wasbs://c@a.blob.…`` is ``abfss://c@a.dfs.…``."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """Where a table's files may be deleted.

    roots      the table's location, then the places outside of it that an operator allows
    reserved   folders below the location in which only metadata of the format is deleted
    barred     places outside the location that the table declares and no operator allows: place → property
    """

    roots: tuple[str, ...]
    reserved: tuple[str, ...] = ()
    barred: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Place:
    store: tuple[str, str]
    steps: tuple[str, ...]


def grounds_of(
    location: str, reserved: Sequence[str], declared: Mapping[str, str], allowed: Sequence[str]
) -> Grounds:
    """The grounds of a table whose properties name places for its files (``declared``: property → place).

    Those below one of ``allowed`` are roots. A table property alone adds no root: a user who can set one could name any
    folder of the store.
    """
    roots, barred = [location.rstrip("/")], dict[str, str]()
    for name, place in declared.items():
        root = place.rstrip("/")
        if within(root, location):
            continue
        if not any(within(root, each) for each in allowed):
            barred.setdefault(root, name)
        elif not any(same_place(root, known) for known in roots):
            roots.append(root)
    return Grounds(tuple(roots), tuple(reserved), barred)


def require_roots(table: str, grounds: Grounds) -> None:
    """Raise RetentionError for a root that is a whole file system or bucket, or is not an absolute location."""
    for root in grounds.roots:
        place = _place(root.rstrip("/") or "/")
        if place is None or not place.steps or _odd(place.steps):
            raise RetentionError(
                f"{table}: its location {root} is not a folder below the root of a file system; nothing was deleted"
            )


def refusal(path: str, grounds: Grounds, region: Region = "data") -> str:
    """Why a file must not be deleted or moved; empty if it may be. ``region`` is where it must be."""
    place = _place(path)
    if place is None or not place.steps:
        return "it is not an absolute location"
    if path.endswith("/"):
        return "it is a folder"
    if _odd(place.steps):
        return "its path has steps that are not plain names"
    for number, root in enumerate(grounds.roots):
        steps = _steps_below(place, root)
        if steps:
            return _refusal_within(steps, grounds.reserved, region) if number == 0 else _outside_trash(region)
    for root, name in grounds.barred.items():
        if _steps_below(place, root):
            return f"it is in {root}, which the table declares ({name}) but vacuum.allowed-locations does not list"
    return "it is outside the table's location"


def _refusal_within(steps: Sequence[str], reserved: Sequence[str], region: Region) -> str:
    """Like :func:`refusal`, for a file below the table's location."""
    in_trash = len(steps) > 3 and steps[:2] == (NOTES, TRASH)
    if region == "trash":
        return "" if in_trash else "it is in no entry of the trash"
    if steps[0] == NOTES or (region == "data" and steps[0] in reserved):
        return f"it is in {steps[0]}, from which this step deletes nothing"
    return ""


def _outside_trash(region: Region) -> str:
    return "it is in no entry of the trash" if region == "trash" else ""


def move_refusal(source: str, target: str, grounds: Grounds) -> str:
    """Why a file must not be moved between its place and the trash; empty where it may be."""
    into, out = refusal(target, grounds, "trash"), refusal(source, grounds, "trash")
    if not into:
        return refusal(source, grounds)
    return out or refusal(target, grounds)


def trash_folder(location: str, entry: str) -> str:
    """The folder of an entry of the trash."""
    return f"{location.rstrip('/')}/{NOTES}/{TRASH}/{entry}"


def within(path: str, folder: str) -> bool:
    """Whether a location is a folder or below it. The folder may be a whole bucket or file system."""
    place, home = _place(path.rstrip("/")), _place(f"{folder.rstrip('/')}/")
    if place is None or home is None:
        return False
    steps = home.steps[:-1]
    if _odd(place.steps) or _odd(steps):
        return False
    return place.store == home.store and place.steps[: len(steps)] == steps


def meets(one: str, others: Iterable[str]) -> bool:
    """Whether a location is equal to, above or below one of others."""
    return any(within(one, other) or within(other, one) for other in others)


def may_meet(one: str, others: Iterable[str]) -> bool:
    """Whether a location may be equal to, above or below one of others, however they are spelled; in doubt it is.

    Unlike the other comparisons, this one finds what must not be touched: ``//``, ``.`` and ``..`` are resolved, and a
    location without a scheme or an authority may be in any store.
    """
    return any(may_be_within(one, other) or may_be_within(other, one) for other in others)


def may_be_within(path: str, folder: str) -> bool:
    """Whether a location may be a folder or below it, as for :func:`may_meet`."""
    first, second = _loose(path), _loose(folder)
    if first is None or second is None:
        return False
    (store, steps), (home_store, home) = first, second
    return _may_be_one(store, home_store) and steps[: len(home)] == home


def may_be_same(one: str, other: str) -> bool:
    """Whether two locations may be one, as for :func:`may_meet`."""
    return may_be_within(one, other) and may_be_within(other, one)


def _loose(location: str) -> tuple[tuple[str, str], tuple[str, ...]] | None:
    """(scheme, host) and the steps of a location, resolved; an empty scheme or host may be any."""
    found, place = _LOCATION.fullmatch(location), _place(f"{location.rstrip('/')}/")
    if found is None or place is None:
        return None
    scheme = place.store[0] if found[1] else ""
    host = re.sub(r":\d+$", "", place.store[1].lower())
    steps = posixpath.normpath("/" + "/".join(place.steps)).split("/")
    return (scheme, host), tuple(step for step in steps if step)


def _may_be_one(one: tuple[str, str], other: tuple[str, str]) -> bool:
    return all("" in pair or pair[0] == pair[1] for pair in zip(one, other, strict=True))


def same_place(one: str, other: str) -> bool:
    """Whether two spellings name one location, as ``file:/x``, ``file:///x`` and ``/x`` do."""
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
    """The path relative to the root that contains it; the path itself if it is under no root. For messages."""
    for root in roots:
        place, home = _place(path), _place(root.rstrip("/"))
        if place and home and place.store == home.store and place.steps[: len(home.steps)] == home.steps:
            return "/".join(place.steps[len(home.steps) :])
    return path


def _steps_below(place: _Place, root: str) -> tuple[str, ...]:
    """The steps of a place below a root; none where it is not strictly below."""
    home = _place(root.rstrip("/"))
    if home is None or not home.steps or place.store != home.store:
        return ()
    return place.steps[len(home.steps) :] if place.steps[: len(home.steps)] == home.steps else ()


def _place(location: str) -> _Place | None:
    found = _LOCATION.fullmatch(location)
    if found is None or not found[3]:
        return None
    scheme, authority = (found[1] or "file").lower(), found[2] or ""
    scheme = _SAME.get(scheme, scheme)
    if scheme == "abfs":
        authority = _BLOB.sub(r"\1.dfs.", authority)
    # Without a leading slash; the caller distinguishes a trailing slash.
    return _Place((scheme, authority), tuple(found[3][1:].split("/")))


def _odd(steps: Sequence[str]) -> bool:
    """Whether a file system may interpret one of the steps as something other than a name."""
    return any(step in ("", ".", "..") or "\x00" in step or "\\" in step for step in steps)
