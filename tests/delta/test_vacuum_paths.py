"""Whatever a path in the log says, a deleted file is unreferenced and in the table's own folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakekeeper.core.vacuum.vacuum_plan import Doomed
from lakekeeper.spi import TableName
from lakekeeper_delta import FORMAT
from tests.delta.by_hand import ByHand, by_hand, changed, removed
from tests.delta.scene import Scene
from tests.delta.vacuum import look, on_disk, swept

pytestmark = pytest.mark.delta


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> ByHand:
    return by_hand(spark, tmp_path / "a table")


def test_names_of_partitions(scene: Scene) -> None:
    """Losses 74, 75, 76: a name encoded once, twice or not at all; and a column named like a hidden folder."""
    odd = ["a b", "a%20b", "a/b", "ä", "a:b", "a+b", "a#b", "a~b", "a%b", "a?b", "a=b", "[x]"]
    values = ", ".join(f"({n}, '{value}')" for n, value in enumerate(odd))
    scene.run(
        "CREATE TABLE {t} (k int, _p string) USING delta PARTITIONED BY (_p) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = false)",
        f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ * FROM VALUES {values} AS v(k, _p)",
        "UPDATE {t} SET k = k + 100",
    )
    storage = scene.adapter().storage
    root = storage.grounds.roots[0] + "/"
    listed = {info.path.removeprefix(root) for info in storage.files()}
    assert listed == on_disk(scene.path)
    looked = swept(scene)
    assert len(looked.names()) == len(odd)
    assert {file.partition for file in looked.plan.files} == {f'{{"_p":"{value}"}}' for value in odd}
    assert len(on_disk(scene.path)) == len(odd)
    all_named = {root + name for name in listed}
    assert storage.named(looked.versions, {*all_named, f"{root}_p=a b/strange.parquet"}) == all_named


def test_two_spellings_of_a_path_are_one_file(table: ByHand) -> None:
    both = table.add("x y.parquet"), table.add("z.parquet")
    table.commit(*both)
    absolute = [
        changed(add, path=f"file://{table.path}/{add['add']['path']}".replace(" ", "%20")) for add in both
    ]
    table.commit(removed(both[0]), absolute[0], removed(both[1]))
    storage = table.scene.adapter().storage
    assert look(table.scene).names() == {"z.parquet"}
    # The cursor is after the add with the absolute path; the remove's own path shows that there are two spellings.
    table.commit(removed(absolute[0]), changed(both[0], path="./x%20y.parquet"))
    assert look(table.scene, storage=storage).names() == {"z.parquet"}
    assert look(table.scene, storage=storage, since=2).names() == set()
    table.commit(removed(changed(both[0], path="./x%20y.parquet")))
    assert look(table.scene).sweep() == {"x y.parquet", "z.parquet"}


@pytest.mark.parametrize("since", [None, 1])
def test_a_remove_that_spells_the_path_differently_removes_nothing(
    spark: SparkSession, tmp_path: Path, since: int | None
) -> None:
    """Loss L85: delta-rs encodes what Spark leaves as it is, and Spark goes on reading the file."""
    table = by_hand(spark, tmp_path / "a table", partition="p")
    live = changed(table.add("p=ä/x.parquet", [1, 2], value="ä"), path="p=ä/x.parquet")
    table.commit(live)
    table.commit(changed(removed(live), path="p=%C3%A4/x.parquet"))
    table.commit(table.add("p=b/y.parquet", value="b"))
    assert spark.sql(f"SELECT k FROM {table.scene.sql} WHERE p = 'ä'").count() == 2
    assert look(table.scene, since=since).names() == set()
    # Only the remove under the same spelling makes it garbage.
    table.commit(removed(live))
    assert spark.sql(f"SELECT k FROM {table.scene.sql} WHERE p = 'ä'").count() == 0
    assert look(table.scene, since=since).sweep() == {"p=ä/x.parquet"}


@pytest.mark.parametrize("since", [None, 1])
def test_a_remove_without_the_vector_of_the_file_removes_nothing(table: ByHand, since: int | None) -> None:
    """Loss L137: Trino removes files so (31253). To Delta, the file with its vector stays live, and Spark reads it."""
    whole, (_, (vector,)) = table.add("a.parquet", [1, 2]), table.vectors([0])
    masked = changed(whole, deletionVector=vector)
    table.commit(whole)
    table.commit(removed(whole), masked)
    table.commit(removed(whole))
    table.commit(table.add("b.parquet", [3]))
    assert {row.k for row in table.scene.spark.table(table.scene.sql).collect()} == {2, 3}
    assert look(table.scene, since=since).names() == set()
    table.commit(removed(masked))
    assert "a.parquet" in look(table.scene, since=since).sweep()


def test_an_add_that_the_state_in_memory_lacks_keeps_its_file(spark: SparkSession, tmp_path: Path) -> None:
    table = by_hand(spark, tmp_path / "a table", partition="p")
    storage = table.scene.adapter().storage
    storage.versions(None)
    live = changed(table.add("p=ä/x.parquet", value="ä"), path="p=ä/x.parquet")
    table.commit(live)
    table.commit(changed(removed(live), path="p=%C3%A4/x.parquet"))
    assert look(table.scene, storage=storage).names() == set()


@pytest.mark.parametrize("since", [None, 1])
def test_deletion_vectors_that_share_a_file(table: ByHand, since: int | None) -> None:
    place, (one, other) = table.vectors([0], [1])
    a, b = table.add("a.parquet", [1, 2]), table.add("b.parquet", [3, 4])
    table.commit(changed(a, deletionVector=one), changed(b, deletionVector=other))
    table.commit(removed(changed(a, deletionVector=one)))
    looked = swept(table.scene, since=since)
    assert looked.names() == {"a.parquet"}
    table.commit(removed(changed(b, deletionVector=other)))
    assert swept(table.scene, since=since).names() == {"b.parquet", place.name}


def test_a_deletion_vector_by_its_absolute_path(table: ByHand) -> None:
    """Loss 71: Delta's own vacuum takes such a file for a foreign one, and deletes it while it is read."""
    live, (first,) = table.vectors([0])
    dead, (second,) = table.vectors([1])
    outside = table.path.parent / "elsewhere.bin"
    outside.write_bytes(live.read_bytes())

    def absolute(descriptor: dict[str, object], place: Path) -> dict[str, object]:
        return {**descriptor, "storageType": "p", "pathOrInlineDv": f"file:{place}".replace(" ", "%20")}

    a, b, c = (table.add(name, [1, 2]) for name in ("a.parquet", "b.parquet", "c.parquet"))
    before = changed(a, deletionVector=first)
    table.commit(before, changed(b, deletionVector=absolute(second, dead)))
    foreign = changed(c, deletionVector=absolute(first, outside))
    table.commit(removed(before), changed(a, deletionVector=absolute(first, live)), foreign)
    table.commit(removed(changed(b, deletionVector=absolute(second, dead))), removed(foreign))
    rows = table.scene.spark_rows()
    looked = look(table.scene)
    assert looked.sweep() == {"b.parquet", dead.name, "c.parquet"}
    assert looked.garbage.outside == (f"file:{outside}",)
    assert live.exists()
    assert outside.exists()
    assert table.scene.spark_rows() == rows


