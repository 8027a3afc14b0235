"""Garbage as an adapter reports it, and the plan that a vacuum carries out.

    versions ─ keep() ─► kept, gone ─► adapter: files that only expired versions name ─► Garbage
    Garbage ─ looked up in the storage ─► plan_vacuum(): containment, order ─► VacuumPlan ─► brake() ─► deletes

A plan is plain data: it states why each file is deleted and why each version is kept.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.text.result import Result
from lakekeeper.core.vacuum.path_guard import Grounds, Region, refusal
from lakekeeper.core.vacuum.retention import Kept, Versions
from lakekeeper.core.vacuum.vacuum_text import render_vacuum_plan
from lakekeeper.errors import RetentionError

KINDS = (
    "data",
    "deletes",
    "changes",
    "manifest",
    "manifest list",
    "statistics",
    "metadata",
    "orphan",
    "trash",
)
"""The role of a file in its format; ``changes`` are files of a change feed, ``trash`` files in the trash."""

METADATA_KINDS = frozenset({"manifest", "manifest list", "statistics", "metadata", "trash"})
"""Kinds of files in a folder of the format or of lakekeeper."""


def region_of(kind: str) -> Region:
    """Where a file of a kind must be."""
    if kind == "trash":
        return "trash"
    return "metadata" if kind in METADATA_KINDS else "data"


@dataclass(frozen=True, slots=True)
class Dead:
    """A file that no kept version names.

    ``path`` is a full location, decoded. ``version`` is the version that dropped the file, or the last that names it
    if the format records no more; ``order`` is its place in time, by which deletes are ordered. ``logged``: the log
    itself shows that the file was part of the table and was removed, so that its deletion is expected.
    """

    path: str
    kind: str
    version: int
    order: int = 0
    partition: str = ""
    why: str = ""
    logged: bool = True


@dataclass(frozen=True, slots=True)
class Waiting:
    """A file that ``version`` dropped at ``at_ms`` (epoch milliseconds), and that has to stay for now.

    ``feed``: the change feed of that version is read from it.
    """

    path: str
    kind: str
    version: int
    at_ms: int
    partition: str = ""
    feed: bool = False


@dataclass(frozen=True, slots=True)
class Backlog:
    """Files that wait for the end of their retention, recorded because the log may no longer name them by then.

    ``seen`` is the newest version that was known when it was written; -1 if there is no backlog.
    """

    files: tuple[Waiting, ...] = ()
    seen: int = -1


NO_BACKLOG = Backlog()


@dataclass(frozen=True, slots=True)
class Garbage:
    """Files that may be deleted. ``outside`` are paths that the log names outside of the table: reported, never
    touched.

    examined   manifests, commits and the like that were read to find it
    note       what is unknown, for the report (a truncated log); may be empty
    through    the version up to which all garbage is named here, from which the next vacuum continues
    backlog    the backlog for the next vacuum
    """

    files: tuple[Dead, ...]
    outside: tuple[str, ...] = ()
    examined: int = 0
    note: str = ""
    through: int | None = None
    backlog: Backlog = NO_BACKLOG


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file as the storage shows it. ``modified_ms`` is 0 if not reported; ``link``: it is reached by a link."""

    path: str
    bytes: int
    modified_ms: int = 0
    link: bool = False


@dataclass(frozen=True, slots=True)
class Doomed:
    """A file to delete: garbage that exists. ``logged`` as in :class:`Dead`."""

    path: str
    kind: str
    bytes: int
    version: int
    partition: str = ""
    why: str = ""
    logged: bool = True


