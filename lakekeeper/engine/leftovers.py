"""Files that no version names: what a run that died left in the folders it had registered, and orphans at large.

    list ─► read the log ─► not named, old enough, of known age ─► may go

The order matters: a file that is committed after the listing is named by the log that is read after it. What is young,
or of an age that nobody knows, may be somebody's write under way, and stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakekeeper.core.containment import Grounds, refusal, spelled
from lakekeeper.core.options import Options
from lakekeeper.core.retention import HOUR_MS, Versions
from lakekeeper.core.vacuum import Dead, FileInfo, Garbage
from lakekeeper.engine.intents import VACUUM, Intent
from lakekeeper.errors import RetentionError
from lakekeeper.spi import Adapter

_SKEW_MS = HOUR_MS
"""Clocks of the storage and of who registered may differ by so much."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Files in folders of runs that died or failed; ``settled``: slot → run, of those with nothing left to wait for."""

    files: tuple[FileInfo, ...] = ()
    settled: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unnamed:
    """Files that go because nothing names them, as they were listed, each with why."""

    infos: Mapping[str, FileInfo]
    why: str

    def only(self, paths: Collection[str]) -> Unnamed:
        """Those of them that are in ``paths``."""
        return replace(self, infos={path: info for path, info in self.infos.items() if path in paths})

    def with_garbage(self, garbage: Garbage, grounds: Grounds) -> Garbage:
        """They and what the log told; orphans go last. Those in a folder of the format's are metadata of it."""
        last = max((dead.order for dead in garbage.files), default=0) + 1
        made = (
            Dead(path, "metadata" if refusal(path, grounds) else "orphan", -1, last, why=self.why)
            for path in self.infos
        )
        return replace(garbage, files=(*garbage.files, *made))


def leftovers_of(
    adapter: Adapter[Any], intents: Mapping[str, Intent], options: Options, now_ms: int
) -> Leftovers:
    """List the folders of runs that are taken for dead, or that ended and left files; nobody else's is listed.

    While a run older than the grace is at work, none is: files of the dead could be taken for his.
    """
    timeout = options.ms("vacuum.intent-timeout-hours")
    grace = options.ms("vacuum.orphan-grace-hours")
    files: dict[str, FileInfo] = {}
    settled: dict[str, str] = {}
    if _before_all_at_work(intents, options, now_ms) < now_ms - grace:
        return Leftovers()
    for slot, intent in intents.items():
        # Until then a file of this run may be too young to go.
        over = intent.dies_ms(timeout) + grace
        if intent.kind == VACUUM or now_ms < over:
            continue
        settled[slot] = intent.run_id
        for info in adapter.storage.files(intent.folders):
            if intent.at_ms - _SKEW_MS <= info.modified_ms <= over:
                files[info.path] = info
    return Leftovers(tuple(files.values()), settled)


def _before_all_at_work(intents: Mapping[str, Intent], options: Options, now_ms: int) -> int:
    """What was last changed before this moment is nobody's who is registered and at work."""
    timeout = options.ms("vacuum.intent-timeout-hours")
    began = [intent.at_ms for intent in intents.values() if intent.alive(timeout, now_ms)]
    return min(began, default=now_ms) - _SKEW_MS


def orphans_of(
    adapter: Adapter[Any],
    versions: Versions,
    files: Sequence[FileInfo],
    garbage: Garbage,
    intents: Mapping[str, Intent],
    options: Options,
    now_ms: int,
) -> Unnamed:
    """Of files that were listed before ``versions`` were read, those that go.

    Raises RetentionError where the storage does not tell the age of a file that nothing names.
    """
    grace = options.ms("vacuum.orphan-grace-hours")
    dead = {spelled(file.path) for file in garbage.files}
    last = min(now_ms - grace, _before_all_at_work(intents, options, now_ms))
    old = {info.path: info for info in files if info.modified_ms <= last and not info.link}
    asked = {path for path in old if spelled(path) not in dead}
    if not asked:
        return Unnamed({}, "")
    unnamed = asked - adapter.storage.named(versions, asked)
    ageless = [path for path in unnamed if old[path].modified_ms <= 0]
    if ageless:
        raise RetentionError(
            f"{adapter.table}: the storage does not tell how old {len(ageless):,} files are that no version names "
            f"({ageless[0]}), and somebody may be writing them; nothing was deleted"
        )
    infos = {path: old[path] for path in sorted(unnamed)}
    return Unnamed(infos, f"no version names it, and it is older than {grace // HOUR_MS} h")
