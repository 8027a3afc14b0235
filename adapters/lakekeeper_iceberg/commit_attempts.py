"""A record of the metadata files of each commit attempt, kept before they are written, for cleanup after a dead run.

    note: uuid of the producer, snapshot ─► apply(): <uuid>-m0.avro …, snap-<snapshot>-1-<uuid>.avro ─► swap: <n>-….json

A vacuum that cleans up after the run finds manifests and manifest lists by name, without a listing. The name of the
table metadata file is random, so it is identified by its content: the table's uuid and the snapshot.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from lakekeeper.core.vacuum.vacuum_plan import FileInfo
from lakekeeper.errors import MALFORMED
from lakekeeper_iceberg.filesystem import Disk, is_child
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.notes import IcebergNotes
from lakekeeper_iceberg.reachability import keys_of, path_key

_BATCH = 64  # manifests are written in parallel: their numbers may have gaps, but none as long as this
_LATER = 4  # most metadata versions between the attempt's base and its swap
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NUMBERED = re.compile(r"(\d+)-[0-9a-fA-F-]{36}(?:\.gz)?\.metadata\.json(?:\.gz)?")
_PRODUCER = "org.apache.iceberg.SnapshotProducer"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a SnapshotProducer: its commit UUID, the snapshot id, and the metadata file of its base."""

    uuid: str
    snapshot: int
    base: str


@dataclass(slots=True)
class Attempts:
    """The recorded commit attempts of one run, under the name of its folder."""

    jvm: Iceberg
    notes: IcebergNotes
    run: str
    _noted: list[Attempt] = field(default_factory=list)

    def begin(self, update: Any, base: str) -> None:
        """Record what a pending update will write. Raises AdapterError if the record cannot be written."""
        uuid = str(self.jvm.hidden_field(update, _PRODUCER, "commitUUID"))
        snapshot = int(self.jvm.hidden_call(update, _PRODUCER, "snapshotId"))
        self._noted.append(Attempt(uuid, snapshot, base))
        self.notes.replace(note_of(self.run), json.dumps([asdict(attempt) for attempt in self._noted]))

    def discard(self, update: Any, table: Any) -> None:
        """Delete the manifests of an update that was not sent; those that stay are left to the next vacuum.

        Iceberg's ``cleanAll`` does not: a transaction deletes files only after its commit.
        """
        with suppress(Exception):
            uuid = str(self.jvm.hidden_field(update, _PRODUCER, "commitUUID"))
            for number in range(int(self.jvm.hidden_field(update, _PRODUCER, "manifestCount"))):
                table.io().deleteFile(table.operations().metadataFileLocation(f"{uuid}-m{number}.avro"))


def note_of(run: str) -> str:
    """The name of the note with a run's attempts."""
    return f"attempts/{run}.json"


def noted(notes: IcebergNotes, run: str) -> list[Attempt]:
    """The recorded attempts of a run; malformed records are left out."""
    text = notes.read(note_of(run))
    try:
        found = [_attempt(each) for each in json.loads(text or "[]")]
    except MALFORMED:
        return []
    return [attempt for attempt in found if _UUID.fullmatch(attempt.uuid)]


def _attempt(plain: Any) -> Attempt:
    return Attempt(str(plain["uuid"]), int(plain["snapshot"]), str(plain["base"]))


@dataclass(frozen=True, slots=True)
class Home:
    """The metadata of a table: its folder, the table's uuid, and the metadata files in its metadata log."""

    folder: str
    table_uuid: str
    log: Sequence[str]


def left_by(disk: Disk, home: Home, attempts: Sequence[Attempt]) -> Iterator[FileInfo]:
    """The existing metadata files of these attempts."""
    tries = Counter((attempt.snapshot, attempt.uuid) for attempt in attempts)
    for (snapshot, uuid), count in tries.items():  # a producer numbers the lists of its attempts from 1
        lists = [f"{home.folder}/snap-{snapshot}-{n}-{uuid}.avro" for n in range(1, count + 1)]
        yield from (info for info in disk.look(lists) if info is not None)
        yield from _manifests(disk, home.folder, uuid)
    yield from _tables(disk, home, attempts)


def _manifests(disk: Disk, folder: str, uuid: str) -> Iterator[FileInfo]:
    """The existing manifests of one producer, which numbers them from 0."""
    first = 0
    while True:
        candidates = [f"{folder}/{uuid}-m{number}.avro" for number in range(first, first + _BATCH)]
        there = [info for info in disk.look(candidates) if info is not None]
        yield from there
        if not there:
            return
        first += _BATCH


def _tables(disk: Disk, home: Home, attempts: Sequence[Attempt]) -> Iterator[FileInfo]:
    """LIST: metadata files that a swap of these attempts wrote but that never became current, by their content.

    A file that the metadata log may have dropped is kept: it may have been the current one once.
    """
    known = [number for place in home.log if (number := _number(place)) is not None]
    began = {number for attempt in attempts if (number := _number(attempt.base)) is not None}
    wanted = {number + later for number in began for later in range(1, 1 + _LATER)}
    if not known or not wanted:
        return
    snapshots, logged = {attempt.snapshot for attempt in attempts}, keys_of(home.log)
    for info in disk.files(home.folder):
        number = _number(info.path)
        if number is None or number not in wanted or number < min(known) or path_key(info.path) in logged:
            continue
        if is_child(info.path, home.folder):
            parsed = _parsed(disk, info)
            ours = str(parsed.get("table-uuid", "")).lower() == home.table_uuid.lower()
            if ours and parsed.get("current-snapshot-id") in snapshots:
                yield info


def _number(place: str) -> int | None:
    """The version number in the name of a metadata file."""
    found = _NUMBERED.fullmatch(place.rpartition("/")[2])
    return int(found[1]) if found else None


def _parsed(disk: Disk, info: FileInfo) -> dict[str, Any]:
    """The content of a metadata file; empty if it is incomplete."""
    try:
        found = json.loads(disk.start(info.path, None))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
