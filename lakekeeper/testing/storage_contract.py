"""The contract of ``storage``: only dead files are deleted, and each file has one name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

from lakekeeper.core.model.run_folders import run_folder
from lakekeeper.core.vacuum.path_guard import NOTES
from lakekeeper.core.vacuum.retention import Kept, Retention, Versions, keep
from lakekeeper.core.vacuum.vacuum_plan import Doomed, Garbage
from lakekeeper.errors import Conflict
from lakekeeper.spi.storage import Storage
from lakekeeper.testing.harness import RUN, ContractTable, Harness, Selected, rewrite, task_for
from lakekeeper.testing.snapshot_contract import KV, keys
from lakekeeper.testing.values import fingerprint

LATER = 10**13
"""A time at which everything that a test of the contract created is old."""


@dataclass(frozen=True)
class Look:
    """All that a vacuum reads before it deletes, where only the newest ``last`` versions are kept."""

    storage: Storage
    versions: Versions
    kept: Kept
    garbage: Garbage

    @property
    def files(self) -> frozenset[str]:
        """Paths of the garbage."""
        return frozenset(dead.path for dead in self.garbage.files)

    def sweep(self) -> set[str]:
        """Expire and delete; returns the deleted paths."""
        again = self.storage.expire(self.versions, self.kept, self.files)
        doomed = [
            Doomed(dead.path, dead.kind, 0, dead.version)
            for dead in self.garbage.files
            if dead.path not in again
        ]
        return set(self.storage.delete(doomed))


def places(paths: Iterable[str]) -> set[str]:
    """Paths without scheme and authority: a log and a listing may spell one path differently."""
    return {re.sub(r"^[A-Za-z][\w+.\-]*:(//[^/]*)?", "", path) for path in paths}


def look(table: ContractTable, *, last: int = 1) -> Look:
    """Read the table as a vacuum does that keeps its newest ``last`` versions."""
    storage = table.adapter().storage
    versions = storage.versions()
    kept = keep("contract", versions, Retention(age_ms=0, last=last, allow_unsafe=True), LATER)
    return Look(storage, versions, kept, storage.garbage(versions, kept))


def data_files(table: ContractTable) -> list[str]:
    """Full paths of the newest version's data files."""
    adapter = table.adapter()
    versions = adapter.storage.versions()
    listed = [info.path for info in adapter.storage.files()]
    named = adapter.storage.named(versions, listed)
    ends = tuple(adapter.snapshot().blocks.path.to_pylist())
    return [path for path in listed if path in named and path.endswith(ends)]


