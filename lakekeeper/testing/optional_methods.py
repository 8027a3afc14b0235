"""What users do to a table in only some formats: methods that a ``ContractTable`` has unless its class says why not.

class TestMine(AdapterContract):
    lacks = {"tag": "the format has no tags"}   # tests that need it are not collected
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from lakekeeper.spi import Format, TableName
from lakekeeper.testing.values import Row

if TYPE_CHECKING:
    from lakekeeper.testing.harness import ContractTable


class Opening(NamedTuple):
    """A format, the session that it gets, and the name of a table."""

    format: Format
    spark: Any
    name: TableName


class OptionalMethods(Protocol):
    """Methods of the harness's tables, all of which bypass the adapter."""

    def tag(self, name: str, version: int) -> None:
        """Tag a version."""
        ...

    def branch(self, name: str, version: int) -> None:
        """Create a branch whose head is a version."""
        ...

    def restore_version(self, version: int) -> None:
        """Make the rows and the files of an older version current again, with the format's own statement."""
        ...

    def stream(self, rows: Sequence[Row], batch: int) -> None:
        """Append rows as one batch of one stream, which records the batch's number with its commit."""
        ...

    def add_column(self, name: str, kind: str) -> None:
        """Add a column at the end, NULL in all rows."""
        ...

    def drop_column(self, name: str) -> None:
        """Drop a column."""
        ...

    def protect_file(self, path: str) -> None:
        """Make the file at a full path one that ``storage.delete`` must leave.

        A link to a file outside the table, or a file that the storage refuses to delete.
        """
        ...

    def create_inside(self) -> None:
        """Create another table of the format in a folder below the table's own folder."""
        ...

    def append_undescribed(self, rows: Sequence[Row]) -> None:
        """Append rows without the statistics that ``statistics`` computes by default, or of the column ``k``."""
        ...

    def opening(self) -> Opening:
        """How the table is opened."""
        ...

    def keep_files(self) -> None:
        """Configure the table so that its files must stay if its catalog drops it."""
        ...

    def filter_column(self, name: str) -> None:
        """Configure a Bloom filter on a column, by a table property of the format."""
        ...


METHODS = tuple(name for name in vars(OptionalMethods) if not name.startswith("_"))
"""The names of all optional methods."""


def extra(table: ContractTable) -> OptionalMethods:
    """The optional methods of a table; a test that calls one must need it (``lakekeeper.testing.harness.needs``)."""
    return cast("OptionalMethods", table)
