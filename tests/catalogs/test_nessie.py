"""Nothing deletes files of a table in Nessie: branches and tags need files that its metadata does not name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.errors import RetentionError, Unsupported
from tests.catalogs.branches import ALL, WRITES, append, at, filled, ids, read, stored
from tests.catalogs.kinds import ICEBERG
from tests.catalogs.nessie import Nessie
from tests.iceberg.scene import Scene
from tests.opening import table_later

pytestmark = [pytest.mark.iceberg, pytest.mark.stores]
NOW: dict[str, Any] = {"retention_hours": 0, "allow_unsafe_retention": True}
REFUSED = r"Nessie.*branch.*nothing was deleted"


GC: dict[str, dict[str, str]] = {
    "as Nessie sets it": {},
    "enabled": {"gc.enabled": "true"},
    "enabled, without a warning": {"gc.enabled": "true", "nessie.gc.no-warning": "true"},
}
VACUUMS: dict[str, Callable[[lk.Table], object]] = {
    "now": lambda t: t.vacuum(**NOW),
    "by the retention of the table": lambda t: t.vacuum(),
    "the last version": lambda t: t.vacuum(retain_last=1, **NOW),
    "orphans": lambda t: t.vacuum(orphans=True, **NOW),
    "orphans, dry run": lambda t: t.vacuum(orphans=True, dry_run=True, **NOW),
    "trash": lambda t: t.vacuum(trash=True, **NOW),
}


@pytest.mark.parametrize("gc", GC)
def test_no_vacuum_deletes_what_a_branch_or_a_tag_needs(
    main: str, nessie: Nessie, spark: SparkSession, gc: str
) -> None:
    """Loss L48: dead files, orphans and versions of one branch are those of another."""
    table = filled(Scene(spark, main), GC[gc])
    dev = at(table, nessie.branch(f"dev_{table.name}"))
    tag = at(table, nessie.branch(f"v1_{table.name}", kind="TAG"))
    spark.sql(f"DELETE FROM {dev} WHERE id = 50")
    lk.table(spark, table.sql).recluster("k")
    table.run("DELETE FROM {t} WHERE id < 30")
    lk.table(spark, table.sql).recluster("k", policy="full")
    files = stored(table)
    for which, vacuum in VACUUMS.items():
        with pytest.raises(RetentionError, match=REFUSED):
            vacuum(table_later(spark, table.sql, hours=24 * 60))
        assert stored(table) == files, which
    assert read(spark, dev) == ALL - ids(50)
    assert read(spark, tag) == ALL
    assert read(spark, table.sql) == Counter(range(30, 60))


def test_a_table_registered_from_another_catalog_is_not_vacuumed(
    main: str, nessie: Nessie, spark: SparkSession
) -> None:
    """Loss L48. It has no property gc.enabled, which then counts as true."""
    table = filled(Scene(spark, main))
    table.run("ALTER TABLE {t} UNSET TBLPROPERTIES ('gc.enabled')")
    dev = at(table, nessie.branch(f"dev_{table.name}"))
    table.run("DELETE FROM {t} WHERE id >= 0")
    files = stored(table)
    with pytest.raises(RetentionError, match=REFUSED):
        lk.table(spark, table.sql).vacuum(**NOW)
    assert stored(table) == files
    assert read(spark, dev) == ALL


@pytest.mark.parametrize("gc", GC)
def test_a_dropped_table_keeps_its_files(main: str, nessie: Nessie, spark: SparkSession, gc: str) -> None:
    """Loss L48: only the name leaves the branch."""
    table = filled(Scene(spark, main), GC[gc])
    dev = at(table, nessie.branch(f"dev_{table.name}"))
    files = stored(table)
    kept = lk.drop_table(spark, table.sql, force=True)
    assert kept.kept_as in [each.kept_as for each in lk.empty_dropped(spark, f"{main}.{ICEBERG}")]
    assert not spark.catalog.tableExists(kept.kept_as)
    assert all(Path(file).exists() for file in files)
    assert read(spark, dev) == ALL


def test_files_in_the_trash_stay(main: str, nessie: Nessie, spark: SparkSession) -> None:
    """Loss L48. A table whose trash has files is moved to Nessie, where a branch may name a version that needs them."""
    old = filled(Scene(spark))
    lk.table(spark, old.sql).recluster("k", policy="full")
    lk.table(spark, old.sql).vacuum(trash=True, **NOW)
    place = old.java().operations().current().metadataFileLocation()
    spark.sql(
        f"CALL {main}.system.register_table(table => '{ICEBERG}.{old.name}', metadata_file => '{place}')"
    )
    table = Scene(spark, main, old.name)
    root = Path(str(table.java().location()).removeprefix("file:"))
    files = {path for path in root.rglob("*") if path.is_file()}
    later = table_later(spark, table.sql, hours=24 * 60)
    assert [entry.kind for entry in later.trash()] == ["files"]
    for everything in (True, False):
        with pytest.raises(RetentionError, match=REFUSED):
            later.empty_trash(all_entries=everything)
    assert {path for path in root.rglob("*") if path.is_file()} == files
    [entry] = later.trash()
    later.restore(entry.name)
    assert read(spark, table.sql) == ALL
    first = table.versions()[0]
    assert len(table.spark_records(first)) == 60


def test_metadata_files_of_a_branch_stay(main: str, nessie: Nessie, spark: SparkSession) -> None:
    """With these properties, Iceberg deletes metadata files at each commit, whatever branch needs them."""
    table = filled(Scene(spark, main))
    dev = at(table, nessie.branch(f"dev_{table.name}"))
    names = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    given = ", ".join(f"'{name}'='{value}'" for name, value in names.items())
    table.run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({given})")
    later = nessie.branch(f"later_{table.name}")
    opened = lk.table(spark, table.sql)
    for verb, work in WRITES.items():
        with pytest.raises(Unsupported, match=r"write\.metadata\.delete-after-commit\.enabled"):
            raise AssertionError(f"{verb}: {work(opened)}")
    assert read(spark, dev) == ALL
    assert read(spark, at(table, later)) == ALL


def test_metadata_and_statistics_leave_a_branch_alone(main: str, nessie: Nessie, spark: SparkSession) -> None:
    table = filled(Scene(spark, main))
    for start in range(60, 80, 2):
        append(table, start, start + 2)
    dev = at(table, nessie.branch(f"dev_{table.name}"))
    files = stored(table)
    opened = lk.table(spark, table.sql)
    kept = opened.compact_metadata()
    assert not kept.changed
    opened.compute_statistics()
    append(table, 80, 200)
    opened.compute_statistics()
    assert files <= stored(table)
    assert read(spark, dev) == Counter(i for i in range(80) if i != 3)
    assert read(spark, table.sql) == Counter(i for i in range(200) if i != 3)
