"""The contract of ``deletes.keep`` and ``deletes.tidy``: no more is committed than belongs to the files at hand."""

from __future__ import annotations

from lakekeeper.testing.harness import RUN, Harness, Selected
from lakekeeper.testing.snapshot_contract import KV, keys
from lakekeeper.testing.values import fingerprint


class PreparedContract(Selected):
    """What a delete relies on after another commit, and ``merge_deletes`` after each delete."""

    def test_only_the_part_of_these_files_is_kept(self, harness: Harness) -> None:
        """The part of the other files would be committed although they have changed."""
        table = harness.create(KV, [keys(1, 3), keys(3, 4)])
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        one, _ = sorted(snapshot.blocks.path.to_pylist())
        held = harness.runner.hold(adapter.deletes.find(snapshot, "k = 3"))
        prepared = adapter.deletes.prepare(held, (), snapshot, RUN)
        assert dict(adapter.deletes.keep(prepared, [one], snapshot).rows) == {one: 1}
        assert dict(adapter.deletes.keep(prepared, (), snapshot).rows) == {}
        adapter.deletes.discard([prepared])
        harness.runner.release(held)
        assert table.leftovers() == set()

    def test_tidying_changes_no_row(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 2, 3), keys(4, 5, 6)])
        for where in ("k = 2", "k = 3", "k = 5"):
            table.delete(where)
        adapter = table.adapter()
        done = adapter.deletes.tidy(adapter.snapshot(["k"]), RUN)
        now = table.adapter().version().version
        assert done.version in (None, now)
        assert fingerprint(table.rows()) == fingerprint(keys(1, 4, 6))
