"""Which versions are kept: a minimum number, those that a reader may still use, and those named by the caller.

    versions of a line      1     2     3     4     5     6
    newest from … to        ├─────┼─────┼──x──┼─────┼─────┼──►  now
                                     cutoff ┘
    kept                                3     4     5     6     3 was the newest at the cutoff: a reader may have it

As in StarRocks, three rules apply together: a minimum number of versions, the retention, and the oldest active
transaction. A version expires only if no rule keeps it. A version of unknown time is kept, and so is its parent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.stream_positions import SinkCommit, held_for_sinks
from lakekeeper.errors import OptionError, RetentionError

FLOOR_MS = 24 * HOUR_MS
"""The shortest retention, whether a call or a table property sets it; only ``allow_unsafe`` permits less."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version that is still in the log. ``at_ms`` is None if its time is unknown."""

    id: int
    at_ms: int | None
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class Ref:
    """A name for a version: a branch, whose ancestors count as its versions, or a tag.

    ``min_versions`` and ``max_age_ms`` are the ref's own retention; ``max_ref_age_ms`` is the age of its version at
    which the name itself expires. None: as the table says.
    """

    name: str
    head: int
    branch: bool = True
    min_versions: int | None = None
    max_age_ms: int | None = None
    max_ref_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Versions:
    """All versions that are still in the log, and the names that point at them.

    linear       versions form one line: a kept version keeps all later ones (Delta)
    min_age_ms, min_versions   the retention of the table's own properties; None if they set none
    usual_age_ms the format's default retention
    live_bytes   bytes of the newest version's files; None if unknown
    refused      the rule of the format by which no file may be deleted; empty if there is no such rule
    sinks        commits of streams that write into the table, with the positions that these look up on restart
    main_log     (time, version) of each change of ``main``, oldest first, as far as the format records them: after a
                 rollback or a fast-forward the times of the versions do not show when they were the newest
    native       state of the adapter, which it needs to find the garbage
    """

    table_uuid: str
    items: tuple[Version, ...]
    refs: tuple[Ref, ...]
    linear: bool
    usual_age_ms: int
    min_age_ms: int | None = None
    min_versions: int | None = None
    live_bytes: int | None = None
    refused: str = ""
    sinks: tuple[SinkCommit, ...] = ()
    main_log: tuple[tuple[int, int], ...] = ()
    native: Any = field(default=None, compare=False, repr=False)

    @property
    def newest(self) -> int:
        """The version that readers of the main line get."""
        return next(r.head for r in self.refs if r.name == "main")


@dataclass(frozen=True, slots=True)
class Stream:
    """What a stream has yet to read: a version of each of its sources, and all later ones.

    checkpoint   the stream's checkpoint folder
    positions    (uuid of the table, version) for each source; ``""`` where the offset does not name the table, and
                 None for a source that has read nothing yet
    required     it is an error if no source is the table at hand; a conf names the streams of many tables
    """

    checkpoint: str
    positions: tuple[tuple[str, int | None], ...]
    required: bool = True


@dataclass(frozen=True, slots=True)
class Retention:
    """What a call requests: ``age_ms`` (None: as the table says), the ``last`` versions, and versions that always stay.

    ``active`` are versions that runs in progress need, each with the reason; ``streams`` continue from a version.
    ``least_ms`` is the minimum of the table's retention; it applies if ``age_ms`` is None. For ``sink_ms`` after the
    last commit of a stream that writes into the table, the versions stay in which it looks up its position.
    ``names_expire`` is False if the call removes no name, whatever its age: its version then stays, too.
    """

    age_ms: int | None = None
    last: int = 1
    named: Collection[int] = ()
    active: Mapping[int, Reason] = field(default_factory=dict)
    allow_unsafe: bool = False
    least_ms: int = 0
    streams: Sequence[Stream] = ()
    sink_ms: int = 0
    names_expire: bool = True


