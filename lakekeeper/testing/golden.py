"""Data-driven golden files: commands and what they print, in one text that a reader can follow.

    # A comment stays where it is.
    depth key=k:int
    L0 a 1----6
    L0 b    4----9
    ----
    average 2, max 2 at [4, 6]

A case is a command with ``name=value`` arguments, input lines, ``----`` and the output up to the next empty line;
output that contains empty lines is enclosed in doubled ``----`` lines. With LAKEKEEPER_REWRITE_GOLDENS=1, files are
rewritten instead of compared; review the diff.
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

RULE = "----"
REWRITE = "LAKEKEEPER_REWRITE_GOLDENS"


@dataclass(frozen=True, slots=True)
class Case:
    """One command: its name, bare words, ``name=value`` arguments, and the lines under it."""

    command: str
    words: tuple[str, ...] = ()
    named: dict[str, str] = field(default_factory=dict)
    input: str = ""

    @classmethod
    def parse(cls, line: str, text: str) -> Case:
        """A case from its command line and its input."""
        command, *rest = shlex.split(line)
        named = dict(word.split("=", 1) for word in rest if "=" in word)
        return cls(command, tuple(word for word in rest if "=" not in word), named, text)


Handler = Callable[[Case], str]


def run_golden(path: Path, handle: Handler, *, rewrite: bool | None = None) -> None:
    """Run every case of a file; AssertionError with a diff if an output differs from that in the file."""
    was = path.read_text()
    now = play(was, handle)
    if rewrite if rewrite is not None else os.environ.get(REWRITE) == "1":
        path.write_text(now)
        return
    diff = "\n".join(difflib.unified_diff(was.splitlines(), now.splitlines(), "golden", "now", lineterm=""))
    if diff:
        raise AssertionError(
            f"{path.name} has changed; if it should have, set {REWRITE}=1 and run again\n{diff}"
        )


def play(text: str, handle: Handler) -> str:
    """The file's text with every output replaced by the result of ``handle``."""
    lines, out, at = text.splitlines(), [], 0
    while at < len(lines):
        line = lines[at]
        at += 1
        out.append(line)
        if not line.strip() or line.startswith("#"):
            continue
        given: list[str] = []
        while at < len(lines) and lines[at] != RULE:
            given.append(lines[at])
            at += 1
        if at == len(lines):
            raise ValueError(f"no {RULE} after {line!r}")
        at = _skip_output(lines, at + 1)
        out += [*given, *_ruled(handle(Case.parse(line, "\n".join(given))))]
    return "\n".join(out) + "\n"


def _skip_output(lines: list[str], at: int) -> int:
    """The place of the first line after an output."""
    if at < len(lines) and lines[at] == RULE:
        while lines[at : at + 2] != [RULE, RULE] or lines[at - 1] == RULE:
            at += 1
            if at >= len(lines):
                raise ValueError(f"an output between doubled {RULE} has no end")
        return at + 2
    while at < len(lines) and lines[at].strip():
        at += 1
    return at


def _ruled(output: str) -> list[str]:
    lines = [line.rstrip() for line in output.rstrip("\n").split("\n")]
    if all(lines) or lines == [""]:
        return [RULE, *filter(None, lines)]
    return [RULE, RULE, *lines, RULE, RULE]
