"""What a call has begun to rewrite, by its phases: it counts against budgets even if the call ends with an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Spending:
    """Sums the inputs of the groups that are read; an observer. Several threads may call it."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._groups: set[str] = set()

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        """Record one phase."""
        if phase == "read":
            self._sizes.append(int(info.get("bytes", 0)))
            self._groups.add(str(info.get("task", "")))

    @property
    def bytes(self) -> int:
        """Input bytes of all groups so far; a group that was repeated counts each time."""
        return sum(self._sizes)

    @property
    def groups(self) -> frozenset[str]:
        """Ids of these groups."""
        return frozenset(self._groups)
