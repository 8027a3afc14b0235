"""Blocks of code of a page, and how each is run: Python as it is, commands by the entry point, SQL by ``lk.sql``.

A block below a comment ``<!-- not run: why -->`` is left out. So are blocks that are no program: output, confs, YAML.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lakekeeper as lk
from lakekeeper.cli import main

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<why>[^>]+) -->\n)?^```(?P<kind>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
RUN = frozenset({"python", "sh", "bash", "sql"})


@dataclass(frozen=True)
class Block:
    """Code of a page; ``line`` is that of its first line, ``why`` says why it is not run."""

    kind: str
    code: str
    line: int
    why: str = ""


def blocks(text: str) -> list[Block]:
    """All blocks of a page, in order."""
    found = []
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("code")) + 1
        found.append(Block(match["kind"], match["code"], line, match["why"] or ""))
    return found


def statements(code: str) -> Iterator[str]:
    """Statements of a block of SQL: each begins a line with a word in capitals."""
    for part in re.split(r"\n(?=[A-Z]+ )|;\s*\n", code.strip()):
        yield re.sub(r"--.*", "", part).strip().rstrip(";")


def commands(code: str) -> Iterator[list[str]]:
    """Commands of a block of shell, as words."""
    for line in code.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            yield words


def run(block: Block, names: dict[str, Any], page: Path) -> None:
    """Run a block; what it defines is in ``names``. Raises AssertionError with the place and the block."""
    try:
        if block.kind == "python":
            _python(block, names, page)
        elif block.kind == "sql":
            for statement in statements(block.code):
                lk.sql(names["spark"], statement).collect()
        else:
            for words in commands(block.code):
                _command(words)
    except Exception as error:
        raise AssertionError(f"{page.name}:{block.line}: {error}\n{block.code}") from error


def _python(block: Block, names: dict[str, Any], page: Path) -> None:
    program = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
    try:
        exec(program, names)  # noqa: S102 - our own page
    except SystemExit as ended:
        if ended.code:
            raise AssertionError(f"it exited with {ended.code}") from ended


def _command(words: list[str]) -> None:
    name, *arguments = words
    if name != "lakekeeper":
        raise AssertionError(f"{name} is not run by this test: mark the block")
    code = main(arguments)
    if code:
        raise AssertionError(f"{shlex.join(words)} exited with {code}")
