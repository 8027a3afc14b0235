"""Options of a call: all typed values, and the origin of each.

Precedence: call > Spark conf ``spark.lakekeeper.<name>`` > table property ``lakekeeper.<name>`` > default. Where a
property can only tighten an option (:class:`lakekeeper.core.config.option.Option`), the tighter of property and conf
applies; for ``auto.*``, the tighter of property and call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, get_type_hints

from lakekeeper.core.config.heavy_confs import HEAVY_CONF, checked_heavy_conf
from lakekeeper.core.config.layout_options import (
    FileOptions,
    GroupOptions,
    PlanningOptions,
    TableOptions,
    UniversalOptions,
)
from lakekeeper.core.config.lifecycle_options import LifecycleOptions
from lakekeeper.core.config.option import Option, declared_in, keyword
from lakekeeper.core.config.removed import REMOVED
from lakekeeper.core.config.run_options import (
    AutoOptions,
    BudgetOptions,
    CommitOptions,
    HeavyOptions,
    HistoryOptions,
    SessionOptions,
    WorkloadOptions,
)
from lakekeeper.core.config.statistics_options import StatisticsOptions
from lakekeeper.core.config.vacuum_options import VacuumOptions
from lakekeeper.errors import OptionError, nearest

CONF_PREFIX = "spark.lakekeeper."
PROPERTY_PREFIX = "lakekeeper."


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options in force, by part.

    origins   name → ``call``, ``conf``, ``property`` or ``default``
    ignored   each table property that has no effect, or only part of it → the reason
    """

    table: TableOptions = field(default_factory=TableOptions)
    files: FileOptions = field(default_factory=FileOptions)
    groups: GroupOptions = field(default_factory=GroupOptions)
    planning: PlanningOptions = field(default_factory=PlanningOptions)
    universal: UniversalOptions = field(default_factory=UniversalOptions)
    budget: BudgetOptions = field(default_factory=BudgetOptions)
    workload: WorkloadOptions = field(default_factory=WorkloadOptions)
    commit: CommitOptions = field(default_factory=CommitOptions)
    auto: AutoOptions = field(default_factory=AutoOptions)
    heavy: HeavyOptions = field(default_factory=HeavyOptions)
    vacuum: VacuumOptions = field(default_factory=VacuumOptions)
    lifecycle: LifecycleOptions = field(default_factory=LifecycleOptions)
    statistics: StatisticsOptions = field(default_factory=StatisticsOptions)
    history: HistoryOptions = field(default_factory=HistoryOptions)
    session: SessionOptions = field(default_factory=SessionOptions)
    origins: Mapping[str, str]
    ignored: Mapping[str, str] = field(default_factory=dict)


_CLASSES: Mapping[str, Any] = {
    name: part for name, part in get_type_hints(Options).items() if name not in ("origins", "ignored")
}
"""Field of Options → the class of that part."""

PARTS: Mapping[Any, tuple[Option, ...]] = {
    part: tuple(declared_in(name, made, get_type_hints(part)[made.name]) for made in fields(part))
    for name, part in _CLASSES.items()
}
"""Class of a part → its options, in the order of their declaration."""

OPTIONS: tuple[Option, ...] = tuple(option for options in PARTS.values() for option in options)

_BY_NAME = {o.name: o for o in OPTIONS}
_BY_KEYWORD = {o.keyword: o for o in OPTIONS}
_REMOVED = {
    spelling: f"{name} was removed; {instead}"
    for name, instead in REMOVED.items()
    for spelling in (name, keyword(name))
}


def lookup(name: str, prefix: str = "") -> Option:
    """The option of that name (kebab-case or Python spelling); a conf or property names it after a ``prefix``.

    Raises OptionError for an unknown name, naming the nearest option; for a removed one, saying what to use instead.
    """
    found = _BY_NAME.get(name) or _BY_KEYWORD.get(name)
    if found is not None:
        return found
    if name in _REMOVED:
        raise OptionError(prefix + name, name, f"another option: {_REMOVED[name]}")
    raise OptionError.unknown(prefix + name, nearest(name, _BY_NAME))


