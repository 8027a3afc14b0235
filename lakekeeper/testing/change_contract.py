"""The contract of commits on a table whose columns were changed, or that was restored, since the snapshot."""

from __future__ import annotations

from contextlib import suppress

import pytest

from lakekeeper.core.model.run_name import RunName
from lakekeeper.errors import Conflict, UndoError, Unsupported
from lakekeeper.spi import Reversal
from lakekeeper.testing.delete_contract import delete
from lakekeeper.testing.harness import RUN, Harness, Selected, needs, recluster, rewrite, task_for
from lakekeeper.testing.optional_methods import extra
from lakekeeper.testing.snapshot_contract import KV, keys
from lakekeeper.testing.undo_contract import UNDO
from lakekeeper.testing.values import fingerprint

BATCHES = [keys(1, 4), keys(2, 3)]


class ChangeContract(Selected):
    """What an adapter does after a change that it did not prepare for."""

    @needs("drop_column")
    def test_a_key_whose_column_was_dropped_is_an_obstacle(self, harness: Harness) -> None:
        """The files were sorted by a column that no reader knows any more."""
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        made = rewrite(harness, adapter, task_for(snapshot))
        extra(table).drop_column("k")
        rows = fingerprint(table.rows())
        assert adapter.changes_since(snapshot).obstacle
        with pytest.raises(Conflict):
            adapter.commit([made], snapshot, RUN)
        adapter.discard([made])
        assert fingerprint(table.rows()) == rows
        assert table.leftovers() == set()

    @needs("add_column")
    def test_a_new_column_is_an_obstacle_or_makes_no_difference(self, harness: Harness) -> None:
        """A format whose files name columns by ids may commit files of the columns before."""
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        made = rewrite(harness, adapter, task_for(snapshot))
        extra(table).add_column("added", "int")
        rows = fingerprint(table.rows())
        if adapter.changes_since(snapshot).obstacle:
            with pytest.raises(Conflict):
                adapter.commit([made], snapshot, RUN)
            adapter.discard([made])
        else:
            adapter.commit([made], snapshot, RUN)
        assert fingerprint(table.rows()) == rows
        assert table.leftovers() == set()

    @needs("add_column")
    def test_no_undo_is_committed_after_a_change_of_the_columns(self, harness: Harness) -> None:
        """It was not checked against them. A new search may find that the run can be undone all the same."""
        table = harness.create(KV, BATCHES)
        recluster(harness, table)
        undos = table.adapter().undos
        found = undos.find(RunName.parse(RUN))
        assert isinstance(found, Reversal)
        extra(table).add_column("added", "int")
        rows, files = fingerprint(table.rows()), sorted(table.adapter().snapshot().blocks.path.to_pylist())
        with pytest.raises(Conflict):
            undos.commit(found, UNDO)
        assert sorted(table.adapter().snapshot().blocks.path.to_pylist()) == files
        with suppress(UndoError):
            again = undos.find(RunName.parse(RUN))
            assert isinstance(again, Reversal)
            undos.commit(again, UNDO)
        assert fingerprint(table.rows()) == rows

    @needs("drop_column")
    def test_rows_are_not_restored_without_a_column_that_they_had(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        report = delete(harness, adapter, "k = 3")
        assert report.version_after is not None
        then, _ = adapter.restores.around(report.version_after, "k = 3", report.version_after)
        extra(table).drop_column("v")
        rows = fingerprint(table.rows())
        held = harness.runner.hold(adapter.deletes.find(then, "k = 3"))
        with pytest.raises(Unsupported):
            adapter.restores.copy(held, (), then, "back-1")
        harness.runner.release(held)
        assert fingerprint(table.rows()) == rows
        assert table.leftovers() == set()

    @needs("restore_version")
    def test_rows_that_a_restore_of_the_format_brought_back_are_not_added_again(
        self, harness: Harness
    ) -> None:
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        before = adapter.version().version
        assert before is not None
        report = delete(harness, adapter, "k = 3")
        assert report.version_after is not None
        extra(table).restore_version(before)
        assert len(table.rows()) == 4
        with pytest.raises(Unsupported):
            adapter.restores.around(report.version_after, "k = 3", report.version_after)
