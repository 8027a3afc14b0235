"""Where a key is stored, what storing it changes, and what it survives, on both formats."""

from __future__ import annotations

import logging

import pytest

import lakekeeper as lk
from lakekeeper.errors import OptionError
from tests.formats.lakes import Lake

MAPPED = {"delta.columnMapping.mode": "name"}


def mapped(lake: Lake, columns: str = "id BIGINT, k INT, v STRING") -> str:
    """A table whose columns can be renamed and dropped, with overlapping files."""
    name = lake.create(columns, properties={} if lake.iceberg else MAPPED)
    for start in (0, 20):
        frame = lake.spark.range(start, start + 20)
        lake.append(name, frame.selectExpr("id", "cast(id % 10 AS int) k", "concat('v', id) v"))
    return name


def key(lake: Lake, name: str) -> str:
    return str(lake.adapter(name).snapshot().key)


def test_a_key_is_a_property_unless_native_is_requested(lake: Lake) -> None:
    name = lake.overlapping(1, 5)
    table = lake.table(name)
    report = table.cluster_by("k", "id")
    assert (report.key_before, report.key_after, report.changes) == ("", "(k, id)", ())
    assert report.kept_as == "table property lakekeeper.cluster-by"
    assert lake.adapter(name).properties()["lakekeeper.cluster-by"] == "k, id"
    assert key(lake, name) == "(k, id)"


def test_a_key_in_the_other_spelling_of_its_property_is_read_and_replaced(lake: Lake) -> None:
    """It named no key, while every other option may be written so."""
    name = lake.overlapping(2, 10)
    other = "lakekeeper.cluster_by"
    for native in (False, True):
        lake.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{other}'='k')")
        if not native:
            assert key(lake, name) == "(k)"
        lake.table(name).cluster_by("id", native=native)
        assert key(lake, name) == "(id)"
        assert other not in lake.adapter(name).properties()
    lake.table(name).cluster_by(None)
    lake.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{other}'='k')")
    assert lake.table(name).cluster_by(None).key_before == "(k)"
    assert key(lake, name) == "None"


def test_a_dry_run_reports_the_same_and_changes_nothing(lake: Lake) -> None:
    name = lake.overlapping(1, 5)
    table = lake.table(name)
    properties = lake.adapter(name).properties()
    preview = table.cluster_by("k", native=True, dry_run=True)
    assert "would become (k)" in str(preview)
    assert (lake.adapter(name).properties(), key(lake, name)) == (properties, "None")
    done = table.cluster_by("k", native=True)
    assert (done.changes, done.kept_as) == (preview.changes, preview.kept_as)
    assert "cluster key none -> (k)" in str(done)


@pytest.mark.parametrize("native", [False, True])
def test_a_key_is_removed(lake: Lake, native: bool) -> None:
    name = lake.overlapping(2, 10)
    table = lake.table(name)
    for empty in ((), (None,)):
        table.cluster_by("k", "id", native=native)
        assert key(lake, name) == "(k, id)"
        report = table.cluster_by(*empty)
        assert (report.key_before, report.key_after) == ("(k, id)", "")
        assert key(lake, name) == "None"
        assert not [p for p in lake.adapter(name).properties() if "cluster-" in p]
    table.cluster_by("k", "id", layout="hilbert")
    table.cluster_by(None)
    assert key(lake, name) == "None"
    assert table.cluster_by(None).key_before == ""
    with pytest.raises(OptionError, match="store a key with cluster_by"):
        table.recluster()
    for wrong in (("k", None), (None, None), (["k"],)):
        with pytest.raises(OptionError, match="column names"):
            table.cluster_by(*wrong)


def test_a_native_key_overrides_and_removes_a_property(lake: Lake) -> None:
    name = lake.overlapping(1, 5)
    table = lake.table(name)
    table.cluster_by("v")
    table.cluster_by("k", native=True)
    assert (key(lake, name), "lakekeeper.cluster-by" in lake.adapter(name).properties()) == ("(k)", False)
    table.cluster_by("id")  # a table with a native key keeps using it
    assert (key(lake, name), "lakekeeper.cluster-by" in lake.adapter(name).properties()) == ("(id)", False)
    lake.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('lakekeeper.cluster-by'='v')")
    assert key(lake, name) == "(id)"


@pytest.mark.parametrize("layout", ["linear", "hilbert"])
def test_a_key_survives_a_rename_of_its_columns(lake: Lake, layout: str) -> None:
    name = mapped(lake)
    table = lake.table(name)
    table.cluster_by("k", "v", layout=layout)
    table.recluster(options={"policy": "full"})
    before = lake.adapter(name).snapshot()
    lake.spark.sql(f"ALTER TABLE {name} RENAME COLUMN k TO `k 2`")
    lake.spark.sql(f"ALTER TABLE {name} ADD COLUMN k INT")  # another column takes its name
    after = lake.adapter(name).snapshot()
    assert before.key is not None
    assert after.key is not None
    assert [c.name for c in after.key.columns] == ["`k 2`", "v"]
    assert (after.key.key_id, after.blocks.key_ids) == (before.key.key_id, before.blocks.key_ids)
    assert lake.table(name).recluster().ended.code == "nothing_to_do", (
        "the files are still clustered by this key"
    )
    lk.sql(lake.spark, f"DELETE FROM {name} WHERE id = 1")
    assert lake.table(name).delete("id = 2").deleted_rows_count == 1


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_key_whose_column_was_dropped_is_ignored(
    lake: Lake, by_hand: bool, caplog: pytest.LogCaptureFixture
) -> None:
    name = mapped(lake)
    if by_hand:
        lake.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('lakekeeper.cluster-by'='k')")
    else:
        lake.table(name).cluster_by("k")
    lake.spark.sql(f"ALTER TABLE {name} DROP COLUMN k")
    if not by_hand:
        lake.spark.sql(f"ALTER TABLE {name} ADD COLUMN k INT")  # same name, another column
    lake.append(name, lake.spark.table(name).where("id >= 20"))  # a third file: two are not worth packing
    with caplog.at_level(logging.WARNING, "lakekeeper"):
        lk.sql(lake.spark, f"DELETE FROM {name} WHERE id = 1")
        table = lake.table(name)
        assert table.delete("id = 2").deleted_rows_count == 1
        assert table.compact(options={"min-input-files": 2}).added_data_files_count == 1
        table.vacuum()
    assert lake.adapter(name).snapshot().key is None
    assert caplog.text.count("lakekeeper.cluster-by" if not by_hand else "stored key cannot be used") == 1
    with pytest.raises(OptionError, match="dropped" if not by_hand else "stored key cannot be used"):
        table.recluster()
    assert lake.spark.table(name).count() == 58
    table.cluster_by("id")
    assert key(lake, name) == "(id)"


def test_a_key_that_cannot_be_native_is_refused_before_any_write(lake: Lake) -> None:
    name = lake.create("id BIGINT, k INT, v STRING", partitioned="k")
    table = lake.table(name)
    arguments = {"layout": "hilbert"} if lake.iceberg else {}
    version, properties = lake.adapter(name).version().version, lake.adapter(name).properties()
    with pytest.raises(OptionError, match="native"):
        table.cluster_by("id", "v", native=True, **arguments)  # type: ignore[arg-type]  # varies by format
    assert (lake.adapter(name).version().version, lake.adapter(name).properties()) == (version, properties)
