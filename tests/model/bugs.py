"""Known bugs of other projects, planted in the engine and the memory adapter: the search must find each.

If two checks guard the same property, a bug in one of them costs work but no row. Then both are broken here, and the
bug's ``why`` says so. ``trusting`` removes the adapter's own refusal to commit other rows than were read and to delete
files of the table: then only the oracle can find the bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning import rebase as core_rebase
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.engine.delete.row_delete import RowDelete
from lakekeeper.engine.merge import committer as engine_commit
from lakekeeper.engine.merge import executor as engine_rewrite
from lakekeeper.engine.merge import replay as engine_replay
from lakekeeper.engine.merge.committer import Committer
from lakekeeper.engine.merge.executor import Failed
from lakekeeper.engine.merge.replay import Replayer
from lakekeeper.errors import Conflict, Unknown
from lakekeeper.spi import Followed, Lost, Matched, Places, Traces
from lakekeeper.testing import memory
from lakekeeper.testing.deletes import MemoryDeletes
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.memory import MemoryAdapter, Parts
from lakekeeper.testing.row_counts import scanned
from lakekeeper.testing.runner import MemoryRunner
from lakekeeper.testing.values import text
from lakekeeper.testing.versions import ROW_ID, DataFile, Version

Patch = tuple[Any, str, Any]
"""A patch: an object, its attribute, and the replacement."""


@dataclass(frozen=True)
class Bug:
    """A bug, the scopes that show it, and why more than one place had to be broken.

    ``missing`` is set if the bug costs only work: the counter of the slice that stays zero.
    """

    name: str
    patches: Callable[[], Sequence[Patch]]
    scopes: tuple[str, ...]
    why: str = ""
    missing: str = ""

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            for owner, name, instead in self.patches():
                stack.enter_context(patch.object(owner, name, instead))
            yield


@contextmanager
def trusting() -> Iterator[None]:
    """The adapter trusts its caller."""

    def discard(self: MemoryAdapter, rewrites: Sequence[Rewrite]) -> None:
        for path in (p for r in rewrites for p in (*(o.path for o in r.outputs), *r.extra, *r.stale)):
            self.store.disk.pop(path, None)

    with (
        patch.object(MemoryDeletes, "identities", lambda *_args: []),
        patch.object(MemoryAdapter, "discard", discard),
    ):
        yield


# -- the engine ---------------------------------------------------------------------------------------------------


def _key_by_path() -> list[Patch]:
    real = core_rebase.touched

    def touched(rewrite: Rewrite, changes: Changes) -> tuple[list[str], list[str]]:
        return real(rewrite, changes)[0], []

    def check(self: MemoryAdapter, rewrites: Sequence[Rewrite], snapshot: Snapshot) -> None:
        now = self.store.current.files
        for rewrite in rewrites:
            for path, expected in rewrite.inputs_now.items():
                if (path in now) != (expected is not None):
                    raise Conflict(f"{path} is gone")

    return [
        (core_rebase, "touched", touched),
        (engine_replay, "touched", touched),
        (MemoryAdapter, "check_inputs", check),
    ]


def _cleanup_on_unknown() -> list[Patch]:
    def settle(self: Committer, doubt: Unknown) -> Any:
        engine_replay.discard(self.adapter, self.pending)
        raise doubt

    return [(Committer, "settle", settle)]


def _no_rebase_on_retry() -> list[Patch]:
    real = Committer.rebased

    def rebased(self: Committer, pending: Sequence[Rewrite], changes: Changes, attempt: int) -> Any:
        return real(self, pending, changes, attempt) if attempt == 0 else tuple(pending)

    return [(Committer, "rebased", rebased)]


def _never_looks_for_its_run_id() -> list[Patch]:
    return [(Changes, "landed", lambda _self, _run_id: None)]


def _unknown_is_a_conflict() -> list[Patch]:
    """A commit of unknown outcome is retried."""
    real = memory.MemoryAdapter.commit

    def commit(self: MemoryAdapter, *args: Any) -> Any:
        try:
            return real(self, *args)
        except Unknown as doubt:
            raise Conflict(str(doubt)) from doubt

    return [*_never_looks_for_its_run_id(), (MemoryAdapter, "commit", commit)]


def _commits_what_was_not_found() -> list[Patch]:
    real = MemoryRunner.match

    def match(self: MemoryRunner, traces: Traces[Parts], most: int) -> Matched[Parts]:
        found = real(self, traces, most)
        return replace(found, hits=[part[:-1] for part in found.hits], found=max(found.found - 1, 0))

    find = MemoryDeletes.places

    def places(self: MemoryDeletes, lost: Lost) -> Places | None:
        found = find(self, lost)
        return None if found is None else {path: at[:-1] for path, at in found.items()}

    return [(MemoryRunner, "match", match), (MemoryDeletes, "places", places), *_NO_PROOF]


_NO_PROOF: list[Patch] = [
    (Replayer, "mismatch", lambda *_args: ""),
    (engine_replay, "not_all_found", lambda *_args: ""),
    (Replayer, "proven", lambda _self, masked, *_args: masked),
]


def _no_row_count_check() -> list[Patch]:
    real = MemoryAdapter.write

    def write(self: MemoryAdapter, rows: Parts, task: MergeTask, run_id: str) -> Rewrite:
        return real(self, [part[:-1] for part in rows if part[:-1]], task, run_id)

    return [
        (MemoryAdapter, "write", write),
        (engine_rewrite, "checked", lambda _work, _task, rewrite: rewrite),
    ]


def _replaced_outputs_are_all_discarded() -> list[Patch]:
    """After a commit, every file written before the replay is taken for stale."""

    def discard_replaced(adapter: Any, committed: Iterable[Rewrite]) -> set[str]:
        adapter.discard([rewrite.unmasked for rewrite in committed if rewrite.unmasked is not None])
        return set()

    return [(engine_commit, "discard_replaced", discard_replaced)]


# -- rows in an adapter and a runner -------------------------------------------------------------------------------


def _off_by_one() -> list[Patch]:
    real = MemoryDeletes.mask

    def mask(self: MemoryDeletes, lost: Lost, hits: Parts | Places) -> Rewrite:
        rows = {entry.file.path: len(entry.file.rows) for entry in lost.base.native}
        if isinstance(hits, Mapping):
            return real(self, lost, {path: [(i + 1) % rows[path] for i in at] for path, at in hits.items()})
        shifted = [
            [{**row, "position": (row["position"] + 1) % rows[row["file"]]} for row in part] for part in hits
        ]
        return real(self, lost, shifted)

    return [(MemoryDeletes, "mask", mask)]


def _equal_rows_are_one() -> list[Patch]:
    def match(_self: MemoryRunner, traces: Traces[Parts], _most: int) -> Matched[Parts]:
        wanted = {text(row["row"]) for part in traces.lost for row in part}
        hits = [
            {"file": row["file"], "position": row["position"]}
            for part in traces.written
            for row in part
            if text(row["row"]) in wanted
        ]
        return Matched([hits], len(hits), len(hits))

    return [(MemoryRunner, "match", match)]


def _dead(gone: bool, back: bool) -> Callable[..., dict[str, list[int]] | None]:
    def dead_since(
        self: MemoryDeletes, rewrite: Rewrite, now: Mapping[str, frozenset[int]]
    ) -> dict[str, list[int]] | None:
        found: dict[str, list[int]] = {}
        for path, was in self.reflected(rewrite).items():
            if path not in self._store.current.files and not gone:
                found[path] = []
                continue
            if back and was - now[path]:
                return None
            found[path] = sorted(now[path] - was)
        return found

    return dead_since


def _rows_may_come_back() -> list[Patch]:
    return [(MemoryDeletes, "dead_since", _dead(gone=True, back=False))]


def _forgets_gone_inputs() -> list[Patch]:
    return [(MemoryDeletes, "dead_since", _dead(gone=False, back=True))]


def _second_replay_forgets_the_first() -> list[Patch]:
    """Only rows deleted since the last replay are searched, and masked in the original outputs."""
    real = MemoryDeletes.lost

    def lost(self: MemoryDeletes, rewrite: Rewrite, *args: Any) -> Lost:
        return replace(real(self, rewrite, *args), base=rewrite.written)

    return [(MemoryDeletes, "lost", lost)]


def _gained_rows_are_forgotten() -> list[Patch]:
    """An UPDATE is taken for a DELETE."""
    real = Replayer.followed

    def followed(self: Replayer, *args: Any) -> Followed | None:
        found = real(self, *args)
        return None if found is None else replace(found, gained={})

    return [(Replayer, "followed", followed)]


def _copies_are_compared_by_id() -> list[Patch]:
    """An UPDATE keeps the ids of its rows."""
    real = MemoryDeletes.remains

    def remains(self: MemoryDeletes, *args: Any) -> Any:
        found = real(self, *args)
        assert found is not None
        read, left = (
            [[{**row, "row": row["row"][ROW_ID]} for row in part] for part in side]
            for side in (found.read, found.left)
        )
        return replace(found, read=read, left=left)

    return [(MemoryDeletes, "remains", remains)]


def _copies_stay() -> list[Patch]:
    """A commit removes its inputs alone."""
    real = memory.replacement

    def replacement(rewrites: Sequence[Rewrite], now: Version, *, tagged: bool) -> Version:
        made = real(rewrites, now, tagged=tagged)
        kept = {path: now.files[path] for r in rewrites for path in r.successors or () if path in now.files}
        return replace(made, files={**kept, **made.files})

    return [(memory, "replacement", replacement)]


def _keeps_an_input() -> list[Patch]:
    real = memory.replacement

    def replacement(rewrites: Sequence[Rewrite], now: Version, *, tagged: bool) -> Version:
        made = real(rewrites, now, tagged=tagged)
        kept = {path: now.files[path] for path in rewrites[0].task.inputs[:1] if path in now.files}
        return replace(made, files={**kept, **made.files})

    return [(memory, "replacement", replacement)]


def _output_is_an_input() -> list[Patch]:
    """A group of files that are already good is not written: its first input becomes an output."""
    real = MemoryAdapter.write

    def write(self: MemoryAdapter, rows: Parts, task: MergeTask, run_id: str) -> Rewrite:
        made = real(self, rows, task, run_id)
        old = self.store.version(task.read_version).files
        for path in task.inputs:
            for i, entry in enumerate(made.native):
                if old[path].file.rows == entry.file.rows and not old[path].deleted:
                    outputs = list(made.outputs)
                    outputs[i] = replace(outputs[i], path=path)
                    native = (*made.native[:i], old[path], *made.native[i + 1 :])
                    del self.store.disk[entry.file.path]
                    return replace(made, outputs=tuple(outputs), native=native)
        return made

    return [(MemoryAdapter, "write", write)]


# -- our own deletes -----------------------------------------------------------------------------------------------


def _delete_looks_at_old_files_only() -> list[Patch]:
    real = RowDelete.search

    def search(self: RowDelete, snapshot: Snapshot, paths: Any, registration: Any) -> int:
        return real(self, snapshot, paths if paths is None else [], registration)

    return [(RowDelete, "search", search)]


def _delete_looks_at_old_files_and_counts_nothing() -> list[Patch]:
    return [*_delete_looks_at_old_files_only(), (RowDelete, "note", lambda *_args: None)]


def _delete_keeps_positions() -> list[Patch]:
    """A file whose deletes changed is taken for the same file."""
    real = RowDelete.bring_up

    def bring_up(
        self: RowDelete, before: Snapshot, now: Snapshot, changes: Changes, registration: Any
    ) -> None:
        real(self, before, now, replace(changes, delete_ids={}), registration)

    return [(RowDelete, "bring_up", bring_up)]


def _delete_ignores_what_was_appended() -> list[Patch]:
    """A format that ignores the table's isolation level for deletes."""
    return [(MemoryDeletes, "require_none_came", lambda *_args: None)]


