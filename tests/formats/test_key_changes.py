"""Another cluster key or layout on a table that is already clustered, measured by the files that Spark opens."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean
from typing import Any

import pytest

from lakekeeper.engine.merge.boundary_store import note_name
from tests.formats.lakes import Lake
from tests.oracles.files_read import files_read

FILES, ROWS, SIDE = 2, 16_000, 1000
SMALL: dict[str, Any] = {
    "target-file-size-bytes": 1 << 20,
    "max-rows-per-file": 1000,
    "depth-threshold": 1,
    "policy": "ranges",
}


@dataclass(frozen=True)
class Key:
    layout: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.layout}({','.join(self.columns)})"

    @property
    def text(self) -> str:
        """The key as an argument of ``columns=``."""
        return f"{self.layout}({', '.join(self.columns)})"


HILBERT_AB, ZORDER_AB = Key("hilbert", ("a", "b")), Key("zorder", ("a", "b"))
LINEAR_AB, LINEAR_C, HILBERT_BC = Key("linear", ("a", "b")), Key("linear", ("c",)), Key("hilbert", ("b", "c"))
PAIRS = [
    (LINEAR_AB, HILBERT_AB, "b"),
    (HILBERT_AB, LINEAR_AB, "a"),
    (HILBERT_AB, LINEAR_C, "c"),
    (HILBERT_AB, HILBERT_BC, "c"),
    (ZORDER_AB, HILBERT_BC, "c"),
    (ZORDER_AB, LINEAR_C, "c"),
]
"""The key that the files are clustered by, the requested key, and the column that benefits."""
USUAL = [PAIRS[2]]
"""The pair that runs by default: a curve before, another column after."""
KIND = pytest.mark.parametrize(
    "lake",
    [
        pytest.param("delta", marks=pytest.mark.delta),
        pytest.param("iceberg-v2", marks=[pytest.mark.iceberg, pytest.mark.deep]),
        pytest.param("iceberg-v3", marks=pytest.mark.iceberg),
    ],
    indirect=True,
)


def clustered(lake: Lake, key: Key) -> str:
    """A table whose files were written in one sorted run of ``key``."""
    name = lake.create("id bigint, a int, b int, c int, v string")
    for i in range(FILES):
        made = lake.spark.range(i * ROWS, (i + 1) * ROWS).selectExpr(
            "id",
            *(f"cast(pmod(hash(id + {7 * n}), {SIDE}) as int) as {c}" for n, c in enumerate("abc")),
            "md5(cast(id as string)) as v",
        )
        lake.append(name, made)
    assert lake.table(name).recluster(key.text, policy="full", options=SMALL).commits == 1
    return name


def opened(lake: Lake, name: str, column: str) -> float:
    """The average number of files that Spark opens for 1% of the column's values."""
    starts = range(5, SIDE - 10, 240)
    return mean(
        files_read(lake.spark, f"SELECT v FROM {name} WHERE {column} BETWEEN {s} AND {s + 9}") for s in starts
    )


@KIND
@pytest.mark.parametrize(
    "under, wanted, column",
    [pytest.param(*pair, marks=() if pair in USUAL else pytest.mark.deep) for pair in PAIRS],
    ids=str,
)
def test_recluster_moves_the_table_to_another_key(lake: Lake, under: Key, wanted: Key, column: str) -> None:
    name = clustered(lake, under)
    table, rows = lake.table(name), lake.fingerprint(name)
    count = table.blocks().count()
    assert count >= 12
    before = opened(lake, name, column)
    own = table.clustering_information(under.text).average_depth
    deep = table.clustering_information(wanted.text)
    assert own < 5  # Iceberg stores no ranges on a curve, so this is the depth of the boxes
    assert deep.average_depth > 2 * own
    assert set(deep.levels) == {0}
    table.cluster_by(*wanted.columns, layout=wanted.layout)
    plan = table.plan(options=SMALL)
    assert plan.tasks
    assert plan.prediction is not None
    if wanted.layout == "linear":
        assert plan.prediction.worth.before.files == pytest.approx(before, rel=0.25)
    report = table.recluster(final=True, options=SMALL)
    assert report.changed
    assert report.files_per_query_after is not None
    after = opened(lake, name, column)
    assert after < 0.7 * before
    information = lake.table(name).clustering_information()
    assert information.average_depth < 4
    assert lake.fingerprint(name) == rows
    if wanted.layout == "linear":
        assert report.files_per_query_after == pytest.approx(after, abs=1.0)
    assert not lake.table(name).recluster(final=True, options=SMALL).changed


@KIND
def test_ranges_of_lost_boundaries_are_ignored(lake: Lake) -> None:
    """New boundaries for the same key, as after a loss of the notes beside the table."""
    name = clustered(lake, HILBERT_AB)
    table, rows = lake.table(name), lake.fingerprint(name)
    before = table.clustering_information(HILBERT_AB.text)
    (key_id,) = {row["key_id"] for row in table.blocks().collect()}
    notes, kept = lake.adapter(name).notes, note_name(key_id, 0)
    assert notes.read(kept) is not None
    notes.remove(kept)
    made = lake.spark.range(ROWS).selectExpr(
        "id", "cast(5 * id as int) as a", "cast(id * 3 as int) as b", "1 as c", "'x' as v"
    )
    lake.append(name, made)
    after = lake.table(name).clustering_information(HILBERT_AB.text)
    assert after.average_depth > before.average_depth
    assert f"{after.total_partition_count} blocks by their bounding boxes" in after.notes
    changed = lake.table(name).recluster(HILBERT_AB.text, final=True, options=SMALL)
    assert changed.ended.code in ("nothing_left", "nothing_to_do")
    assert lake.fingerprint(name)[0] == rows[0] + ROWS
