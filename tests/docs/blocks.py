"""Blocks of code of a page, and how each is run: Python as it is, commands in a shell, SQL by ``lk.sql``.

A comment in the line above a block overrides that::

    <!-- not run: why -->       nothing
    <!-- file: app.py -->       the reader saves it under this name

Blocks that are not programs, such as output, confs and YAML, are left out unless they are a file.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lakekeeper as lk
from lakekeeper.cli import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
QUICKSTART = DOCS / "quickstart.md"
PAGES = (QUICKSTART, *sorted((DOCS / "how-to").glob("*.md")))
RUN = frozenset({"python", "sh", "bash", "sql"})
_BLOCK = re.compile(
    r"(?:^<!-- (?:not run: (?P<why>[^>]+)|file: (?P<file>[^>]+)) -->\n)?^```(?P<kind>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_BEFORE = "The examples use the session and the tables of the [quickstart](../quickstart.md#a-session)."
_SECTIONS = ("## A session", "## Two tables")
_OWN_PROCESS = frozenset({"run"})
"""Subcommands of lakekeeper by which the process becomes another program."""


@dataclass(frozen=True)
class Block:
    """A block of code of a page; ``line`` is its first line, ``why`` why it is not run, ``file`` where to save it."""

    kind: str
    code: str
    line: int
    why: str = ""
    file: str = ""

    @property
    def runs(self) -> bool:
        """Whether it is run or saved."""
        return bool(self.file) or (self.kind in RUN and not self.why)


def blocks(text: str) -> list[Block]:
    """All blocks of a page, in order."""
    found = []
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("code")) + 1
        found.append(Block(match["kind"], match["code"], line, match["why"] or "", match["file"] or ""))
    return found


def to_run(page: Path) -> list[Block]:
    """The steps of a reader of a page, in order; first those that the page says it builds on."""
    text = page.read_text()
    before = (
        [block for heading in _SECTIONS for block in blocks(section(QUICKSTART, heading))]
        if _BEFORE in text
        else []
    )
    return [block for block in (*before, *blocks(text)) if block.runs]


def section(page: Path, heading: str) -> str:
    """A section of a page. Raises ValueError where there is none."""
    after = page.read_text().partition(f"\n{heading}\n")[2]
    if not after:
        raise ValueError(f"{page.name} has no section {heading!r}")
    return after.partition("\n## ")[0]


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
    """Run a block in this process, or save it; names that it defines are in ``names``.

    Raises AssertionError with the place and the block.
    """
    try:
        if block.file:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(block.code)
        elif block.kind == "python":
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
    """Lakekeeper's commands run in this process, in its session; others, and those that replace the process, do not."""
    ours = words[0] == "lakekeeper" and words[1] not in _OWN_PROCESS
    if ours:
        code = main(words[1:])
    else:
        here = {"python": [sys.executable], "lakekeeper": [sys.executable, "-m", "lakekeeper"]}
        code = process([*here.get(words[0], words[:1]), *words[1:]], Path())
    if code:
        raise AssertionError(f"{shlex.join(words)} exited with {code}")


def process(command: list[str], folder: Path) -> int:
    """The exit code of a command in a process with its own session, started in a folder; its stderr is shown."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "adapters")])
    done = subprocess.run(
        command,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
        | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    sys.stderr.write(done.stderr)
    return done.returncode
