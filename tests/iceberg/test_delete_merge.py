"""The merge of position delete files: every position that was deleted from a data file stays deleted."""

from __future__ import annotations

from unittest.mock import patch

import pytest

import lakekeeper as lk
from lakekeeper_iceberg import delete_crowds
from tests.iceberg.race import fill
from tests.iceberg.scene import Scene, add_positions, delete_equal, file_of
from tests.iceberg.tidying import SMALL, UPGRADE, delete_files, places, tidy, with_crowd

pytestmark = pytest.mark.iceberg

LOCAL = "timestamp_ntz'2024-06-01 12:00:00'"


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("partition", ["p", "hours(p)"])
def test_deletes_in_a_partition_of_a_local_time_are_kept(scene: Scene, version: int, partition: str) -> None:
    """Loss L92: a filter on such a partition value finds no data file, and all deleted rows were back."""
    with_crowd(scene, "k INT, p TIMESTAMP_NTZ", LOCAL, more=f"PARTITIONED BY ({partition})")
    if version > 2:
        scene.run(UPGRADE)
    assert tidy(scene).removed_delete_files >= 6
    assert delete_files(scene) == ([("PARQUET", 12)] if version == 2 else [("PUFFIN", 6)] * 2)


def test_file_scoped_deletes_in_a_partition_of_a_local_time_are_kept(scene: Scene) -> None:
    """Loss L92: with the default granularity, as other engines leave several delete files of one data file."""
    scene.create("k INT, p TIMESTAMP_NTZ, v STRING", 2, more="PARTITIONED BY (p)")
    scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ id, {LOCAL}, concat('v', id) FROM range(40)")
    for i in range(3):
        add_positions(scene, file_of(scene, "v9"), [i])
    tidy(scene)
    assert delete_files(scene) == [("PARQUET", 3)]


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_after_an_upgrade_a_vector_holds_the_positions_of_large_files_too(
    scene: Scene, granularity: str
) -> None:
    """Loss L93: of six files, the large one was left, and readers ignore it beside the vector of the others."""
    scene.create("k INT, v STRING", 2, properties={"write.delete.granularity": granularity})
    scene.run("INSERT INTO {t} SELECT /*+ COALESCE(1) */ cast(id AS int), concat('v', id) FROM range(60000)")
    path = file_of(scene, "v1")
    add_positions(scene, path, range(0, 6000, 3))
    for i in range(5):
        add_positions(scene, path, [3 * i + 1])
    sizes = sorted(
        r[0] for r in scene.spark.table(f"{scene.sql}.delete_files").select("file_size_in_bytes").collect()
    )
    scene.run(
        f"ALTER TABLE {{t}} SET TBLPROPERTIES ('write.delete.target-file-size-bytes' = '{sizes[-1]}')",
        UPGRADE,
    )
    with patch.object(delete_crowds, "SMALL_BYTES", sizes[-1]):
        assert tidy(scene).removed_delete_files >= 6
    assert delete_files(scene) == [("PUFFIN", 2005)]
    assert scene.spark.table(scene.sql).count() == 60000 - 2005


def test_live_deletes_in_few_files_give_nothing_to_tidy(scene: Scene) -> None:
    """For these, a call took a lease and waited between the statements of a writer."""
    scene.create("k INT, v STRING", 2).run(fill(0, 40), "DELETE FROM {t} WHERE k = 3")
    adapter = scene.adapter()
    assert not adapter.deletes.may_tidy(adapter.snapshot())


def test_a_data_file_with_a_vector_keeps_it(scene: Scene) -> None:
    """Its position delete files do not apply any more, and those of the other data file are merged."""
    with_crowd(scene).run(UPGRADE, "DELETE FROM {t} WHERE k = 30")
    assert tidy(scene).removed_delete_files >= 6
    assert delete_files(scene) == [("PUFFIN", 6), ("PUFFIN", 7)]


def test_a_vector_that_would_lack_positions_is_not_written(scene: Scene) -> None:
    """A crowd that exceeds the bound is left as it is in format version 3, and merged in parts in version 2."""
    with_crowd(scene)
    version, files = scene.version, delete_files(scene)
    with patch.object(delete_crowds, "MOST_DELETED_ROWS", 11):
        scene.run(UPGRADE)
        adapter = scene.adapter()
        assert adapter.deletes.tidy(adapter.snapshot(), "run-0").version is None
    assert (scene.version, delete_files(scene)) == (version, files)


def test_a_partition_field_with_the_former_name_of_another(scene: Scene) -> None:
    """Loss L94: the deletes of the old field were looked up by the values of the new one, and lost."""
    with_crowd(scene, "k INT, d INT, e INT", "0, 7", more="PARTITIONED BY (bucket(2, d))")
    scene.run(
        "ALTER TABLE {t} REPLACE PARTITION FIELD d_bucket WITH bucket(2, d) AS of_d",
        "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, e) AS d_bucket",
    )
    assert tidy(scene).removed_delete_files >= 6
    assert delete_files(scene) == [("PARQUET", 12)]