def spellings(name: str, prefix: str) -> tuple[str, str]:
    """The keys that name an option after a ``prefix``: kebab-case and Python spelling."""
    return prefix + name, prefix + keyword(name)


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
    unknown or invalid is listed in ``Options.ignored`` instead; one that was removed always is. No
    value ever names a class to load.
    """
    values: dict[str, Any] = {o.name: o.default for o in OPTIONS}
    origins = dict.fromkeys(values, "default")
    set_here, ignored = _properties(properties or {}, lenient=lenient)
    for name, (_, value) in set_here.items():
        if lookup(name).scope == "any":
            values[name], origins[name] = value, "property"
    for origin, prefix, given in (("conf", CONF_PREFIX, conf), ("call", "", call)):
        for key, value in (given or {}).items():
            if key.startswith(prefix) and value is not None and not _is_heavy_conf(origin, key, value):
                option = _lookup_in(origin, key, value, prefix)
                values[option.name], origins[option.name] = _parse_from(option, key, value), origin
    for name, (key, value) in set_here.items():
        option = lookup(name)
        if option.only_tightens and (origins[name] != "call" or name.startswith("auto.")):
            tight = option.tightened(values[name], value, by_default=origins[name] == "default")
            if tight != value:
                ignored[key] = _too_loose(option, value, tight)
            if tight != values[name]:
                values[name], origins[name] = tight, "property"
    return Options(**_parts(values), origins=origins, ignored=ignored)


def _is_heavy_conf(origin: str, key: str, value: Any) -> bool:
    """Whether a conf is one of the application of heavy tasks; raises OptionError if it must not be set there."""
    if origin != "conf" or not key.startswith(HEAVY_CONF):
        return False
    checked_heavy_conf(key, value)
    return True


def _parts(values: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of Options that hold these values."""
    return {
        name: part(**{option.attribute: values[option.name] for option in PARTS[part]})
        for name, part in _CLASSES.items()
    }


def _lookup_in(origin: str, key: str, value: Any, prefix: str) -> Option:
    """The option that a key of a conf or call names; raises OptionError for one that a call cannot set."""
    option = lookup(key[len(prefix) :], prefix)
    if origin == "call" and option.scope == "conf":
        raise OptionError(key, value, f"no value in a call: set the Spark conf {CONF_PREFIX}{option.name}")
    return option


def _properties(
    properties: Mapping[str, str], *, lenient: bool
) -> tuple[dict[str, tuple[str, Any]], dict[str, str]]:
    """A table's properties as (option name → (property, value), property → why it is ignored)."""
    set_here: dict[str, tuple[str, Any]] = {}
    ignored: dict[str, str] = {}
    for key, value in properties.items():
        if not key.startswith(PROPERTY_PREFIX) or value is None:
            continue
        removed = _REMOVED.get(key[len(PROPERTY_PREFIX) :])
        if removed:  # an upgrade must not stop the maintenance of tables that still set it
            ignored[key] = removed
            continue
        if f"spark.{key}".startswith(HEAVY_CONF):
            ignored[key] = f"only the operator can set it, as spark.{key}"
            continue
        try:
            option = lookup(key[len(PROPERTY_PREFIX) :], PROPERTY_PREFIX)
            parsed = _parse_from(option, key, value)
        except OptionError as error:
            if not lenient:
                raise
            ignored[key] = f"got {value!r}, expected {error.expected}"
            continue
        if option.scope in ("session", "conf"):
            ignored[key] = f"only the operator can set it, as {CONF_PREFIX}{option.name}"
        elif option.not_by_property and set(parsed) & set(option.not_by_property):
            listed = ", ".join(option.not_by_property)
            ignored[key] = f"a table property cannot ask for {listed}; name it in the call"
        else:
            set_here[option.name] = key, parsed
    return set_here, ignored


def _too_loose(option: Option, value: Any, holds: Any) -> str:
    """Why a property that would loosen an option has no effect, or only part of it."""
    value, holds = option.text(value), option.text(holds)
    if option.scope == "fewer":
        return f"a table property can only remove from the list: of {value!r}, {holds!r} is left"
    verb = "lower" if option.scope == "lower" else "raise"
    return f"a table property can only {verb} it: {holds} applies, not {value}"


def _parse_from(option: Option, key: str, value: Any) -> Any:
    try:
        return option.parse(value)
    except OptionError as error:
        raise OptionError(key, value, error.expected) from None
