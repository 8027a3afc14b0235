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
    """Run a block; what it defines is in ``names``. Raises its error, or AssertionError for a command that fails."""
    if block.kind == "python":
        program = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
        try:
            exec(program, names)  # noqa: S102 - our own page
        except SystemExit as ended:
            if ended.code:
                raise AssertionError(f"{page}:{block.line}: exited with {ended.code}") from ended
    elif block.kind == "sql":
        for statement in statements(block.code):
            lk.sql(names["spark"], statement).collect()
    else:
        for command, *arguments in commands(block.code):
            assert command == "lakekeeper", (
                f"{page}:{block.line}: {command} is not run by this test; mark the block"
            )
            code = main(arguments)
            assert code == 0, f"{page}:{block.line}: lakekeeper {shlex.join(arguments)} exited with {code}"
