"""Infinite values: Arrow before version 25 bounds them by the largest finite number."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakekeeper.columnar.long_texts import LongTexts
from lakekeeper.columnar.statistics import statistics_of
from lakekeeper.columnar.tallies import Tally
from lakekeeper.core.model.file_merge import FileColumn

TYPES = {
    "float": (pa.float32(), float.fromhex("0x1.fffffep127")),
    "double": (pa.float64(), 1.7976931348623157e308),
}
INF = math.inf


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    "groups, in_footer, expected",
    [
        ([[-INF, None]], ["-inf -max"], (-INF, -INF)),
        ([[INF, math.nan]], ["max inf"], (INF, INF)),
        ([[-INF, INF]], ["-inf inf"], (-INF, INF)),
        ([[-INF], [-INF]], ["-inf -max", "-inf -max"], (-INF, -INF)),
        ([[-INF], [INF]], ["-inf -max", "max inf"], (-INF, INF)),
        ([[-INF], [-5.0]], ["-inf -max", "-5 -5"], (-INF, -5.0)),
        ([[INF], [5.0, INF]], ["max inf", "5 inf"], (5.0, INF)),
        ([[-INF, "-max"]], ["-inf -max"], (-INF, "-max")),
        ([["max"], [INF]], ["max max", "max inf"], ("max", INF)),
    ],
)
def test_bounds_are_those_of_the_values(
    tmp_path: Path,
    kind: str,
    groups: list[list[object]],
    in_footer: list[str],
    expected: tuple[object, object],
) -> None:
    """The footer is written as old versions write it: with the bounds that ``in_footer`` names."""
    type_, greatest = TYPES[kind]
    named: dict[object, float] = {"max": greatest, "-max": -greatest}
    column, tally = FileColumn("x", kind), Tally()
    for values in groups:
        tally.add(pa.array([named.get(value, value) for value in values], type_))
    schema = pa.schema([("x", type_)])
    with pq.ParquetWriter(tmp_path / "footer.parquet", schema) as writer:
        for ends in in_footer:
            bounds = [named[end] if end in named else float(end) for end in ends.split()]
            writer.write_table(pa.table([pa.array(bounds, type_)], schema))
    [found] = statistics_of(pq.read_metadata(tmp_path / "footer.parquet"), [column], [tally], LongTexts())
    assert (float(found.lo), float(found.hi)) == tuple(named.get(end, end) for end in expected)
