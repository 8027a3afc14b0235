"""Maintenance of delete files: merges small position delete files and removes dangling deletes.

    many small position deletes (v2) ─► Iceberg's rewritePositionDeletes ─► its own snapshot
    dangling deletes of all kinds    ─► one commit of ours, with our run id

A dangling delete stays dangling: data files added later have higher sequence numbers. The exception are outputs of a
rewrite, which keep the sequence number of their inputs; while an input is live, the deletes that apply to it are kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lakekeeper.errors import Conflict, LostRace, Rejected, Unknown, reason
from lakekeeper.spark.jvm import causes
from lakekeeper.spi import Tidied
from lakekeeper_iceberg.commit import Swapped, drop_deletes, is_lost_race
from lakekeeper_iceberg.commit_attempts import Attempts
from lakekeeper_iceberg.deletes import EQUALITY, MATCHED, target_of
from lakekeeper_iceberg.listing import Listing, list_files
from lakekeeper_iceberg.native import Iceberg

_CROWD = (
    5  # position delete files of one partition that trigger a merge: Iceberg's default of `min-input-files`
)
_SMALL_BYTES = 48 << 20  # Iceberg's limit for a small delete file
_NEVER = 2**63
_SWAPS = 5  # attempts of one commit before the table is listed again

Place = tuple[int, str]


def tidy(jvm: Iceberg, table: Any, name: str, run_id: str, attempts: Attempts) -> Tidied:
    """See ``spi.RowDeletes.tidy``: up to two commits, one by Iceberg's action and one of ours."""
    table.refresh()
    merged = Tidied()
    snapshot = table.currentSnapshot()
    if snapshot is None or str(snapshot.summary().get("total-delete-files") or "") == "0":
        return merged
    files = list_files(jvm, jvm.pinned(table))
    properties = jvm.text_map(table.properties())
    if not jvm.over_http(table) and _crowded(files, properties.get("write.delete.granularity", "file")):
        merged = _merge(jvm, table, name)
        table.refresh()
        files = list_files(jvm, jvm.pinned(table))
    pinned = jvm.pinned(table)
    gone = dangling_deletes(
        files, frozenset(int(s.specId()) for s in table.specs().values() if s.isUnpartitioned())
    )
    if not gone:
        return merged
    version = int(pinned.currentSnapshot().snapshotId())
    java = jvm.delete_files(pinned, pinned.currentSnapshot(), {path for path, _ in gone})
    chosen = [d for d in java if (str(d.location()), _offset(d)) in gone]
    done = _dropped(partial(drop_deletes, jvm, table, name, version, chosen, run_id, attempts))
    removed = merged.removed_delete_files + done.removed_delete_files
    return Tidied(done.version, removed, merged.added_delete_files)


def _dropped(commit: Callable[[], Swapped]) -> Swapped:
    """Run the commit; retry it unchanged after a lost race. Raises what the last attempt raises."""
    for _ in range(_SWAPS - 1):
        with suppress(LostRace):
            return commit()
    return commit()


def _merge(jvm: Iceberg, table: Any, name: str) -> Tidied:
    """Iceberg's rewrite of position delete files, which also drops positions in removed data files."""
    action = jvm.static("org.apache.iceberg.spark.actions.SparkActions", "get")(jvm.session)
    try:
        done = action.rewritePositionDeletes(table).option("min-input-files", "2").execute()
    except Exception as error:
        text = f"{name}: {reason(error)}"
        if is_lost_race(error):
            raise Conflict(text) from error
        if any(kind.endswith("CommitStateUnknownException") for kind, _ in causes(error)):
            raise Unknown(text) from error
        raise Rejected(text) from error
    removed, added = int(done.rewrittenDeleteFilesCount()), int(done.addedDeleteFilesCount())
    table.refresh()
    return Tidied(int(table.currentSnapshot().snapshotId()), removed, added) if removed else Tidied()


def _crowded(files: Listing, granularity: str) -> bool:
    """Whether a merge would leave fewer delete files, and a second merge would have nothing to do.

    File granularity leaves one delete file per data file; partition granularity leaves one or a few of full size.
    """
    by_target: Counter[str] = Counter()
    by_place: Counter[Place] = Counter()
    for d in files.deletes.to_pylist():
        if d["content"] == EQUALITY or d["dv_offset"] is not None or d["bytes"] >= _SMALL_BYTES:
            continue
        target = target_of(d)
        if target is not None:
            by_target[target] += 1
        if target is None or granularity == "partition":
            by_place[d["spec"], d["partition"]] += 1
    doubled = granularity != "partition" and any(n > 1 for n in by_target.values())
    return doubled or any(n >= _CROWD for n in by_place.values())


@dataclass(slots=True)
class _Live:
    """The lowest sequence numbers of live data files; a delete applies to one only if its own is high enough."""

    positions: dict[str, int] = field(default_factory=dict)  # path → sequence number
    of_place: dict[Place, int] = field(default_factory=lambda: defaultdict(lambda: _NEVER))
    equality: dict[Place, int] = field(default_factory=lambda: defaultdict(lambda: _NEVER))
    anywhere: int = _NEVER


def dangling_deletes(files: Listing, unpartitioned: frozenset[int]) -> set[tuple[str, int | None]]:
    """(path, offset of the deletion vector or None) of the deletes that apply to no live data file."""
    deletes = files.deletes.to_pylist()
    with_vector = {d["referenced"] for d in deletes if d["dv_offset"] is not None}
    live = _live(files, with_vector)
    gone: set[tuple[str, int | None]] = set()
    paths = set(files.data["path"].to_pylist())
    for d in deletes:
        place = (d["spec"], d["partition"])
        if d["content"] == EQUALITY:
            oldest = live.anywhere if d["spec"] in unpartitioned else live.equality[place]
            applies = oldest < d["seq"]
        elif d["dv_offset"] is not None:
            applies = d["referenced"] in paths
        elif (target := target_of(d)) is not None:
            applies = live.positions.get(target, _NEVER) <= d["seq"]
        else:
            applies = live.of_place[place] <= d["seq"]
        if not applies:
            gone.add((d["path"], d["dv_offset"]))
    return gone


def _live(files: Listing, with_vector: set[str]) -> _Live:
    live = _Live()
    columns = (files.data[name].to_pylist() for name in MATCHED)
    for path, seq, added, spec, partition in zip(*columns, strict=True):
        place = (spec, partition)
        live.anywhere = min(live.anywhere, seq)
        live.equality[place] = min(live.equality[place], seq)
        if path not in with_vector:  # with a deletion vector, other position deletes do not apply
            live.positions[path] = seq
            live.of_place[place] = min(live.of_place[place], max(seq, added))
    return live


def _offset(delete: Any) -> int | None:
    offset = delete.contentOffset()
    return None if offset is None else int(offset)
