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

    def ignored_property(self, name: str) -> str | None:
        """The table property that names this option, in either spelling, if it is ignored; else None."""
        return next((key for key in spellings(name, PROPERTY_PREFIX) if key in self.ignored), None)


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
        raise OptionError.removed(prefix + name, _REMOVED[name])
    raise OptionError.unknown(prefix + name, nearest(name, _BY_NAME))


def spellings(name: str, prefix: str) -> tuple[str, str]:
    """The keys that name an option after a ``prefix``: kebab-case and Python spelling."""
    return prefix + name, prefix + keyword(name)


def set_by(confs: Mapping[str, str], name: str) -> Any:
    """The value of an option that confs set, in either spelling; None if they do not set it. Raises OptionError."""
    own = {key: confs[key] for key in spellings(name, CONF_PREFIX) if key in confs}
    if not own:
        return None
    resolve(conf=own)  # checks the value, and that it is given once
    return lookup(name).parse(next(iter(own.values())))


def overridden(options: Mapping[str, Any] | None, by: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a call, with others in the place of those that they name, in whatever spelling. Raises OptionError."""
    replaced = {keyword(name) for name in _named(by)}
    return {**{key: value for key, value in _named(options).items() if keyword(key) not in replaced}, **by}


def _named(options: Any) -> Mapping[str, Any]:
    """The options of a call. Raises OptionError for anything but a mapping with text as its keys."""
    if options is None:
        return {}
    if isinstance(options, Mapping) and all(isinstance(key, str) for key in options):
        return options
    raise OptionError("options", options, "a map of names to values, such as {'min-input-files': 5}")


def resolve(
    call: Mapping[str, Any] | None = None,
    conf: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    *,
    lenient: bool = False,
) -> Options:
    """Options resolved from the call, the Spark conf and the table properties, by precedence.

    ``conf`` and ``properties`` may hold anything; only keys with our prefixes are read. Raises OptionError for an
    invalid value, for an option that one source names in both spellings, and for an unknown name, naming the nearest
    known one. With ``lenient``, a table property that is unknown or invalid is listed in ``Options.ignored`` instead,
    and so is the looser of two that name one option; one that was removed always is. No value ever names a class to
    load.
    """
    values: dict[str, Any] = {o.name: o.default for o in OPTIONS}
    origins = dict.fromkeys(values, "default")
    set_here, ignored = _properties(properties or {}, lenient=lenient)
    for name, (_, value) in set_here.items():
        if lookup(name).scope == "any":
            values[name], origins[name] = value, "property"
    for origin, prefix, given in (("conf", CONF_PREFIX, conf or {}), ("call", "", _named(call))):
        found = _given(origin, prefix, given)
        values |= found
        origins |= dict.fromkeys(found, origin)
    for name, (key, value) in set_here.items():
        option = lookup(name)
        if option.only_tightens and (origins[name] != "call" or name.startswith("auto.")):
            tight = option.tightened(values[name], value, by_default=origins[name] == "default")
            if tight != value:
                ignored[key] = _too_loose(option, value, tight)
            if tight != values[name]:
                values[name], origins[name] = tight, "property"
    return Options(**_parts(values), origins=origins, ignored=ignored)


def _given(origin: str, prefix: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Option → value, of the confs or of a call. Raises OptionError, also for an option that is named twice."""
    values: dict[str, Any] = {}
    keys: dict[str, str] = {}
    for key, value in given.items():
        if not key.startswith(prefix) or value is None or _is_heavy_conf(origin, key, value):
            continue
        option = _lookup_in(origin, key, value, prefix)
        if keys.setdefault(option.name, key) != key:
            raise OptionError.twice(key, value, keys[option.name])
        values[option.name] = _parse_from(option, key, value)
    return values


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
        raise OptionError(key, value, f"this option only as a Spark conf: set {CONF_PREFIX}{option.name}")
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
        why = _of_no_option(key)
        if why is not None:
            ignored[key] = why
            continue
        try:
            option = lookup(key[len(PROPERTY_PREFIX) :], PROPERTY_PREFIX)
            parsed = _parse_from(option, key, value)
            if option.name in set_here and not lenient:
                raise OptionError.twice(key, value, set_here[option.name][0])
        except OptionError as error:
            if not lenient:
                raise
            ignored[key] = f"got {value!r}, expected {error.expected}"
            continue
        why = _not_by_property(option, parsed)
        if why is not None:
            ignored[key] = why
        elif option.name in set_here:
            set_here[option.name], other, why = _one_of_two(option, set_here[option.name], (key, parsed))
            ignored[other] = why
        else:
            set_here[option.name] = key, parsed
    return set_here, ignored


def _of_no_option(key: str) -> str | None:
    """Why a property that names no option of a table stops no call; None for every other one."""
    if f"spark.{key}".startswith(HEAVY_CONF):
        return f"only the operator can set it, as spark.{key}"
    # An upgrade must not stop the maintenance of tables that still set a removed option.
    return _REMOVED.get(key[len(PROPERTY_PREFIX) :])


def _not_by_property(option: Option, parsed: Any) -> str | None:
    """Why a table property cannot set an option to this value; None if it can."""
    if option.scope in ("session", "conf"):
        return f"only the operator can set it, as {CONF_PREFIX}{option.name}"
    if option.not_by_property and set(parsed) & set(option.not_by_property):
        listed = ", ".join(option.not_by_property)
        return f"a table property cannot ask for {listed}; name it in the call"
    return None


def _one_of_two(
    option: Option, first: tuple[str, Any], second: tuple[str, Any]
) -> tuple[tuple[str, Any], str, str]:
    """What applies of two properties (key, value) that set one option; the key of the other, and why it is ignored."""
    if option.only_tightens:
        value = option.tightened(first[1], second[1])
        kept, other = (first, second) if value == first[1] else (second, first)
        return (kept[0], value), other[0], f"{kept[0]} sets the same option, and the tighter value applies"
    kept, other = (first, second) if first[0] == PROPERTY_PREFIX + option.name else (second, first)
    return kept, other[0], f"{kept[0]} sets the same option"


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
