"""Tables of a Nessie branch or tag: what is maintained on one shows on no other, and races with merges."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.errors import LakekeeperError, NotFound, Unsupported
from tests.catalogs.branches import ALL, WRITES, append, at, filled, ids, read, stored
from tests.catalogs.kinds import ICEBERG, add_nessie
from tests.catalogs.nessie import Nessie
from tests.iceberg.scene import Scene

pytestmark = [pytest.mark.iceberg, pytest.mark.stores]


def test_a_tag_and_a_commit_are_refused_before_any_write(
    main: str, nessie: Nessie, spark: SparkSession, home: Path
) -> None:
    table = filled(Scene(spark, main))
    tag, commit = nessie.branch(f"v1_{table.name}", kind="TAG"), nessie.hash()
    # Iceberg takes a name with the newest commit for that of the branch.
    table.run("DELETE FROM {t} WHERE id = 30")
    by_ref = f"{add_nessie(spark, nessie, home, ref=tag)}.{ICEBERG}.{table.name}"
    files = stored(table)
    for name in (at(table, tag), at(table, f"main#{commit}"), by_ref):
        opened = lk.table(spark, name)
        assert opened.clustering_information("k").total_partition_count == 6
        for verb, work in WRITES.items():
            with pytest.raises(Unsupported, match=r"tag or a commit.*nothing was written"):
                raise AssertionError(f"{verb}: {work(opened)}")
        assert read(spark, name) == ALL
    assert stored(table) == files


def test_a_branch_is_maintained_by_its_name(main: str, nessie: Nessie, spark: SparkSession) -> None:
    table = filled(Scene(spark, main))
    dev = at(table, nessie.branch(f"dev_{table.name}"))
    blocks = table.files()
    report = lk.table(spark, dev).recluster("k", policy="full")
    assert report.rewritten_data_files_count == 6
    assert lk.table(spark, dev).delete("id IN (7, 8)").deleted_rows_count == 2
    assert read(spark, dev) == ALL - ids(7, 8)
    assert read(spark, table.sql) == ALL
    assert lk.table(spark, table.sql).clustering_information("k").total_partition_count == 6
    lk.table(spark, dev).drop_partition("id < 20")
    lk.table(spark, dev).restore(lk.table(spark, dev).trash()[-1].name)
    assert read(spark, dev) == ALL - ids(7, 8)
    [merged] = lk.table(spark, table.sql).recluster("k", policy="full").run_ids
    lk.table(spark, table.sql).undo(merged, allow_rollback=True)
    assert read(spark, table.sql) == ALL
    assert blocks <= table.files()
    with pytest.raises(Unsupported, match="nothing was changed"):
        lk.drop_table(spark, dev)
    assert read(spark, dev) == ALL - ids(7, 8)


def test_a_branch_by_the_conf_ref(main: str, nessie: Nessie, spark: SparkSession, home: Path) -> None:
    table = filled(Scene(spark, main))
    dev = Scene(spark, add_nessie(spark, nessie, home, ref=nessie.branch(f"dev_{table.name}")), table.name)
    lk.table(spark, dev.sql).recluster("k", policy="full")
    lk.table(spark, dev.sql).delete("id = 7")
    kept = lk.drop_table(spark, dev.sql, force=True)
    lk.empty_dropped(spark, f"{dev.catalog}.{ICEBERG}")
    assert not spark.catalog.tableExists(kept.kept_as)
    assert read(spark, table.sql) == ALL


def test_a_partition_dropped_on_a_branch_comes_back_there(
    main: str, nessie: Nessie, spark: SparkSession
) -> None:
    """Branches share the table's folder, and with it the trash's notes."""
    table = filled(Scene(spark, main))
    dev = at(table, nessie.branch(f"dev_{table.name}"))
    lk.table(spark, dev).drop_partition("id < 20")
    opened = lk.table(spark, table.sql)
    for entry in opened.trash():
        with pytest.raises(NotFound, match="on another branch"):
            opened.restore(entry.name)
    assert read(spark, table.sql) == ALL
    [entry] = lk.table(spark, dev).trash()
    lk.table(spark, dev).restore(entry.name)
    assert read(spark, dev) == ALL


def test_a_drop_on_main_comes_back_once_on_each_side(main: str, nessie: Nessie, spark: SparkSession) -> None:
    table = filled(Scene(spark, main))
    opened = lk.table(spark, table.sql)
    opened.drop_partition("id < 20")
    dev = at(table, nessie.branch(f"dev_{table.name}"))
    [entry] = opened.trash()
    opened.restore(entry.name)
    with pytest.raises(NotFound):
        opened.restore(entry.name)
    assert read(spark, table.sql) == ALL
    assert read(spark, dev) == Counter(range(20, 60))


def test_a_merge_of_a_branch_during_a_run(main: str, nessie: Nessie, spark: SparkSession) -> None:
    table = filled(Scene(spark, main))
    name = nessie.branch(f"dev_{table.name}")

    def race(phase: str, _: Any) -> None:
        if phase == "before_commit" and nessie.content(f"{ICEBERG}.{table.name}", name) == nessie.content(
            f"{ICEBERG}.{table.name}"
        ):
            spark.sql(f"DELETE FROM {at(table, name)} WHERE id IN (14, 15)")
            nessie.merge(name)

    report = lk.table(spark, table.sql).recluster("k", policy="full", observer=race)
    assert report.replayed_rows_count == 2
    assert read(spark, table.sql) == ALL - ids(14, 15)


def test_a_branch_that_is_merged_after_a_run_takes_its_files_along(
    main: str, nessie: Nessie, spark: SparkSession
) -> None:
    table = filled(Scene(spark, main))
    name = nessie.branch(f"dev_{table.name}")
    report = lk.table(spark, at(table, name)).recluster("k", policy="full")
    nessie.merge(name)
    nessie.drop(name)
    assert read(spark, table.sql) == ALL
    info = lk.table(spark, table.sql).clustering_information("k")
    assert info.total_partition_count == report.added_data_files_count == 1
    [run] = report.run_ids
    lk.table(spark, table.sql).undo(run, allow_rollback=True)
    assert read(spark, table.sql) == ALL


def test_the_table_is_dropped_during_a_run(main: str, nessie: Nessie, spark: SparkSession) -> None:
    table = filled(Scene(spark, main))
    dev = at(table, nessie.branch(f"dev_{table.name}"))

    def race(phase: str, _: Any) -> None:
        if phase == "before_commit":
            table.run("DROP TABLE {t}")

    with pytest.raises(LakekeeperError, match="no such Iceberg table"):
        lk.table(spark, table.sql).recluster("k", policy="full", observer=race)
    assert read(spark, dev) == ALL


def test_a_commit_elsewhere_is_no_conflict(main: str, nessie: Nessie, spark: SparkSession) -> None:
    """Each commit changes the hash of the branch; only one that changes the table is a conflict."""
    table, other = filled(Scene(spark, main)), filled(Scene(spark, main))
    phases = []

    def race(phase: str, _: Any) -> None:
        phases.append(phase)
        if phase == "before_commit":
            other.run("DELETE FROM {t} WHERE id = 5")

    report = lk.table(spark, table.sql).recluster("k", policy="full", observer=race)
    assert "conflict" not in phases
    assert report.commits == 1
    assert read(spark, table.sql) == ALL


def test_a_refresh_reads_new_manifests_only(main: str, nessie: Nessie, spark: SparkSession) -> None:
    """The commit of Nessie is a property of the metadata, and no property of the table."""
    table = filled(Scene(spark, main))
    adapter = table.adapter()
    first = adapter.snapshot(["k"])
    append(table, 60, 70)
    then = adapter.refresh(first, ["k"])
    assert then is not None
    assert len(then.blocks) == 7
    assert not any(name.startswith("nessie.commit") for name in then.properties)
