"""Java properties files, such as ``spark-defaults.conf``, read and written as Java does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

_BLANKS = " \t\f"  # Java's white space; lstrip() and \s of Python take further characters for it
_KEY = re.compile(r"((?:[^\\ \t\f=:]|\\.)+)(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+|$)", re.DOTALL)
_LINE_END = re.compile(r"\r\n|\r|\n")
_TRIMMED = "".join(chr(code) for code in range(0x21) if chr(code) not in "\r\n")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_PLAIN = re.compile(r"[0-9A-Za-z._/-]")
_PREFIX = "spark."


def read(path: Path) -> dict[str, str]:
    """Keys and values of a file; the last entry of a key counts. Raises OSError and UnicodeDecodeError."""
    return {key: value for _, key, value in entries(path.read_text(encoding="utf-8"))}


def spark_only(properties: dict[str, str]) -> dict[str, str]:
    """What Spark takes from a properties file: keys that begin with ``spark.``."""
    return {key: value for key, value in properties.items() if key.startswith(_PREFIX)}


def text_of(properties: Mapping[str, str]) -> str:
    """The text of a file with these properties, in ASCII: every character that could have a meaning is escaped."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in properties.items())


def entries(text: str) -> Iterator[tuple[int, str, str]]:
    """(number of its first line, key, value) of each entry; values are trimmed, as in Spark.

    Spark keeps line breaks at both ends: an escaped one may be the whole value, such as a delimiter of records.
    """
    for number, line in _logical_lines(text):
        match = _KEY.match(line)
        # A line may begin with a separator.
        key, rest = (match[1], line[match.end() :]) if match else ("", line)
        yield number, _unescaped(key), _unescaped(rest).strip(_TRIMMED)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blank ones; a backslash at the end of a line joins it to the next."""
    start, joined = 0, ""
    for number, line in enumerate(_LINE_END.split(text), start=1):
        rest = line.lstrip(_BLANKS)
        if not joined and (not rest or rest[0] in "#!"):
            continue
        start = start if joined else number
        if (len(rest) - len(rest.rstrip("\\"))) % 2:
            joined += rest[:-1]
            continue
        yield start, joined + rest
        joined = ""
    if joined:
        yield start, joined


def _unescaped(text: str) -> str:
    def meant(match: re.Match[str]) -> str:
        mark = match[1]
        return chr(int(mark[1:], 16)) if len(mark) > 1 else _NAMED.get(mark, mark)

    # Java counts in units of UTF-16: two escapes may be one character.
    units = _ESCAPE.sub(meant, text).encode("utf-16-be", "surrogatepass")
    return units.decode("utf-16-be", "replace")


def _escaped(text: str) -> str:
    return "".join(each if _PLAIN.match(each) else _units(each) for each in text)


def _units(character: str) -> str:
    data = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))
