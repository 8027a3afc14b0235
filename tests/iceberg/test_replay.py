"""Deletes that won a race are applied to our outputs in our own commit, whoever made them and however."""

from __future__ import annotations

import pytest

from tests.iceberg.race import Race
from tests.iceberg.scene import Scene

pytestmark = pytest.mark.iceberg

_LINEAGE = ("*", "_row_id", "_last_updated_sequence_number")


def fill(start: int, stop: int) -> str:
    """One file of rows, in no order of the key."""
    rows = f"cast(id * 37 % 101 AS int) AS k, concat('v', id) AS v FROM range({start}, {stop})"
    return f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {rows}"


def three_files(scene: Scene, version: int, **given: str) -> Scene:
    scene.create("k INT, v STRING", version, properties=given)
    return scene.run(fill(0, 30), fill(30, 60), fill(60, 90))


def check(scene: Scene, race: Race, replayed: int | None = None) -> None:
    """Replay, commit, and nothing changed for any reader of any version; no file is left that nobody names."""
    columns = _LINEAGE if race.adapter.capabilities.row_lineage else ("*",)
    before, rows = scene.every_version(), scene.spark_rows(columns=columns)
    now = scene.spark_rows()
    race.replay()
    done = race.commit()
    after = scene.every_version()
    assert after.pop(done.version) == (now, now)
    assert after == before
    assert scene.spark_rows(columns=columns) == rows
    assert scene.leftovers() == scene.metadata_leftovers() == set()
    dangling(scene)
    if replayed is not None:
        assert race.lost[-1] == replayed
    summary = scene.java().currentSnapshot().summary()
    assert summary.get("lakekeeper.replayed-rows") == (
        str(race.lost[-1]) if race.lost and race.lost[-1] else None
    )
    assert str(scene.java().currentSnapshot().operation()) == "replace"


def dangling(scene: Scene) -> None:
    """Deletes of single files name live files only."""
    files = scene.spark.table(f"{scene.sql}.data_files").select("file_path").collect()
    named = scene.spark.sql(f"SELECT DISTINCT file_path FROM {scene.sql}.position_deletes").collect()
    assert {r[0] for r in named} <= {r[0] for r in files}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "winner,lost",
    [
        pytest.param(("DELETE FROM {t} WHERE k % 10 = 3",), 10, id="delete"),
        pytest.param(("UPDATE {t} SET v = concat(v, '!') WHERE k < 20",), 18, id="update"),
    ],
)
def test_row_level_winners(scene: Scene, version: int, winner: tuple[str, ...], lost: int) -> None:
    race = Race.start(three_files(scene, version))
    scene.run(*winner)
    check(scene, race, lost)
