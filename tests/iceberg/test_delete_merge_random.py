"""Random tables with many delete files: after a merge, the same positions of every data file are deleted as before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from lakekeeper_iceberg import delete_crowds
from tests.iceberg.scene import Scene, add_positions
from tests.iceberg.tidying import UPGRADE, places

pytestmark = pytest.mark.iceberg

LOCAL = "timestamp_ntz'2024-06-01 12:00:00'"
SPECS = ["", "PARTITIONED BY (d)", "PARTITIONED BY (p)", "PARTITIONED BY (bucket(2, d), p)"]
ALTERED = {
    "": "ADD PARTITION FIELD d",
    "PARTITIONED BY (d)": "REPLACE PARTITION FIELD d WITH d AS d_old",
    "PARTITIONED BY (p)": "DROP PARTITION FIELD p",
    "PARTITIONED BY (bucket(2, d), p)": "ADD PARTITION FIELD k",
}


class Writers:
    """Draws what writers of other engines do to a table of some forty rows for each data file."""

    def __init__(self, scene: Scene, rng: random.Random) -> None:
        self.scene, self.rng, self.keys = scene, rng, 0
        self.spec = rng.choice(SPECS)
        scene.create("k INT, d INT, p TIMESTAMP_NTZ", 2, more=self.spec)

    def insert(self) -> None:
        start, self.keys = self.keys, self.keys + 40
        row = f"cast(id AS int), cast(id % 2 AS int), if(id % 5 = 0, null, {LOCAL})"
        self.scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {row} FROM range({start}, {self.keys})")

    def delete(self) -> None:
        """Several deletes, of few rows each, with one granularity and one mode."""
        granularity, mode = self.rng.choice(["file", "partition", "partition"]), "merge-on-read"
        if self.rng.random() < 0.15:
            mode = "copy-on-write"
        self.scene.run(
            f"ALTER TABLE {{t}} SET TBLPROPERTIES ('write.delete.granularity' = '{granularity}', "
            f"'write.delete.mode' = '{mode}')"
        )
        for _ in range(self.rng.choice([1, 5])):
            keys = ", ".join(str(self.rng.randrange(self.keys)) for _ in range(self.rng.choice([1, 4])))
            self.scene.run(f"DELETE FROM {{t}} WHERE k IN ({keys})")

    def add(self) -> None:
        """A delete file of one data file beside those that it has; a row may be in it twice, or be deleted already."""
        path = self.rng.choice(sorted({path for path, _ in places(self.scene)}))
        add_positions(self.scene, path, sorted(self.rng.choices(range(8), k=self.rng.randint(1, 4))))

    def alter(self) -> None:
        altered, self.spec = ALTERED.get(self.spec), "altered"
        if altered:
            self.scene.run(f"ALTER TABLE {{t}} {altered}")

    def act(self) -> Iterator[None]:
        self.insert()
        for _ in range(self.rng.randint(4, 7)):
            self.rng.choice([self.insert, self.delete, self.delete, self.add, self.add, self.alter])()
            yield


@pytest.mark.parametrize("upgraded", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_the_same_positions_are_deleted_after_a_merge(scene: Scene, seed: int, upgraded: bool) -> None:
    """Merged until nothing is left to do, with bounds that hold all of it, or parts of it only."""
    rng = random.Random(seed)
    for _ in Writers(scene, rng).act():
        pass
    granularity = rng.choice(["file", "partition"])
    scene.run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('write.delete.granularity' = '{granularity}')")
    if upgraded:
        scene.run(UPGRADE)
        if rng.random() < 0.5:
            scene.run("DELETE FROM {t} WHERE k = 7")
    before, live = scene.every_version(), places(scene)
    small, rows, pairs = rng.choice([48 << 20, 1350]), rng.choice([10**6, 12]), rng.choice([20_000, 6])
    with (
        patch.object(delete_crowds, "SMALL_BYTES", small),
        patch.object(delete_crowds, "MOST_DELETED_ROWS", rows),
        patch.object(delete_crowds, "MOST_PAIRS", pairs),
    ):
        for merge in range(20):
            adapter = scene.adapter()
            if adapter.deletes.tidy(adapter.snapshot(), f"run-{merge}").version is None:
                break
            assert places(scene) == live
        else:
            pytest.fail("it never ends")
    after = scene.every_version()
    assert {version: after[version] for version in before} == before
    assert scene.spark_rows() == scene.log_rows()
    assert scene.leftovers() == scene.metadata_leftovers() == set()
