"""The swap of a table's metadata, tampered with: something happens before it, or instead of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Swap:
    """Stands for a table's operations: does something before or instead of the swap."""

    def __init__(self, real: Any, act: Callable[[Any, Any, Any], None]) -> None:
        self._real = real
        self._act = act

    def commit(self, base: Any, updated: Any) -> None:
        self._act(self._real, base, updated)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Faulty:
    """A table object whose swap is tampered with."""

    def __init__(self, table: Any, act: Callable[[Any, Any, Any], None]) -> None:
        self._table = table
        self._act = act

    def operations(self) -> Any:
        return Swap(self._table.operations(), self._act)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)