@dataclass(frozen=True, slots=True)
class Kept:
    """The versions that stay, each with its first reason; the versions and the names that expire.

    ``age_ms`` is the retention in force, and ``cutoff_ms`` the time to which it reaches back.
    """

    reasons: Mapping[int, Reason]
    gone: tuple[int, ...]
    expired_refs: tuple[str, ...]
    age_ms: int
    cutoff_ms: int

    @property
    def oldest(self) -> int:
        """The smallest id that stays; in a linear log, all later versions stay too."""
        return min(self.reasons)


def keep(table: str, versions: Versions, retention: Retention, now_ms: int) -> Kept:
    """Divide the versions into those that stay and those that expire.

    Raises RetentionError for a retention under the floor, for a rule of the format, and if the versions are incomplete:
    none at all, no ``main``, or a name of an unknown version. Raises OptionError for a stream of another table.
    """
    _check(table, versions)
    age_ms = _age(table, versions, retention)
    cutoff = now_ms - age_ms
    known = {v.id: v for v in versions.items}
    expired = {
        ref.name: ref.head
        for ref in versions.refs
        if retention.names_expire and _too_old(ref, known[ref.head], now_ms)
    }
    # A name that expires now is read until now, and so is its version.
    until = {**newest_until(versions), **dict.fromkeys(expired.values(), now_ms)}
    reasons: dict[int, Reason] = {versions.newest: Reason.of(Code.NEWEST_VERSION)}
    for ref in versions.refs:
        if ref.name in expired:
            continue
        reasons.setdefault(ref.head, Reason.of(Code.BRANCH if ref.branch else Code.TAG, name=ref.name))
        if ref.branch:
            _keep_line(ref, known, until, retention, versions, (cutoff, now_ms), reasons)
    for version in versions.items:
        why = _held(version, until.get(version.id, version.at_ms), retention, age_ms, now_ms)
        if why is not None:
            reasons.setdefault(version.id, why)
    for stream in retention.streams:
        unread = _unread(versions, stream)
        for number in _to_read(table, versions, stream):
            reasons.setdefault(number, unread)
    if retention.sink_ms and versions.sinks:
        _keep_positions(versions, known, expired, now_ms - retention.sink_ms, reasons)
    if versions.linear:
        _keep_from(versions, retention, reasons)
    return Kept(
        reasons=reasons,
        gone=tuple(v.id for v in versions.items if v.id not in reasons),
        expired_refs=tuple(expired),
        age_ms=age_ms,
        cutoff_ms=cutoff,
    )


def reaches_back(versions: Versions, retention: Retention, kept: Kept) -> bool:
    """Whether versions that end a linear log begin early enough: no rule keeps one before them.

    Positions of streams count by the table that they name; ``None`` is a stream that has read nothing yet.
    """
    first = versions.items[0]
    least = max(retention.last, versions.min_versions or 1)
    if first.at_ms is None or first.at_ms > kept.cutoff_ms or len(versions.items) < least:
        return False
    read = (
        at or 0
        for stream in retention.streams
        for uuid, at in stream.positions
        if uuid == versions.table_uuid
    )
    return min((*retention.named, *retention.active, *read), default=first.id) >= first.id


def _held(
    version: Version, ended: int | None, retention: Retention, age_ms: int, now_ms: int
) -> Reason | None:
    """Why a version that was the newest until ``ended`` stays, regardless of names; None if nothing keeps it."""
    if version.at_ms is None or version.at_ms > now_ms:
        return Reason.of(Code.TIME_UNKNOWN)
    if ended is None or ended > now_ms - age_ms:
        return Reason.of(Code.CURRENT_RECENTLY, age_ms=age_ms)
    if version.id in retention.named:
        return Reason.of(Code.NAMED_BY_CALLER)
    return retention.active.get(version.id)


def require_allowed(table: str, versions: Versions) -> None:
    """Raise RetentionError if no file of the table may be deleted, by a rule of its format."""
    if versions.refused:
        raise RetentionError(f"{table}: {versions.refused}; nothing was deleted")


