"""Options of a call: lookup by name, and resolution of each value together with its origin.

Precedence: call > Spark conf ``spark.lakekeeper.<name>`` > table property ``lakekeeper.<name>`` > default. Where a
property can only tighten an option (:class:`lakekeeper.core.config.option.Option`), the tighter of property and conf
applies; for ``auto.*``, the tighter of property and call. All options: :mod:`lakekeeper.core.config.definitions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakekeeper.core.config.definitions import OPTIONS
from lakekeeper.core.config.option import Option, words
from lakekeeper.core.units import HOUR_MS
from lakekeeper.errors import OptionError, nearest

CONF_PREFIX = "spark.lakekeeper."
PROPERTY_PREFIX = "lakekeeper."

_BY_NAME = {o.name: o for o in OPTIONS}
_BY_KEYWORD = {o.keyword: o for o in OPTIONS}


def lookup(name: str) -> Option:
    """The option of that name (kebab-case or Python spelling). Raises OptionError, naming the nearest known option."""
    found = _BY_NAME.get(name) or _BY_KEYWORD.get(name)
    if found is None:
        raise OptionError(name, name, f"a known option{nearest(name, _BY_NAME)}")
    return found


@dataclass(frozen=True, slots=True)
class Options:
    """Resolved values and the origin of each (``call``, ``conf``, ``property``, ``default``).

    ``ignored`` maps each table property that has no effect, or only part of it, to the reason.
    """

    values: Mapping[str, Any]
    origins: Mapping[str, str]
    ignored: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.values[lookup(name).name]

    def integer(self, name: str) -> int:
        """The value of an integer option."""
        return int(self[name])

    def number(self, name: str) -> float:
        """The value of a numeric option."""
        return float(self[name])

    def ms(self, name: str) -> int:
        """The value, in ms, of an option given in hours."""
        return int(self.number(name) * HOUR_MS)

    def words(self, name: str) -> tuple[str, ...]:
        """The non-empty words of a comma-separated option."""
        return words(self[name])

    def with_(self, **changed: Any) -> Options:
        """A copy with some values replaced, as if set by the call; raises OptionError."""
        parsed = {lookup(k).name: lookup(k).parse(v) for k, v in changed.items()}
        origins = {**self.origins, **dict.fromkeys(parsed, "call")}
        return Options({**self.values, **parsed}, origins, self.ignored)


def resolve(
    call: Mapping[str, Any] | None = None,
    conf: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    *,
    lenient: bool = False,
) -> Options:
    """Options resolved from the call, the Spark conf and the table properties, by precedence.

    ``conf`` and ``properties`` may hold anything; only keys with our prefixes are read. Raises OptionError for an
    invalid value, and for an unknown name, naming the nearest known one. With ``lenient``, a table property that is
    unknown or invalid is listed in ``Options.ignored`` instead. No value ever names a class to load.
    """
    values: dict[str, Any] = {o.name: o.default for o in OPTIONS}
    origins = dict.fromkeys(values, "default")
    asked, ignored = _properties(properties or {}, lenient=lenient)
    for name, (_, value) in asked.items():
        if lookup(name).scope == "any":
            values[name], origins[name] = value, "property"
    for origin, prefix, given in (("conf", CONF_PREFIX, conf), ("call", "", call)):
        for key, value in (given or {}).items():
            if key.startswith(prefix) and value is not None:
                option = _lookup_in(origin, key, value, prefix)
                values[option.name], origins[option.name] = _parse_from(option, key, value), origin
    for name, (key, value) in asked.items():
        option = lookup(name)
        if option.only_tightens and (origins[name] != "call" or name.startswith("auto.")):
            tight = option.tightened(values[name], value)
            if tight != value:
                ignored[key] = _too_loose(option, value, tight)
            if tight != values[name]:
                values[name], origins[name] = tight, "property"
    return Options(values, origins, ignored)


def _lookup_in(origin: str, key: str, value: Any, prefix: str) -> Option:
    """The option that a key of a conf or call names; raises OptionError for one that a call cannot set."""
    option = lookup(key[len(prefix) :])
    if origin == "call" and option.scope == "conf":
        raise OptionError(key, value, f"no value in a call: set the Spark conf {CONF_PREFIX}{option.name}")
    return option


def _properties(
    properties: Mapping[str, str], *, lenient: bool
) -> tuple[dict[str, tuple[str, Any]], dict[str, str]]:
    """A table's properties as (option name → (property, value), property → why it is ignored)."""
    asked: dict[str, tuple[str, Any]] = {}
    ignored: dict[str, str] = {}
    for key, value in properties.items():
        if not key.startswith(PROPERTY_PREFIX) or value is None:
            continue
        try:
            option = lookup(key[len(PROPERTY_PREFIX) :])
            parsed = _parse_from(option, key, value)
        except OptionError as error:
            if not lenient:
                raise
            ignored[key] = f"got {value!r}, expected {error.expected}"
            continue
        if option.scope in ("session", "conf"):
            ignored[key] = f"the operator sets it, as {CONF_PREFIX}{option.name}; a table property can not"
        elif set(words(value)) & set(option.not_by_property):
            listed = ", ".join(option.not_by_property)
            ignored[key] = f"a table property can not ask for {listed}; name it in the call"
        else:
            asked[option.name] = key, parsed
    return asked, ignored


def _too_loose(option: Option, value: Any, holds: Any) -> str:
    """Why a property that would loosen an option has no effect, or only part of it."""
    if option.scope == "fewer":
        return f"a table property can only take from the list: of {value!r}, {holds!r} is left"
    verb = "lower" if option.scope == "lower" else "raise"
    return f"a table property can only {verb} it: {holds} holds, not {value}"


def _parse_from(option: Option, key: str, value: Any) -> Any:
    try:
        return option.parse(value)
    except OptionError as error:
        raise OptionError(key, value, error.expected) from None