def _delete_replaces_what_is_gone() -> list[Patch]:
    """An overwrite without validation: copies are added, whatever happened to their files."""
    return [(MemoryDeletes, "require_live", lambda *_args: None)]


# -- files whose number of rows the log does not record ------------------------------------------------------------


def _counts_by_text() -> list[Patch]:
    """Addresses are compared as text, and a file without a match is taken for empty."""

    def physical_rows(table: MemoryTable, files: Sequence[DataFile]) -> list[int]:
        counted = scanned(table, [file.path for file in files])
        return [
            len(file.rows) if file.statistics else counted.get(f"/{table.location}/{file.path}", 0)
            for file in files
        ]

    return [(memory, "physical_rows", physical_rows)]


def _reads_by_text() -> list[Patch]:
    """The read matches no file, and the rows read are not counted."""
    real = MemoryAdapter.write

    def write(self: MemoryAdapter, rows: Parts, task: MergeTask, run_id: str) -> Rewrite:
        return replace(real(self, rows, task, run_id), rows_in=None)

    return [
        *_counts_by_text(),
        (MemoryAdapter, "read", lambda *_args: []),
        (MemoryAdapter, "write", write),
    ]


def _traces_by_text() -> list[Patch]:
    """Deleted rows are looked up by a scan, which matches none of their files."""
    real = MemoryDeletes.traces

    def traces(self: MemoryDeletes, lost: Lost) -> Traces[Parts]:
        return replace(real(self, lost), lost=[])

    return [(MemoryDeletes, "traces", traces)]