class StorageContract(Selected):
    """What a vacuum relies on."""

    def test_of_many_that_write_one_note_at_once_one_does(self, harness: Harness) -> None:
        """Runs register by such notes: two in one slot would each take the other for dead."""
        writers, notes = 4, 12
        adapters = [harness.create(KV, [keys(1)]).adapter()] * writers
        start = Barrier(writers)

        def write(number: int) -> list[str]:
            kept = []
            for each in range(notes):
                start.wait(60)
                kept.append(
                    adapters[number].notes.keep(f"slots/{each}.json", str(number) * (1 + number * 900))
                )
            return kept

        with ThreadPoolExecutor(writers) as pool:
            answers = list(pool.map(write, range(writers)))
        there = [adapters[0].notes.read(f"slots/{each}.json") for each in range(notes)]
        assert [set(each) for each in zip(*answers, strict=True)] == [{text} for text in there]

    def test_what_no_kept_version_names_is_garbage_and_nothing_else(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 2), keys(3)])
        live = set(data_files(table))
        table.overwrite(keys(4, 5))
        before = look(table, last=2)
        assert not places(before.files) & places(live), "the version before is kept, and names them"
        swept = look(table)
        dead = {d.path for d in swept.garbage.files if d.kind == "data"}
        assert places(dead) == places(live)
        assert all(info is not None and info.bytes > 0 for info in swept.storage.look(sorted(dead)))
        assert places(live) <= places(swept.sweep())
        assert swept.storage.look(sorted(live)) == [None] * len(live)
        assert fingerprint(table.rows()) == fingerprint(keys(4, 5))
        assert table.leftovers() == set()

    def test_versions_that_expire_are_gone(self, harness: Harness) -> None:
        """Else a reader would find a version whose files were deleted. In a linear log, files alone expire."""
        table = harness.create(KV, [keys(1), keys(2)])
        table.overwrite(keys(3))
        swept = look(table)
        swept.sweep()
        left = {version.id for version in table.adapter().storage.versions().items}
        assert swept.kept.gone
        assert swept.versions.linear or left.isdisjoint(swept.kept.gone)
        assert left.issuperset(swept.kept.reasons)

    def test_only_what_the_current_version_reads_is_live(self, harness: Harness) -> None:
        """The files of other versions that the metadata still has may be deleted from the trash."""
        table = harness.create(KV, [keys(1, 2)])
        old = set(data_files(table))
        table.overwrite(keys(4, 5))
        storage, now = table.adapter().storage, set(data_files(table))
        versions = storage.versions()
        assert storage.named(versions, old | now) == old | now
        assert storage.live(versions, old | now) == now
        assert storage.live(versions, ()) == set()

    def test_a_file_that_is_named_again_stays(self, harness: Harness) -> None:
        """A file that a hint names as dead may be live: the list of an earlier vacuum is no proof."""
        table = harness.create(KV, [keys(1), keys(2)])
        at = look(table)
        live = data_files(table)
        hinted = at.storage.garbage(at.versions, at.kept, live)
        assert not places(dead.path for dead in hinted.files) & places(live)

    def test_a_commit_since_the_look_loses_no_row(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 2), keys(3)])
        table.overwrite(keys(4))
        at = look(table)
        table.append(keys(5))
        try:
            at.sweep()
        except Conflict:
            look(table).sweep()
        assert fingerprint(table.rows()) == fingerprint(keys(4, 5))
        assert table.leftovers() == set()

    def test_files_of_a_run_are_found_by_its_folder_and_by_no_other(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 3), keys(2)])
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        made = rewrite(harness, adapter, task_for(snapshot))
        storage = adapter.storage
        run, other = (run_folder(snapshot.table_uuid, each) for each in (RUN, "other-1"))
        left = {info.path for info in storage.left_by([run])}
        assert len(left) >= len(made.outputs) > 0
        assert not list(storage.left_by([other]))
        versions = storage.versions()
        assert storage.named(versions, left) == set()
        listed = {info.path for info in storage.files()}
        assert places(left) <= places(listed)
        assert places(data_files(table)) <= places(listed)
        assert not [path for path in listed if f"/{NOTES}/" in path]
        adapter.discard([made])
        assert not list(storage.left_by([run]))
        storage.forget(run)

    def test_outputs_that_are_gone_are_missing(self, harness: Harness) -> None:
        """The engine checks this before each commit: a version that names a missing file cannot be read."""
        table = harness.create(KV, [keys(1, 3), keys(2)])
        adapter = table.adapter()
        made = rewrite(harness, adapter, task_for(adapter.snapshot(["k"])))
        outputs = [output.path for output in made.outputs]
        inputs = adapter.snapshot().blocks.path.to_pylist()
        assert adapter.storage.missing([*outputs, *inputs]) == set()
        adapter.discard([made])
        assert adapter.storage.missing([*outputs, *inputs]) == set(outputs)
        assert adapter.storage.missing([]) == set()

    def test_only_files_of_the_table_are_deleted_or_moved(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1)])
        other = harness.create(KV, [keys(2)])
        storage, foreign = table.adapter().storage, data_files(other)
        root = storage.grounds.roots[0]
        paths = [*foreign, f"{root}/../x.parquet", root, "x.parquet"]
        assert storage.delete([Doomed(path, "data", 1, 1) for path in paths]) == []
        assert storage.move(dict.fromkeys(foreign, f"{root}/{NOTES}/trash/a/x")) == []
        assert fingerprint(other.rows()) == fingerprint(keys(2))

    def test_files_go_to_the_bin_and_come_back(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1), keys(2)])
        storage = table.adapter().storage
        if storage.refuses_trash():
            return  # on such storage, a vacuum with the trash is refused
        [path, _] = sorted(data_files(table))
        place = f"{storage.grounds.roots[0]}/{NOTES}/trash/entry/x.parquet"
        assert storage.move({path: place}) == [path]
        assert storage.look([path]) == [None]
        assert storage.move({place: path}) == [place]
        assert fingerprint(table.rows()) == fingerprint(keys(1, 2))

    def test_it_is_known_by_its_uuid(self, harness: Harness) -> None:
        table, other = harness.create(KV, [keys(1)]), harness.create(KV, [keys(1)])
        uuids = [each.adapter().snapshot().table_uuid for each in (table, other)]
        storage = table.adapter().storage
        assert storage.same_table(uuids[0], None)
        assert not storage.same_table(uuids[1], None)
        newest = storage.versions().newest
        assert storage.same_table(uuids[0], newest + 9)
        assert not any(storage.same_table(uuids[1], version) for version in (newest, newest + 9, -1))
        assert list(storage.foreign_tables()) == []

    def test_folding_metadata_changes_no_row(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(i) for i in range(4)])
        storage = table.adapter().storage
        before = storage.versions()
        predicted = storage.compact_metadata(dry_run=True)
        assert predicted.version is None
        assert storage.versions().newest == before.newest
        storage.compact_metadata(dry_run=False)
        assert fingerprint(table.rows()) == fingerprint(keys(*range(4)))
