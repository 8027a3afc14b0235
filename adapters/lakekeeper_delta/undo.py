"""Undoes runs of maintenance: satisfies ``spi.Undos``.

    version     4 (run)            5 (append)        6 (undo)
    a, b        remove                               add, as in version 3
    c           add                                  remove

The files come back as the AddFile actions of the version before their removal: with their statistics, tags, row ids
and deletion vectors. The transaction has read the files that leave: a commit that touches one of them first is a
conflict by Delta's own rules, as for any rewrite.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.model.run_name import RunName
from lakekeeper.core.planning.changes import Winner
from lakekeeper.errors import NotFound, UndoError
from lakekeeper.spi import Commit, Reversal, Undone
from lakekeeper_delta.commit import attempt, commit_tags, operation_of, preparing, register_metrics
from lakekeeper_delta.filesystem import Disk
from lakekeeper_delta.json_commits import Since, commits_between
from lakekeeper_delta.known_state import add_files
from lakekeeper_delta.native import Log, State

CHUNK = 64
"""Commits that are read at a time in the search for a run, newest first."""
_LATE = "; recluster or compact with other options instead"


_REWRITE = "OPTIMIZE"
"""The operation of runs that replace files. Statistics add files again: to take these away would lose their rows."""


@dataclass(frozen=True, slots=True)
class _Exchange:
    """AddFile actions that come back and that leave, as java.util.Lists, and the state that was checked."""

    back: Any
    gone: Any
    state: State


class DeltaUndos:
    """Undoes runs on one table. ``newest`` returns the newest version of a supported table."""

    def __init__(self, log: Log, newest: Callable[[], State]) -> None:
        self._log = log
        self._newest = newest

    def find(self, run: RunName) -> Reversal | Undone:
        """See ``spi.Undos.find``."""
        log, now = self._log, self._newest()
        retention_ms = log.retention_ms(now)
        commits = _commits_of(log, now, run, retention_ms)
        for commit in commits:
            if not commit.layout or commit.operation != _REWRITE:
                what = "changed no layout" if commit.layout else "changed rows"
                raise UndoError(log.name, f"{commit} {what}; only merges can be undone; nothing was written")
        first = commits[0].version
        then = log.at(first - 1, now.table_uuid)
        self._require_same_layout(run, then, now)
        since = commits_between(log, first - 1, now.version)
        walk = _Walk(log.name, run, {commit.version for commit in commits}, since)
        done = walk.undone()
        if done is not None:
            return Undone(done)
        return self._reversal(now, walk, first, _until_ms(commits, retention_ms))

    def _require_same_layout(self, run: RunName, then: State, now: State) -> None:
        """Raise UndoError if files of ``then`` might not be readable as the same rows under the metadata of ``now``."""
        dropped = then.features - now.features
        if then.schema_id != now.schema_id or dropped:
            what = (
                f"the feature {', '.join(sorted(dropped))} was dropped" if dropped else "the columns changed"
            )
            raise UndoError(self._log.name, f"{what} since run {run}; nothing was written{_LATE}")

    def _reversal(self, now: State, walk: _Walk, first: int, until_ms: int) -> Reversal:
        log = self._log
        back = log.jvm.array_list([])
        for version, paths in walk.by_version():
            back.addAll(add_files(log, log.at(version, now.table_uuid), paths))
        gone = add_files(log, now, sorted(walk.made)) if walk.made else log.jvm.array_list([])
        restored = [json.loads(add.json())["add"] for add in back]
        removed = [json.loads(add.json())["add"] for add in gone]
        locator = Disk(log).locator
        vectors = {locator.vector(add.get("deletionVector")) for add in restored} - {""}
        return Reversal(
            before=first - 1,
            seen=now.version,
            table_uuid=now.table_uuid,
            restored={add["path"]: int(add["size"]) for add in restored},
            removed={add["path"]: int(add["size"]) for add in removed},
            needed=tuple(quote(vector, safe="/:") for vector in sorted(vectors)),
            until_ms=until_ms,
            native=_Exchange(back, gone, now),
        )

    def commit(self, reversal: Reversal, run_id: str) -> Commit:
        """See ``spi.Undos.commit``."""
        log, files = self._log, reversal.native
        with preparing(log, "the undo"):
            transaction = log.transaction(files.state)
            transaction.trackFilesRead(log.scala_seq(files.gone))
            now_ms = time.time_ns() // 1_000_000
            actions = log.jvm.array_list([])
            for add in files.back:
                actions.add(log.edited(add, dataChange=False))
            for add in files.gone:
                actions.add(add.removeWithTimestamp(now_ms, False))
            metrics = {
                "numRemovedFiles": len(reversal.removed),
                "numAddedFiles": len(reversal.restored),
                "numRemovedBytes": sum(reversal.removed.values()),
                "numAddedBytes": sum(reversal.restored.values()),
            }
            register_metrics(log, transaction, metrics)
            tags, operation = commit_tags(log, files.state, run_id), operation_of(log, files.state, None)
        version = attempt(log, transaction, files.state, actions, operation, tags, run_id)
        return Commit(version, run_id, tuple(reversal.removed), tuple(reversal.restored))

    def landed(self, reversal: Reversal, run_id: str) -> int | None:
        """See ``spi.Undos.landed``."""
        since = commits_between(self._log, reversal.seen, self._log.latest().version)
        return next((winner.version for winner in since.winners if winner.run_id == run_id), None)


def _commits_of(log: Log, now: State, run: RunName, retention_ms: int) -> list[Winner]:
    """The commits of a run, oldest first. Raises NotFound if the log has none within the retention.

    Raises UndoError if earlier ones may have been cleaned up: the run cannot be undone as a whole.
    """
    found: list[Winner] = []
    oldest_ms = time.time_ns() // 1_000_000 - retention_ms
    upto, step = now.version, CHUNK
    while upto > 0:
        after = max(upto - step, 0)
        try:
            winners = commits_between(log, after, upto).winners
        except NotFound:
            if step > 1:  # the log begins within these commits
                step //= 2
                continue
            if found:
                raise UndoError(
                    log.name,
                    f"its log begins at version {upto + 1} and may have had earlier commits of run {run}; a part of a "
                    "run cannot be undone, so nothing was written",
                ) from None
            break
        found = [winner for winner in winners if run.means(winner.run_id)] + found
        first = bool(found) and found[0].run_id in (str(run), f"{run.operation}-1")
        if first or 0 < winners[-1].at_ms < oldest_ms:
            break
        upto = after
    if not found:
        raise NotFound(
            log.name,
            f"its log has no commit of run {run} within the retention of removed files; see its history for run ids",
        )
    return found


def _until_ms(commits: Sequence[Winner], retention_ms: int) -> int:
    """When the vacuum of another engine may delete the files; 0 if a commit's time is not known."""
    return min(commit.at_ms + retention_ms if commit.at_ms else 0 for commit in commits)


