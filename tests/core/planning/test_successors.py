"""The files that statements wrote in place of inputs, against a table that knows where each row came from."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.planning.successors import Replacement, replaced_apart, successors


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


def written(rng: random.Random, table: dict[str, set[int]], statements: int) -> list[Replacement]:
    """Statements on files of numbered rows: each removes some files, and writes the rows that it keeps to new ones."""
    commits = []
    for number in range(statements):
        gone = rng.sample(sorted(table), rng.randint(0, min(3, len(table))))
        left = [row for path in gone for row in table.pop(path) if rng.random() < 0.7]
        rng.shuffle(left)
        made = {f"n{number}-{i}": set(left[i::2]) for i in range(2) if left[i::2]}
        commits.append(Replacement(frozenset(gone), frozenset(made)))
        table |= made
    return commits


@given(st.integers(0, 2**32))
def test_each_row_of_an_input_that_is_live_in_another_file_is_in_a_successor(seed: int) -> None:
    rng = random.Random(seed)
    table = {f"f{i}": {10 * i + j for j in range(rng.randint(1, 5))} for i in range(6)}
    inputs = rng.sample(sorted(table), 3)
    read: set[int] = set().union(*(table[path] for path in inputs))
    found = successors(inputs, written(rng, table, rng.randint(1, 5)))
    assert set(found) <= table.keys() - set(inputs)
    assert all(path in found or path in inputs for path, rows in table.items() if rows & read)


@pytest.mark.parametrize(
    "commits, gone, expected",
    [
        ("", "", ""),
        ("a >", "a", "a:"),
        ("a > d", "a", "a:d"),
        ("a > d; b > e", "a b", "a:d b:e"),
        ("a > d; d > e; b >", "a b", "a:e b:"),
        ("a b > d", "a b", "ab:d"),
        ("a > d; d b > e f", "a b", "ab:ef"),
        ("a > d; b > e; d e > f; c > g", "a b c", "ab:f c:g"),
        ("a > d; b > e; d e | z", "a b", "ab:"),
        ("a b | z; z c > d e", "a b c", "abc:de"),
        ("a x > d; b x > e", "a b", "a:d b:e"),
        ("a > d; d > a; b > e", "b", "b:e"),
    ],
    ids=lambda text: text or "-",
)
def test_parts_that_are_compared_apart(commits: str, gone: str, expected: str) -> None:
    inputs, found = ["a", "b", "c"], replacements(commits)
    parts = replaced_apart(inputs, gone.split(), successors(inputs, found), found)
    assert [f"{''.join(part.inputs)}:{''.join(part.files)}" for part in parts] == expected.split()


@given(st.integers(0, 2**32))
def test_no_row_of_a_part_is_in_a_file_of_another(seed: int) -> None:
    rng = random.Random(seed)
    table = {f"f{i}": {10 * i + j for j in range(rng.randint(1, 5))} for i in range(8)}
    inputs = rng.sample(sorted(table), 5)
    read = {path: table[path] for path in inputs}
    commits = written(rng, table, rng.randint(1, 6))
    files = successors(inputs, commits)
    parts = replaced_apart(inputs, [path for path in inputs if path not in table], files, commits)
    assert sorted(path for part in parts for path in part.inputs) == sorted(set(inputs) - table.keys())
    for part in parts:
        rows = set().union(*(read[path] for path in part.inputs))
        assert not any(table[path] & rows for path in files if path not in part.files)
