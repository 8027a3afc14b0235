"""The contract of ``undos``: the files that a run replaced come back as they were, and no later commit is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.run_name import RunName
from lakekeeper.errors import Conflict, NotFound, UndoError
from lakekeeper.spi import Reversal, Undone
from lakekeeper.testing.harness import RUN, ContractTable, Harness, Selected, recluster
from lakekeeper.testing.snapshot_contract import KV, keys
from lakekeeper.testing.values import fingerprint

BATCHES = [keys(1, 4), keys(2, 3), keys(5, 9)]
NAME = RunName.parse(RUN)
UNDO = NAME.undo_id


def layout(snapshot: Snapshot) -> set[tuple[object, ...]]:
    """What a reader sees of each file."""
    return {(b.path, b.delete_id, b.rows, b.deleted_rows, b.bytes, b.partition) for b in snapshot.blocks}


def undone(table: ContractTable) -> Reversal:
    """Find the run, and undo it."""
    undos = table.adapter().undos
    found = undos.find(NAME)
    assert isinstance(found, Reversal)
    undos.commit(found, UNDO)
    assert undos.landed(found, UNDO) == table.adapter().version().version
    return found


class UndoContract(Selected):
    """What an undo does to a table, and what it must never do."""

    def test_an_undo_brings_back_the_files_and_their_deletes(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        table.delete("k = 3")
        before, rows = layout(table.adapter().snapshot()), fingerprint(table.rows())
        recluster(harness, table)
        made = {block.path: block.bytes for block in table.adapter().snapshot().blocks}
        found = undone(table)
        assert layout(table.adapter().snapshot()) == before
        assert fingerprint(table.rows()) == rows
        assert found.removed == made
        assert found.restored == {path: size for path, _, _, _, size, _ in before}
        assert table.leftovers() == set()

    def test_a_run_is_undone_once(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        recluster(harness, table)
        undone(table)
        now = table.adapter().version().version
        assert table.adapter().undos.find(NAME) == Undone(now if now is not None else -1)

    def test_what_a_later_commit_added_stays(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        recluster(harness, table)
        table.append(keys(77))
        rows = fingerprint(table.rows())
        try:
            undone(table)
        except UndoError:
            return  # such a format can only roll back as a whole, which must be refused here
        assert fingerprint(table.rows()) == rows

    @pytest.mark.parametrize(
        "later",
        [
            pytest.param(lambda table: table.delete("k = 3"), id="delete of a row"),
            pytest.param(lambda table: table.delete("k > 0"), id="delete of all rows"),
            pytest.param(lambda table: table.overwrite(keys(50)), id="overwrite"),
            pytest.param(
                lambda table: [table.append(keys(1)), table.rewrite_foreign()], id="foreign rewrite"
            ),
        ],
    )
    def test_a_later_change_of_its_files_wins(
        self, harness: Harness, later: Callable[[ContractTable], object]
    ) -> None:
        """A later commit at both times: before the run is looked up, and between the lookup and the commit."""
        table = harness.create(KV, BATCHES)
        recluster(harness, table)
        found = table.adapter().undos.find(NAME)
        assert isinstance(found, Reversal)
        later(table)
        rows, version = fingerprint(table.rows()), table.adapter().version().version
        with pytest.raises(Conflict):
            table.adapter().undos.commit(found, UNDO)
        with pytest.raises(UndoError):
            table.adapter().undos.find(NAME)
        assert fingerprint(table.rows()) == rows
        assert table.adapter().version().version == version
        assert table.adapter().undos.landed(found, UNDO) is None

    def test_an_unknown_run_is_not_found(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        with pytest.raises(NotFound):
            table.adapter().undos.find(RunName("other", "1"))
