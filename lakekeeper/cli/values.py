"""Parse what a user types: ``k=v``, byte counts, properties files. Raises OptionError."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from lakekeeper.core.config.quantities import SIZE_EXAMPLES, parse_size
from lakekeeper.errors import OptionError
from lakekeeper.spark import properties


def byte_count(text: str) -> int:
    """``10GB`` (decimal), ``512MiB`` (binary), ``10g`` (binary, as Spark has it) or plain bytes."""
    try:
        return parse_size(text)
    except ValueError:
        raise OptionError("--budget", text, f"a size ({SIZE_EXAMPLES})") from None


def pairs(option: str, given: Iterable[str], shape: str = "key=value") -> dict[str, str]:
    """Repeated ``name=value`` arguments; for one name the last value counts, as with spark-submit."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise OptionError(option, _named(text), shape)
        found[name.strip()] = value.strip()
    return found


def properties_file(path: Path) -> dict[str, str]:
    """A file like Spark's ``spark-defaults.conf``, read as Java reads properties; every key must be one of Spark's."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise OptionError("--properties-file", str(path), f"a readable file ({reason})") from error
    found = {}
    for number, key, value in properties.entries(text):
        if not key.startswith("spark.") or not value:
            expected = "'spark.… value', one per line (options of lakekeeper begin with spark.lakekeeper.)"
            raise OptionError(f"{path}, line {number}", _named(f"{key} {value}"), expected)
        found[key] = value
    return found


def _named(text: str) -> str:
    """The name in what was to be a name and a value: the value may be a secret."""
    name = re.split(r"[\s=:]", text.strip(), maxsplit=1)[0]
    return name if name == text.strip() else f"{name} …"
