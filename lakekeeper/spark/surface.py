"""Checks that the session's jars have the private Java members that an adapter uses.

An adapter lists the members of its library that are not public API, one class per line::

    org.apache.spark.sql.delta.DeltaLog: update/3 createDataFrame/4
    org.apache.spark.sql.delta.DummySnapshot: new/4

``name/2`` is a method with two arguments, ``new/4`` a constructor, ``.name`` a field; a Scala object is a class whose
name ends in ``$``. Java reports a missing member only when it is called, which for a commit is after the data was
written. Therefore the members are looked up by reflection first, and none is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from lakekeeper.spark.jvm import Jvm

Surface = Mapping[str, AbstractSet[str]]
"""Class → its members, as they are written in a list."""

_METHOD = re.compile(r"([\w$]+)\(([^)]*)\)")
_FIELD = re.compile(r"([\w$]+)(?:,|$)")


def parse(text: str) -> dict[str, set[str]]:
    """Parse a list of members, see above; a class may have several lines. Raises ValueError."""
    found: dict[str, set[str]] = {}
    for line in text.strip().splitlines():
        name, colon, members = line.strip().partition(": ")
        if not colon:
            raise ValueError(f"{line!r} is not 'class: member/arguments …'")
        found.setdefault(name, set()).update(members.split())
    return found


def joined(*surfaces: Surface) -> dict[str, set[str]]:
    """The union of several lists."""
    found: dict[str, set[str]] = {}
    for surface in surfaces:
        for name, members in surface.items():
            found.setdefault(name, set()).update(members)
    return found


def missing_members(jvm: Jvm, surface: Surface) -> list[str]:
    """Listed classes and members that the session's jars lack, as ``class`` or ``class.member/arguments``."""
    lacking: list[str] = []
    for name, members in surface.items():
        there = _members(jvm, name)
        if there is None:
            lacking.append(name)
        else:
            lacking += (f"{name}.{member.removeprefix('.')}" for member in sorted(members - there))
    return lacking


def _members(jvm: Jvm, name: str) -> set[str] | None:
    """The members of a class, including inherited ones; None if the class cannot be loaded."""
    # py4j does not find the one of java.util.Arrays.
    text = jvm.view.org.apache.commons.lang3.ArrayUtils.toString
    try:
        kind = jvm.view.org.apache.spark.util.Utils.classForName(name, False, False)
    except Exception:  # ClassNotFoundException, or NoClassDefFoundError for a class that it needs
        return None
    members = {f"new/{arity}" for _, arity in _signatures(str(text(kind.getDeclaredConstructors())))}
    members |= {f"{method}/{arity}" for method, arity in _signatures(str(text(kind.getMethods())))}
    fields: list[str] = []
    while kind is not None:
        declared = str(text(kind.getDeclaredMethods()))
        members |= {f"{method}/{arity}" for method, arity in _signatures(declared)}
        fields += _FIELD.findall(str(text(kind.getDeclaredFields())).strip("{}"))
        kind = kind.getSuperclass()
    return members | {f".{field}" for field in fields}


def _signatures(text: str) -> Iterable[tuple[str, int]]:
    """(name, number of arguments) of methods or constructors, in the text of an array of them."""
    for name, arguments in _METHOD.findall(text):
        yield name, arguments.count(",") + 1 if arguments else 0
