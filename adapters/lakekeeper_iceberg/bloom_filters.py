"""Bloom filters that Iceberg's writers add: the properties ``write.parquet.bloom-filter-enabled.column.<name>``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from lakekeeper.columnar.bloom import UNFIT, lacking
from lakekeeper.columnar.types import FIELD_ID
from lakekeeper.core.model.keys import KeyColumn
from lakekeeper_iceberg.data_files import DataFiles
from lakekeeper_iceberg.keys import SchemaFields
from lakekeeper_iceberg.native import Iceberg

_COLUMN = "write.parquet.bloom-filter-enabled.column."


class IcebergBloomFilters:
    """Implements ``spi.BloomFilters``. ``table()`` returns the refreshed table object of a supported table."""

    def __init__(self, jvm: Iceberg, name: str, table: Callable[[], Any]) -> None:
        self._jvm = jvm
        self._name = name
        self._table = table

    def columns(self) -> tuple[str, ...]:
        """See ``spi.BloomFilters.columns``."""
        return tuple(KeyColumn(path, "", "").name for path in self._wanted(self._table()).values())

    def missing(self, files: Mapping[str, int]) -> frozenset[str]:
        """See ``spi.BloomFilters.missing``."""
        table = self._table()
        opened = DataFiles(self._jvm, table.io())
        openers = ((path, opened.opener(path, size)) for path, size in files.items())
        wanted = self._wanted(table)
        return lacking(self._name, openers, lambda schema: _in_file(schema, wanted))

    def _wanted(self, table: Any) -> dict[int, tuple[str, ...]]:
        """Field id → path of the columns for which the table requests a filter; none of ``UNFIT`` types."""
        requested = {
            name.removeprefix(_COLUMN)
            for name, value in self._jvm.text_map(table.properties()).items()
            if name.startswith(_COLUMN) and value.lower() == "true"
        }
        if not requested:
            return {}
        return {
            number: field.path
            for number, field in SchemaFields(self._jvm, table.schema()).by_id.items()
            if isinstance(field.type, str) and field.type not in UNFIT and ".".join(field.path) in requested
        }


def _in_file(schema: pa.Schema, wanted: Mapping[int, tuple[str, ...]]) -> list[str]:
    """The columns as paths in a file's Parquet schema: by field id, or by name in a file without ids.

    A file keeps the names of its time, and Iceberg spells those that Avro does not allow in another way.
    """
    known = dict(_by_id(schema, ()))
    if not known:
        return [".".join(path) for path in wanted.values()]
    return [known[number] for number in wanted if number in known]


def _by_id(fields: Iterable[pa.Field], above: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Field id → dotted path of each field, in structs too."""
    for field in fields:
        path = (*above, field.name)
        number = (field.metadata or {}).get(FIELD_ID)
        if number is not None:
            yield int(number), ".".join(path)
        if pa.types.is_struct(field.type):
            yield from _by_id(field.type, path)
