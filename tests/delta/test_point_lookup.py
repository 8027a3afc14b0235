"""Lost rows are found without a Spark job where that is exact, and by a scan otherwise."""

from __future__ import annotations

import pytest

from tests.delta.race import VECTORS, Race, table
from tests.delta.scene import Scene

pytestmark = pytest.mark.delta

# Two rows of each pair differ only in the column that the winner filters on: (columns, further properties, statements,
# predicate).
Case = tuple[str, str, list[str], str]
EXACT: dict[str, Case] = {
    "decimals": (
        "k INT, v DECIMAL(38, 3)",
        "",
        ["INSERT INTO {t} VALUES (1, 1.001), (1, 1.002), (1, null)"],
        "v = 1.001",
    ),
    "timestamps": (
        "k INT, v TIMESTAMP, n TIMESTAMP_NTZ",
        "",
        [
            (
                "INSERT INTO {t} SELECT 1, timestamp '2024-01-01 00:00:00' + make_dt_interval(0, 0, 0, id / 1000000), "
                "timestamp_ntz '2024-01-01 00:00:00' FROM range(0, 9, 1, 1)"
            )
        ],
        "v = timestamp '2024-01-01 00:00:00.000003'",
    ),
    "zeros and NaN": (
        "k INT, v DOUBLE",
        "",
        ["INSERT INTO {t} VALUES (1, -0D), (1, 0D), (1, double('NaN')), (1, double('NaN')), (1, null)"],
        "cast(v AS string) IN ('-0.0', 'NaN')",
    ),
    "structs": (
        "k INT, v STRUCT<x: INT, y: STRUCT<z: STRING>>",
        "",
        [
            (
                "INSERT INTO {t} VALUES (1, null), (1, named_struct('x', null, 'y', null)), "
                "(1, named_struct('x', null, 'y', named_struct('z', null)))"
            )
        ],
        "v IS NOT NULL AND v.y IS NULL",
    ),
    "a renamed column": (
        "k INT, v INT",
        ", 'delta.columnMapping.mode'='name'",
        [
            "INSERT INTO {t} VALUES (1, 5), (1, 6)",
            "ALTER TABLE {t} RENAME COLUMN v TO w",
            "INSERT INTO {t} VALUES (1, 7)",
        ],
        "w = 5",
    ),
    "row ids": (
        "k INT, v ARRAY<INT>",
        ", 'delta.enableRowTracking'='true'",
        ["INSERT INTO {t} VALUES (1, array(1)), (1, array(2))", "INSERT INTO {t} VALUES (1, array(1))"],
        "v = array(1)",
    ),
}
SCANNED: dict[str, Case] = {
    "lists": (
        "k INT, v ARRAY<INT>",
        "",
        ["INSERT INTO {t} VALUES (1, array(1)), (1, array(2))"],
        "v = array(1)",
    ),
    "maps": (
        "k INT, v MAP<STRING, INT>",
        "",
        ["INSERT INTO {t} VALUES (1, map('a', 1)), (1, map('a', 2))"],
        "v['a'] = 1",
    ),
    "padded text": (
        "k INT, v CHAR(5)",
        "",
        ["INSERT INTO {t} VALUES (1, 'aaaaa'), (1, 'bbbbb')"],
        "v = 'aaaaa'",
    ),
    "an added column": (
        "k INT",
        "",
        [
            "INSERT INTO {t} VALUES (1)",
            "ALTER TABLE {t} ADD COLUMN v INT",
            "INSERT INTO {t} VALUES (1, 5), (1, 6)",
        ],
        "v IS NULL",
    ),
    "a day of another calendar": (
        "k INT, v DATE",
        "",
        ["INSERT INTO {t} VALUES (1, DATE '0001-01-01'), (1, DATE '2024-01-01')"],
        "v < DATE '1500-01-01'",
    ),
}


def _race(scene: Scene, case: Case) -> Race:
    columns, properties, statements, where = case
    table(scene, VECTORS + properties, columns).run(*statements, *statements[-1:])
    race = Race.start(scene)
    rows = sum(scene.spark_rows().values())
    scene.run(f"DELETE FROM {{t}} WHERE {where}")
    assert 0 < sum(scene.spark_rows().values()) < rows
    return race


@pytest.mark.usefixtures("files_by_path")
@pytest.mark.parametrize("case", EXACT.values(), ids=EXACT)
def test_rows_are_found_without_a_scan(scene: Scene, case: Case) -> None:
    race = _race(scene, case)
    race.won(most_gone=1.0)
    assert race.points == 1


@pytest.mark.parametrize("case", SCANNED.values(), ids=SCANNED)
def test_rows_that_cannot_be_compared_exactly_are_found_by_a_scan(scene: Scene, case: Case) -> None:
    race = _race(scene, case)
    race.won(most_gone=1.0)
    assert race.points == 0


def test_a_row_is_not_taken_for_another_by_a_struct_of_one_field(scene: Scene) -> None:
    """Two rows agree in ``s``; only the bounds of the other one's row group include 1, as if ``s`` were a boolean."""
    table(scene, VECTORS, "s STRUCT<x: BIGINT>, v BIGINT")
    for number, first in enumerate((0, 3, 100, 200)):
        values = f"named_struct('x', id), id % 4 * 10 + {number} FROM range({first}, {first + 4})"
        scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {values}")
    race = Race.start(scene, None, target_rows=4)
    assert len(race.rewrites[0].outputs) == 4
    scene.run("DELETE FROM {t} WHERE v = 31")
    race.won(most_gone=1.0)
    assert race.points == 1
