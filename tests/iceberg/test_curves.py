"""Keys along a curve on Iceberg: where the layout is stored, and boxes instead of ranges."""

from __future__ import annotations

import pytest

from lakekeeper.core.layout.rank_boundaries import placed
from tests.iceberg.scene import Scene

pytestmark = pytest.mark.iceberg


def test_a_curve_takes_precedence_over_a_sort_order_until_the_key_is_linear(scene: Scene) -> None:
    scene.create("a INT, b INT").run("ALTER TABLE {t} WRITE ORDERED BY a, b")
    adapter = scene.adapter()
    assert str(adapter.snapshot().key) == "(a, b)"
    adapter.set_cluster_key(["a", "b"], "hilbert")
    assert adapter.properties()["lakekeeper.cluster-by"] == "hilbert(a, b)"
    assert str(scene.adapter().snapshot().key) == "hilbert(a, b)"
    adapter.set_cluster_key(["b", "a"], "linear")
    assert str(scene.adapter().snapshot().key) == "(b, a)"
    assert "lakekeeper.cluster-by" not in scene.adapter().properties()


def test_a_curve_property_with_an_unknown_column_is_reported_and_ignored(scene: Scene) -> None:
    scene.create("a INT, b INT").run(
        "ALTER TABLE {t} SET TBLPROPERTIES ('lakekeeper.cluster-by'='hilbert(a, c)')"
    )
    seen = scene.adapter().snapshot()
    assert seen.key is None
    assert "'c'" in seen.key_problem


def test_files_have_no_range_and_are_placed_by_their_boxes(scene: Scene) -> None:
    scene.create("a INT, b INT").run("INSERT INTO {t} SELECT id, id FROM range(100)")
    adapter = scene.adapter()
    adapter.set_cluster_key(["a", "b"], "hilbert")
    blocks = placed(adapter.snapshot()).blocks
    assert set(blocks.curve_id.tolist()) == {-1}
    assert blocks.curve_lo.min() >= 0