@dataclass(slots=True)
class _Walk:
    """The files of a run, followed from its first commit to the newest version.

    back   path → version before the run removed it; made: path → id of the deletes that the run gave it
    """

    table: str
    run: RunName
    ours: Collection[int]
    since: Since
    back: dict[str, int] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)
    _live: dict[str, str] = field(default_factory=dict)
    _touched: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        files = self.since.files
        named = files.filter(pc.is_in(files["version"], value_set=pa.array(sorted(self.ours))))
        actions = self.since.touching(pc.unique(named["path"]))
        # Of one commit the removes first: an add of the same path changes its deletes.
        for row in sorted(actions.to_pylist(), key=lambda row: (row["version"], row["live"])):
            self._apply(row)

    def _apply(self, row: Mapping[str, Any]) -> None:
        version, path, deletes = row["version"], row["path"], row["delete_id"]
        if version in self.ours and row["live"]:
            self.made[path] = deletes
        elif version in self.ours and path in self.made:
            if self.made.pop(path) != deletes:
                self._refuse(path, "between its commits")
        elif version in self.ours:
            self.back[path] = version - 1
        else:
            self._touched[path] = version
        if row["live"]:
            self._live[path] = deletes
        else:
            self._live.pop(path, None)

    def by_version(self) -> Iterator[tuple[int, list[str]]]:
        """(version, paths of the files that come back as they were in it)."""
        for version in sorted(set(self.back.values())):
            yield version, sorted(path for path, at in self.back.items() if at == version)

    def undone(self) -> int | None:
        """The version that undid the run before. Raises UndoError if another commit changed its files."""
        lost = [path for path, deletes in self.made.items() if self._live.get(path) != deletes]
        returned = [path for path in self.back if path in self._live]
        if not lost and not returned:
            return None
        at = max(self._touched.get(path, 0) for path in (*lost, *returned))
        winner = next((w for w in self.since.winners if w.version == at), None)
        if winner is not None and winner.run_id == self.run.undo_id:
            return winner.version
        changed = f"{len(lost):,} files that run {self.run} wrote" if lost else "files that came back since"
        raise UndoError(
            self.table,
            f"{winner or 'a later commit'} changed {changed}: an undo would lose that commit; nothing was "
            f"written{_LATE}",
        )

    def _refuse(self, path: str, when: str) -> None:
        at = self._touched.get(path)
        winner = next((w for w in self.since.winners if w.version == at), "another commit")
        raise UndoError(
            self.table,
            f"{winner} changed a file of run {self.run} {when}: an undo would lose that commit; nothing was written. "
            "Undo the newest commit of the run alone, by its own run id",
        )