CHANGES = {
    "renamed": ("k INT, d INT", "0", "PARTITIONED BY (d)", "REPLACE PARTITION FIELD d WITH d AS d_old"),
    "two specs": ("k INT, d INT", "CAST(NULL AS INT)", "", "ADD PARTITION FIELD d"),
    "dropped": ("k INT, d INT", "0", "PARTITIONED BY (d)", "DROP PARTITION FIELD d"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_tables_on_which_the_merge_of_iceberg_failed(scene: Scene, change: str) -> None:
    """Their dangling delete files stayed for good, too."""
    columns, row, partitioned, altered = CHANGES[change]
    with_crowd(scene, columns, row, more=partitioned).run(f"ALTER TABLE {{t}} {altered}")
    for start in (80, 120):
        values = f"SELECT /*+ COALESCE(1) */ cast(id AS int), {row} FROM range({start}, {start + 40})"
        scene.run(f"INSERT INTO {{t}} {values}")
    scene.run(*(f"DELETE FROM {{t}} WHERE k IN ({80 + i}, {120 + i})" for i in range(6)))
    assert tidy(scene).removed_delete_files >= 12
    assert delete_files(scene) == [("PARQUET", 12)] * 2


def test_deletes_of_removed_data_files_leave_with_the_crowd(scene: Scene) -> None:
    with_crowd(scene).run("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'copy-on-write')")
    scene.run("DELETE FROM {t} WHERE k = 20")
    tidy(scene)
    assert delete_files(scene) == [("PARQUET", 6)]


def test_sequence_numbers_are_those_of_the_merged_files(scene: Scene) -> None:
    """A delete file must not apply to more data files than before, nor an older one be taken for a newer."""
    with_crowd(scene, **{"write.delete.granularity": "file"})
    highest = int(scene.java().currentSnapshot().sequenceNumber())
    scene.run("INSERT INTO {t} VALUES (100, 'v100')")
    delete_equal(scene, "k", [39])
    tidy(scene)
    entries = (
        scene.spark.table(f"{scene.sql}.entries").where("status < 2 AND data_file.content = 1").collect()
    )
    assert {row.sequence_number for row in entries} == {highest}
    assert len(places(scene)) == 80 - 12 - 1 + 1


def test_the_report_counts_the_delete_files(scene: Scene) -> None:
    with_crowd(scene)
    rows = scene.spark_rows()
    before = len(delete_files(scene))
    report = lk.table(scene.spark, scene.sql).merge_deletes(where="k > 1000")  # nothing to rewrite
    assert (report.commits, report.ended.code) == (1, "delete_files_merged")
    assert (report.removed_delete_files_count, report.added_delete_files_count) == (before, 1)
    assert scene.java().currentSnapshot().summary().get("lakekeeper.run-id") == report.run_ids[0]
    assert scene.spark_rows() == scene.log_rows() == rows


def test_partition_wide_deletes_become_one_file_for_each_data_file_by_default(scene: Scene) -> None:
    with_crowd(scene, **SMALL).run("ALTER TABLE {t} UNSET TBLPROPERTIES ('write.delete.granularity')")
    assert tidy(scene).removed_delete_files >= 6
    assert delete_files(scene) == [("PARQUET", 6)] * 2


def two_files(scene: Scene) -> tuple[str, str]:
    """The paths of two data files of forty rows."""
    scene.create("k INT, v STRING", 2)
    for start in (0, 40):
        row = f"cast(id AS int), concat('v', id) FROM range({start}, {start + 40})"
        scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {row}")
    return file_of(scene, "v9"), file_of(scene, "v49")


def list_twice(scene: Scene, path: str) -> None:
    """Append a data file of the table to it again."""
    file = next(each for each in scene.data_files(scene.java()) if str(each.location()) == path)
    scene.java().newAppend().appendFile(file).commit()


def test_deletes_of_a_data_file_that_the_table_lists_twice_are_kept(scene: Scene) -> None:
    """They apply to its older entry alone, and a scan does not say to which one."""
    one, two = two_files(scene)
    for i in range(6):
        add_positions(scene, one, [i], two)
    list_twice(scene, one)
    rows, files = scene.spark_rows(), delete_files(scene)
    adapter = scene.adapter()
    assert adapter.deletes.tidy(adapter.snapshot(), "run-0").version is None
    assert scene.spark_rows() == rows
    assert delete_files(scene) == files == [("PARQUET", 2)] * 6


def test_deletes_of_other_data_files_are_merged_beside_one_that_the_table_lists_twice(scene: Scene) -> None:
    one, two = two_files(scene)
    for i in range(3):
        add_positions(scene, one, [i])
        add_positions(scene, two, [i])
    list_twice(scene, one)
    rows = scene.spark_rows()
    adapter = scene.adapter()
    assert adapter.deletes.tidy(adapter.snapshot(), "run-0").removed_delete_files == 3
    assert delete_files(scene) == [("PARQUET", 1)] * 3 + [("PARQUET", 3)]
    assert scene.spark_rows() == rows
