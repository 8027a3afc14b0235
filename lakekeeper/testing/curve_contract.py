"""What an adapter must do for keys that follow a curve: keep the layout, keep notes, write narrow files."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from lakekeeper.core.layout.clustering_info import measure
from lakekeeper.core.layout.rank_boundaries import placed
from lakekeeper.core.layout.split_points import curve_cuts
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import ON_CURVE
from lakekeeper.errors import OptionError
from lakekeeper.testing.harness import ContractTable, Harness, Selected, rewrite, task_for
from lakekeeper.testing.values import Row, fingerprint
from lakekeeper.testing.versions import Kinds

AB: Kinds = {"a": "int", "b": "int"}
_SIDE = 100


def scattered(count: int, seed: int = 1) -> list[Row]:
    """Rows at random places in the square."""
    rng = random.Random(seed)
    return [{"a": rng.randrange(_SIDE), "b": rng.randrange(_SIDE)} for _ in range(count)]


def recluster_on_curve(harness: Harness, table: ContractTable) -> Snapshot:
    """Merge all blocks into one sorted run of 16 ranges, by the table's own key; returns the snapshot before."""
    adapter = table.adapter()
    snapshot = placed(adapter.snapshot())
    cuts = curve_cuts(snapshot.blocks, slice(None), 16)
    task = replace(task_for(snapshot), cut_column=ON_CURVE, cuts=cuts)
    adapter.commit([rewrite(harness, adapter, task)], snapshot, "run-1")
    return snapshot


class CurveContract(Selected):
    """Layouts other than linear."""

    def test_a_layout_comes_back_as_it_was_set(self, harness: Harness) -> None:
        table = harness.create(AB, [scattered(3)])
        for layout in ("hilbert", "linear", "zorder", "hilbert"):
            table.adapter().set_cluster_key(["a", "b"], layout)
            assert str(table.adapter().snapshot().key) == f"{'' if layout == 'linear' else layout}(a, b)"
        table.adapter().set_cluster_key(["b"], "linear")
        assert str(table.adapter().snapshot().key) == "(b)"

    def test_one_column_follows_no_curve(self, harness: Harness) -> None:
        table = harness.create(AB, [scattered(3)])
        with pytest.raises(OptionError, match="2 to 4 columns"):
            table.adapter().set_cluster_key(["a"], "hilbert")
        assert table.adapter().snapshot().key is None

    def test_what_is_kept_beside_the_table_stays_and_is_no_part_of_it(self, harness: Harness) -> None:
        table = harness.create(AB, [scattered(3)])
        notes = table.adapter().notes
        assert notes.read("boundaries/k/0.json") is None
        assert notes.keep("boundaries/k/0.json", "first é") == "first é"
        assert notes.keep("boundaries/k/0.json", "second") == "first é"
        assert table.adapter().notes.read("boundaries/k/0.json") == "first é"
        assert notes.read("boundaries/k/1.json") is None
        notes.replace("boundaries/k/0.json", "third")
        notes.replace("boundaries/k/1.json", "new")
        notes.remove("boundaries/k/2.json")  # a missing one is no error
        assert table.adapter().notes.read("boundaries/k/0.json") == "third"
        assert table.adapter().notes.read("boundaries/k/1.json") == "new"
        notes.remove("boundaries/k/1.json")
        assert table.adapter().notes.read("boundaries/k/1.json") is None
        assert table.leftovers() == set()
        assert len(table.rows()) == 3

    @pytest.mark.parametrize("layout", ["zorder", "hilbert"])
    def test_files_are_narrow_in_both_columns(self, harness: Harness, layout: str) -> None:
        table = harness.create(AB, [scattered(400, 1), scattered(400, 2)])
        table.adapter().set_cluster_key(["a", "b"], layout)
        before = fingerprint(table.rows())
        recluster_on_curve(harness, table)
        assert fingerprint(table.rows()) == before
        snapshot = table.adapter().snapshot()
        assert len(snapshot.blocks) >= 12
        for column in (0, 1):
            widths = [block.hi[column] - block.lo[column] for block in snapshot.blocks]
            assert sum(widths) / len(widths) < 0.6 * _SIDE

    def test_one_run_on_the_curve_is_shallow(self, harness: Harness) -> None:
        table = harness.create(AB, [scattered(400, 1), scattered(400, 2)])
        table.adapter().set_cluster_key(["a", "b"], "hilbert")
        before = recluster_on_curve(harness, table)
        after = table.adapter().snapshot()
        kept = placed(replace(after, boundaries=before.boundaries))
        own = kept.blocks.curve_id >= 0
        assert own.all() or not own.any()  # a format either keeps ranges of files or does not
        assert measure(kept).average_depth <= (2.0 if own.all() else 4.0)

    def test_ranges_outlive_a_row_level_delete(self, harness: Harness) -> None:
        table = harness.create(AB, [scattered(400, 1)])
        table.adapter().set_cluster_key(["a", "b"], "hilbert")
        recluster_on_curve(harness, table)
        before = table.adapter().snapshot().blocks
        table.delete("a = 7")
        after = table.adapter().snapshot().blocks
        known = set(before.path.to_pylist())
        spans = set(zip(before.curve_lo.tolist(), before.curve_hi.tolist(), strict=True))
        for path, lo, hi in zip(
            after.path.to_pylist(), after.curve_lo.tolist(), after.curve_hi.tolist(), strict=True
        ):
            assert path not in known or (lo, hi) in spans
