"""A test sets each option for its effect: tests of the option table itself do not count."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from lakekeeper.core.config.option import keyword
from lakekeeper.core.config.options import OPTIONS

TESTS = Path(__file__).parents[1]
OF_THE_TABLE = ("test_options.py", "test_generated.py", "test_options_are_tested.py", "test_rules.py")


@cache
def _said() -> tuple[frozenset[str], frozenset[str]]:
    """All text in tests, golden files included, and all names of keyword arguments."""
    texts, keywords = set(), set()
    for path in TESTS.rglob("*.py"):
        if path.name not in OF_THE_TABLE:
            tree = ast.parse(path.read_text())
            docs = {id(node) for node in _docstrings(tree)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                    texts.add(node.value)
                elif isinstance(node, ast.keyword) and node.arg:
                    keywords.add(node.arg)
    for path in TESTS.rglob("*.txt"):
        texts.update(line for line in path.read_text().splitlines() if line.startswith("pick "))
    return frozenset(texts), frozenset(keywords)


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _is_set(name: str) -> bool:
    """Whether a test sets the option: by name, with a prefix or a value, or as a keyword argument."""
    texts, keywords = _said()
    whole = re.compile(rf"(?<![\w.-])(spark\.)?(lakekeeper\.)?{re.escape(name)}(?![\w.-])")
    return keyword(name) in keywords or any(whole.search(text) for text in texts)


@pytest.mark.parametrize("name", [option.name for option in OPTIONS])
def test_some_test_sets_the_option(name: str) -> None:
    assert _is_set(name), f"no test shows what {name} does"


def test_an_option_without_a_test_is_found() -> None:
    assert not _is_set("vacuum.max-share-of-nothing")
    assert not _is_set("vacuum.max")
