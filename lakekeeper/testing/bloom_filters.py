"""Bloom filters of the memory lake: a file is written with those that the table names at that time."""

from __future__ import annotations

from collections.abc import Mapping

from lakekeeper.testing.lake import MemoryTable

PROPERTY = "bloom-filters"
"""Table property: the columns with a filter, separated by commas."""


class MemoryBloomFilters:
    """``lakekeeper.spi.BloomFilters`` over a table in memory."""

    def __init__(self, table: MemoryTable) -> None:
        self._table = table

    def columns(self) -> tuple[str, ...]:
        """The columns that the property names."""
        named = self._table.current.properties.get(PROPERTY, "")
        return tuple(name for name in named.split(",") if name)

    def missing(self, files: Mapping[str, int]) -> frozenset[str]:
        """Files that lack a filter, since they were written before the property named all columns."""
        self._table.touched.footers += files
        wanted = set(self.columns())
        disk = self._table.disk
        return frozenset(path for path in files if path in disk and not wanted <= disk[path].filters)
