"""One option: its kind, unit, range and meaning, and how text of a conf becomes its value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakekeeper.errors import OptionError

_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table.

    ``low``/``high`` bound the value, both included. ``scope`` says where it may be set: ``any``,
    ``session`` (call and conf only) or ``table`` (a table property may set it as well, but a conf
    of the session can not loosen it: ``auto.enabled=false`` on a table always wins).
    """

    name: str
    kind: type
    default: Any
    unit: str
    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    scope: str = "any"

    @property
    def keyword(self) -> str:
        """The spelling as a Python name."""
        return self.name.replace("-", "_").replace(".", "_")

    @property
    def expected(self) -> str:
        """What a good value looks like, for messages and pages."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind is bool:
            return "true or false"
        noun = {int: "a whole number", float: "a number", str: "text"}[self.kind]
        if self.low is None and self.high is None:
            return noun
        what = f"a share {self.unit}" if self.unit.startswith("of ") else f"{noun} of {self.unit}"
        high = "…" if self.high is None else f"{self.high:,.16g}"
        return f"{what} from {self.low:,.16g} to {high}"

    def parse(self, value: Any) -> Any:
        """``value`` (typed, or text from a conf) as this option's type; raises OptionError."""
        try:
            parsed = _parse(self.kind, value)
        except (TypeError, ValueError, KeyError):
            raise OptionError(self.name, value, self.expected) from None
        numeric = self.kind in (int, float)
        too_low = numeric and self.low is not None and not parsed >= self.low
        too_high = numeric and self.high is not None and not parsed <= self.high
        if too_low or too_high or (self.choices and parsed not in self.choices):
            raise OptionError(self.name, value, self.expected)
        return parsed


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
