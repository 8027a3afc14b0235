"""The result of one check of ``lakekeeper doctor``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """What the check found. ``advice`` states how to fix a failure; it is empty if ``ok``."""

    name: str
    ok: bool
    found: str
    expected: str
    advice: str = ""

    def __str__(self) -> str:
        """One line if ``ok``, else two: the second is the advice."""
        line = f"{'ok  ' if self.ok else 'FAIL'} {self.name}: {self.found}"
        return line if self.ok else f"{line}, expected {self.expected}\n     {self.advice}"

    def to_dict(self) -> dict[str, str | bool]:
        """The fields by name, ready for JSON."""
        return {name: getattr(self, name) for name in ("name", "ok", "found", "expected", "advice")}
