"""The contract of ``commit`` and ``changes_since`` against concurrent writers: users win, and no row is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakekeeper.core.planning.rebase import rebase
from lakekeeper.errors import Conflict
from lakekeeper.testing.harness import ContractTable, Harness, Selected, recluster, rewrite, task_for
from lakekeeper.testing.snapshot_contract import KV, keys
from lakekeeper.testing.values import fingerprint

BATCHES = [keys(1, 4), keys(2, 3), keys(11, 14), keys(12, 13)]
LOW, HIGH = {1, 2}, {11, 12}  # the lower bounds of two groups


class RaceContract(Selected):
    """What a rewrite does to a table when another writer commits between its snapshot and its commit."""

    def test_an_append_between_is_no_conflict(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        made = rewrite(harness, adapter, task_for(snapshot))
        table.append(keys(3, 99))
        rows = fingerprint(table.rows())
        assert rebase([made], adapter.changes_since(snapshot)).keep == (made,)
        adapter.commit([made], snapshot, "run-1")
        assert fingerprint(table.rows()) == rows
        assert len(table.rows()) == 10
        assert table.leftovers() == set()

    @pytest.mark.parametrize(
        "rival",
        [
            pytest.param(lambda table: table.delete("k = 3"), id="delete of a row"),
            pytest.param(lambda table: table.delete("k <= 4"), id="delete of whole files"),
            pytest.param(lambda table: table.overwrite(keys(50)), id="overwrite"),
            pytest.param(lambda table: table.rewrite_foreign(), id="foreign rewrite"),
        ],
    )
    def test_a_rival_that_touches_an_input_wins(
        self, harness: Harness, rival: Callable[[ContractTable], None]
    ) -> None:
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        made = rewrite(harness, adapter, task_for(snapshot))
        rival(table)
        rows, version = fingerprint(table.rows()), adapter.snapshot(["k"]).version
        with pytest.raises(Conflict) as lost:
            adapter.commit([made], snapshot, "run-1")
        assert lost.value.winner
        assert fingerprint(table.rows()) == rows
        assert adapter.snapshot(["k"]).version == version
        assert rebase([made], adapter.changes_since(snapshot)).keep == ()
        # A rival may leave an empty file of its own behind; all of our files are removed, and no others.
        with_ours = table.leftovers()
        adapter.discard([made])
        assert len(with_ours - table.leftovers()) == len(made.outputs)
        assert table.leftovers() <= with_ours

    def test_only_the_touched_group_has_to_be_replayed(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        low, high = (
            rewrite(
                harness, adapter, task_for(snapshot, [b.path for b in snapshot.blocks if b.lo[0] in group])
            )
            for group in (LOW, HIGH)
        )
        table.delete("k = 3")
        rows = fingerprint(table.rows())
        with pytest.raises(Conflict):
            adapter.commit([low, high], snapshot, "run-1")
        left = rebase([low, high], adapter.changes_since(snapshot))
        assert left.keep == (high,)
        gone = [*left.replay, *(d.rewrite for d in left.drop)]
        assert gone == [low]
        adapter.discard([low])
        adapter.commit(left.keep, snapshot, "run-2")
        assert fingerprint(table.rows()) == rows
        assert table.leftovers() == set()

    def test_a_delete_elsewhere_is_no_conflict(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        low = rewrite(
            harness, adapter, task_for(snapshot, [b.path for b in snapshot.blocks if b.lo[0] in LOW])
        )
        table.delete("k = 13")
        rows = fingerprint(table.rows())
        adapter.commit([low], snapshot, "run-1")
        assert fingerprint(table.rows()) == rows
        assert table.leftovers() == set()

    def test_a_delete_after_our_commit_takes_rows_of_our_files(self, harness: Harness) -> None:
        """The other order: we commit first, the rival second."""
        table = harness.create(KV, BATCHES)
        recluster(harness, table)
        table.delete("k = 3")
        assert fingerprint(table.rows()) == fingerprint(keys(1, 4, 2, 11, 14, 12, 13))

    def test_of_two_rewrites_of_one_file_the_first_wins(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        rows = fingerprint(table.rows())
        mine, theirs = table.adapter(), table.adapter()
        at_mine, at_theirs = mine.snapshot(["k"]), theirs.snapshot(["k"])
        made_mine = rewrite(harness, mine, task_for(at_mine))
        made_theirs = rewrite(harness, theirs, task_for(at_theirs))
        theirs.commit([made_theirs], at_theirs, "run-theirs")
        with pytest.raises(Conflict) as lost:
            mine.commit([made_mine], at_mine, "run-mine")
        assert lost.value.winner
        mine.discard([made_mine])
        assert fingerprint(table.rows()) == rows
        assert table.leftovers() == set()

    def test_changes_show_what_happened_to_blocks(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        quiet = adapter.changes_since(snapshot)
        assert (quiet.version, quiet.winners, quiet.removed, dict(quiet.delete_ids)) == (
            snapshot.version, (), frozenset(), {}
        )  # fmt: skip
        by_lo = {b.lo[0]: b.path for b in snapshot.blocks}
        table.append(keys(50))
        table.delete("k >= 11 and k <= 14")
        table.delete("k = 3")
        changes = adapter.changes_since(snapshot)
        now = adapter.snapshot(["k"])
        assert changes.version == now.version
        assert len(changes.winners) == 3
        assert not changes.obstacle
        gone, alive = changes.removed, {b.path: b.delete_id for b in now.blocks}
        changed = {path: alive[path] for path in by_lo.values() if alive.get(path)}
        assert gone == set(by_lo.values()) - set(alive)
        assert dict(changes.delete_ids) == changed
        assert gone | set(changed) >= {by_lo[2], by_lo[11], by_lo[12]}
        assert by_lo[1] not in gone | set(changed)

    def test_a_commit_of_ours_after_theirs_is_in_the_changes(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        first = adapter.snapshot(["k"])
        recluster(harness, table, run_id="other-3")
        changes = adapter.changes_since(first)
        assert [w.run_id for w in changes.winners] == ["other-3"]
        assert changes.removed == set(first.blocks.path.to_pylist())
