"""How an adapter brings back the layout that a table had before a run of maintenance.

Part of ``lakekeeper.spi``, which exports all names of this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from lakekeeper.core.model.run_name import RunName
from lakekeeper.spi.rows import Commit


@dataclass(frozen=True, slots=True)
class Reversal:
    """A commit that would bring back the layout before a run; checked against a version, and not yet written.

    before         the version before the run's first commit
    seen           the version that was checked, and that the commit builds on
    table_uuid     the id of the table
    restored       data files that would come back: path, as commits name it, → bytes
    removed        data files that would leave: path → bytes
    needed         paths of the delete files that come back with them
    until_ms       from then on (ms since the epoch) the vacuum of another engine may delete the files; None: never as
                   long as the version is ``seen``
    rollback       the branch would go back to ``before``, so that the versions since leave its history
    native         the adapter's own handle
    """

    before: int
    seen: int
    table_uuid: str
    restored: Mapping[str, int]
    removed: Mapping[str, int]
    needed: tuple[str, ...] = ()
    until_ms: int | None = None
    rollback: bool = False
    native: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Undone:
    """The run was undone before: ``version`` has the layout."""

    version: int


class Undos(Protocol):
    """Undoes runs that changed only the layout."""

    def find(self, run: RunName) -> Reversal | Undone:
        """The reversal of a run on the newest version. Reads the log, but no data file, and writes nothing.

        It exists only if each row is where the run put it: all files that the run wrote and did not replace itself are
        live, with the deletes that it gave them. The files that it removed then come back with exactly the deletes that
        they had. Raises NotFound if the log has no commit of the run, UndoError if it cannot be undone, and Unsupported
        like a snapshot.
        """
        ...

    def commit(self, reversal: Reversal, run_id: str) -> Commit:
        """One attempt on exactly the version ``reversal.seen``, as no change of data.

        Commits since may land before it only if the format's own check proves that they touched none of its files.
        Raises Conflict, Rejected or Unknown; deletes no file.
        """
        ...

    def landed(self, reversal: Reversal, run_id: str) -> int | None:
        """The version after ``reversal.seen`` that has the layout back, freshly read; None if there is none."""
        ...
