"""Back off from partitions where users are writing: after a lost race, leave them alone for some passes.

Each call with a further race doubles their number, and one that commits without a race ends the rest:

    race ─► 1 pass ─► race ─► 2 passes ─► race ─► 4 passes ─► race ─► 8 passes, and no more

A rest is a time, one pause longer than its passes, as a pass starts one pause after the end of the one before. Where
passes take as long as the pauses between them, it is over some passes earlier.

A table without partitions is never left alone: it would decay, and deletes that win a race there are replayed anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.report import GroupResult

_MOST_DOUBLINGS = 3


@dataclass(slots=True)
class Backoff:
    """The backoff of one table, in memory: partition → lost races in a row, and until when (ms) to leave it alone."""

    pause_ms: int
    _races: dict[str, int] = field(default_factory=dict)
    _until_ms: dict[str, int] = field(default_factory=dict)

    def note(self, groups: Iterable[GroupResult], now_ms: int) -> None:
        """The groups of a call have ended; where one lost a race or was replayed, its partition was disturbed."""
        ended = list(groups)
        raced = {group.partition for group in ended if group.status == "dropped" or group.replayed_rows}
        for partition in raced:
            self.raced(partition, now_ms)
        for partition in {group.partition for group in ended if group.status == "committed"} - raced:
            self.landed(partition)

    def raced(self, partition: str, now_ms: int) -> None:
        """Groups of this partition lost, or had to be replayed."""
        if not partition:
            return
        races = self._races.get(partition, 0)
        self._races[partition] = races + 1
        self._until_ms[partition] = now_ms + self.pause_ms * (2 ** min(races, _MOST_DOUBLINGS) + 1)

    def landed(self, partition: str) -> None:
        """Groups of this partition landed undisturbed."""
        self._races.pop(partition, None)
        self._until_ms.pop(partition, None)

    def resting(self, now_ms: int) -> frozenset[str]:
        """Partitions that are to be left alone now."""
        # A later end is from before the clock was set back.
        furthest = now_ms + self.pause_ms * (2**_MOST_DOUBLINGS + 1)
        return frozenset(p for p, until in self._until_ms.items() if now_ms < until <= furthest)


@dataclass(slots=True)
class Backoffs:
    """The backoffs of the tables of a service, by table name, for the lifetime of the service."""

    pause_ms: int
    _of: dict[str, Backoff] = field(default_factory=dict)

    @classmethod
    def between(cls, pause_seconds: float) -> Backoffs:
        """With the pause between the passes of the service."""
        return cls(int(pause_seconds * 1000))

    def of(self, table: str) -> Backoff:
        """The backoff of a table, made at the first call."""
        return self._of.setdefault(table, Backoff(self.pause_ms))


def held_blocks(snapshot: Snapshot, resting: Iterable[str]) -> frozenset[str]:
    """Paths of the snapshot's blocks in these partitions."""
    wanted, blocks = frozenset(resting), snapshot.blocks
    if not wanted:
        return frozenset()
    numbers = {i for i, partition in enumerate(blocks.partitions) if partition in wanted}
    paths = blocks.path.to_pylist()
    return frozenset(path for path, at in zip(paths, blocks.partition.tolist(), strict=True) if at in numbers)
