"""The indexes of rules and of losses are true: what they name exists, and each has a test or a drawn case."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import pytest

from lakekeeper.core.config.options import lookup
from lakekeeper.errors import OptionError

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "reference" / "rules.md"
LOSSES = ROOT / "docs" / "reference" / "losses.md"
CHANGELOG = ROOT / "CHANGELOG.md"
DATA = ROOT / "tests" / "core" / "data"

_CODE = re.compile(r"`([^`\n]+)`")
_TEST = re.compile(r"(?P<path>[\w/]+\.py)::(?P<name>test_\w+)")
_LOSS = re.compile(r"def (test_\w+)\([^\"]*?:\n    \"\"\"Loss(?:es)? (L?\d+(?:, L?\d+)*)[.:]")
_CASE = re.compile(r"(?P<path>tests/core/data/\w+\.txt): (?P<text>.+)")


def table_of(page: Path, width: int) -> list[list[str]]:
    """The rows of all tables of a page, without their headers."""
    lines = page.read_text().splitlines()
    rows = [
        line.strip("| ").split(" | ")
        for line, below in zip(lines, [*lines[1:], ""], strict=True)
        if line.startswith("| ") and not below.startswith("|--")
    ]
    assert all(len(row) == width for row in rows), [row for row in rows if len(row) != width]
    return rows


def rules() -> list[tuple[str, str, str]]:
    """Rule, the modules that implement it, the tests that name it."""
    return [(rule, where, named) for rule, where, named in table_of(INDEX, 3)]


def lives(word: str) -> bool:
    """Whether it is a policy, an option or a module."""
    if word.startswith("lakekeeper."):
        return find_spec(word) is not None
    if word in entry_points(group="lakekeeper.policies").names:
        return True
    try:
        return lookup(word).name == word
    except OptionError:
        return False


def names(word: str) -> bool:
    """Whether it is a test defined in its file, or the beginning of a comment in a golden file."""
    if test := _TEST.fullmatch(word):
        path = ROOT / test["path"]
        return path.is_file() and f"def {test['name']}(" in path.read_text()
    if case := _CASE.fullmatch(word):
        path = ROOT / case["path"]
        return path.is_file() and f"# {case['text']}" in path.read_text()
    return False


@pytest.mark.parametrize("rule, where, named", rules(), ids=lambda cell: cell[:40])
def test_a_rule_lives_where_the_index_says_and_is_named_by_a_test(rule: str, where: str, named: str) -> None:
    places, tests = _CODE.findall(where), _CODE.findall(named)
    assert places, rule
    assert tests, rule
    assert [place for place in places if not lives(place)] == []
    assert [test for test in tests if not names(test)] == []


def test_every_design_is_in_the_index() -> None:
    sources = re.findall(r"(?m)^## (\w+): ", INDEX.read_text())
    assert sources == ["Databend", "Relyt", "Snowflake", "Paimon", "StarRocks"]
    assert len(rules()) > 45


def test_each_loss_has_a_test_and_each_test_with_its_number_is_on_the_page() -> None:
    listed: dict[str, list[str]] = {row[0]: _CODE.findall(row[3]) for row in table_of(LOSSES, 4)}
    assert list(listed) == [*(str(n) for n in range(51, 82)), *(f"L{n}" for n in range(1, len(listed) - 30))]
    assert [test for tests in listed.values() for test in tests if not names(test)] == []
    assert [number for number, tests in listed.items() if not any(map(_TEST.fullmatch, tests))] == []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, said in _LOSS.findall(path.read_text()):
            here = f"{path.relative_to(ROOT)}::{name}"
            assert {n for n in re.findall(r"L?\d+", said) if here not in listed.get(n, [])} == set(), here


def test_each_test_that_the_changelog_names_exists() -> None:
    found = [word for word in _CODE.findall(CHANGELOG.read_text()) if _TEST.fullmatch(word)]
    assert len(found) > 80
    assert [test for test in found if not names(test)] == []


def test_every_case_outside_the_tables_exists_too() -> None:
    cases = [word for word in _CODE.findall(INDEX.read_text()) if _CASE.fullmatch(word)]
    assert [case for case in cases if not names(case)] == []


def test_every_drawn_case_of_a_source_is_in_the_index() -> None:
    """The reverse: no case that names a rule of a source is missing from the index."""
    index = set(_CODE.findall(INDEX.read_text()))
    drawn = [
        f"tests/core/data/{path.name}: {line.removeprefix('# ')}"
        for path in sorted(DATA.glob("*.txt"))
        for line in path.read_text().splitlines()
        if line.startswith("# Seed ")
    ]
    assert len(drawn) > 10
    assert [case for case in drawn if not any(case.startswith(word) for word in index)] == []


@pytest.mark.parametrize(
    "word",
    [
        "tests/core/planning/policies/test_universal.py::test_of_nothing",
        "tests/core/test_nothing.py::test_units_end",
        "tests/core/data/universal.txt: no such rule",
        "tests/core/data/nothing.txt: At exactly 250% it is not above.",
        "sizes",
    ],
)
def test_what_does_not_exist_is_found(word: str) -> None:
    assert not names(word)
    assert not lives("lakekeeper.core.nothing")
    assert not lives("no-such-option")
