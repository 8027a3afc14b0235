"""Back off from partitions where users are writing, and from files whose merge failed, for some passes.

Each call with a further race or failure doubles their number; in a partition, one that commits without any ends the
rest:

    race ─► 1 pass ─► race ─► 2 passes ─► race ─► 4 passes ─► race ─► 8 passes, and no more

A rest is a time, one pause longer than its passes, as a pass starts one pause after the end of the one before. Where
passes take as long as the pauses between them, it is over some passes earlier.

A table without partitions is never left alone: it would decay, and deletes that win a race there are replayed anyway.
A group of files that fails each time, such as one with a damaged file, would otherwise be rewritten in each pass while
others are committed, and where it comes first and takes the whole budget, nothing else would be. If all groups fail, no
file rests: the verb as a whole pauses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.report import GroupResult

_MOST_DOUBLINGS = 3


@dataclass(slots=True)
class _Rests:
    """Name → how often in a row it has had to rest, and until when (ms)."""

    pause_ms: int
    _times: dict[str, int] = field(default_factory=dict)
    _until_ms: dict[str, int] = field(default_factory=dict)

    def begin(self, name: str, now_ms: int) -> None:
        times = self._times.get(name, 0)
        self._times[name] = times + 1
        self._until_ms[name] = now_ms + self.pause_ms * (2 ** min(times, _MOST_DOUBLINGS) + 1)

    def end(self, name: str) -> None:
        self._times.pop(name, None)
        self._until_ms.pop(name, None)

    def forget_before(self, ms: int) -> None:
        for name in [name for name, until in self._until_ms.items() if until < ms]:
            self.end(name)

    def at(self, now_ms: int) -> frozenset[str]:
        """The names that rest now."""
        # A later end is from before the clock was set back.
        furthest = now_ms + self.pause_ms * (2**_MOST_DOUBLINGS + 1)
        return frozenset(name for name, until in self._until_ms.items() if now_ms < until <= furthest)


class Backoff:
    """The backoff of one table, in memory: from partitions that lost races, and from files whose merge failed."""

    def __init__(self, pause_ms: int) -> None:
        self.pause_ms = pause_ms
        self._partitions = _Rests(pause_ms)
        self._files = _Rests(pause_ms)

    def note(
        self, groups: Iterable[GroupResult], now_ms: int, files: Mapping[str, Iterable[str]] | None = None
    ) -> None:
        """The groups of a call have ended; where one lost a race or was replayed, its partition was disturbed.

        ``files`` has the paths of the inputs by the group's id.
        """
        ended = list(groups)
        raced = {group.partition for group in ended if group.status == "dropped" or group.replayed_rows}
        for partition in raced:
            self.raced(partition, now_ms)
        for partition in {group.partition for group in ended if group.status == "committed"} - raced:
            self.landed(partition)
        for group in ended:
            if files and group.status == "failed" and group.begun:
                self.failed(files.get(group.id, ()), now_ms)

    def raced(self, partition: str, now_ms: int) -> None:
        """Groups of this partition lost, or had to be replayed."""
        if partition:
            self._partitions.begin(partition, now_ms)

    def landed(self, partition: str) -> None:
        """Groups of this partition landed undisturbed."""
        self._partitions.end(partition)

    def failed(self, files: Iterable[str], now_ms: int) -> None:
        """A group of these files failed."""
        # A file that did not fail again for so long was merged, or is no longer in the table.
        self._files.forget_before(now_ms - self.pause_ms * 2 ** (_MOST_DOUBLINGS + 1))
        for path in files:
            self._files.begin(path, now_ms)

    def resting(self, now_ms: int) -> frozenset[str]:
        """Partitions that are to be left alone now."""
        return self._partitions.at(now_ms)

    def failing(self, now_ms: int) -> frozenset[str]:
        """Paths of files that are to be left alone now, because their merge failed."""
        return self._files.at(now_ms)


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
