"""One thing that ``lakekeeper doctor`` looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found. ``advice`` says what to do, and is empty where ``ok``."""

    name: str
    ok: bool
    found: str
    expected: str
    advice: str = ""

    def __str__(self) -> str:
        """One line, two with advice."""
        line = f"{'ok  ' if self.ok else 'FAIL'} {self.name}: {self.found}"
        return line if self.ok else f"{line}, expected {self.expected}\n     {self.advice}"

    def to_dict(self) -> dict[str, str | bool]:
        """The fields by name, ready for JSON."""
        return {name: getattr(self, name) for name in ("name", "ok", "found", "expected", "advice")}
