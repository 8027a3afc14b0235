"""Parser of filters as executed plans print them.

    Spark's sources   [IsNotNull(k), GreaterThanOrEqual(k,3), In(c, [a,b]), Or(EqualTo(k,1),EqualTo(k,2))]
    expressions       [isnotnull(k#1L), (k#1L >= 3), c#2 IN (a,b), ((k#1L = 1) OR (k#1L = 2))]
    Iceberg           k IS NOT NULL, k >= 3, c IN ('a', 'b'), (k = 1 OR k = 2)

The first two print text without quotes, so a comma or a bracket may be part of a value: a value ends where the
remaining text parses as the rest of the list. A filter that cannot be parsed counts as no filter, and is marked as
not understood.
"""

from __future__ import annotations

import re

from lakekeeper.core.workload.predicates import (
    ALL,
    Meaning,
    both,
    compare,
    either,
    spans,
    starts_with,
    unknown,
)
from lakekeeper.core.workload.workload import Span

_SIGNS = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_OPPOSITE = {"=": "<>", "<=>": "<>", "<>": "=", "!=": "=", ">": "<=", ">=": "<", "<": ">=", "<=": ">"}
_NAMES = (
    *_SIGNS,
    *(
        "IsNull",
        "IsNotNull",
        "In",
        "And",
        "Or",
        "Not",
        "StringStartsWith",
        "StringEndsWith",
        "StringContains",
    ),
    *("AlwaysTrue", "AlwaysFalse"),
)
_HEAD = re.compile(rf"({'|'.join(sorted(_NAMES, key=len, reverse=True))})\(")
_COLUMN = (
    r"(?P<column>(?:`(?:[^`]|``)+`|[^\s()=<>!,'#`.]+)(?:\.(?:`(?:[^`]|``)+`|[^\s()=<>!,'#`.]+))*)(?:#\d+L?)?"
)
_COMPARED = re.compile(_COLUMN + r" (?P<sign><=>|>=|<=|!=|<>|=|<|>) ")
_LISTED = re.compile(_COLUMN + r" (?P<no>NOT )?IN \(")
_SET = re.compile(_COLUMN + r" INSET ")
_NULLNESS = re.compile(_COLUMN + r" IS (?P<no>NOT )?NULL")
_LIKE = re.compile(_COLUMN + r" (?P<no>NOT )?LIKE '(?P<text>(?:[^'%]|'(?![,) ]|$))*)%'")
_CALLED = re.compile(r"(?P<name>isnotnull|isnull|StartsWith)\(" + _COLUMN + r"(?:, (?P<text>[^()]*))?\)")
# A search begins at the first character of a word only: otherwise its time is quadratic in the length of a text in it.
_REFERENCE = re.compile(r"(?<![\w.`])([\w.`]+)#\d+")
_FIRST_ARGUMENT = re.compile(r"(?<!\w)\w+\(([\w.`]+),")
_END = re.compile(r"$|, |\)| AND | OR ")
# What may follow the bracket after an unquoted value.
_RAW_END = re.compile(r"$|\)| AND | OR |, (?=\(|NOT |[\w.`]+#\d|\w+\()")
_QUOTED_END = re.compile(r"'(?=$|, |\)| AND | OR )")
_MOST_UNREADABLE = 20  # parts of a list, each of which may be read to the end of the text before it fails


class _Unreadable(Exception):
    """The text cannot be parsed at this position."""


def pushed_filters(text: str) -> Meaning:
    """Parse the list that Spark's file scans show as ``PushedFilters``."""
    inside = _unbracketed(text)
    if not inside:
        return ALL
    try:
        parts, at = [], 0
        while at < len(inside):
            part, at = _source(inside, at, negated=False, nested=False)
            parts.append(part)
            at += 2  # skip the comma and the space, or go beyond the end
        return both(parts)
    except (_Unreadable, RecursionError):
        return unknown(_FIRST_ARGUMENT.findall(inside))


def printed_expressions(text: str) -> Meaning:
    """Parse a list of Catalyst expressions (``DataFilters``, ``PartitionFilters``), each on its own."""
    inside = _unbracketed(text)
    return _infix(inside, quoted=False) if inside else ALL


