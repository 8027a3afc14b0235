"""One option: declared as a field of a settings class, parsed from a call, a conf or a table property.

    num_retries: int = option("commit.retry.num-retries", 10, "Retries of …", unit="retries", low=0, high=100)

The field's annotation is the option's type: ``int``, ``float``, ``bool``, ``str`` or a tuple of words; with ``None``
where it may be unset. Sizes are kept in bytes and times in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field, dataclass, field, replace
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin

from lakekeeper.core.config.quantities import (
    SIZE_EXAMPLES,
    TIME_EXAMPLES,
    parse_size,
    parse_time,
    size_text,
    time_text,
)
from lakekeeper.errors import OptionError

T = TypeVar("T")

Scope = Literal["any", "lower", "higher", "fewer", "session", "conf"]

_BOOLEANS = {"true": True, "false": False}
_TIME = "time"
_TIME_UNITS: dict[str, tuple[int | None, str]] = {
    "ms": (1, "milliseconds"),
    "hours": (3_600_000, "hours"),
    _TIME: (None, ""),
}
"""Units of options that are times → what a number without a unit counts, in ms and as a word."""
_NONE = "none"
# The upper bound of options that declare none: beyond any table, and within the integers of numpy and Java.
_LARGEST = 1 << 60


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the option table.

    part, attribute   the settings class that holds the value, and its field there
    kind        type of the value; of a list, that of its words
    optional    None is a value and means "not set": no limit, or as the table says
    choices     the words that are allowed
    unit        ``bytes``, ``ms``, ``hours``, ``time`` (a time that needs a unit), or what the number counts
    low, high   inclusive bounds of the value, in bytes or milliseconds where it is a size or a time
    scope       where the option may be set besides the Spark conf. Any user with the right to alter a table can set its
                properties, so a property never widens what the operator of a run allows:

                any       call and property: the layout of files, and which of them are due
                lower     call and property; a property can only lower the value
                higher    call and property; a property can only raise the value
                fewer     call and property; a property can only remove words from the list
                session   call; a property is ignored
                conf      neither: the value is fixed before any call; a property is ignored
    not_by_property   words that a property must not contain
    none_is_greatest  None is above every number, such as a time that never ends; only a default None means "not set"
    """

    name: str
    default: Any
    doc: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    scope: Scope = "any"
    not_by_property: tuple[str, ...] = ()
    none_is_greatest: bool = False
    part: str = ""
    attribute: str = ""
    kind: type = str
    optional: bool = False
    listed: bool = False
    choices: tuple[str, ...] = ()

    @property
    def keyword(self) -> str:
        """The name as a Python identifier."""
        return keyword(self.name)

    @property
    def expected(self) -> str:
        """Description of a valid value, for error messages and the reference page."""
        return self._what() + (f", or {_NONE}" if self.optional and self.kind is not str else "")

    def _what(self) -> str:
        if self.choices:
            return f"{'a comma-separated list of' if self.listed else 'one of'} {', '.join(self.choices)}"
        if self.listed:
            return "a comma-separated list"
        if self.kind is bool:
            return "true or false"
        if self.kind is str:
            return "text"
        return f"{self._noun()}{self._range()}"

    def _noun(self) -> str:
        if self.unit == "bytes":
            return f"a size ({SIZE_EXAMPLES})"
        if self.unit in _TIME_UNITS:
            bare = "" if self.unit == _TIME else f", or a number of {_TIME_UNITS[self.unit][1]}"
            return f"a time ({TIME_EXAMPLES}{bare})"
        if self.unit.startswith("of "):
            return f"a share {self.unit}"
        return f"{'a whole number' if self.kind is int else 'a number'} of {self.unit}"

    def _range(self) -> str:
        if self.low is None:
            return ""
        quantity = self.unit == "bytes" or self.unit in _TIME_UNITS
        low, high = (
            "" if bound is None else self.text(bound) if quantity else f"{bound:,.16g}"
            for bound in (self.low, self.high)
        )
        return f" from {low} to {high}" if high else f", at least {low}"

    @property
    def only_tightens(self) -> bool:
        """Whether a table property can move the value in one direction only."""
        return self.scope in ("lower", "higher", "fewer")

    def tightened(self, value: Any, by: Any, *, by_default: bool = False) -> Any:
        """The tighter of ``value`` and ``by``; for lists, the words of ``value`` that are also in ``by``.

        ``by_default``: ``value`` was not set by anyone.
        """
        if self.scope == "fewer":
            return tuple(word for word in value if word in by)
        if self.none_is_greatest and not (by_default and value is None) and None in (value, by):
            return None
        if value is None or by is None:  # not set: the loosest value
            return by if value is None else value
        return min(value, by) if self.scope == "lower" else max(value, by)

    def of(self, options: Any) -> Any:
        """The value in resolved options."""
        return getattr(getattr(options, self.part), self.attribute)

    def text(self, value: Any) -> str:
        """``value`` as text that parses back to it."""
        if value is None:
            return "" if self.kind is str else _NONE
        if self.listed:
            return ",".join(value)
        if self.kind is bool:
            return str(value).lower()
        if self.unit == "bytes":
            return size_text(int(value))
        if self.unit in _TIME_UNITS:
            return time_text(int(value))
        return str(value) if self.kind is str else repr(self.kind(value)).removesuffix(".0")

    def parse(self, value: Any) -> Any:
        """``value`` (typed, or text from a conf) in this option's type; raises OptionError."""
        if self.optional and (value is None or str(value).strip().lower() == self.text(None)):
            return None
        try:
            parsed = self._parsed(value)
        except (TypeError, ValueError, KeyError, OverflowError):
            raise OptionError(self.name, value, self.expected) from None
        numeric = self.kind in (int, float)
        too_low = numeric and self.low is not None and not parsed >= self.low
        too_high = numeric and not parsed <= (_LARGEST if self.high is None else self.high)
        if too_low or too_high or not self._is_choice(parsed):
            raise OptionError(self.name, value, self.expected)
        return parsed

    def _parsed(self, value: Any) -> Any:
        if self.listed:
            return words(value)
        if self.kind is bool:
            return value if isinstance(value, bool) else _BOOLEANS[str(value).strip().lower()]
        if isinstance(value, bool):
            raise TypeError(value)
        if self.unit in _TIME_UNITS:
            return _time(value, _TIME_UNITS[self.unit][0])
        if self.unit == "bytes" and isinstance(value, str):
            return parse_size(value)
        if self.kind is int and not isinstance(value, str) and int(value) != value:
            raise ValueError(value)
        return self.kind(value)

    def _is_choice(self, parsed: Any) -> bool:
        given = parsed if self.listed else (parsed,)
        return not self.choices or (bool(given) and set(given) <= set(self.choices))


