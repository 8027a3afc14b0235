"""How a run on a table of the memory lake is undone: by a new version, or by a rollback."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakekeeper.core.model.run_name import RunName
from lakekeeper.errors import Conflict, NotFound, UndoError
from lakekeeper.spi import Commit, Reversal, Undone
from lakekeeper.testing.versions import LAYOUT, Entry, Version

if TYPE_CHECKING:
    from lakekeeper.testing.memory import MemoryAdapter


class MemoryUndos:
    """``lakekeeper.spi.Undos`` over the table of a :class:`MemoryAdapter`."""

    def __init__(self, adapter: MemoryAdapter) -> None:
        self._adapter = adapter
        self._store = adapter.store

    def find(self, run: RunName) -> Reversal | Undone:
        """The files that the run removed and added, if none of them was changed since."""
        name = self._adapter.table
        with self._store.lock:
            versions, now = tuple(self._store.versions), self._store.current
            ours = [version for version in versions if run.means(version.run_id)]
            if not ours:
                raise NotFound(name, f"no version of run {run}")
            if any(version.operation not in LAYOUT for version in ours):
                raise UndoError(name, f"run {run} changed rows")
            before = versions[ours[0].number - 1]
            if before.number in self._store.expired:
                raise UndoError(name, f"the version before run {run} expired")
            back, made = self._net(run, ours)
            touched = [path for path, entry in made.items() if now.files.get(path) != entry]
            if touched or any(path in now.files for path in back):
                done = next((v.number for v in versions if v.run_id == run.undo_id), None)
                if done is not None:
                    return Undone(done)
                winner = (
                    self._adapter.toucher(touched[0], made[touched[0]].delete_id) if touched else "a commit"
                )
                raise UndoError(name, f"{winner} changed what run {run} wrote")
            if (before.schema, before.spec) != (now.schema, now.spec):
                raise UndoError(name, f"the columns changed since run {run}")
        return Reversal(
            before=before.number,
            seen=now.number,
            table_uuid=self._store.uuid,
            restored={path: entry.file.bytes for path, entry in back.items()},
            removed={path: entry.file.bytes for path, entry in made.items()},
            native=(back, made),
        )

    def _net(self, run: RunName, ours: list[Version]) -> tuple[dict[str, Entry], dict[str, Entry]]:
        back: dict[str, Entry] = {}
        made: dict[str, Entry] = {}
        for version in ours:
            before = self._store.version(version.number - 1)
            for path, entry in before.files.items():
                if path in version.files:
                    continue
                if path not in made:
                    back[path] = entry
                elif made.pop(path) != entry:
                    raise UndoError(
                        self._adapter.table, f"a commit changed a file of run {run} between its commits"
                    )
            made |= {path: entry for path, entry in version.files.items() if path not in before.files}
        return back, made

    def commit(self, reversal: Reversal, run_id: str) -> Commit:
        """One attempt to commit, with the faults and races of the adapter."""
        fault = self._adapter.attempt()
        back, made = reversal.native
        with self._store.lock:
            now = self._store.current
            touched = [path for path, entry in made.items() if now.files.get(path) != entry]
            if touched or (now.schema, now.spec) != self._layout(reversal.seen):
                winner = (
                    self._adapter.toucher(touched[0], made[touched[0]].delete_id) if touched else "a commit"
                )
                raise Conflict(f"{self._adapter.table}: {winner} came first", winner)
            kept = {path: entry for path, entry in now.files.items() if path not in made}
            number = self._store.apply("lakekeeper", lambda at: replace(at, files={**kept, **back}), run_id)
        self._adapter.answer(fault)
        return Commit(number, run_id, tuple(made), tuple(back))

    def _layout(self, number: int) -> tuple[object, int]:
        seen = self._store.version(number)
        return seen.schema, seen.spec

    def landed(self, reversal: Reversal, run_id: str) -> int | None:
        """The version that carries the run id, among those after the checked version."""
        later = self._store.versions[reversal.seen + 1 :]
        return next((version.number for version in later if version.run_id == run_id), None)