def iceberg_filters(text: str) -> Meaning:
    """Parse the list that an Iceberg scan shows as ``filters=``."""
    return _infix(text.strip(), quoted=True) if text.strip() else ALL


def _unbracketed(text: str) -> str:
    inside = text.strip()
    return inside[1:-1] if inside[:1] == "[" and inside[-1:] == "]" else inside


# -- prefix form: Name(arguments) ---------------------------------------------------------------------------------


def _source(text: str, at: int, *, negated: bool, nested: bool) -> tuple[Meaning, int]:
    """Parse one filter of Spark's sources at ``at``: its meaning, and the position after it."""
    head = _HEAD.match(text, at)
    if head is None:
        raise _Unreadable
    name, inside = head[1], head.end()
    if name in ("And", "Or"):
        left, comma = _source(text, inside, negated=negated, nested=True)
        right, end = _source(text, comma + 1, negated=negated, nested=True)
        join = both if (name == "And") != negated else either
        return join((left, right)), _closing(text, end)
    if name == "Not":
        part, end = _source(text, inside, negated=not negated, nested=True)
        return part, _closing(text, end)
    end = _value_end(text, inside, nested=nested)
    return _source_leaf(name, text[inside:end], negated=negated), end + 1


def _source_leaf(name: str, arguments: str, *, negated: bool) -> Meaning:
    column, _, value = arguments.partition(",")
    if name in _SIGNS:
        sign = _OPPOSITE[_SIGNS[name]] if negated else _SIGNS[name]
        if value == "null":
            return spans(column, Span(null=True)) if sign == "<=>" else Meaning({}, (column,))
        return compare(column, sign, value)
    if name in ("IsNull", "IsNotNull"):
        null = (name == "IsNull") != negated
        return spans(arguments, Span(null=True)) if null else ALL
    if name == "In" and not negated:
        return spans(column, *(Span(v, v) for v in _values(_unbracketed(value))))
    if name == "StringStartsWith" and not negated:
        return starts_with(column, value)
    if name == "AlwaysTrue":
        return ALL
    return Meaning({}, (column,) if column else ())


def _values(text: str) -> list[str]:
    """Comma-separated values; one that starts with a space continues the text before it (``a, b``)."""
    values: list[str] = []
    for piece in text.split(","):
        if piece.startswith(" ") and values:
            values[-1] += "," + piece
        elif piece != "null":
            values.append(piece)
    return values


def _value_end(text: str, at: int, *, nested: bool) -> int:
    """The bracket that closes the arguments starting at ``at``: the first one after which the list can continue."""
    end = text.find(")", at)
    while end >= 0:
        after = end + 1
        if nested and text[after : after + 1] == ")":
            return end
        if nested and text[after : after + 1] == "," and _HEAD.match(text, after + 1):
            return end
        if not nested and (
            after == len(text) or (text[after : after + 2] == ", " and _HEAD.match(text, after + 2))
        ):
            return end
        end = text.find(")", after)
    raise _Unreadable


def _closing(text: str, at: int) -> int:
    if text[at : at + 1] != ")":
        raise _Unreadable
    return at + 1


# -- infix form: column sign value --------------------------------------------------------------------------------


def _infix(text: str, *, quoted: bool) -> Meaning:
    parts, at, unreadable = [], 0, 0
    while at < len(text) and unreadable < _MOST_UNREADABLE:
        try:
            part, end = _Infix(text, quoted=quoted).operand(at, negated=False)
            if end != len(text) and text[end : end + 2] != ", ":
                raise _Unreadable
        except (_Unreadable, RecursionError):
            # Nothing after it can be separated from its own text, but what was parsed so far is kept.
            if not unreadable:
                parts.append(unknown(_REFERENCE.findall(text, at)))
            unreadable += 1
            skipped = _next_part(text, at)
            end = skipped if skipped > at else len(text)
        else:
            parts.append(part)
        at = end + 2
    return both(parts)


def _next_part(text: str, at: int) -> int:
    """The position of the comma after the part at ``at``, by counting brackets; the end if they do not match."""
    depth = 0
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0 and text.startswith(", ", place):
            return place
    return len(text)