@dataclass(frozen=True, slots=True)
class VacuumPlan(Result):
    """The files to delete, and why the others stay.

    files      in the order in which they go: oldest version first
    spared     garbage that stays nevertheless, each file with the reason (outside the table, a link, another table's)
    unrecognised   files in the table's folders that no version names and no writer of the format makes: never touched
    gone_before  garbage that no longer existed
    kept       versions that stay, with the reason of each
    """

    table: str
    table_uuid: str
    version: int
    files: tuple[Doomed, ...]
    kept: Mapping[int, Reason]
    gone: tuple[int, ...]
    expired_refs: tuple[str, ...] = ()
    spared: Mapping[str, str] = field(default_factory=dict)
    unrecognised: tuple[str, ...] = ()
    gone_before: int = 0
    age_ms: int = 0
    cutoff_ms: int = 0
    live_bytes: int | None = None
    examined: int = 0
    note: str = ""
    through: int | None = None
    backlog: Backlog = NO_BACKLOG

    @property
    def bytes(self) -> int:
        """The bytes of all files to delete."""
        return sum(f.bytes for f in self.files)

    @property
    def data_bytes(self) -> int:
        """The bytes of the files to delete that are not metadata."""
        return sum(f.bytes for f in self.files if f.kind not in METADATA_KINDS)

    @property
    def unexplained(self) -> tuple[Doomed, ...]:
        """The data files to delete for which the log does not show why they are not part of the table."""
        return tuple(f for f in self.files if not f.logged and f.kind not in METADATA_KINDS)

    @property
    def share(self) -> float | None:
        """Bytes of data to delete, as a share of these and those of the newest version; None if those are unknown."""
        if self.live_bytes is None:
            return None
        data = self.data_bytes
        return data / (data + self.live_bytes) if data else 0.0

    def by_kind(self) -> dict[str, tuple[int, int]]:
        """Kind → files, bytes."""
        return count_by_kind(self.files)

    def digest(self) -> str:
        """SHA-256 over the sorted paths."""
        return digest(f.path for f in self.files)

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON; file by file."""
        plain: dict[str, object] = {
            "table": self.table,
            "table_uuid": self.table_uuid,
            "version": self.version,
            "kept": _kept(self.kept),
            "gone": sorted(self.gone),
            "expired_refs": list(self.expired_refs),
            "files": [asdict(f) for f in self.files],
            "spared": dict(self.spared),
            "unrecognised": list(self.unrecognised),
            "bytes": self.bytes,
            "live_bytes": self.live_bytes,
            "sha256": self.digest(),
            "note": self.note,
        }
        return plain

    def __str__(self) -> str:
        return render_vacuum_plan(self)


def _kept(reasons: Mapping[int, Reason]) -> dict[str, object]:
    """Version → reason, for JSON; versions that have a reason in common share its dictionary."""
    plain = {why: why.to_dict() for why in set(reasons.values())}
    return {str(version): plain[why] for version, why in sorted(reasons.items())}


def _kept_in_ranges(reasons: Mapping[int, Reason]) -> list[dict[str, object]]:
    """Each reason with its versions: a table that is written every few seconds keeps some ten thousand."""
    versions: dict[Reason, list[int]] = {}
    for version, why in sorted(reasons.items()):
        versions.setdefault(why, []).append(version)
    return [{**why.to_dict(), "versions": _ranges(found)} for why, found in versions.items()]


def _ranges(numbers: Iterable[int]) -> list[str]:
    """``7``, ``9-12``: sorted, with consecutive numbers as one range."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return [str(first) if first == last else f"{first}-{last}" for first, last in found]


def digest(paths: Iterable[str]) -> str:
    """SHA-256 over the sorted paths, a line each."""
    return hashlib.sha256(
        "".join(f"{p}\n" for p in sorted(paths)).encode("utf-8", "surrogatepass")
    ).hexdigest()


def plan_vacuum(
    table: str,
    versions: Versions,
    kept: Kept,
    garbage: Garbage,
    found: Mapping[str, FileInfo | None],
    grounds: Grounds,
    *,
    spared: Mapping[str, str] | None = None,
) -> VacuumPlan:
    """Order the garbage that is there (``found``: path → what the storage showed) and that may be deleted.

    ``spared`` are paths that another table uses, each with that table. Nothing here decides that a file is garbage.
    """
    left = {path: refusal(path, grounds) or "it is outside the table's location" for path in garbage.outside}
    files: list[tuple[int, Doomed]] = []
    missing, taken = 0, set[str]()
    for dead in garbage.files:
        info = found.get(dead.path)
        if dead.path in taken:
            continue
        taken.add(dead.path)
        why_not = refusal(dead.path, grounds, region_of(dead.kind))
        why_not = why_not or (spared or {}).get(dead.path, "")
        if not why_not and info is not None and info.link:
            why_not = "it is reached through a symbolic link"
        if why_not:
            left[dead.path] = why_not
        elif info is None:
            missing += 1
        else:
            size = info.bytes
            doomed = Doomed(dead.path, dead.kind, size, dead.version, dead.partition, dead.why, dead.logged)
            files.append((dead.order, doomed))
    files.sort(key=lambda entry: (entry[0], entry[1].path))
    return VacuumPlan(
        table=table,
        table_uuid=versions.table_uuid,
        version=versions.newest,
        files=tuple(doomed for _, doomed in files),
        kept=kept.reasons,
        gone=kept.gone,
        expired_refs=kept.expired_refs,
        spared=left,
        gone_before=missing,
        age_ms=kept.age_ms,
        cutoff_ms=kept.cutoff_ms,
        live_bytes=versions.live_bytes,
        examined=garbage.examined,
        note=garbage.note,
        through=garbage.through,
        backlog=garbage.backlog,
    )


