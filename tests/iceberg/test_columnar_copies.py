"""Outputs copied without some of their rows by columnar workers: the same rows in the same order, and statistics."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from lakekeeper.core.model.file_merge import WrittenFile
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.errors import AdapterError
from lakekeeper.spark.columnar_merge import merge_each
from lakekeeper.spark.s3_access import NotFollowed
from lakekeeper_iceberg import columnar_copies
from tests.iceberg.race import Race, check, three_files
from tests.iceberg.scene import Scene

pytestmark = pytest.mark.iceberg

COPIES = {"write.delete.mode": "copy-on-write"}


def columnar(path: str) -> bool:
    """Whether a columnar worker wrote a file."""
    return "parquet-cpp-arrow" in str(pq.ParquetFile(path).metadata.created_by)


def stored(path: str) -> list[str]:
    found: list[str] = pq.read_table(path)["v"].to_pylist()
    return found


@pytest.mark.parametrize("version", [1, 2])
def test_copies_have_the_order_and_the_statistics_of_their_outputs(scene: Scene, version: int) -> None:
    race = Race.start(three_files(scene, version, **COPIES), target_rows=20)
    written = {output.path: stored(output.path) for output in race.made[0].outputs}
    scene.run("DELETE FROM {t} WHERE v IN ('v7', 'v40', 'v41')")
    check(scene, race, 3)
    (rewrite,) = race.made
    copies = [output.path for output in rewrite.outputs if output.path not in written]
    assert copies
    assert all(columnar(path) for path in copies)
    left = [[v for v in rows if v not in ("v7", "v40", "v41")] for rows in written.values()]
    assert sorted(left) == sorted(stored(output.path) for output in rewrite.outputs)
    for file in scene.spark.table(f"{scene.sql}.data_files").collect():
        rows = pq.read_table(file.file_path)["k"].to_pylist()
        assert file.record_count == len(rows)
        bounds = file.readable_metrics.k
        assert (bounds.lower_bound, bounds.upper_bound) == (min(rows), max(rows))
        assert file.file_path.rpartition("/")[0] in {path.rpartition("/")[0] for path in written}


def test_rows_with_ids_are_copied_by_rows(scene: Scene) -> None:
    race = Race.start(three_files(scene, 3, **COPIES))
    written = {output.path for output in race.made[0].outputs}
    scene.run("DELETE FROM {t} WHERE v = 'v7'")
    check(scene, race, 1)
    assert not any(columnar(o.path) for o in race.made[0].outputs if o.path not in written)


def test_copies_are_made_by_rows_where_workers_cannot_reach_the_store(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    race = Race.start(three_files(scene, 2, **COPIES))
    scene.run("DELETE FROM {t} WHERE v = 'v7'")

    def refused(*_: object) -> None:
        raise NotFollowed("workers do not read from it")

    monkeypatch.setattr(columnar_copies, "FilesOfTable", refused)
    check(scene, race, 1)
    assert not any(columnar(output.path) for output in race.made[0].outputs)


@pytest.mark.parametrize("failed", ["declined", "too few rows", "two files"])
def test_a_copy_that_is_not_what_it_must_be(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, failed: str
) -> None:
    """The group is lost, and no copy stays, whether it was right or wrong."""
    race = Race.start(three_files(scene, 2, **COPIES), target_rows=20)
    scene.run("DELETE FROM {t} WHERE v IN ('v7', 'v40', 'v41')")
    before = scene.leftovers()

    def wrong(*given: object) -> list[list[WrittenFile] | Reason]:
        first, *others = merge_each(*given)  # type: ignore[arg-type]  # passed on as they came
        assert isinstance(first, list)
        if failed == "two files":
            return [first * 2, *others]
        (file,) = first
        if failed == "declined":
            scene.java().io().deleteFile(file.path)
            return [Reason.of(Code.MERGED_AGAIN_BY_ROWS, cause="a footer"), *others]
        return [[WrittenFile(file.path, file.rows - 1, file.bytes, file.stats)], *others]

    monkeypatch.setattr(columnar_copies, "merge_each", wrong)
    with pytest.raises(AdapterError, match="must have"):
        race.replay()
    assert scene.leftovers() == before
    monkeypatch.undo()
    check(scene, race, 3)