class _Infix:
    """Parses one operand of a printed predicate; ``quoted``: text is in single quotes."""

    def __init__(self, text: str, *, quoted: bool) -> None:
        self._text = text
        self._quoted = quoted

    def operand(self, at: int, *, negated: bool) -> tuple[Meaning, int]:
        """Parse the operand at ``at``: its meaning, and the position after it."""
        text = self._text
        if text.startswith("NOT ", at):
            return self.operand(at + 4, negated=not negated)
        if text.startswith("(", at):
            return self._group(at + 1, negated=negated)
        return self._leaf(at, negated=negated)

    def _group(self, at: int, *, negated: bool) -> tuple[Meaning, int]:
        part, at = self.operand(at, negated=negated)
        parts = [part]
        word = next((w for w in (" AND ", " OR ") if self._text.startswith(w, at)), "")
        while word and self._text.startswith(word, at):
            part, at = self.operand(at + len(word), negated=negated)
            parts.append(part)
        if len(parts) > 1:
            parts = [both(parts) if (word == " AND ") != negated else either(parts)]
        return parts[0], _closing(self._text, at)

    def _leaf(self, at: int, *, negated: bool) -> tuple[Meaning, int]:
        text = self._text
        if text.startswith(("true", "false"), at) and _END.match(text, at + (4 if text[at] == "t" else 5)):
            return ALL, at + (4 if text[at] == "t" else 5)
        if found := _CALLED.match(text, at):
            return self._called(found, negated=negated), found.end()
        if found := _NULLNESS.match(text, at):
            null = (found["no"] is None) != negated
            return (spans(found["column"], Span(null=True)) if null else ALL), found.end()
        if found := _LIKE.match(text, at):
            like = (found["no"] is None) != negated
            return (starts_with(found["column"], found["text"]) if like else ALL), found.end()
        if found := _LISTED.match(text, at):
            values, end = self._list(found.end())
            within = (found["no"] is None) != negated
            column = found["column"]
            return (spans(column, *(Span(v, v) for v in values)) if within else Meaning({}, (column,))), end
        if found := _SET.match(text, at):
            return self._set(found, negated=negated)
        if found := _COMPARED.match(text, at):
            value, end = self._value(found.end())
            if not self._quoted and _REFERENCE.search(value):
                return unknown((found["column"], *_REFERENCE.findall(value))), end
            sign = _OPPOSITE[found["sign"]] if negated else found["sign"]
            return compare(found["column"], sign, value), end
        raise _Unreadable

    def _set(self, found: re.Match[str], *, negated: bool) -> tuple[Meaning, int]:
        """Parse ``k#1 INSET 1, 2, 3``: it extends to its closing bracket, or to the end of the text."""
        end = self._text.find(")", found.end())
        end = len(self._text) if end < 0 else end
        values = self._text[found.end() : end].split(", ")
        column = found["column"]
        return (Meaning({}, (column,)) if negated else spans(column, *(Span(v, v) for v in values))), end

    def _called(self, found: re.Match[str], *, negated: bool) -> Meaning:
        if found["name"] == "StartsWith":
            return (
                Meaning({}, (found["column"],))
                if negated
                else starts_with(found["column"], found["text"] or "")
            )
        null = (found["name"] == "isnull") != negated
        return spans(found["column"], Span(null=True)) if null else ALL

    def _value(self, at: int) -> tuple[str, int]:
        text = self._text
        if self._quoted and text.startswith("'", at):
            closed = _QUOTED_END.search(text, at + 1)
            if closed is None:
                raise _Unreadable
            return text[at + 1 : closed.start()], closed.end()
        if self._quoted:
            ended = _END.search(text, at)
            return text[at : ended.start() if ended else len(text)], ended.start() if ended else len(text)
        end = text.find(")", at)
        while end >= 0 and not _RAW_END.match(text, end + 1):
            end = text.find(")", end + 1)
        if end < 0:
            raise _Unreadable
        return text[at:end], end

    def _list(self, at: int) -> tuple[list[str], int]:
        if not self._quoted:
            end = at - 1
            while end >= 0:
                end = self._text.find(")", end + 1)
                if end >= 0 and _RAW_END.match(self._text, end + 1):
                    return _values(self._text[at:end]), end + 1
            raise _Unreadable
        values: list[str] = []
        while True:
            value, at = self._value(at)
            values.append(value)
            if self._text.startswith(")", at):
                return values, at + 1
            if not self._text.startswith(", ", at):
                raise _Unreadable
            at += 2