def _check(table: str, versions: Versions) -> None:
    require_allowed(table, versions)
    known = {v.id for v in versions.items}
    if known and not any(r.name == "main" for r in versions.refs):
        raise RetentionError(
            f"{table}: the table has branches or tags but no current version; nothing was deleted. Set "
            "main to a version first"
        )
    if not known:
        raise RetentionError(
            f"{table}: no version could be read, so the files in use are not known; nothing was deleted"
        )
    for ref in versions.refs:
        if ref.head not in known:
            raise RetentionError(
                f"{table}: '{ref.name}' points at version {ref.head}, which is not in the log: its history is "
                "incomplete; nothing was deleted. Repair or drop the ref first"
            )


def _age(table: str, versions: Versions, retention: Retention) -> int:
    """The retention in force; RetentionError if it is negative, or under the floor without ``allow_unsafe``."""
    own = versions.min_age_ms
    grace_ms = retention.age_ms
    if grace_ms is None:
        grace_ms = max(own if own is not None else versions.usual_age_ms, retention.least_ms)
        return grace_ms if retention.allow_unsafe else max(grace_ms, FLOOR_MS)
    if grace_ms < 0:
        raise RetentionError(
            f"{table}: a retention of {_hours(grace_ms)} is negative, so it reaches into the future; nothing was "
            "deleted"
        )
    floor = max(FLOOR_MS, own or 0)
    if grace_ms < floor and not retention.allow_unsafe:
        whose = "the table's own retention" if floor > FLOOR_MS else "the minimum"
        raise RetentionError(
            f"{table}: a retention of {_hours(grace_ms)} is below {whose} of {_hours(floor)}: readers and writers that "
            f"began earlier could lose their files; nothing was deleted. Set {_hours(floor)} or more, or pass "
            "allow_unsafe_retention=True (on the command line: --allow-unsafe-retention)"
        )
    return grace_ms


def newest_until(versions: Versions) -> dict[int, int | None]:
    """When each version last stopped being the newest of a line; heads are left out.

    That is the time of its latest child, or a later one at which ``main`` moved away from it. A child of unknown time
    gives None: the version may have been the newest until now.
    """
    ended: dict[int, int | None] = {}
    heads = {r.head for r in versions.refs if r.branch}
    for version in versions.items:
        parent = version.parent
        if parent is None:
            continue
        if version.at_ms is None or (parent in ended and ended[parent] is None):
            ended[parent] = None
        else:
            # The time of its latest child: until then, it was the newest on one line.
            ended[parent] = max(version.at_ms, ended.get(parent) or 0)
    made = {version.id: version.at_ms for version in versions.items}
    for (_, number), (left, _) in pairwise(versions.main_log):
        until = ended.get(number, made.get(number))
        ended[number] = None if until is None else max(until, left)
    return {parent: at for parent, at in ended.items() if parent not in heads}


def _too_old(ref: Ref, head: Version, now_ms: int) -> bool:
    if ref.name == "main" or ref.max_ref_age_ms is None or head.at_ms is None:
        return False
    return now_ms - head.at_ms > max(ref.max_ref_age_ms, 0)


def _keep_line(
    ref: Ref,
    known: Mapping[int, Version],
    until: Mapping[int, int | None],
    retention: Retention,
    versions: Versions,
    times: tuple[int, int],
    reasons: dict[int, Reason],
) -> None:
    """Keep the last versions of a branch, and those within its own retention."""
    cutoff, now_ms = times
    if ref.max_age_ms is not None:
        own = ref.max_age_ms if retention.allow_unsafe else max(ref.max_age_ms, FLOOR_MS)
        cutoff = min(cutoff, now_ms - own)
    least = max(retention.last, ref.min_versions or 1, versions.min_versions or 1)
    one_of_the_last = Reason.of(Code.LAST_VERSIONS, versions=least, branch=ref.name)
    within_retention = Reason.of(Code.WITHIN_RETENTION, branch=ref.name)
    for count, version in enumerate(_ancestors(ref.head, known)):
        ended = until.get(version.id, now_ms if version.id == ref.head else version.at_ms)
        if count < least:
            reasons.setdefault(version.id, one_of_the_last)
        elif ended is None or ended > cutoff:
            reasons.setdefault(version.id, within_retention)


