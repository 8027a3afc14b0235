"""A lint of words: comments, docstrings, messages, pages and names say things the way the field does.

Python files are checked in their comments and strings; all other files as a whole. Text between backticks is code, and
not checked. Names are not prose: a shorter list applies to them, word by word (``_born_ms`` is ``born`` and ``ms``).
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("lakekeeper", "adapters", "docs", "conf", "examples", "tools", "tests")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile")
KINDS = {".py", ".md", ".conf", ".sh", ""}
QUOTES = {"tests/architecture/test_words.py", "tests/core/model/test_reason_code.py"}
"""Files that quote the banned words as data."""

WORDS = {
    r"told|tells?|telling": "say, show, report, know, distinguish",
    r"anew": "again",
    r"nobody|somebody|anybody|whoever": "no query, another writer, a user who ...",
    r"(?<!there\s)(?:is|are|was|were) (?-i:none)": "there is no ..., is not a ...",
    r"pictures?": "snapshot",
    r"at work": "in progress, running",
    r"seeds? \d+": "the source by its name: Databend, Paimon, ...",
    r"algorithms §": "the source by its name",
    r"stands|stood|stand(?! for)": "is, remains, is stored",
    r"asked": "requested, queried, read",
    r"moments?": "time, instant",
    r"lies|lie|lain|lay(?! out)": "is, are, is stored",
    r"of late": "recently",
    r"once more": "again",
    r"for ever": "forever",
    r"goes by": "follows, is identified by",
    r"be had": "be available",
    r"can not": "cannot",
    r"dear(?:er|est)?": "expensive",
    r"his|him|hers?|she": "the writer, the user, its",
    r"born": "written, added",
    r"in vain": "without effect",
    r"thereof|therein|henceforth|thereby": "say which",
    r"that (?:is|are) no (?!longer|more\b|older|newer)": "that is not a ...",
}
"""Word or phrase, as a pattern → what a writer of this field would put instead."""

IN_NAMES = re.compile(
    r"told|tells?|telling|anew|(no|some|any)body|whoever|pictures?|stands|stood|asked|moments?|lies|born|dear|his|vain"
    r"|patiently|strangers?"
)
"""Words that no name contains. ``tell`` itself is a method of files."""

_CODE = re.compile(r"``[^`]+``|`[^`\n]+`")
_IN_NAME = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_GAP = r"[ \n#]+"
_PATTERN = re.compile(
    "|".join(rf"(?<![\w'-])(?P<w{n}>{word})(?![\w-])" for n, word in enumerate(WORDS)).replace(" ", _GAP),
    re.IGNORECASE,
)
_INSTEAD = tuple(WORDS.values())


@dataclass(frozen=True)
class Found:
    """A banned word at a place."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: '{self.word}' -> {self.instead}"


def _prose(source: str) -> Iterator[tuple[int, str]]:
    """Comments and strings of a Python file, each with the number of its first line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def found_in(path: str, text: str) -> list[Found]:
    """Banned words in a file, by line."""
    pieces = _prose(text) if path.endswith(".py") else [(1, text)]
    found = []
    for first, piece in pieces:
        bare = _CODE.sub(lambda code: "\n" * code[0].count("\n") + "`", piece)
        for hit in _PATTERN.finditer(bare):
            word = re.sub(_GAP, " ", hit[0])
            number = int(str(hit.lastgroup)[1:])
            found.append(Found(path, first + bare.count("\n", 0, hit.start()), word, _INSTEAD[number]))
    return sorted(found, key=lambda one: one.line)


def names_in(path: str, source: str) -> list[Found]:
    """Names of a Python file with one of the words, by line."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    names = {t.string: t.start[0] for t in tokens if t.type == tokenize.NAME and t.string != "tell"}
    found = (
        Found(path, line, name, "another name")
        for name, line in names.items()
        if "at_work" in name.lower()
        or any(IN_NAMES.fullmatch(word.lower()) for word in _IN_NAME.findall(name))
    )
    return sorted(found, key=lambda one: one.line)


def files() -> list[Path]:
    """All files that the lint covers."""
    below = (path for place in PLACES for path in (ROOT / place).rglob("*"))
    prose = [
        path for path in below if path.suffix in KINDS and path.is_file() and "__pycache__" not in path.parts
    ]
    quotes = {ROOT / path for path in QUOTES}
    return sorted({*prose, *(ROOT / page for page in PAGES)} - quotes)


def lint() -> dict[str, list[Found]]:
    """Path of each file → the banned words in it."""
    names = {path.relative_to(ROOT).as_posix(): path for path in files()}
    return {name: found_in(name, path.read_text()) for name, path in names.items()}


@pytest.fixture(scope="module")
def linted() -> dict[str, list[Found]]:
    return lint()


def test_no_banned_words(linted: dict[str, list[Found]]) -> None:
    assert len(linted) > 900
    wrong = [str(one) for found in linted.values() for one in found]
    assert not wrong, "\n".join(["words that this project does not use:", *wrong])


def test_no_banned_words_in_names() -> None:
    sources = [path for path in files() if path.suffix == ".py"]
    assert len(sources) > 700
    found = [one for path in sources for one in names_in(path.relative_to(ROOT).as_posix(), path.read_text())]
    assert not found, "\n".join(["names that this project does not use:", *map(str, found)])


@pytest.mark.parametrize(
    "source, names",
    [
        ("x = 1\ntold = tell(x)\n", ["told"]),
        ("self._heardAnew = AT_WORK\n", ["_heardAnew", "AT_WORK"]),
        ("class Asked:\n    born_ms: int\n", ["Asked", "born_ms"]),
        ("file.tell()\nbasket = {'told': adjourned}\n", []),
    ],
)
def test_a_planted_name_is_found(source: str, names: list[str]) -> None:
    assert [one.word for one in names_in("a.py", source)] == names


@pytest.mark.parametrize(
    "path, text, line, word",
    [
        ("a.py", '"""First line.\n\nNobody reads it."""\n', 3, "Nobody"),
        ("a.py", 'x = 1\ny = f"{x} was told"  # fine\n', 2, "told"),
        ("a.py", "x = 1  # written anew\n", 1, "anew"),
        ("a.md", "A table\nthat is at\nwork.\n", 2, "at work"),
        ("a.conf", "# kept for\n# ever\n", 1, "for ever"),
        ("Makefile", "x: ## the picture of a table\n", 1, "picture"),
    ],
)
def test_a_planted_word_is_found(path: str, text: str, line: int, word: str) -> None:
    assert [(one.line, one.word) for one in found_in(path, text)] == [(line, word)]


@pytest.mark.parametrize(
    "path, text",
    [
        ("a.py", "told = 1\n"),
        ("a.py", '"""Where there is none, and None; the field ``told``."""\n'),
        ("a.md", "The option `asked`, a layout, today.\n"),
    ],
)
def test_names_and_other_words_are_not_found(path: str, text: str) -> None:
    assert found_in(path, text) == []


if __name__ == "__main__":
    for found in lint().values():
        for one in found:
            print(one)