def _plans_are_believed() -> list[Patch]:
    """A rewrite without outputs consists of inputs that have no row according to the plan."""
    return [(MemoryAdapter, "none_lives", lambda *_args: True)]


def _no_outputs_need_no_proof() -> list[Patch]:
    def checked(_work: Any, task: MergeTask, rewrite: Rewrite) -> Rewrite | Failed:
        if rewrite.rows_out == (task.live_rows if rewrite.rows_in is None else rewrite.rows_in):
            return rewrite
        return Failed(task, Reason.of(Code.ROWS_NOT_PROVEN))

    return [(engine_rewrite, "checked", checked)]


def _vectors_are_not_counted() -> list[Patch]:
    """A replay expects as many rows as it was given."""
    real = MemoryDeletes.lost

    def lost(self: MemoryDeletes, *args: Any) -> Lost:
        return replace(real(self, *args), rows=None)

    return [(MemoryDeletes, "lost", lost)]


_RECLUSTER = ("recluster, masks", "recluster, files by value")
_COPIES = ("recluster, files", "recluster, files by value")
_FAULTS = ("recluster with faults, masks", "recluster with faults, files")
_DELETE = ("delete, recluster and users, masks",)
_BESIDE = ("delete beside another engine, files", "delete beside another engine, files by value")
_UNCOUNTED = ("recluster, uncounted",)
_PROOF_OF_NONE = "a rewrite without outputs must be proven by its inputs: that proof is broken too"
_NO_PROOF_WHY = "the engine counts what was masked, and drops the group: that check is broken too"

