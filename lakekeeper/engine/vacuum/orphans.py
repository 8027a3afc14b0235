"""Files that the log does not name: files left in the folder of a dead run, and orphans elsewhere.

    look for foreign tables ─► list ─► read the log ─► not named, the format's own, old enough ─► may go

The order matters: a file that is committed after the listing is named by the log that is read after it. A file that is
young, or of unknown age, may be a write in progress, and stays; a folder with the id of a dead run is as old as the
run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakekeeper.core.config.options import Options
from lakekeeper.core.text.formatting import counted
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.path_guard import Grounds, refusal, spelled
from lakekeeper.core.vacuum.retention import Versions
from lakekeeper.core.vacuum.vacuum_plan import Dead, FileInfo, Garbage
from lakekeeper.engine.state.leases import VACUUM, Intent
from lakekeeper.engine.vacuum.foreign_tables import Neighbours
from lakekeeper.spi.storage import Storage

_SKEW_MS = HOUR_MS
"""The clocks of the storage and of the process that registered may differ by this much."""
_PENDING = "no version references it: a stream that last committed before it was written may yet commit it"
_AGELESS = "the storage does not report its age, and no version references it: a write may be in progress"


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Files of runs that died or failed; ``settled``: slot → intent, once the files are old enough.

    ``note`` gives the reason if their files were not searched for.
    """

    files: tuple[FileInfo, ...] = ()
    settled: Mapping[str, Intent] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unnamed:
    """Files to delete because no version names them, as they were listed; and those that stay all the same.

    spared         file → why it stays
    unrecognised   files that no writer of the format made
    """

    infos: Mapping[str, FileInfo] = field(default_factory=dict)
    why: str = ""
    spared: Mapping[str, str] = field(default_factory=dict)
    unrecognised: tuple[str, ...] = ()

    def only(self, paths: Collection[str]) -> Unnamed:
        """Without the files to delete that are not in ``paths``."""
        return replace(self, infos={path: info for path, info in self.infos.items() if path in paths})

    def with_garbage(self, garbage: Garbage, grounds: Grounds) -> Garbage:
        """They and what the log named; orphans go last. Those in a folder of the format's are metadata of it."""
        last = max((dead.order for dead in garbage.files), default=0) + 1
        made = (
            Dead(
                path, "metadata" if refusal(path, grounds) else "orphan", -1, last, why=self.why, logged=False
            )
            for path in self.infos
        )
        return replace(garbage, files=(*garbage.files, *made))


def leftovers_of(
    storage: Storage,
    neighbours: Neighbours,
    intents: Mapping[str, Intent],
    options: Options,
    now_ms: int,
) -> Leftovers:
    """List the folders of runs of this table that count as dead, or that ended and left files; and no others.

    Nothing is listed where another table is inside or around such a folder, or where one may be in a place that the
    table declares and no operator allows.
    """
    timeout = options.vacuum.lease_timeout_ms
    grace = options.vacuum.orphan_grace_ms
    alive = {intent.run_id for intent in intents.values() if intent.alive(timeout, now_ms)}
    settled = {
        slot: intent
        for slot, intent in intents.items()
        # Until then a file of this run may be too young to go.
        if intent.kind != VACUUM and intent.run_id not in alive and now_ms >= intent.dies_ms(timeout) + grace
    }
    if not settled:
        return Leftovers()
    runs = sorted({intent.folder for intent in settled.values()})
    barred = [
        f"{name} is {place}, which vacuum.allowed-locations does not list"
        for place, name in storage.grounds.barred.items()
    ]
    obstacle = "; ".join(barred) or neighbours.around(runs)
    if obstacle:
        return Leftovers(
            note=f"files of {counted(len(runs), 'run')} that died or failed were not searched for: {obstacle}"
        )
    until = max(intent.dies_ms(timeout) for intent in settled.values()) + grace
    files = [info for info in storage.left_by(runs) if info.modified_ms <= until]
    return Leftovers(tuple(files), settled)


def unnamed_leftovers(
    storage: Storage, versions: Versions, leftovers: Leftovers, garbage: Garbage
) -> Unnamed:
    """The leftovers to delete: all that the log does not name. ``versions`` were read after they were listed."""
    known = {spelled(dead.path) for dead in garbage.files}
    candidates = {
        info.path: info for info in leftovers.files if spelled(info.path) not in known and not info.link
    }
    gone = candidates.keys() - storage.named(versions, candidates.keys()) if candidates else ()
    return Unnamed(
        {path: candidates[path] for path in sorted(gone)},
        "left by a run that died or failed, and no version references it",
    )


def orphans_of(
    storage: Storage,
    versions: Versions,
    files: Sequence[FileInfo],
    garbage: Garbage,
    intents: Mapping[str, Intent],
    options: Options,
    now_ms: int,
) -> Unnamed:
    """The orphans among files that were listed before ``versions`` were read: those to delete, and those that stay.

    A stream that is down when it has closed its files, but not committed them, commits them when it comes back, however
    old they are by then (Kafka Connect, Flink's sink for Delta). So its last commit, not the present time, ends the
    grace of what was written since::

        last commit of a stream          now
              ──┼───────────────────────┼──
        ├ grace ┤       may be pending
    """
    grace = options.vacuum.orphan_grace_ms
    dead = {spelled(file.path) for file in garbage.files}
    last = min(now_ms - grace, _before_all_alive(intents, options, now_ms))
    listed = {info.path: info for info in files if not info.link and spelled(info.path) not in dead}
    ours = storage.recognised(listed.keys())
    candidates = {path for path in listed if path not in ours or listed[path].modified_ms <= last}
    unnamed = candidates - storage.named(versions, candidates) if candidates else set()
    found = {path: listed[path] for path in sorted(unnamed & ours)}
    pending = _last_of_streams(storage, options, now_ms) - grace if found else last
    stays = {
        path: _PENDING if info.modified_ms > 0 else _AGELESS
        for path, info in found.items()
        if not 0 < info.modified_ms <= pending
    }
    return Unnamed(
        infos={path: info for path, info in found.items() if path not in stays},
        why=f"no version references it, and it is older than {grace // HOUR_MS} h",
        spared=stays,
        unrecognised=tuple(sorted(unnamed - ours)),
    )


def _last_of_streams(storage: Storage, options: Options, now_ms: int) -> int:
    """The earliest last commit among the streams into the table that may come back; now without such a stream.

    A stream without a recorded time may come back, and everything may have been written after its last commit.
    """
    if not options.vacuum.sink_retention_ms:
        return now_ms
    since = now_ms - options.vacuum.sink_retention_ms
    commits = (sink.at_ms for sink in storage.sinks())
    return min((0 if at is None else at for at in commits if at is None or at > since), default=now_ms)


def _before_all_alive(intents: Mapping[str, Intent], options: Options, now_ms: int) -> int:
    """No registered run that is alive wrote a file that was last changed before this time."""
    timeout = options.vacuum.lease_timeout_ms
    began = [intent.at_ms for intent in intents.values() if intent.alive(timeout, now_ms)]
    return min(began, default=now_ms) - _SKEW_MS
