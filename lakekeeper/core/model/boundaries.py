"""Rank boundaries: the quantiles that map values of a cluster key's columns to the buckets of a curve's grid."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakekeeper.core.model.keys import ClusterKey, from_json_values
from lakekeeper.errors import MALFORMED, OptionError

BITS = 10  # per column: four columns take 40 bits, well within 63
MOST = (1 << BITS) - 2  # boundaries per column: n of them make n + 1 buckets, and NULL takes one more


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Ascending values (JSON form, see ``keys.to_json_value``) for each column of the key ``key_id``.

    ``generation`` counts from 0; ``kinds`` are the kinds of the columns when the boundaries were derived.
    """

    key_id: str
    generation: int
    kinds: tuple[str, ...]
    columns: tuple[tuple[Any, ...], ...]

    @property
    def id(self) -> str:
        """Generation and eight hex digits of a hash of the content: only ranges with equal ids compare."""
        return f"{self.generation}-{hashlib.sha256(self.to_json().encode()).hexdigest()[:8]}"

    def to_json(self) -> str:
        """One JSON object of a few kilobytes; :meth:`from_json` restores an equal value."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Boundaries:
        """Inverse of :meth:`to_json`; raises ValueError on anything else."""
        try:
            return boundaries_from(json.loads(text))
        except MALFORMED as error:
            raise ValueError(f"no rank boundaries: {error!r}") from error

    def fits(self, key: ClusterKey) -> bool:
        """Whether the boundaries belong to this key, and its columns still have the kinds they were derived for."""
        kinds = tuple(c.kind for c in key.columns)
        return self.key_id == key.key_id and [_family(k) for k in kinds] == [_family(k) for k in self.kinds]


def boundaries_from(data: dict[str, Any]) -> Boundaries:
    """Boundaries from plain JSON data; raises an error of ``MALFORMED``."""
    columns = tuple(tuple(column) for column in data["columns"])
    kinds = tuple(str(kind) for kind in data["kinds"])
    if len(columns) != len(kinds) or any(len(c) > MOST for c in columns):
        raise ValueError(f"{len(columns)} columns of at most {MOST} boundaries, {len(kinds)} kinds")
    for column, kind in zip(columns, kinds, strict=True):
        _require_values(column, kind)
    return Boundaries(str(data["key_id"]), int(data["generation"]), kinds, columns)


def _require_values(column: tuple[Any, ...], kind: str) -> None:
    """Raise an error of ``MALFORMED`` unless these are values of the kind, as its Arrow type can hold them."""
    try:
        from_json_values(column, kind)
    except (ArithmeticError, OptionError, pa.ArrowException) as error:
        raise ValueError(f"not of kind {kind}: {error!r}") from error


def _family(kind: str) -> str:
    return kind.partition("(")[0]
