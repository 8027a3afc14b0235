"""The statistics of a table that a call computes: for readers that skip files, and for planners that estimate rows.

Part of ``lakekeeper.spi``, which exports all names of this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from lakekeeper.core.model.reason import Reason


@dataclass(frozen=True, slots=True)
class Outdated:
    """What has to be read to bring the statistics of a version up to date.

    version   the version that was examined; None for a table without versions
    files     data files whose rows are read; 0 if nothing is due
    bytes     their size
    reason    what is due, or why nothing is
    native    the adapter's own handle
    """

    version: int | None
    files: int
    bytes: int
    reason: Reason
    native: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Computed:
    """Statistics that no version of the table has yet.

    files, bytes   data files that they describe, of those that were outdated
    paths          files written for them, which the commit will reference
    rest           what is still outdated
    native         the adapter's own handle
    """

    files: int
    bytes: int
    rest: Outdated
    paths: tuple[str, ...] = ()
    native: Any = field(default=None, compare=False, repr=False)


class Statistics(Protocol):
    """Computes statistics. No row, data file or order of files changes, and readers see no change of data."""

    def find(self, columns: Sequence[str] | None, min_changed_ratio: float) -> Outdated:
        """What is outdated in the newest version; reads metadata alone, and writes nothing.

        ``columns`` (Spark SQL spelling) require statistics on these columns; by default, those that the format and the
        table call for. ``min_changed_ratio``: statistics of the whole table are outdated once this share of its rows
        was added or deleted since. A share that is not known counts as all. Raises OptionError for a column that can
        have no statistics, and Unsupported as a snapshot.
        """
        ...

    def compute(self, outdated: Outdated, most_bytes: int, run_id: str) -> Computed:
        """Read files of up to ``most_bytes``, but at least one, and compute their statistics."""
        ...

    def commit(self, computed: Computed, run_id: str) -> int | None:
        """One attempt to add the statistics to the newest version; the version that has them.

        Only statistics of files that are live and have the same deletes as when they were read: None if there are
        none left. Raises Conflict, Rejected or Unknown; deletes no file.
        """
        ...

    def landed(self, computed: Computed, run_id: str) -> int | None:
        """The version that has the statistics of this run, freshly read; None if there is none."""
        ...

    def discard(self, computed: Computed) -> None:
        """Delete the files of ``computed.paths``, which are known to be uncommitted.

        A file that is missing, or cannot be deleted, is no error.
        """
        ...