def option(  # noqa: PLR0913 - each is a trait of an option
    name: str,
    default: T,
    doc: str,
    *,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    scope: Scope = "any",
    not_by_property: tuple[str, ...] = (),
    none_is_greatest: bool = False,
) -> T:
    """The field of a settings class that holds this option."""
    declared = Option(name, default, doc, unit, low, high, scope, not_by_property, none_is_greatest)
    return field(default=default, metadata={"option": declared})


def declared_in(part: str, made: Field[Any], annotation: Any) -> Option:
    """The option that a field declares, with the type that the field has."""
    optional = NoneType in get_args(annotation)
    (held,) = [a for a in get_args(annotation) if a is not NoneType] if optional else [annotation]
    listed = get_origin(held) is tuple
    word = get_args(held)[0] if listed else held
    choices = get_args(word) if get_origin(word) is Literal else ()
    declared: Option = made.metadata["option"]
    return replace(
        declared,
        part=part,
        attribute=made.name,
        kind=str if choices else word,
        optional=optional,
        listed=listed,
        choices=choices,
    )


def keyword(name: str) -> str:
    """The name of an option as a Python identifier."""
    return name.replace("-", "_").replace(".", "_")


def words(value: str | Iterable[str]) -> tuple[str, ...]:
    """The words of a list, or the non-empty parts of a comma-separated text."""
    parts = value.split(",") if isinstance(value, str) else map(str, value)
    return tuple(word.strip() for word in parts if word.strip())


def _time(value: Any, bare_ms: int | None) -> int:
    """Milliseconds of a time as text or as a number."""
    if isinstance(value, str):
        return parse_time(value, bare_ms)
    if bare_ms is None or (bare_ms == 1 and int(value) != value):
        raise ValueError(value)
    return int(value * bare_ms)
