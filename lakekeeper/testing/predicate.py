"""Predicates of the memory adapter: ``column op literal [and …] [or …]``, for rows and for files by their statistics.

    k >= 3 and a.`y.z` = 'x' and d < date '2026-01-01' and s is not null       true       false

Files are selected as an adapter must: every file that may hold a match stays.
"""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lakekeeper.core.model.keys import parse_column
from lakekeeper.errors import OptionError
from lakekeeper.testing.values import NULL, Row, Statistics, at_path, token

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_COLUMN = r"(?:`(?:[^`]|``)+`|\w+)(?:\.(?:`(?:[^`]|``)+`|\w+))*"
_LITERAL = r"(?:(?:date|timestamp|timestamp_ntz|x)\s*)?'(?:[^']|'')*'|[-+]?\d[\w.+-]*|true|false"
_TERM = re.compile(
    rf"\s*(?P<column>{_COLUMN})\s*(?:(?P<null>is\s+(?:not\s+)?null)|(?P<op><=|>=|<>|!=|=|<|>)\s*(?P<literal>{_LITERAL}))\s*",
    re.IGNORECASE,
)
_JOIN = re.compile(r"(?P<word>and|or)\b", re.IGNORECASE)
_EXPECTED = "column op literal [and …] [or …], such as k >= 3 and s = 'x' or k = 1"
_CONSTANTS: dict[str, tuple[tuple[Term, ...], ...]] = {"true": ((),), "false": ()}


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison; ``op`` is an operator, ``is null`` or ``is not null``."""

    path: tuple[str, ...]
    op: str
    literal: Any = None

    def matches(self, row: Row) -> bool:
        """Whether the row satisfies the term; a comparison with NULL does not."""
        value = at_path(row, self.path)
        if self.op in ("is null", "is not null"):
            return (value is None) == (self.op == "is null")
        if value is None:
            return False
        return _OPERATORS[self.op](token(value), token(self.literal))

    def may_match(self, found: Statistics | None, rows: int) -> bool:
        """Whether a file of ``rows`` rows with these statistics may hold a match; without any, it may."""
        if found is None:
            return True
        if self.op == "is null":
            return found.nulls > 0
        if found.nulls >= rows:
            return False
        lo, hi, wanted = token(found.lo), token(found.hi), token(self.literal)
        if self.op == "is not null" or NULL in (lo, hi):
            return True
        if self.op == "=":
            return lo <= wanted <= hi
        if self.op in ("!=", "<>"):
            return not (found.exact and lo == hi == wanted)
        return _OPERATORS[self.op](lo if self.op.startswith("<") else hi, wanted)

    def must_match(self, found: Statistics | None, rows: int) -> bool:
        """Whether every row of such a file is a match; without statistics it is not known."""
        if found is None:
            return False
        if self.op == "is null":
            return found.nulls == rows
        if found.nulls != 0:
            return False
        lo, hi, wanted = token(found.lo), token(found.hi), token(self.literal)
        if self.op == "is not null":
            return True
        if NULL in (lo, hi):
            return False
        if self.op == "=":
            return found.exact and lo == hi == wanted
        if self.op in ("!=", "<>"):
            return hi < wanted or wanted < lo
        return _OPERATORS[self.op](hi if self.op.startswith("<") else lo, wanted)


@dataclass(frozen=True, slots=True)
class Predicate:
    """Alternatives, each of terms that must all hold: ``and`` binds closer than ``or``."""

    alternatives: tuple[tuple[Term, ...], ...]

    def __call__(self, row: Row) -> bool:
        """Whether a row satisfies all terms of one alternative."""
        return any(all(term.matches(row) for term in terms) for terms in self.alternatives)

    def may_match(self, statistics: Mapping[tuple[str, ...], Statistics], rows: int) -> bool:
        """Whether a file may hold a match, by the statistics of its columns."""
        return any(
            all(term.may_match(statistics.get(term.path), rows) for term in terms)
            for terms in self.alternatives
        )

    def must_match(self, statistics: Mapping[tuple[str, ...], Statistics], rows: int) -> bool:
        """Whether every row of a file matches, by the statistics of its columns; false in doubt."""
        return any(
            all(term.must_match(statistics.get(term.path), rows) for term in terms)
            for terms in self.alternatives
        )


def parse(where: str, kinds: Mapping[tuple[str, ...], str]) -> Predicate:
    """A predicate over the columns ``kinds``; raises OptionError for anything else."""
    if where.strip().lower() in _CONSTANTS:
        return Predicate(_CONSTANTS[where.strip().lower()])
    alternatives: list[list[Term]] = [[]]
    at = 0
    while True:
        found = _TERM.match(where, at)
        if found is None:
            raise OptionError("where", where, _EXPECTED)
        alternatives[-1].append(_term(where, found, kinds))
        at = found.end()
        if at == len(where):
            return Predicate(tuple(map(tuple, alternatives)))
        joined = _JOIN.match(where, at)
        if joined is None:
            raise OptionError("where", where, _EXPECTED)
        if joined["word"].lower() == "or":
            alternatives.append([])
        at = joined.end()


def _term(where: str, found: re.Match[str], kinds: Mapping[tuple[str, ...], str]) -> Term:
    path = parse_column(found["column"])
    if path not in kinds:
        known = ", ".join(".".join(p) for p in kinds)
        raise OptionError("where", where, f"columns of the table ({known})")
    if found["null"]:
        return Term(path, " ".join(found["null"].lower().split()))
    try:
        return Term(path, found["op"], _literal(found["literal"], kinds[path]))
    except (KeyError, ValueError, ArithmeticError):
        raise OptionError("where", where, f"a literal of kind {kinds[path]} for {found['column']}") from None


def _literal(spelled: str, kind: str) -> Any:
    quoted = spelled[spelled.index("'") + 1 : -1].replace("''", "'") if spelled.endswith("'") else spelled
    if kind.startswith("decimal"):
        return Decimal(quoted)
    return _READERS[kind](quoted)


def _timestamp(spelled: str, *, zone: bool) -> dt.datetime:
    parsed = dt.datetime.fromisoformat(spelled)
    if not zone:
        return parsed
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=dt.timezone.utc)


def _boolean(spelled: str) -> bool:
    return {"true": True, "false": False}[spelled.lower()]


_READERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "date": dt.date.fromisoformat,
    "timestamp": lambda spelled: _timestamp(spelled, zone=True),
    "timestamp_ntz": lambda spelled: _timestamp(spelled, zone=False),
    "string": str,
    "binary": bytes.fromhex,
    "boolean": _boolean,
}
