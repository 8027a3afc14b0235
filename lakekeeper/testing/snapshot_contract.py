"""The contract of ``snapshot``, ``properties`` and ``set_cluster_key``: the snapshot is correct."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lakekeeper.core.model.blocks import UNKNOWN, Block, Snapshot
from lakekeeper.errors import OptionError
from lakekeeper.spi import Adapter
from lakekeeper.testing.contents import contents
from lakekeeper.testing.harness import RUN, Harness, Selected, needs, recluster, task_for
from lakekeeper.testing.samples import SAMPLES
from lakekeeper.testing.values import Row, fingerprint, token
from lakekeeper.testing.versions import Kinds

KV = {"k": "int", "v": "string"}


def keys(*values: Any) -> list[Row]:
    """Rows of a ``k``, ``v`` table."""
    return [{"k": k, "v": f"v{k}"} for k in values]


def read_rows(
    harness: Harness, adapter: Adapter[Any], snapshot: Snapshot, paths: list[str] | None = None
) -> int:
    """The number of live rows that a task over the blocks reads, as its rewrite reports it."""
    task = task_for(snapshot, paths)
    made = adapter.write(harness.runner.merge(adapter.read(task), task), task, RUN)
    adapter.discard([made])
    return made.rows_out


class SnapshotContract(Selected):
    """What a snapshot must say of a table that writers, not lakekeeper, filled."""

    def test_capabilities_are_as_declared(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1)])
        assert table.adapter().capabilities == self.capabilities

    def test_snapshot_has_one_block_for_each_file(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 5, 3), keys(2), keys(9, 8)])
        blocks = table.adapter().snapshot(["k"]).blocks
        assert sorted(blocks.rows.tolist()) == [1, 2, 3]
        assert len(set(blocks.path.to_pylist())) == 3
        assert (blocks.bytes > 0).all()
        assert blocks.deleted_rows.tolist() == [0, 0, 0]
        assert blocks.delete_id.to_pylist() == ["", "", ""]
        assert {(b.lo, b.hi) for b in blocks} == {((1,), (5,)), ((2,), (2,)), ((8,), (9,))}

    def test_empty_table_has_no_blocks(self, harness: Harness) -> None:
        snapshot = harness.create(KV, []).adapter().snapshot(["k"])
        assert len(snapshot.blocks) == 0
        assert snapshot.complete

    def test_all_rows_deleted_leaves_nothing_alive(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 2), keys(3)])
        table.delete("k >= 0")
        blocks = table.adapter().snapshot(["k"]).blocks
        assert (blocks.rows - blocks.deleted_rows).sum() == 0

    def test_bounds_hold_all_values_of_every_kind(self, harness: Harness) -> None:
        assert self.kinds, "declare the orderable kinds in `kinds`"
        for kind in self.kinds:
            values = list(SAMPLES[kind])
            batches = [values[::2], [*values[1::2], None], values[-1:], [None]]
            table = harness.create(
                {"k": kind, "n": "int"}, [[{"k": v, "n": len(b)} for v in b] for b in batches]
            )
            snapshot = table.adapter().snapshot(["k"])
            for block in snapshot.blocks:
                # The batches differ in length, except for the last two, of which only one has bounds.
                held = [
                    b for b in batches if len(b) == block.rows and (b != [None] or block.null_count[0] == 1)
                ]
                assert any(self._covers(block, batch) for batch in held), (kind, block)

    def _covers(self, block: Block, values: list[Any]) -> bool:
        nulls = sum(v is None for v in values)
        if block.null_count[0] not in (nulls, UNKNOWN):
            return False
        lo, hi = block.lo[0], block.hi[0]
        if lo is None or hi is None:
            # Without bounds, all values are NULL or statistics are missing: the range is wide, which is allowed.
            return nulls == len(values) or block.null_count[0] == nulls or block.null_count[0] == UNKNOWN
        return all(token(lo) <= token(v) <= token(hi) for v in values if v is not None)

    def test_exact_bounds_are_the_values_themselves(self, harness: Harness) -> None:
        for kind in self.kinds:
            low, high = SAMPLES[kind][0], SAMPLES[kind][-1]
            table = harness.create({"k": kind}, [[{"k": high}, {"k": low}]])
            (block,) = table.adapter().snapshot(["k"]).blocks
            if block.exact[0] and block.lo[0] is not None:
                assert (token(block.lo[0]), token(block.hi[0])) == (token(low), token(high)), kind

    def test_new_blocks_are_of_level_0_and_no_key(self, harness: Harness) -> None:
        blocks = harness.create(KV, [keys(1), keys(2)]).adapter().snapshot(["k"]).blocks
        assert {(b.level, b.key_id) for b in blocks} == {(0, "")}

    def test_partitions_are_kept_apart(self, harness: Harness) -> None:
        rows = [{"p": p, "k": k, "v": ""} for p in ("x", "y") for k in (1, 2)]
        table = harness.create({"p": "string", **KV}, [rows, rows], partition_by=["p"])
        blocks = table.adapter().snapshot(["k"]).blocks
        assert len(blocks) == 4
        assert np.bincount(blocks.partition).tolist() == [2, 2]
        assert all("x" in text or "y" in text for text in blocks.partitions)

    @needs("row_deletes")
    def test_row_level_deletes_are_seen(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 2, 3, 4), keys(10, 11)])
        before = {b.path: b for b in table.adapter().snapshot(["k"]).blocks}
        table.delete("k = 2")
        snapshot = table.adapter().snapshot(["k"])
        touched = [b for b in snapshot.blocks if b.delete_id != before[b.path].delete_id]
        assert [(b.rows, b.deleted_rows) for b in touched] in ([(4, 1)], [(4, UNKNOWN)])
        assert {b.path for b in snapshot.blocks} == set(before)

    def test_a_snapshot_is_pinned(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 2), keys(3)])
        adapter = table.adapter()
        pinned = adapter.snapshot(["k"])
        paths = pinned.blocks.path.to_pylist()
        table.append(keys(4))
        table.delete("k = 1")
        assert pinned.blocks.path.to_pylist() == paths
        assert read_rows(harness, adapter, pinned) == 3
        assert adapter.snapshot(["k"]).version != pinned.version

    def test_a_version_is_that_of_the_snapshot_without_its_blocks(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 2)])
        adapter = table.adapter()
        seen, whole = adapter.version(), adapter.snapshot(["k"])
        for name in ("table", "format", "version", "table_uuid", "schema_id", "properties"):
            assert getattr(seen, name) == getattr(whole, name), name
        assert (len(seen.blocks), seen.key, seen.complete) == (0, None, False)
        table.append(keys(4))
        table.delete("k = 1")
        changes = adapter.changes_since(seen)
        assert changes.version == adapter.version().version
        assert (len(changes.winners), changes.obstacle) == (2, None)

    def test_a_refreshed_snapshot_is_what_a_whole_read_shows(self, harness: Harness) -> None:
        rows = [[{"p": p, "k": k, "v": f"{'x' * 40}{k}"} for k in (i, i + 7) for p in "xy"] for i in range(3)]
        table = harness.create({"p": "string", **KV}, rows, partition_by=["p"])
        adapter = table.adapter()
        for columns in (["k"], ["v", "k"], None):
            snapshot = adapter.snapshot(columns)
            assert adapter.refresh(snapshot, columns) is snapshot, "nothing has changed"
            for change in (
                lambda: table.append([{"p": "z", "k": 1, "v": "new"}]),
                lambda: table.delete("k = 7"),
                lambda: recluster(harness, table, columns=["k"], level=1),
                lambda: table.append([{"p": "x", "k": None, "v": None}]),
                lambda: table.set_property("lakekeeper.depth-threshold", "3"),
                lambda: adapter.set_cluster_key(["k"]),
                lambda: adapter.set_cluster_key([]),
            ):
                change()
                found = adapter.refresh(snapshot, columns)
                whole = adapter.snapshot(columns)
                if found is not None:
                    assert contents(found) == contents(whole)
                snapshot = found or whole

    def test_where_keeps_every_block_that_may_match(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(0, 5), keys(4, 9), keys(10, 19), keys(None)])
        adapter = table.adapter()
        whole = {b.path: b for b in adapter.snapshot(["k"]).blocks}
        for where, wanted in (
            ("k = 4", {(0, 5), (4, 9)}),
            ("k >= 10", {(10, 19)}),
            ("k < 5 and k > 3", {(0, 5), (4, 9)}),
            ("k is null", {(None, None)}),
        ):
            chosen = adapter.snapshot(["k"], where)
            assert contents(adapter.matching(adapter.snapshot(["k"]), where)) == contents(chosen)
            kept = {(whole[b.path].lo[0], whole[b.path].hi[0]) for b in chosen.blocks}
            assert kept >= wanted, where
            assert not chosen.complete
        assert adapter.snapshot(["k"]).complete

    def test_where_leaves_out_what_cannot_match(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(0, 5), keys(10, 19), keys(20, 29)])
        chosen = table.adapter().snapshot(["k"], "k >= 10 and k <= 15").blocks
        assert [(b.lo, b.hi) for b in chosen] == [((10,), (19,))]

    def test_a_snapshot_is_narrowed_as_it_was_when_it_was_read(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(0, 5), keys(10, 19)])
        adapter = table.adapter()
        before = adapter.snapshot(["k"])
        table.append(keys(12))
        table.delete("k = 10")
        part = adapter.matching(before, "k >= 10")
        assert [(b.lo, b.hi, b.deleted_rows) for b in part.blocks] == [((10,), (19,), 0)]
        assert (part.version, part.complete) == (before.version, False)

    def test_an_unknown_column_names_the_nearest(self, harness: Harness) -> None:
        adapter = harness.create({"user_id": "int", "v": "string"}, []).adapter()
        with pytest.raises(OptionError, match="user_id"):
            adapter.snapshot(["user_ids"])
        with pytest.raises(OptionError, match="user_id"):
            adapter.set_cluster_key(["user_ids"], "linear")

    def test_properties_are_those_of_now(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1)])
        adapter = table.adapter()
        assert "lakekeeper.depth-threshold" not in adapter.properties()
        table.set_property("lakekeeper.depth-threshold", "3")
        assert adapter.properties()["lakekeeper.depth-threshold"] == "3"
        assert adapter.snapshot(["k"]).properties["lakekeeper.depth-threshold"] == "3"

    def test_a_cluster_key_comes_back_as_it_was_set(self, harness: Harness) -> None:
        kinds: Kinds = {"k": "int", "a": {"b": "string", "y.z": "int"}, "with space": "int"}
        table = harness.create(kinds, [[{"k": 1, "a": {"b": "x", "y.z": 2}, "with space": 3}]])
        assert table.adapter().snapshot().key is None
        for names in (["k"], ["a.b", "k"], ["a.`y.z`"], ["`with space`", "a.b"]):
            table.adapter().set_cluster_key(names, "linear")
            key = table.adapter().snapshot().key
            assert key is not None
            assert [c.name for c in key.columns] == names
            assert key == table.adapter().snapshot(names).key
        predicted = table.adapter().set_cluster_key([], dry_run=True)
        assert (predicted.key_before, predicted.key_after) == (str(key), "")
        assert table.adapter().snapshot().key == key
        table.adapter().set_cluster_key([])
        assert table.adapter().snapshot().key is None

    def test_bounds_of_nested_and_dotted_columns(self, harness: Harness) -> None:
        kinds: Kinds = {"a": {"b": "string", "y.z": "int"}}
        table = harness.create(kinds, [[{"a": {"b": "x", "y.z": 2}}, {"a": {"b": "q", "y.z": 7}}]])
        (block,) = table.adapter().snapshot(["a.`y.z`", "a.b"]).blocks
        assert (block.lo, block.hi) == ((2, "q"), (7, "x"))

    def test_columns_of_a_call_override_the_stored_key(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 2)])
        table.adapter().set_cluster_key(["k"], "linear")
        snapshot = table.adapter().snapshot(["v", "k"])
        assert snapshot.key is not None
        assert [c.name for c in snapshot.key.columns] == ["v", "k"]

    def test_setting_a_key_changes_no_row(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 2), keys(3)])
        before = fingerprint(table.rows())
        files = table.adapter().snapshot(["k"]).blocks.path.to_pylist()
        table.adapter().set_cluster_key(["k"], "linear")
        assert fingerprint(table.rows()) == before
        assert sorted(table.adapter().snapshot().blocks.path.to_pylist()) == sorted(files)
