"""One option: its type, unit, range and meaning, where it may be set, and how a value is parsed from conf text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from lakekeeper.errors import OptionError

_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the option table.

    low, high   inclusive bounds of the value
    scope       where the option may be set besides the Spark conf. Any user with the right to alter a table can set its
                properties, so a property never widens what the operator of a run allows:

                any       call and property: the layout of files, and which of them are due
                lower     call and property; a property can only lower the value
                higher    call and property; a property can only raise the value
                fewer     call and property; a property can only remove words from the list
                session   call; a property is ignored
                conf      neither: the value is fixed before any call; a property is ignored
    unbounded   the value that means "no bound"
    not_by_property   words that a property must not contain
    """

    name: str
    kind: type
    default: Any
    unit: str
    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    scope: Literal["any", "lower", "higher", "fewer", "session", "conf"] = "any"
    unbounded: Any = None
    not_by_property: tuple[str, ...] = ()

    @property
    def keyword(self) -> str:
        """The name as a Python identifier."""
        return self.name.replace("-", "_").replace(".", "_")

    @property
    def expected(self) -> str:
        """Description of a valid value, for error messages and the reference page."""
        if self.choices:
            what = "a comma-separated list of" if self.scope == "fewer" else "one of"
            return f"{what} {', '.join(self.choices)}"
        if self.kind is bool:
            return "true or false"
        noun = {int: "a whole number", float: "a number", str: "text"}[self.kind]
        if self.low is None and self.high is None:
            return noun
        what = f"a share {self.unit}" if self.unit.startswith("of ") else f"{noun} of {self.unit}"
        high = "…" if self.high is None else f"{self.high:,.16g}"
        return f"{what} from {self.low:,.16g} to {high}"

    @property
    def only_tightens(self) -> bool:
        """Whether a table property can move the value in one direction only."""
        return self.scope in ("lower", "higher", "fewer")

    def tightened(self, value: Any, by: Any) -> Any:
        """The tighter of ``value`` and ``by``; for lists, the words of ``value`` that are also in ``by``."""
        if self.scope == "fewer":
            allowed = words(by)
            return ",".join(word for word in words(value) if word in allowed)
        if self.unbounded is not None and self.unbounded in (value, by):
            return by if value == self.unbounded else value
        return min(value, by) if self.scope == "lower" else max(value, by)

    def parse(self, value: Any) -> Any:
        """``value`` (typed, or text from a conf) in this option's type; raises OptionError."""
        try:
            parsed = _parse(self.kind, value)
        except (TypeError, ValueError, KeyError):
            raise OptionError(self.name, value, self.expected) from None
        numeric = self.kind in (int, float)
        too_low = numeric and self.low is not None and not parsed >= self.low
        too_high = numeric and self.high is not None and not parsed <= self.high
        if too_low or too_high or not self._is_choice(parsed):
            raise OptionError(self.name, value, self.expected)
        return parsed

    def _is_choice(self, parsed: Any) -> bool:
        if not self.choices:
            return True
        listed = words(parsed) if self.scope == "fewer" else (parsed,)
        return bool(listed) and set(listed) <= set(self.choices)


def words(text: str) -> tuple[str, ...]:
    """The non-empty parts of a comma-separated text."""
    return tuple(word.strip() for word in str(text).split(",") if word.strip())


def _parse(kind: type, value: Any) -> Any:
    if kind is bool:
        if isinstance(value, bool):
            return value
        return _BOOLEANS[str(value).strip().lower()]
    if isinstance(value, bool):
        raise TypeError(value)
    if kind is int and isinstance(value, float) and not value.is_integer():
        raise ValueError(value)
    return kind(value)
