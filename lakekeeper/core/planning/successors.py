"""Successors: the files that copy-on-write statements wrote in place of a rewrite's inputs.

    inputs           a  b  c
    DELETE           a ─► d           d holds the rows of a that are left
    DELETE           d, b ─► e        e holds those of d and b
    DELETE           c, x ─► f, g     x is no input: f and g may hold rows of either

A replay compares their rows with those of the inputs, and follows those that hold mostly rows that were read.
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
