"""Cluster keys: their columns, kinds and ids."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakekeeper.errors import OptionError

MAX_COLUMNS = 4
LAYOUTS = ("linear", "zorder", "hilbert")
_LAID_OUT = re.compile(r"\s*(zorder|hilbert|linear)\s*\((.*)\)\s*", re.DOTALL | re.IGNORECASE)

# kind -> Arrow type of its bounds. Decimals carry precision and scale: "decimal(38,18)".
_ARROW: dict[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
}
KINDS = (*_ARROW, "decimal(p,s)")


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of the bounds of ``kind``; raises OptionError for an unknown kind."""
    if kind.startswith("decimal("):
        precision, scale = kind[len("decimal(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    if kind not in _ARROW:
        raise OptionError("cluster key", kind, "an orderable column: " + ", ".join(KINDS))
    return _ARROW[kind]


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of a cluster key.

    ``path`` leads from the root of the schema to a leaf, one name per step: a field ``y.z`` of a struct ``a`` is
    ``("a", "y.z")``. ``field_id`` survives renames where the format has field ids.
    """

    path: tuple[str, ...]
    kind: str
    field_id: str

    @property
    def name(self) -> str:
        """The name in Spark SQL spelling: steps that are not plain identifiers are quoted with backticks."""
        return ".".join(quote(step) for step in self.path)


@dataclass(frozen=True, slots=True)
class ClusterKey:
    """One to four columns, and the layout that maps them to one linear order.

    ``linear`` orders rows as tuples; ``zorder`` and ``hilbert`` follow a space-filling curve through the ranks of at
    least two columns. Raises OptionError.
    """

    columns: tuple[KeyColumn, ...]
    layout: str = "linear"

    def __post_init__(self) -> None:
        if not 1 <= len(self.columns) <= MAX_COLUMNS:
            raise OptionError("columns", [c.name for c in self.columns], f"1 to {MAX_COLUMNS} columns")
        if len({c.path for c in self.columns}) != len(self.columns):
            raise OptionError("columns", [c.name for c in self.columns], "each column once")
        if self.layout not in LAYOUTS:
            raise OptionError("layout", self.layout, "one of " + ", ".join(LAYOUTS))
        if self.curved and len(self.columns) < 2:
            expected = f"2 to {MAX_COLUMNS} columns for layout {self.layout}; one column is linear already"
            raise OptionError("columns", [c.name for c in self.columns], expected)

    @property
    def curved(self) -> bool:
        """Whether the layout follows a space-filling curve."""
        return self.layout != "linear"

    @property
    def key_id(self) -> str:
        """Twelve hex digits of a hash of layout and field ids: unchanged by a rename, different for another order."""
        text = self.layout + "|" + "|".join(c.field_id for c in self.columns)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def __str__(self) -> str:
        names = ", ".join(c.name for c in self.columns)
        return f"({names})" if self.layout == "linear" else f"{self.layout}({names})"


def quote(step: str) -> str:
    """One step of a column path in Spark SQL spelling."""
    plain = step.isascii() and step.isidentifier()
    return step if plain else "`" + step.replace("`", "``") + "`"


def parse_column(name: str) -> tuple[str, ...]:
    """``a.`y.z`.c`` -> ``("a", "y.z", "c")``; raises OptionError for unbalanced backticks or an empty step."""
    steps: list[str] = []
    current, quoted, closed, i = "", False, False, 0
    while i < len(name):
        char = name[i]
        if quoted and char == "`":
            if name[i + 1 : i + 2] == "`":
                current, i = current + "`", i + 1
            else:
                quoted, closed = False, True
        elif not quoted and char == "`" and not current:
            quoted = True
        elif not quoted and char == ".":
            steps.append(current)
            current, closed = "", False
        elif closed:
            raise OptionError("columns", name, "a dot after a closing back-quote")
        else:
            current += char
        i += 1
    steps.append(current)
    if quoted or not all(steps):
        raise OptionError("columns", name, "a column name such as id, a.b or `name with.dot`")
    return tuple(step.strip() if "`" not in name else step for step in steps)


def split_columns(text: str) -> tuple[str, ...]:
    """``"a, `b,c`.d"`` -> ``("a", "`b,c`.d")``: commas inside backticks do not separate."""
    parts, current, quoted = [], "", False
    for char in text:
        quoted ^= char == "`"
        if char == "," and not quoted:
            parts.append(current)
            current = ""
        else:
            current += char
    parts.append(current)
    return tuple(part.strip() for part in parts if part.strip())


def parse_layout(text: str) -> tuple[tuple[str, ...], str]:
    """``"hilbert(a, b)"`` -> ``(("a", "b"), "hilbert")``: parse a key; a bare list of columns is linear."""
    found = _LAID_OUT.fullmatch(text)
    return (split_columns(found[2]), found[1].lower()) if found else (split_columns(text), "linear")


def key_text(key: ClusterKey) -> str:
    """The key in the form that :func:`parse_layout` reads: only the columns if the layout is linear."""
    names = ", ".join(c.name for c in key.columns)
    return f"{key.layout}({names})" if key.curved else names


def to_json_value(value: Any, kind: str) -> Any:
    """A bound as a JSON value: dates in days, timestamps in µs, binary as base64, floats and decimals as text.

    Other values are unchanged.
    """
    if value is None:
        return None
    if kind in ("date", "timestamp", "timestamp_ntz"):
        width = pa.int32() if kind == "date" else pa.int64()
        return pa.scalar(value, arrow_type(kind)).cast(width).as_py()
    if kind == "binary":
        return base64.b64encode(value).decode()
    if kind == "float":
        return repr(float(value))
    return str(value) if kind.startswith("decimal") else value


def from_json_values(values: Sequence[Any], kind: str) -> pa.Array:
    """Values from :func:`to_json_value`, in the Arrow type of their kind."""
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return pa.array(values, pa.int32() if kind == "date" else pa.int64()).cast(arrow_type(kind))
    if kind == "binary":
        return pa.array([None if v is None else base64.b64decode(v) for v in values], pa.binary())
    if kind == "float":
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    if kind.startswith("decimal"):
        return pa.array([None if v is None else Decimal(v) for v in values], arrow_type(kind))
    return pa.array(values, arrow_type(kind))


def key_to_json(key: ClusterKey) -> dict[str, Any]:
    """The key as plain JSON data; :func:`key_from_json` restores it."""
    columns = [{"path": list(c.path), "kind": c.kind, "field_id": c.field_id} for c in key.columns]
    return {"columns": columns, "layout": key.layout}


def key_from_json(data: dict[str, Any] | str) -> ClusterKey:
    """Inverse of :func:`key_to_json`; also accepts JSON text."""
    plain: dict[str, Any] = json.loads(data) if isinstance(data, str) else data
    columns = tuple(KeyColumn(tuple(c["path"]), c["kind"], c["field_id"]) for c in plain["columns"])
    return ClusterKey(columns, plain["layout"])
