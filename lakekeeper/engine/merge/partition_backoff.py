"""Back off from partitions where users are writing: after a lost race, leave them alone for a while.

Each further race doubles the pause, and a commit without a race ends it:

    race ─► 1 ×  ─► race ─► 2 ×  ─► race ─► 4 ×  ─► race ─► 8 ×, and no longer

A table without partitions is never left alone: it would decay, and deletes that win a race there are replayed anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakekeeper.core.model.blocks import Snapshot

_MOST_DOUBLINGS = 3


@dataclass(slots=True)
class Backoff:
    """The backoff of one table, in memory: partition → lost races in a row, and until when (ms) to leave it alone."""

    pause_ms: int
    _races: dict[str, int] = field(default_factory=dict)
    _until_ms: dict[str, int] = field(default_factory=dict)

    def raced(self, partition: str, now_ms: int) -> None:
        """A group of this partition lost, or had to be replayed."""
        if not partition:
            return
        races = self._races.get(partition, 0)
        self._races[partition] = races + 1
        self._until_ms[partition] = now_ms + self.pause_ms * 2 ** min(races, _MOST_DOUBLINGS)

    def landed(self, partition: str) -> None:
        """A group of this partition landed undisturbed."""
        self._races.pop(partition, None)
        self._until_ms.pop(partition, None)

    def resting(self, now_ms: int) -> frozenset[str]:
        """Partitions that are to be left alone now."""
        # A later end is from before the clock was set back.
        furthest = now_ms + self.pause_ms * 2**_MOST_DOUBLINGS
        return frozenset(p for p, until in self._until_ms.items() if now_ms < until <= furthest)


@dataclass(slots=True)
class Backoffs:
    """The backoffs of the tables of a service, by table name, for the lifetime of the service."""

    pause_ms: int
    _of: dict[str, Backoff] = field(default_factory=dict)

    @classmethod
    def between(cls, pause_seconds: float) -> Backoffs:
        """With the pause of the service as the first backoff: a partition with a lost race is skipped once."""
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
