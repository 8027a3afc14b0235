"""Keys along a curve on real tables: what a user gains, and what must not change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.formats.lakes import Lake

SMALL: dict[str, Any] = {"target-file-size-bytes": 20_000}
FILES, ROWS, SIDE = 4, 3000, 1000


def grid(lake: Lake) -> str:
    """Files that each hold points from the whole square."""
    name = lake.create("id bigint, a int, b int, v string")
    for i in range(FILES):
        made = lake.spark.range(i * ROWS, (i + 1) * ROWS).selectExpr(
            "id",
            f"cast(pmod(hash(id), {SIDE}) as int) as a",
            f"cast(pmod(hash(id + 7), {SIDE}) as int) as b",
            "md5(cast(id as string)) as v",
        )
        lake.append(name, made)
    return name


def files_of(lake: Lake, name: str, column: str) -> float:
    """The average number of files that hold a value of a 1% range of the column: the minimum that a reader opens."""
    rows = f"SELECT {column} AS c, input_file_name() AS file FROM {name}"
    bounds = lake.spark.sql(f"SELECT min(c) AS lo, max(c) AS hi FROM ({rows}) GROUP BY file").collect()
    starts = range(0, SIDE - 10, 45)
    return sum(sum(r["hi"] >= s and r["lo"] <= s + 10 for r in bounds) for s in starts) / len(starts)


def test_a_hilbert_key_serves_the_second_column_and_converges(lake: Lake) -> None:
    linear, curved = grid(lake), grid(lake)
    lake.table(linear).cluster_by("a", "b")
    lake.table(linear, hours=1).recluster(options=SMALL)
    table = lake.table(curved, hours=1)
    table.cluster_by("a", "b", layout="hilbert")
    rows = lake.fingerprint(curved)
    report = table.recluster(options=SMALL)
    assert report.commits == 1
    assert lake.fingerprint(curved) == rows
    assert files_of(lake, curved, "b") < 0.7 * files_of(lake, linear, "b")
    information = lake.table(curved).clustering_information()
    assert information.cluster_by_keys == "hilbert(a, b)"
    assert information.average_depth < 4
    versions, files = lake.versions(curved), lake.on_disk(curved)
    assert not lake.table(curved, hours=1).recluster(final=True, options=SMALL).changed
    assert lake.versions(curved) == versions
    assert lake.on_disk(curved) == files


def test_large_groups_are_cut_along_the_curve(lake: Lake) -> None:
    name = grid(lake)
    table = lake.table(name, hours=1)
    table.cluster_by("a", "b", layout="zorder")
    rows, size = lake.fingerprint(name), table.plan().input_bytes
    sizes = {"single-task-bytes": size // 3, "target-file-size-bytes": size // 3}
    report = table.recluster(options=sizes)
    assert report.commits == 1
    assert lake.fingerprint(name) == rows
    assert not table.recluster(final=True, options=sizes).changed


def test_a_concurrent_delete_is_replayed(lake: Lake) -> None:
    name = grid(lake)
    table = lake.table(name, hours=1)
    table.cluster_by("a", "b", layout="hilbert")

    def race(phase: str, info: Any) -> None:
        if phase == "written":
            lake.spark.sql(f"DELETE FROM {name} WHERE a < 20")

    report = table.recluster(options=SMALL, observer=race)
    assert report.replayed_rows_count > 0
    left = lake.spark.sql(f"SELECT count(*), count_if(a < 20) FROM {name}").first()
    assert left is not None
    assert tuple(left) == (FILES * ROWS - report.replayed_rows_count, 0)


@pytest.mark.parametrize("layout", ["linear", "zorder"])
def test_another_layout_is_another_key(lake: Lake, layout: str) -> None:
    name = grid(lake)
    lake.table(name).cluster_by("a", "b", layout="hilbert")
    lake.table(name, hours=1).recluster(options=SMALL)
    assert set(lake.table(name).clustering_information().levels) == {1}
    lake.table(name).cluster_by("a", "b", layout=layout)
    assert set(lake.table(name).clustering_information().levels) == {0}
