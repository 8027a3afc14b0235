"""Users who write during a run with several groups in one commit: a conflict affects only its own group.

Which writers can race with a run, when, and with what outcome: tests/matrix.
"""

from __future__ import annotations

import pytest

from tests.formats.lakes import Lake
from tests.observers import once_at

# The phases between these are cells of the matrix.
PHASES = (
    pytest.param("planned", marks=pytest.mark.deep),
    "read",
    pytest.param("written", marks=pytest.mark.deep),
    "before_commit",
)


def three_groups(lake: Lake) -> str:
    """Three groups of overlapping files, in disjoint ranges of ``k``."""
    name = lake.create("id bigint, k int")
    for start in (0, 10_000, 20_000):
        for part in range(3):
            frame = lake.spark.range(start + part * 100, start + part * 100 + 100)
            made = "id", f"cast({start} + pmod(hash(id), 500) as int) k"
            lake.append(name, frame.selectExpr(*made))
    lake.table(name).cluster_by("k")
    return name


@pytest.mark.parametrize("phase", PHASES)
def test_an_append_at_any_phase_is_no_conflict(lake: Lake, phase: str) -> None:
    name = three_groups(lake)
    table = lake.table(name)
    late = lake.spark.range(5).selectExpr("-id - 1 as id", "cast(id as int) k")
    report = table.recluster(observer=once_at(phase, lambda: lake.append(name, late)))
    assert [g.status for g in report.groups] == ["committed"] * 3
    assert lake.spark.table(name).count() == 905
    assert lake.spark.table(name).where("id < 0").count() == 5
    assert report.conflicts == 0


@pytest.mark.parametrize("phase", PHASES)
def test_a_delete_of_one_input_is_replayed_in_its_group_only(lake: Lake, phase: str) -> None:
    name = three_groups(lake)
    table = lake.table(name)
    delete = f"DELETE FROM {name} WHERE id = 10001"
    expected = lake.spark.table(name).where("id <> 10001").collect()
    report = table.recluster(observer=once_at(phase, lambda: lake.spark.sql(delete)))
    assert [g.status for g in report.groups] == ["committed"] * 3
    assert sorted(g.replayed_rows for g in report.groups) == [0, 0, 1]
    assert (report.commits, report.replayed_rows_count) == (1, 1)
    assert sorted(map(tuple, lake.spark.table(name).collect())) == sorted(map(tuple, expected))
    assert no_leftovers(lake, name)
    assert not table.recluster().changed  # no group is left to recluster


def test_a_group_that_lost_most_inputs_is_dropped_alone(lake: Lake) -> None:
    name = three_groups(lake)
    table = lake.table(name)
    overwrite = f"INSERT INTO {name} REPLACE WHERE k >= 10000 AND k < 20000 VALUES (1L, 10000)"
    before = lake.spark.table(name).where("k < 10000 OR k >= 20000").collect()
    report = table.recluster(observer=once_at("written", lambda: lake.spark.sql(overwrite)))
    assert sorted(g.status for g in report.groups) == ["committed", "committed", "dropped"]
    (lost,) = (g for g in report.groups if g.status == "dropped")
    assert lost.detail is not None
    assert (lost.detail.code, lost.detail["removed"]) == ("inputs_removed", 3)
    assert "version" in str(lost.detail["winners"])
    rows = sorted(map(tuple, lake.spark.table(name).collect()))
    assert rows == sorted([*map(tuple, before), (1, 10000)])
    assert no_leftovers(lake, name)


def no_leftovers(lake: Lake, name: str) -> bool:
    """Whether some version references each data file on disk."""
    known: set[str] = set()
    if lake.iceberg:
        rows = lake.spark.sql(f"SELECT file_path FROM {name}.all_files").collect()
        known = {row[0].rpartition("/")[2] for row in rows}
    else:
        location = lake.spark.sql(f"DESCRIBE DETAIL {name}").first()
        assert location is not None
        actions = lake.spark.read.json(location["location"] + "/_delta_log/*.json")
        rows = actions.where("add is not null").selectExpr("add.path").collect()
        known = {row[0].rpartition("/")[2] for row in rows}
    return lake.on_disk(name) <= known
