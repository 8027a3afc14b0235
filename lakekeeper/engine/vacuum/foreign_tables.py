"""Other tables in or around a table's folders: checked before every listing, once in a vacuum.

dead runs to settle, or files that only an old list names     in doubt the files stay, and the report says why
orphans=True                                                  in doubt nothing is done at all
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakekeeper.errors import AdapterError, RetentionError
from lakekeeper.spi.storage import Storage

_SHOWN = 3


@dataclass(slots=True)
class Neighbours:
    """Other tables found for one vacuum; the catalog is queried once, however often the vacuum plans again."""

    table: str
    storage: Storage
    _known: str | None = None
    _searched: frozenset[str] | None = frozenset()

    def refuse_orphans(self) -> None:
        """Raise RetentionError where another table is inside or around anything that would be listed.

        Raises AdapterError if that cannot be determined.
        """
        if self._known == "" and self._searched is None:
            return
        found = self.storage.foreign_tables(None)
        if found:
            raise RetentionError(
                f"{self.table}: another table is inside or around its folders ({_some(found)}), and its files would "
                "look like orphans; nothing was deleted. Give each table its own folder"
            )
        self._known, self._searched = "", None

    def around(self, runs: Sequence[str]) -> str:
        """Why the folders of runs must not be listed, or listed files must not count as dead; empty if they may."""
        if self._known is None or (self._searched is not None and not self._searched.issuperset(runs)):
            self._searched = frozenset(runs)
            try:
                found = self.storage.foreign_tables(runs)
                self._known = f"another table is inside or around this one ({_some(found)})" if found else ""
            except AdapterError as error:
                self._known = f"whether another table is inside or around this one is not known ({error})"
        return self._known


def _some(found: Sequence[str]) -> str:
    more = f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
