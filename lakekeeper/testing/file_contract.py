"""The contract of ``storage`` on single files: no file is overwritten, none counts as gone that is not."""

from __future__ import annotations

from lakekeeper.core.vacuum.path_guard import NOTES
from lakekeeper.core.vacuum.vacuum_plan import Doomed
from lakekeeper.testing.harness import Harness, Selected, needs
from lakekeeper.testing.optional_methods import extra
from lakekeeper.testing.snapshot_contract import KV, keys
from lakekeeper.testing.storage_contract import data_files, look
from lakekeeper.testing.values import fingerprint


class FileContract(Selected):
    """What a vacuum relies on when it moves, deletes and lists files."""

    def test_a_move_never_overwrites_a_file(self, harness: Harness) -> None:
        """Neither on the way into the trash nor on the way back."""
        table = harness.create(KV, [keys(1), keys(2)])
        storage = table.adapter().storage
        if storage.refuses_trash():
            return  # on such storage, a vacuum with the trash is refused
        one, two = sorted(data_files(table))
        place = f"{storage.grounds.roots[0]}/{NOTES}/trash/entry/x.parquet"
        assert storage.move({one: place}) == [one]
        assert storage.move({two: place}) == []
        assert storage.move({place: two}) == []
        assert storage.move({place: one}) == [place]
        assert fingerprint(table.rows()) == fingerprint(keys(1, 2))

    @needs("protect_file")
    def test_a_file_that_is_left_is_not_reported_as_gone(self, harness: Harness) -> None:
        """The engine forgets files that are gone: one that was left would never be deleted."""
        table = harness.create(KV, [keys(1), keys(2)])
        kept, gone = sorted(data_files(table))
        table.overwrite(keys(3))
        at = look(table)
        extra(table).protect_file(kept)
        at.storage.expire(at.versions, at.kept, at.files)
        assert at.storage.delete([Doomed(path, "data", 1, 1) for path in (kept, gone)]) == [gone]
        left, none = at.storage.look([kept, gone])
        assert left is not None
        assert none is None

    def test_only_files_of_the_formats_writers_are_recognised(self, harness: Harness) -> None:
        """A vacuum of orphans deletes what is recognised and not named: a user's own file must stay."""
        table = harness.create(KV, [keys(1), keys(2)])
        storage, data = table.adapter().storage, set(data_files(table))
        root = storage.grounds.roots[0]
        own = {f"{root}/README.txt", f"{root}/photos/2024/beach.jpg", f"{root}/export.csv"}
        assert storage.recognised(data | own) == data
        assert storage.recognised(()) == set()

    @needs("create_inside")
    def test_a_table_inside_the_table_is_found(self, harness: Harness) -> None:
        """No version of this table names the files of the other one, so they would count as orphans."""
        table = harness.create(KV, [keys(1)])
        assert list(table.adapter().storage.foreign_tables()) == []
        extra(table).create_inside()
        assert list(table.adapter().storage.foreign_tables()) != []