def count_by_kind(files: Sequence[Doomed]) -> dict[str, tuple[int, int]]:
    """Kind → files, bytes."""
    counts, sizes = Counter(f.kind for f in files), Counter[str]()
    for file in files:
        sizes[file.kind] += file.bytes
    return {kind: (counts[kind], sizes[kind]) for kind in KINDS if counts[kind]}


def brake(plan: VacuumPlan, most: float) -> None:
    """Raise RetentionError if files that the log does not explain exceed a share of the table, or its size is unknown.

    Garbage that the log names does not count, however much it is: one full rewrite leaves as much as the table holds.
    """
    files = plan.unexplained
    data = sum(file.bytes for file in files)
    if not data or most >= 1.0:
        return
    found = (
        f"{plan.table}: {len(files):,} files of {data:,} bytes that the log does not explain would be deleted"
    )
    remedy = (
        "nothing was deleted. Check the dry run; if it is right, raise the limit: options={'vacuum.max-share': 1} "
        "(on the command line: --option vacuum.max-share=1)"
    )
    if plan.live_bytes is None:
        raise RetentionError(f"{found}, and the size of the table is not known; {remedy}")
    share = data / (data + plan.live_bytes)
    if share > most:
        raise RetentionError(
            f"{found}, {share:.0%} of the table's bytes with them; vacuum.max-share is {most:.0%}; {remedy}"
        )


def batches(files: Sequence[Doomed], least: int, most: int) -> Iterator[tuple[Doomed, ...]]:
    """Files in order, in batches of at most ``most``; a batch ends with a version once it has ``least`` files.

    StarRocks' ``lake_vacuum_min_batch_delete_size``.
    """
    batch: list[Doomed] = []
    for file in files:
        ends = len(batch) >= least and batch[-1].version != file.version
        if batch and (ends or len(batch) >= most):
            yield tuple(batch)
            batch = []
        batch.append(file)
    if batch:
        yield tuple(batch)


def by_partition(files: Sequence[Doomed]) -> dict[str, tuple[Doomed, ...]]:
    """Partition → its files in order; metadata files come last, under a name that no partition has."""
    parts: dict[str, list[Doomed]] = {}
    for file in files:
        parts.setdefault("\x00metadata" if file.kind in METADATA_KINDS else file.partition, []).append(file)
    return {name: tuple(found) for name, found in parts.items()}


def proof(plan: VacuumPlan, run_id: str, now_ms: int) -> str:
    """The record that is written before the first delete: what was examined, and what will be deleted."""
    record = {
        "run_id": run_id,
        "table": plan.table,
        "table_uuid": plan.table_uuid,
        "version": plan.version,
        "at_ms": now_ms,
        "retention_ms": plan.age_ms,
        "watermark_ms": plan.cutoff_ms,
        "kept": _kept_in_ranges(plan.kept),
        "gone": _ranges(plan.gone),
        "expired_refs": list(plan.expired_refs),
        "examined": plan.examined,
        "files": len(plan.files),
        "bytes": plan.bytes,
        "by_kind": {kind: list(counts) for kind, counts in plan.by_kind().items()},
        "sha256": plan.digest(),
        "live_bytes": plan.live_bytes,
    }
    return json.dumps(record, indent=1)
