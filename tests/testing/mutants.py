"""Wrong adapters: the memory adapter with one defect each, and the contract test that must fail on it.

An adapter whose author has only the contract may have any defect that no test of the contract finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

Patch = tuple[Any, str, Any]
"""A patch: an object, its attribute, and the replacement."""


@dataclass(frozen=True)
class Mutant:
    """A defect, the test that finds it, and the kinds of log (``Settings.linear``) on which it shows."""

    name: str
    killed_by: str
    patches: Sequence[Patch]
    linear: tuple[bool, ...] = (True, False)

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            for owner, name, instead in self.patches:
                stack.enter_context(patch.object(owner, name, instead))
            yield


def always(owner: type, name: str, answer: Any) -> list[Patch]:
    """The method always returns the same."""
    return [(owner, name, lambda *_args, **_named: answer)]


def changed(owner: type, name: str, change: Callable[..., Any]) -> list[Patch]:
    """The method returns ``change(self, real result, *args)``."""
    real = getattr(owner, name)

    def method(self: Any, *args: Any, **named: Any) -> Any:
        return change(self, real(self, *args, **named), *args)

    return [(owner, name, method)]
