"""The Bloom filters of a table's Parquet files.

Part of ``lakekeeper.spi``, which exports all names of this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class BloomFilters(Protocol):
    """Which filters a table asks for, and which files lack one. Writes nothing: each write of the adapter adds them."""

    def columns(self) -> tuple[str, ...]:
        """The columns (Spark SQL spelling) that files written now get a Bloom filter on."""
        ...

    def missing(self, files: Mapping[str, int]) -> frozenset[str]:
        """Of these files (path as in a snapshot → bytes), those that lack a filter on one of :meth:`columns`.

        Reads the footers of the files. A column whose values are all in a dictionary needs no filter: readers use the
        dictionary. A file that is not Parquet lacks none. Raises AdapterError if a file cannot be read.
        """
        ...
