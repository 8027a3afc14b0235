"""Successors: the files that copy-on-write statements wrote in place of a rewrite's inputs.

    inputs           a  b  c
    DELETE           a ─► d           d holds the rows of a that are left
    DELETE           d, b ─► e        e holds those of d and b
    DELETE           c, x ─► f, g     x is no input: f and g may hold rows of either

A replay compares their rows with those of the inputs, and follows those that hold mostly rows that were read. Inputs
that no statement touched together are compared apart, so that the next replay compares only what has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replacement:
    """A commit that removed data files: all paths that it ``removed`` and ``added``.

    ``followed``: it changed rows, and all rows of the files that it added were live. Not so after a rewrite by another
    writer, where an added file came with deletes, and where the adapter cannot say.
    """

    removed: frozenset[str]
    added: frozenset[str] = frozenset()
    followed: bool = True


def successors(inputs: Collection[str], replacements: Iterable[Replacement]) -> tuple[str, ...]:
    """The live files, sorted, that statements wrote in place of inputs; the commits are in order, oldest first."""
    own: frozenset[str] = frozenset(inputs)
    live: frozenset[str] = frozenset()
    for commit in replacements:
        if own.isdisjoint(commit.removed):
            continue
        live -= commit.removed
        if commit.followed:
            live |= commit.added
            own |= commit.added
    return tuple(sorted(live.difference(inputs)))


@dataclass(frozen=True, slots=True)
class Replaced:
    """Inputs that are gone, sorted, and the files in their place: no statement moved rows from or to other ones."""

    inputs: tuple[str, ...]
    files: tuple[str, ...]


def replaced_apart(
    inputs: Iterable[str], gone: Collection[str], files: Collection[str], replacements: Iterable[Replacement]
) -> tuple[Replaced, ...]:
    """The ``gone`` inputs and the ``files`` in their place, in as many parts as possible; the commits are in order.

    Each of these inputs is in one part. A file that is in none replaces only inputs that are live.
    """
    parts = {path: frozenset((path,)) for path in inputs}
    for commit in replacements:
        touched = [path for path in commit.removed if path in parts]
        if touched:  # followed or not: a later statement may write rows of several of them to one file
            joined = commit.added.union(*(parts[path] for path in touched))
            joined = joined.union(*(parts[path] for path in commit.added if path in parts))
            parts.update(dict.fromkeys(joined, joined))
    found = {
        Replaced(tuple(sorted(part.intersection(gone))), tuple(sorted(part.intersection(files))))
        for part in parts.values()
    }
    return tuple(sorted((part for part in found if part.inputs), key=lambda part: part.inputs))
