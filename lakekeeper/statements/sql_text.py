"""The words of a SQL statement, as Spark's lexer separates them; one pass, linear in the length of the text.

Comments are skipped: ``-- …`` to the end of the line, and ``/* … */``, which may be nested. Marks of comments inside
``'…'``, ``"…"`` and backquotes are text, and so are backslash escapes, except in ``r'…'``. What is not closed reaches
to the end of the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# No alternative can fail after its first character, so that nothing is scanned twice.
_PIECE = re.compile(
    r"""
    (?P<blank>\s+|--[^\\\r\n]*(?:\\\n?[^\\\r\n]*)*)
  | (?P<literal>[rR](?:'[^']*'?|"[^"]*"?)|'[^'\\]*(?:\\.[^'\\]*)*'?|"[^"\\]*(?:\\.[^"\\]*)*"?)
  | (?P<quoted>`[^`]*(?:``[^`]*)*`?)
  | (?P<comment>/\*(?!\+))
  | (?P<word>\w+)
  | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*(?!\+)|\*/")  # ``/*+`` begins a hint


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a statement: a ``literal``, a ``quoted`` name, a ``word``, a ``sign``, or an ``unclosed`` comment."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """The position after it."""
        return self.start + len(self.text)

    def says(self, word: str) -> bool:
        """Whether it is this keyword, given in upper case."""
        return self.kind == "word" and self.text.upper() == word

    def is_sign(self, sign: str) -> bool:
        """Whether it is this character, outside of literals, names and comments."""
        return self.kind == "sign" and self.text == sign


def tokens(statement: str, start: int = 0) -> Iterator[Token]:
    """The tokens from ``start`` on, without blanks and closed comments."""
    at = start
    while (piece := _PIECE.match(statement, at)) is not None:
        kind, at = str(piece.lastgroup), piece.end()
        if kind == "comment":
            closed = _comment_end(statement, at)
            if closed is None:
                yield Token("unclosed", statement[piece.start() :], piece.start())
                return
            at = closed
        elif kind != "blank":
            yield Token(kind, piece[0], piece.start())


def text_of(statement: str, found: Sequence[Token]) -> str:
    """The part of the statement that these neighbours cover, with the comments between them."""
    return statement[found[0].start : found[-1].end] if found else ""


def _comment_end(statement: str, inside: int) -> int | None:
    """The position after the comment whose content begins at ``inside``; None if it is not closed."""
    depth = 1
    for mark in _COMMENT_MARK.finditer(statement, inside):
        depth += -1 if mark[0] == "*/" else 1
        if not depth:
            return mark.end()
    return None
