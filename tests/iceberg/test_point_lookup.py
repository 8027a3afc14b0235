"""Lost rows are found without a Spark job where that is exact, and by a scan otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.iceberg.race import Race, check, delete_places
from tests.iceberg.scene import Scene
from tests.jvm_calls import jvm_calls

pytestmark = pytest.mark.iceberg


@dataclass(frozen=True)
class Case:
    """A table of rows that differ only in the column ``where`` filters on, which one row of each file matches."""

    columns: str
    statements: tuple[str, ...]
    where: str
    properties: dict[str, str] = field(default_factory=dict)
    version: int = 2
    lost: int = 2


_LISTS = "INSERT INTO {t} VALUES (1, array(1)), (1, array(2))"
_TIMESTAMPS = (
    "INSERT INTO {t} SELECT 1, timestamp '2024-01-01 00:00:00' + make_dt_interval(0, 0, 0, id / 1000000), "
    "timestamp_ntz '2024-01-01 00:00:00' FROM range(0, 9, 1, 1)"
)
EXACT = {
    "decimals": Case(
        "k INT, v DECIMAL(38, 3)", ("INSERT INTO {t} VALUES (1, 1.001), (1, 1.002)",), "v = 1.001"
    ),
    "timestamps": Case(
        "k INT, v TIMESTAMP, n TIMESTAMP_NTZ", (_TIMESTAMPS,), "v = timestamp '2024-01-01 00:00:00.000003'"
    ),
    "zeros and NaN": Case(
        "k INT, v DOUBLE",
        ("INSERT INTO {t} VALUES (1, -0D), (1, 0D), (1, double('NaN')), (1, null)",),
        "cast(v AS string) IN ('-0.0', 'NaN')",
        lost=4,
    ),
    "a renamed column": Case(
        "k INT, v INT",
        (
            "INSERT INTO {t} VALUES (1, 5), (1, 6)",
            "ALTER TABLE {t} RENAME COLUMN v TO w",
            "INSERT INTO {t} VALUES (1, 5), (1, 6)",
        ),
        "w = 5",
        lost=3,
    ),
    "row ids": Case("k INT, v ARRAY<INT>", (_LISTS,), "v = array(1)", version=3),
}
SCANNED = {
    "lists": Case("k INT, v ARRAY<INT>", (_LISTS,), "v = array(1)"),
    "an added column": Case(
        "k INT",
        (
            "INSERT INTO {t} VALUES (1)",
            "ALTER TABLE {t} ADD COLUMN v INT",
            "INSERT INTO {t} VALUES (1, 5), (1, 6)",
        ),
        "v IS NULL",
        lost=1,
    ),
    "a widened column": Case(
        "k INT, v INT",
        (
            "INSERT INTO {t} VALUES (1, 5), (1, 6)",
            "ALTER TABLE {t} ALTER COLUMN v TYPE BIGINT",
            "INSERT INTO {t} VALUES (1, 5), (1, 6)",
        ),
        "v = 5",
        lost=3,
    ),
    "a day of another calendar": Case(
        "k INT, v DATE",
        ("INSERT INTO {t} VALUES (1, DATE '0001-01-01'), (1, DATE '2024-01-01')",),
        "v < DATE '1500-01-01'",
    ),
    "ORC": Case(
        "k INT, v INT",
        ("INSERT INTO {t} VALUES (1, 5), (1, 6)",),
        "v = 5",
        {"write.format.default": "orc"},
    ),
}


def _replayed(scene: Scene, case: Case) -> int:
    """The number of replays that found their rows without a scan."""
    scene.create(case.columns, case.version, properties=case.properties)
    scene.run(*case.statements, *case.statements[-1:])
    race = Race.start(scene)
    delete_places(scene, case.where)
    check(scene, race, case.lost)
    return race.points


@pytest.mark.usefixtures("files_by_path")
@pytest.mark.parametrize("case", EXACT.values(), ids=EXACT)
def test_rows_are_found_without_a_scan(scene: Scene, case: Case) -> None:
    assert _replayed(scene, case) == 1


@pytest.mark.parametrize("case", SCANNED.values(), ids=SCANNED)
def test_rows_that_cannot_be_compared_exactly_are_found_by_a_scan(scene: Scene, case: Case) -> None:
    assert _replayed(scene, case) == 0


def test_a_row_is_not_taken_for_another_by_a_struct_of_one_field(scene: Scene) -> None:
    """Two rows agree in ``s``; only the bounds of the other one's row group include 1, as if ``s`` were a boolean."""
    scene.create("s STRUCT<x: BIGINT>, v BIGINT", 2)
    for number, first in enumerate((0, 3, 100, 200)):
        values = f"named_struct('x', id), id % 4 * 10 + {number} FROM range({first}, {first + 4})"
        scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {values}")
    race = Race.start(scene, None, target_rows=4)
    assert len(race.made[0].outputs) == 4
    delete_places(scene, "v = 31")
    check(scene, race, 1)
    assert race.points == 1


@pytest.mark.parametrize("version", [2, 3])
def test_a_further_replay_and_its_commit_take_few_jvm_calls(scene: Scene, version: int) -> None:
    """A call takes between 0.1 ms and more than 1 ms, and all must end before the user's next statement does."""
    scene.create("k INT, v STRING", version)
    scene.run("INSERT INTO {t} SELECT /*+ REPARTITION(12) */ cast(id AS int), 'v' FROM range(240)")
    race = Race.start(scene)
    for k in range(0, 40, 8):
        scene.run(f"DELETE FROM {{t}} WHERE k IN ({k}, {k + 97}, {k + 191})")
    replayed(race)
    scene.run("DELETE FROM {t} WHERE k IN (7, 107, 206)")
    with jvm_calls() as calls:
        replayed(race)
        race.commit()
    assert len(calls) <= 750
    assert sum(scene.spark_rows().values()) == sum(scene.log_rows().values()) == 240 - 18


def replayed(race: Race) -> None:
    """Replay the only rewrite with the point lookup."""
    changes, deletes, [made] = race.adapter.changes_since(race.snapshot), race.adapter.deletes, race.made
    lost = deletes.lost(made, race.snapshot, changes)
    places = deletes.places(lost)
    assert places is not None
    race.made = [deletes.mask(lost, places)]
