"""The files that statements wrote in place of inputs, against a table that knows where each row came from."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.planning.successors import Replacement, successors


def replacements(text: str) -> list[Replacement]:
    """``a b > d; d > e; x | y`` : commits that remove and add files; ``|`` where a commit is not followed."""
    found = []
    for commit in filter(None, (part.strip() for part in text.split(";"))):
        removed, sign, added = commit.partition(">") if ">" in commit else commit.partition("|")
        found.append(Replacement(frozenset(removed.split()), frozenset(added.split()), sign == ">"))
    return found


@pytest.mark.parametrize(
    "commits, expected",
    [
        ("", ""),
        ("a > d", "d"),
        ("a >", ""),
        ("x > y", ""),
        ("a > d; b > e", "d e"),
        ("a > d; d > e", "e"),
        ("a > d; d >", ""),
        ("a > d; d b > e", "e"),
        ("a b > d e", "d e"),
        ("a x > d e", "d e"),
        ("a > d; x > y; y > z", "d"),
        ("a > d; d x > e", "e"),
        ("a > d; d > a", ""),
        ("a | d", ""),
        ("a > d; d | e", ""),
        ("a > d; b | e", "d"),
        ("a | d; d > e", ""),
    ],
    ids=lambda text: text or "-",
)
def test_successors_of_inputs(commits: str, expected: str) -> None:
    assert successors(["a", "b", "c"], replacements(commits)) == tuple(expected.split())


@given(st.integers(0, 2**32))
def test_each_row_of_an_input_that_is_live_in_another_file_is_in_a_successor(seed: int) -> None:
    """Rows are numbered; each statement removes some files, and writes the rows that it keeps to new ones."""
    rng = random.Random(seed)
    table = {f"f{i}": {10 * i + j for j in range(rng.randint(1, 5))} for i in range(6)}
    inputs = rng.sample(sorted(table), 3)
    read: set[int] = set().union(*(table[path] for path in inputs))
    commits = []
    for number in range(rng.randint(1, 5)):
        gone = rng.sample(sorted(table), rng.randint(0, min(3, len(table))))
        left = [row for path in gone for row in table.pop(path) if rng.random() < 0.7]
        rng.shuffle(left)
        made = {f"n{number}-{i}": set(left[i::2]) for i in range(2) if left[i::2]}
        commits.append(Replacement(frozenset(gone), frozenset(made)))
        table |= made
    found = successors(inputs, commits)
    assert set(found) <= table.keys() - set(inputs)
    assert all(path in found or path in inputs for path, rows in table.items() if rows & read)