def test_paths_outside_the_table_are_reported_and_kept(table: ByHand, tmp_path: Path) -> None:
    victim = tmp_path / "other" / "x.parquet"
    victim.parent.mkdir()
    victim.write_text("mine")
    hostile = [
        "../other/x.parquet",
        "..%2Fother%2Fx.parquet",
        "%2e%2e/other/x.parquet",
        "p/../../other/x.parquet",
        f"file:{victim}",
        f"{victim}",
        "file:/etc/hostname",
        "s3://other/x.parquet",
        "//host/x.parquet",
        "_delta_log/00000000000000000000.json",
        "_lakekeeper/vacuum/cursor.json",
        ".",
        "",
        "a%20folder/",
        "a%20folder",
        "x.parquet#fragment",
        "x.parquet?query",
    ]
    (table.path / "a folder").mkdir()
    (table.path / "a folder" / "y.parquet").write_text("mine")
    own, notes = table.add("x.parquet"), table.path / "_lakekeeper" / "vacuum"
    notes.mkdir(parents=True)
    (notes / "cursor.json").write_text("{}")
    table.commit(own)
    size = {"size": 1, "deletionTimestamp": 1, "dataChange": True, "partitionValues": {}}
    table.commit(*({"remove": {"path": path, **size}} for path in hostile))
    looked = look(table.scene)
    assert looked.plan.files == ()
    assert looked.sweep() == set()
    reported = {*looked.garbage.outside, *looked.plan.spared}
    assert {f"file:{victim}", "file:/etc/hostname", "s3://other/x.parquet"} <= reported
    # Also if a caller requests it without the plan.
    root = looked.storage.grounds.roots[0]
    candidates = [f"{root}/{path}" for path in hostile] + [*hostile, root, f"{root}/", "file:/"]
    assert victim.exists()
    before = on_disk(table.path)
    gone = looked.storage.delete(
        [Doomed(path, "data", 1, 1) for path in candidates if path != f"{root}/x.parquet"]
    )
    assert on_disk(table.path) == before
    assert not {path for path in gone if (Path(path.removeprefix("file:"))).exists()}
    assert victim.read_text() == "mine"
    assert table.commit_file(0).exists()
    assert (notes / "cursor.json").exists()


