"""Parse what a user types: ``k=v``, byte counts, properties files. Raises OptionError."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from lakekeeper.errors import OptionError

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?b)?", re.IGNORECASE)
_LINE = re.compile(r"([^\s=:]+)\s*[=:\s]\s*(\S.*)")
_POWERS = ("", "k", "m", "g", "t", "p")


def byte_count(text: str) -> int:
    """``10GB`` (decimal), ``512MiB`` (binary), ``10g`` (binary, as Spark has it) or plain bytes."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise OptionError("--budget", text, "bytes, such as 10GB, 512MiB or 1000000")
    number, letter, unit = match[1], match[2].lower(), (match[3] or "").lower()
    base = 1000 if unit == "b" else 1024
    return int(float(number) * base ** _POWERS.index(letter))


def pairs(option: str, given: Iterable[str], shape: str = "key=value") -> dict[str, str]:
    """Repeated ``name=value`` arguments; of one name the last counts, as with spark-submit."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise OptionError(option, text, shape)
        found[name.strip()] = value.strip()
    return found


def properties_file(path: Path) -> dict[str, str]:
    """A file like Spark's ``spark-defaults.conf``: ``key value`` or ``key=value``, ``#`` begins a comment line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise OptionError("--properties-file", str(path), f"a readable file ({reason})") from error
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        match = _LINE.fullmatch(stripped)
        if match is None or not match[1].startswith("spark."):
            expected = "'spark.… value', one per line (options of lakekeeper begin with spark.lakekeeper.)"
            raise OptionError(f"{path}, line {number}", stripped, expected)
        found[match[1]] = match[2]
    return found
