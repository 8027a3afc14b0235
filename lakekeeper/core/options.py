"""Options of a call: looked up by name, resolved from where they may be set, each with where it came from.

Precedence: call > Spark conf ``spark.lakekeeper.<name>`` > table property ``lakekeeper.<name>`` > default. All of
them: :mod:`lakekeeper.core.option_table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.option import Option
from lakekeeper.core.option_table import OPTIONS
from lakekeeper.core.retention import HOUR_MS
from lakekeeper.errors import OptionError, nearest

CONF_PREFIX = "spark.lakekeeper."
PROPERTY_PREFIX = "lakekeeper."

_BY_NAME = {o.name: o for o in OPTIONS}
_BY_KEYWORD = {o.keyword: o for o in OPTIONS}


def lookup(name: str) -> Option:
    """The option of that name (kebab or Python spelling); an unknown one is an error naming the nearest."""
    found = _BY_NAME.get(name) or _BY_KEYWORD.get(name)
    if found is None:
        raise OptionError(name, name, f"a known option{nearest(name, _BY_NAME)}")
    return found


@dataclass(frozen=True, slots=True)
class Options:
    """Resolved values and, for each, where it came from (``call``, ``conf``, ``property``, ``default``)."""

    values: Mapping[str, Any]
    origins: Mapping[str, str]

    def __getitem__(self, name: str) -> Any:
        return self.values[lookup(name).name]

    def integer(self, name: str) -> int:
        """The value of a whole-number option."""
        return int(self[name])

    def number(self, name: str) -> float:
        """The value of a number option."""
        return float(self[name])

    def ms(self, name: str) -> int:
        """The value of an option in hours, in ms."""
        return int(self.number(name) * HOUR_MS)

    def words(self, name: str) -> tuple[str, ...]:
        """The value of a comma-separated option, empty words left out."""
        return tuple(w.strip() for w in str(self[name]).split(",") if w.strip())

    def with_(self, **changed: Any) -> Options:
        """A copy with some values changed, as if by the call; raises OptionError."""
        parsed = {lookup(k).name: lookup(k).parse(v) for k, v in changed.items()}
        return Options({**self.values, **parsed}, {**self.origins, **dict.fromkeys(parsed, "call")})


def resolve(
    call: Mapping[str, Any] | None = None,
    conf: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> Options:
    """Options from the three places, by precedence.

    ``conf`` and ``properties`` may hold anything; only keys under our prefixes are looked at, and of
    those an unknown one is an error (OptionError naming the nearest). No value is ever a class to load.
    """
    values: dict[str, Any] = {o.name: o.default for o in OPTIONS}
    origins = dict.fromkeys(values, "default")
    for origin, prefix, given in (
        ("property", PROPERTY_PREFIX, properties),
        ("conf", CONF_PREFIX, conf),
        ("call", "", call),
    ):
        for key, value in (given or {}).items():
            if not key.startswith(prefix) or value is None:
                continue
            option = lookup(key[len(prefix) :])
            if origin == "property" and option.scope == "session":
                raise OptionError(key, value, "an option of the session, not of a table")
            parsed = _parse_from(option, key, value)
            if option.name == "auto.enabled" and values[option.name] is False:
                continue  # switched off on the table: nothing switches it on again
            values[option.name] = parsed
            origins[option.name] = origin
    return Options(values, origins)


def _parse_from(option: Option, key: str, value: Any) -> Any:
    try:
        return option.parse(value)
    except OptionError as error:
        raise OptionError(key, value, error.expected) from None