def test_the_target_of_a_link_is_kept(table: ByHand, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    inner = table.add("inner/y.parquet")
    adds = [table.add("plain.parquet"), inner]
    for name in ("x.parquet", "z.parquet"):
        (other / name).write_text("mine")
    (table.path / "link").symlink_to(other)
    (table.path / "z.parquet").symlink_to(other / "z.parquet")
    (table.path / "loop").symlink_to(table.path / "inner")
    linked = [changed(inner, path=path) for path in ("link/x.parquet", "z.parquet", "loop/y.parquet")]
    table.commit(*adds, *linked)
    table.commit(*(removed(add) for add in (adds[0], *linked)))
    looked = look(table.scene)
    assert looked.sweep() == {"plain.parquet"}
    assert set(looked.plan.spared.values()) == {"it is reached through a symbolic link"}
    root = looked.storage.grounds.roots[0]
    paths = [f"{root}/{add['add']['path']}" for add in linked]
    assert looked.storage.delete([Doomed(path, "data", 1, 1) for path in paths]) == []
    assert looked.storage.move({path: f"{root}/_lakekeeper/trash/{n}" for n, path in enumerate(paths)}) == []
    assert {p.name for p in other.iterdir()} == {"x.parquet", "z.parquet"}
    assert (table.path / "inner" / "y.parquet").exists()
    assert {info.path for info in looked.storage.files()} == {f"{root}/inner/y.parquet"}


@pytest.mark.parametrize("spelling", ["{t}/", "{t}/.", "{t}/../{n}", "file:{t}", "{l}", "{l}/"])
def test_however_the_table_is_named(table: ByHand, tmp_path: Path, spelling: str) -> None:
    """Loss 77: a trailing slash, a link to the table."""
    link = tmp_path / "link"
    link.symlink_to(table.path)
    add, other = table.add("x.parquet"), table.add("y.parquet")
    table.commit(add, other)
    table.commit(removed(add))
    path = spelling.format(t=table.path, n=table.path.name, l=link)
    storage = FORMAT.open(table.scene.spark, TableName(path, "delta", "", path=path)).storage
    looked = look(table.scene, storage=storage)
    assert looked.sweep() == {"x.parquet"}
    assert on_disk(table.path) == {"y.parquet"}
    assert [Path(info.path).name for info in storage.files()] == ["y.parquet"]
