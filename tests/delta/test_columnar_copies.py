"""Copies of columnar outputs in a replay, on tables without deletion vectors."""

from __future__ import annotations

from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest

from lakekeeper.core.model.file_merge import WrittenFile
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.errors import AdapterError
from lakekeeper.spark.columnar_merge import merge_each
from lakekeeper_delta import columnar, columnar_copies, point_lookup
from tests.delta.race import COPIES, VECTORS, Race, filled, leftovers, table
from tests.delta.scene import Scene

pytestmark = [pytest.mark.delta]


def _columnar(scene: Scene, path: str) -> bool:
    """Whether a columnar worker wrote the file, not Spark."""
    return "parquet-cpp" in pq.ParquetFile(scene.path / unquote(path)).metadata.created_by


def test_workers_copy_what_they_wrote(scene: Scene) -> None:
    """A copy is in the folder of its output, which names the level for writers that drop tags, and has its marks."""
    race = Race.start(filled(scene, COPIES), target_rows=50)
    written = {output.path for output in race.rewrites[0].outputs}
    scene.run("DELETE FROM {t} WHERE v = 'w4'")
    (rewrite,) = race.replay()
    copies = [output.path for output in rewrite.outputs if output.path not in written]
    assert copies
    assert all(_columnar(scene, path) for path in copies)
    assert {path.rpartition("/")[0] for path in copies} == {path.rpartition("/")[0] for path in written}
    race.won()


def test_positions_that_a_scan_found_are_copied_alike(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The point lookup leaves more than a hundred thousand rows to a scan."""
    race = Race.start(filled(scene, COPIES), target_rows=50)
    scene.run("DELETE FROM {t} WHERE v = 'w4'")
    monkeypatch.setattr(point_lookup, "MOST_ROWS", 0)
    (rewrite,) = race.replay()
    assert (race.points, rewrite.replayed) == (0, 1)
    assert all(_columnar(scene, output.path) for output in rewrite.outputs)
    race.won()


def test_copies_are_made_in_as_many_tasks_as_their_bytes_need(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columnar_copies, "BYTES_OF_TASK", 1)
    race = Race.start(filled(scene, COPIES), target_rows=20)
    scene.run("DELETE FROM {t} WHERE v IN ('w4', 'w5', 'w6')")
    (rewrite,) = race.replay()
    assert len(rewrite.extra) > 1
    race.won()


def test_an_output_with_a_vector_is_copied_by_rows(scene: Scene) -> None:
    """Vectors were turned off between two replays; workers would not see the vector of the first."""
    race = Race.start(filled(scene, VECTORS), target_rows=50)
    scene.run("DELETE FROM {t} WHERE v = 'w4'")
    (rewrite,) = race.replay()
    assert sum(output.masked for output in rewrite.outputs) == 1
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES (" + COPIES + ")", "DELETE FROM {t} WHERE v = 'w5'")
    (rewrite,) = race.replay()
    assert {output.masked for output in rewrite.outputs} == {0}
    race.won()


def test_copies_are_made_by_rows_where_workers_cannot_reach_the_store(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    race = Race.start(filled(scene, COPIES))
    scene.run("DELETE FROM {t} WHERE v = 'w4'")

    def refused(*_: object) -> None:
        raise columnar.Refused("workers do not read from it")

    monkeypatch.setattr(columnar_copies, "place", refused)
    (rewrite,) = race.replay()
    assert not _columnar(scene, rewrite.outputs[0].path)
    race.won()


@pytest.mark.parametrize("failed", ["declined", "too few rows", "two files"])
def test_a_copy_that_is_not_what_it_must_be(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, failed: str
) -> None:
    """The group is lost, and no copy stays, whether it was right or wrong."""
    race = Race.start(filled(scene, COPIES), target_rows=20)
    scene.run("DELETE FROM {t} WHERE v = 'w4'")
    before = leftovers(scene)

    def wrong(*given: object) -> list[list[WrittenFile] | Reason]:
        first, *others = merge_each(*given)  # type: ignore[arg-type]  # passed on as they came
        assert isinstance(first, list)
        if failed == "declined":
            for file in first:
                (scene.path / file.path).unlink()
            return [Reason.of(Code.MERGED_AGAIN_BY_ROWS, cause="a footer"), *others]
        if failed == "two files":
            return [first * 2, *others]
        (file,) = first
        return [[WrittenFile(file.path, file.rows - 1, file.bytes, file.stats)], *others]

    monkeypatch.setattr(columnar_copies, "merge_each", wrong)
    with pytest.raises(AdapterError, match="must have"):
        race.replay()
    assert leftovers(scene) == before
    monkeypatch.undo()
    race.won()


def test_an_output_of_which_no_row_is_left_is_not_copied(scene: Scene) -> None:
    """Three files of two rows each, sorted by k: the delete takes the whole of one."""
    table(scene, COPIES).run(*[f"INSERT INTO {{t}} VALUES ({k}, 'v{k}'), ({k}, 'w{k}')" for k in range(3)])
    race = Race.start(scene, target_rows=2)
    scene.run("DELETE FROM {t} WHERE k = 1")
    (rewrite,) = race.replay(most_gone=1.0)
    assert (len(rewrite.outputs), rewrite.extra) == (2, ())
    race.won(most_gone=1.0)
