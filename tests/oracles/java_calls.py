"""Which Java members Python calls: py4j's own calls, with the class of the object, recorded while a test runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from py4j.java_gateway import JavaClass, JavaMember


class Calls:
    """(class, member, number of arguments) of each call on an object or class of some packages."""

    def __init__(self, *packages: str) -> None:
        self.packages = packages
        self.seen: set[tuple[str, str, int]] = set()
        self.on_classes: set[tuple[str, str, int]] = set()  # constructors and static methods
        self.real = JavaMember.__call__

    def note(self, member: JavaMember, arguments: tuple[Any, ...]) -> None:
        target = member.container
        if member.name in ("getClass", "getName"):
            return
        if not str(member.target_id).startswith("z:"):
            kind = self.real(getattr(target, "getClass"))  # noqa: B009 - a Java member, not Python's
            name = str(self.real(getattr(kind, "getName")))  # noqa: B009
        else:
            name = str(member.target_id).removeprefix("z:")
        if name.startswith(self.packages):
            call = (name, str(member.name), len(arguments))
            self.seen.add(call)
            if str(member.target_id).startswith("z:"):
                self.on_classes.add(call)

    def note_new(self, kind: JavaClass, arguments: tuple[Any, ...]) -> None:
        name = str(vars(kind)["_fqn"])
        if name.startswith(self.packages):
            self.seen.add((name, "new", len(arguments)))
            self.on_classes.add((name, "new", len(arguments)))


@contextmanager
def recorded(*packages: str) -> Iterator[Calls]:
    """Record the calls on objects and classes whose names begin with one of ``packages``."""
    calls = Calls(*packages)
    new = JavaClass.__call__

    def call(self: JavaMember, *arguments: Any) -> Any:
        calls.note(self, arguments)
        return calls.real(self, *arguments)

    def make(self: JavaClass, *arguments: Any) -> Any:
        calls.note_new(self, arguments)
        return new(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JavaMember, "__call__", call)
        patch.setattr(JavaClass, "__call__", make)
        yield calls
