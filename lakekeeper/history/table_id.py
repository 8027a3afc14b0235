"""The names of a table: in the history, in automatic runs, and as a user writes them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from lakekeeper.redaction import without_user

_STEP = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


@dataclass(frozen=True, slots=True)
class TableId:
    """A table's name in its catalog; for a Delta table by path, ``name`` alone, which is the path.

    Without the credentials in a path: with and without them, it is one table, and none are stored or logged.
    """

    catalog: str
    schema: str
    name: str
    format: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", without_user(self.name))

    def __str__(self) -> str:
        return f"{self.catalog}.{self.unqualified}" if self.catalog else self.unqualified

    @property
    def unqualified(self) -> str:
        """The name without its catalog."""
        return f"{self.schema}.{self.name}" if self.schema else self.name

    def is_called(self, name: str) -> bool:
        """Whether a name means this table. One of the two may lack the catalog."""
        other = TableId.named(name)
        one, two = str(self), str(other)
        return one in (name, two, other.unqualified) or two == self.unqualified

    def matches(self, pattern: str) -> bool:
        """Whether a name or pattern means this table: with or without its catalog, or the path of a table."""
        wanted = str(TableId.named(pattern))
        return self.is_called(pattern) or any(
            fnmatchcase(each, wanted) for each in (str(self), self.unqualified)
        )

    @classmethod
    def named(cls, text: str) -> TableId:
        """The table of a name as a user writes it: ``ice.db.`my-table```, ``db.t``, a path, or ``delta.`/path```."""
        if "/" in text and "`" not in text:
            return cls("", "", absolute(text))
        steps = _steps(text)
        if len(steps) == 2 and "/" in steps[1]:
            return cls("", "", absolute(steps[1]))
        catalog = steps[0] if len(steps) > 2 else ""
        return cls(catalog, ".".join(steps[bool(catalog) : -1]), steps[-1])


def absolute(path: str) -> str:
    """A path in the form of the history: absolute, without ``file:``, and without ``..`` and repeated slashes."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return os.path.abspath(path)  # noqa: PTH100 - resolves no links, as Hadoop does not
    names = rest.lstrip("/")
    if scheme == "file":
        return os.path.normpath(f"/{names}")
    return f"{scheme}:{rest[: len(rest) - len(names)]}{os.path.normpath(names)}"


def _steps(text: str) -> list[str]:
    """The steps of a dotted name, without their backticks; a text that is not such a name is one step."""
    found = [*_STEP.finditer(text)]
    if not found or ".".join(each[0] for each in found) != text:
        return [text]
    return [each[1].replace("``", "`") if each[1] else each[2] for each in found]