BUGS: tuple[Bug, ...] = (
    Bug(
        "files are known by their path alone", _key_by_path, _RECLUSTER,
        "the format compares the deletes of each input again when it commits",
    ),
    Bug("files are removed after an unknown outcome", _cleanup_on_unknown, _FAULTS),
    Bug(
        "a retry is not rebased", _no_rebase_on_retry, ("three winners, masks",),
        "the format refuses such a commit each time: this costs work, and no row", missing="second replay",
    ),
    Bug("the log is not searched for the run id", _never_looks_for_its_run_id, _FAULTS),
    Bug("what was not answered is sent again", _unknown_is_a_conflict, _FAULTS),
    Bug("rows that died and were not found are forgotten", _commits_what_was_not_found, _RECLUSTER, _NO_PROOF_WHY),
    Bug("a writer drops a row, and no check counts", _no_row_count_check, _RECLUSTER),
    Bug("all outputs of before a replay are stale", _replaced_outputs_are_all_discarded, _RECLUSTER),
    Bug("masks are off by one", _off_by_one, _RECLUSTER),
    Bug(
        "equal rows are one row", lambda: [*_equal_rows_are_one(), *_NO_PROOF], ("recluster, masks by value",),
        _NO_PROOF_WHY,
    ),
    Bug("rows may come back", _rows_may_come_back, _RECLUSTER),
    Bug("inputs that are gone had no rows", _forgets_gone_inputs, _RECLUSTER),
    Bug("a second replay forgets the first", _second_replay_forgets_the_first, ("three winners, masks",)),
    Bug("an input stays beside the outputs", _keeps_an_input, _RECLUSTER),
    Bug("rows that copies have gained are forgotten", _gained_rows_are_forgotten, _COPIES),
    Bug("rows of copies are compared by their ids", _copies_are_compared_by_id, _COPIES[:1]),
    Bug("copies of inputs stay beside the outputs", _copies_stay, _COPIES),
    Bug("an output is an input", _output_is_an_input, _RECLUSTER),
    Bug("a delete looks at the old files only", _delete_looks_at_old_files_only, _DELETE),
    Bug(
        "a delete looks at the old files only, and counts nothing", _delete_looks_at_old_files_and_counts_nothing,
        _DELETE, "if only rewrites were committed in between, the engine counts the rows that it finds again",
    ),
    Bug("a delete keeps the positions of a changed file", _delete_keeps_positions, _DELETE),
    Bug("a delete ignores what was appended", _delete_ignores_what_was_appended, _DELETE),
    Bug("a delete replaces files that are gone", _delete_replaces_what_is_gone, _BESIDE),
    Bug(
        "a file whose rows were not counted has none",
        lambda: [*_counts_by_text(), *_plans_are_believed()], _UNCOUNTED, _PROOF_OF_NONE,
    ),
    Bug(
        "a rewrite that read nothing needs no proof",
        lambda: [*_reads_by_text(), *_no_outputs_need_no_proof()], _UNCOUNTED, _PROOF_OF_NONE,
    ),
    Bug(
        "a replay expects as many rows as a scan shows",
        lambda: [*_traces_by_text(), *_vectors_are_not_counted()], _UNCOUNTED,
        "the cardinality of the vectors gives the number of rows to find: it is ignored",
    ),
)  # fmt: skip

DEFECTS: Mapping[str, tuple[Callable[[], Sequence[Patch]], tuple[str, ...]]] = {
    "rows are counted by text": (_counts_by_text, _UNCOUNTED),
    "rows are read by text": (_reads_by_text, _UNCOUNTED),
    "rows that died are looked up by text": (_traces_by_text, _UNCOUNTED),
}
"""Adapter defects that cost work and no row: the guard against each is in force; and the scopes to search."""
