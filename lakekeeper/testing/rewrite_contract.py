"""The contract of ``read``, ``write``, ``commit`` and ``discard`` without rivals: rows stay, files change."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from lakekeeper.errors import Conflict
from lakekeeper.testing.harness import Harness, Selected, needs, recluster, rewrite, task_for
from lakekeeper.testing.snapshot_contract import KV, keys
from lakekeeper.testing.values import fingerprint


class RewriteContract(Selected):
    """What a rewrite does to a table without concurrent writers."""

    def test_read_gives_live_rows_only(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 2, 3), keys(4, 5)])
        table.delete("k = 2")
        table.delete("k = 4")
        adapter = table.adapter()
        made = rewrite(harness, adapter, task_for(adapter.snapshot(["k"])))
        assert made.rows_out == 3
        assert made.rows_in in (3, None)

    def test_no_reader_sees_a_write(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 2), keys(2, 3)])
        adapter = table.adapter()
        snapshot, rows = adapter.snapshot(["k"]), fingerprint(table.rows())
        made = rewrite(harness, adapter, task_for(snapshot))
        assert made.outputs
        assert all(o.rows > 0 and o.bytes > 0 for o in made.outputs)
        now = table.adapter().snapshot(["k"])
        assert now.version == snapshot.version
        assert now.blocks.path.to_pylist() == snapshot.blocks.path.to_pylist()
        assert fingerprint(table.rows()) == rows

    def test_discard_leaves_no_file(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 2), keys(2, 3)])
        adapter = table.adapter()
        made = rewrite(harness, adapter, task_for(adapter.snapshot(["k"])))
        assert len(table.leftovers()) == len(made.outputs)
        adapter.discard([made])
        assert table.leftovers() == set()
        adapter.discard([made])  # gone already: no error
        assert len(table.rows()) == 4

    def test_commit_swaps_files_and_no_rows(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(3, 1), keys(2, 4)])
        rows = fingerprint(table.rows())
        before, commit = recluster(harness, table)
        after = table.adapter().snapshot(["k"])
        assert after.version == commit.version != before.version
        assert set(commit.removed) == set(before.blocks.path.to_pylist())
        assert set(commit.added) == set(after.blocks.path.to_pylist())
        assert fingerprint(table.rows()) == rows
        assert table.leftovers() == set()

    @needs("time_travel")
    def test_older_versions_read_the_same(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(3, 1), keys(2, 4)])
        seen = {}
        steps: tuple[Callable[[], None], ...] = (
            lambda: None,
            lambda: table.append(keys(9, 0)),
            lambda: table.delete("k = 3"),
        )
        for step in steps:
            step()
            version = table.adapter().snapshot(["k"]).version
            seen[version] = fingerprint(table.rows())
        recluster(harness, table)
        table.append(keys(7))
        assert {v: fingerprint(table.rows(v)) for v in seen} == seen

    def test_deleted_rows_are_gone_for_good(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 2, 3), keys(2, 4)])
        table.delete("k = 2")
        rows = fingerprint(table.rows())
        recluster(harness, table)
        blocks = table.adapter().snapshot(["k"]).blocks
        assert fingerprint(table.rows()) == rows
        assert blocks.deleted_rows.sum() == 0
        assert blocks.rows.sum() == 3

    @needs("stores_level")
    def test_outputs_have_their_level_and_key(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(3, 1), keys(2, 4)])
        before, _ = recluster(harness, table, level=3)
        table.append(keys(5))
        after = table.adapter().snapshot(["k"])
        assert before.key is not None
        assert {(b.level, b.key_id) for b in after.blocks} == {(3, before.key.key_id), (0, "")}
        assert sorted(after.blocks.level_under(before.key).tolist()) == [0, 3]
        assert set(after.blocks.level_under(table.adapter().snapshot(["v"]).key).tolist()) == {0}

    @needs("stores_level", "row_deletes")
    def test_levels_outlive_a_row_level_delete(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(3, 1), keys(2, 4)])
        recluster(harness, table, level=2)
        table.delete("k = 1")
        assert {b.level for b in table.adapter().snapshot(["k"]).blocks} == {2}

    @needs("stores_level")
    def test_a_foreign_rewrite_resets_levels(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(3, 1), keys(2, 4)])
        recluster(harness, table, level=2)
        table.append(keys(5))
        table.append(keys(6))
        table.rewrite_foreign()
        (block,) = table.adapter().snapshot(["k"]).blocks
        assert (block.level, block.key_id) == (0, "")
        assert len(table.rows()) == 6

    def test_outputs_are_sorted_cut_and_disjoint(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(*range(0, 40, 2), None), keys(*range(1, 40, 2))])
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        made = rewrite(harness, adapter, task_for(snapshot, target_rows=15))
        assert len(made.outputs) == 3
        assert max(o.rows for o in made.outputs) <= 15
        adapter.commit([made], snapshot, "run-1")
        blocks = sorted(adapter.snapshot(["k"]).blocks, key=lambda b: b.hi)
        assert [b.null_count[0] for b in blocks] in ([1, 0, 0], [1, -1, -1])
        assert all(a.hi < b.lo for a, b in pairwise(blocks))

    def test_partitions_stay_apart(self, harness: Harness) -> None:
        rows = [{"p": p, "k": k, "v": ""} for p in ("x", "y") for k in (1, 2)]
        table = harness.create({"p": "string", **KV}, [rows, rows, rows], partition_by=["p"])
        before = fingerprint(table.rows())
        recluster(harness, table)
        blocks = table.adapter().snapshot(["k"]).blocks
        assert sorted((b.rows, b.partition) for b in blocks) == [(6, p) for p in sorted(blocks.partitions)]
        assert fingerprint(table.rows()) == before

    def test_the_run_id_is_in_the_log(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 2), keys(2, 3)])
        before, commit = recluster(harness, table, run_id="mine-7")
        table.append(keys(4))
        changes = table.adapter().changes_since(before)
        assert changes.landed("mine-7") == commit.version
        assert changes.landed("run-of-nobody") is None

    def test_any_subset_may_be_committed(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 4), keys(2, 3), keys(11, 14), keys(12, 13), keys(20)])
        rows = fingerprint(table.rows())
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        by_lo = {b.lo[0]: b.path for b in snapshot.blocks}
        one = rewrite(harness, adapter, task_for(snapshot, [by_lo[1], by_lo[2]]))
        two = rewrite(harness, adapter, task_for(snapshot, [by_lo[11], by_lo[12]]))
        adapter.commit([two], snapshot, "run-2")
        assert fingerprint(table.rows()) == rows
        adapter.commit([one], snapshot, "run-1")
        assert fingerprint(table.rows()) == rows
        assert len(adapter.snapshot(["k"]).blocks) == 3
        assert table.leftovers() == set()

    def test_several_rewrites_are_one_commit(self, harness: Harness) -> None:
        rows = [{"p": p, "k": k, "v": ""} for p in ("x", "y") for k in (1, 2)]
        table = harness.create({"p": "string", **KV}, [rows, rows], partition_by=["p"])
        before, _ = recluster(harness, table)
        assert len(table.adapter().changes_since(before).winners) == 1

    def test_a_second_commit_of_the_same_rewrite_is_a_conflict(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 2), keys(2, 3)])
        rows = fingerprint(table.rows())
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        made = rewrite(harness, adapter, task_for(snapshot))
        adapter.commit([made], snapshot, "run-1")
        with pytest.raises(Conflict):
            adapter.commit([made], snapshot, "run-2")
        assert fingerprint(table.rows()) == rows
        assert table.leftovers() == set()

    def test_a_rewrite_without_a_key_keeps_all_rows(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(3, 1), keys(2)])
        rows = fingerprint(table.rows())
        adapter = table.adapter()
        snapshot = adapter.snapshot()
        assert snapshot.key is None
        adapter.commit([rewrite(harness, adapter, task_for(snapshot, level=0))], snapshot, "run-1")
        assert fingerprint(table.rows()) == rows
        (block,) = adapter.snapshot().blocks
        assert (block.level, block.key_id) == (0, "")
