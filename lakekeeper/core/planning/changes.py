"""Changes: what other commits did to a table since a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.planning.successors import Replacement


@dataclass(frozen=True, slots=True)
class Winner:
    """A commit that came between: version, operation, the run id if it was one of lakekeeper's, else ``""``.

    ``layout``: it moved rows and changed none (a rewrite by any writer); ``appends``: it only added rows.
    ``at_ms`` is when it was committed, ms since the epoch, 0 if the log does not record it. ``writer``: the engine with
    its user, job or application, ``""`` if the log does not name both.
    """

    version: int
    operation: str
    run_id: str = ""
    layout: bool = False
    appends: bool = False
    at_ms: int = 0
    writer: str = ""

    @property
    def changes_rows(self) -> bool:
        """Whether it deleted or updated rows, as far as the log shows."""
        return not (self.layout or self.appends)

    @property
    def is_statement(self) -> bool:
        """Whether it changed rows and a commit of ours can make the next one of its kind fail.

        A ``delete`` of lakekeeper that loses a race searches again by itself.
        """
        return self.changes_rows and not self.run_id

    def __str__(self) -> str:
        return f"version {self.version} ({self.operation}{', lakekeeper run ' + self.run_id if self.run_id else ''})"


EARLIER_MS, EARLIER_COMMITS = 20_000, 24
"""How far back, and how many, commits up to that of a snapshot show whether a stream is writing."""
_ENOUGH = 6  # statements that show the period of a stream

STREAM_MS = 600_000
"""If the newest commit is older than this, no stream is active: earlier commits are not read."""


def stream_before(newest_first: Iterable[Winner]) -> tuple[Winner, ...]:
    """The commits that show whether a stream is writing, oldest first; it reads no more of the log than these.

    A stream's appends and other maintenance are among them: of the newest few, none may have changed rows.
    """
    found: list[Winner] = []
    for winner in islice(newest_first, EARLIER_COMMITS):
        if found and winner.at_ms < found[0].at_ms - EARLIER_MS:
            break
        found.append(winner)
        if sum(each.is_statement for each in found) == _ENOUGH:
            break
    return tuple(reversed(found))


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to a table since a snapshot.

    version        the table's version now
    winners        commits since the snapshot, oldest first
    removed        paths of the snapshot's blocks that are live no more
    delete_ids     path → deletes in force now, for blocks whose deletes changed
    replacements   commits that removed blocks of the snapshot, or files that such a commit added, oldest first, as far
                   as the adapter follows them
    obstacle       why nothing of ours may be committed any more (table re-created, schema changed …); None if it may
    earlier        commits of the seconds before the snapshot, oldest first, as far as they cost little: a hint
    """

    version: int
    winners: tuple[Winner, ...] = ()
    removed: frozenset[str] = frozenset()
    delete_ids: Mapping[str, str] = field(default_factory=dict)
    obstacle: Reason | None = None
    replacements: tuple[Replacement, ...] = ()
    earlier: tuple[Winner, ...] = ()

    @property
    def only_our_rewrites(self) -> bool:
        """Whether only rewrites of lakekeeper changed the table, at least one."""
        ours = bool(self.winners) and all(w.layout and w.run_id for w in self.winners)
        return ours and self.obstacle is None

    def landed(self, run_id: str) -> int | None:
        """The version that carries ``run_id``, if our commit of unknown outcome succeeded."""
        return next((w.version for w in self.winners if w.run_id == run_id), None)