def _ancestors(head: int, known: Mapping[int, Version]) -> Iterable[Version]:
    """A head and its ancestors in the log; stops if the parents form a cycle."""
    seen: set[int] = set()
    at: int | None = head
    while at is not None and at in known and at not in seen:
        seen.add(at)
        yield known[at]
        at = known[at].parent


def _unread(versions: Versions, stream: Stream) -> Reason:
    """Why a stream holds versions. A checkpoint does not show which table a stream reads that has read nothing yet."""
    unknown = not stream.required and not versions.linear and ("", None) in stream.positions
    code = Code.STREAM_SOURCE_UNKNOWN if unknown else Code.UNREAD_BY_STREAM
    return Reason.of(code, checkpoint=stream.checkpoint)


def _to_read(table: str, versions: Versions, stream: Stream) -> set[int]:
    """The versions from which a stream continues, and all later ones in their lines.

    A stream reads what each commit added, version by version, even files that a later commit replaced. Offsets of
    linear tables name their table, so one that does not is of another table.
    """
    known = {v.id for v in versions.items}
    names = (versions.table_uuid,) if versions.linear else ("", versions.table_uuid)
    ours = [version for uuid, version in stream.positions if uuid in names]
    starts = [version for version in ours if version is not None]
    if len(starts) < len(ours):
        return known
    if not versions.linear:
        starts = [version for version in starts if version in known]
    if not starts and stream.required:
        raise _not_ours(table, stream)
    if versions.linear and starts:
        # The next version may not exist yet; if the log no longer has it, all versions of the log are kept.
        return {version for version in known if version >= min(starts)}
    return lines_from(versions, starts)


def lines_from(versions: Versions, starts: Iterable[int]) -> set[int]:
    """These versions, and all later ones in their lines."""
    after: dict[int | None, list[int]] = {}
    for version in versions.items:
        after.setdefault(version.parent, []).append(version.id)
    found: set[int] = set()
    left = list(starts)
    while left:
        at = left.pop()
        if at not in found:
            found.add(at)
            left += after.get(at, [])
    return found


def _keep_positions(
    versions: Versions,
    known: Mapping[int, Version],
    expired: Collection[str],
    since_ms: int,
    reasons: dict[int, Reason],
) -> None:
    """Keep the versions that writing streams need, on each branch that stays: a stream may write to any branch."""
    for ref in versions.refs:
        if ref.branch and ref.name not in expired:
            line = list(_ancestors(ref.head, known))
            held = held_for_sinks(
                ref.name,
                [version.id for version in line],
                whole=line[-1].parent is None,
                commits=versions.sinks,
                since_ms=since_ms,
            )
            for number, why in held.items():
                reasons.setdefault(number, why)


def _not_ours(table: str, stream: Stream) -> OptionError:
    return OptionError(
        "vacuum.streaming-checkpoints",
        stream.checkpoint,
        f"the checkpoint of a stream that reads {table}; this is one of another table, or the version from which it "
        "continues has expired",
    )


def _keep_from(versions: Versions, retention: Retention, reasons: dict[int, Reason]) -> None:
    """In a linear log, a kept version keeps all later ones, since nothing else protects their files."""
    active = [*retention.named, *retention.active]
    oldest = min([*reasons, *active])
    after = Reason.of(Code.AFTER_KEPT, version=oldest)
    for version in versions.items:
        if version.id >= oldest:
            reasons.setdefault(version.id, after)


def _hours(age_ms: int) -> str:
    return f"{age_ms / HOUR_MS:,.4g} h"
