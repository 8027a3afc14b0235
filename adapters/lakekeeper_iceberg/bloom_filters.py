"""Bloom filters that Iceberg's writers add: the properties ``write.parquet.bloom-filter-enabled.column.<name>``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lakekeeper.columnar.bloom import lacking
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
        return tuple(self._wanted(self._table()))

    def missing(self, files: Mapping[str, int]) -> frozenset[str]:
        """See ``spi.BloomFilters.missing``."""
        table = self._table()
        opened = DataFiles(self._jvm, table.io())
        openers = ((path, opened.opener(path, size)) for path, size in files.items())
        return lacking(self._name, openers, self._wanted(table).values())

    def _wanted(self, table: Any) -> dict[str, str]:
        """Column (Spark SQL spelling) → path in the Parquet schema."""
        requested = {
            name.removeprefix(_COLUMN)
            for name, value in self._jvm.text_map(table.properties()).items()
            if name.startswith(_COLUMN) and value.lower() == "true"
        }
        if not requested:
            return {}
        fields = SchemaFields(self._jvm, table.schema()).by_id.values()
        return {
            KeyColumn(field.path, "", "").name: ".".join(field.path)
            for field in fields
            if isinstance(field.type, str) and ".".join(field.path) in requested
        }
