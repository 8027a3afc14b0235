"""``lk.sql``: statements of Spark's own that lose to our rewrites are run again, and to nobody else."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper.errors import OptionError
from tests.formats.gate import Gate
from tests.formats.lakes import Lake

STATEMENTS = {
    "delete": "DELETE FROM {t} WHERE id = 7 AND {gate}(id)",
    "update": "UPDATE {t} SET v = 'new' WHERE id = 7 AND {gate}(id)",
    "merge": "MERGE INTO {t} USING (SELECT 7L AS i) s ON {t}.id = s.i AND {gate}({t}.id) WHEN MATCHED THEN DELETE",
}


def expected(lake: Lake, name: str, kind: str) -> list[Any]:
    frame = lake.spark.table(name)
    if kind == "update":
        frame = frame.selectExpr("id", "k", "if(id = 7, 'new', v) v")
        return sorted(map(tuple, frame.collect()))
    return sorted(map(tuple, frame.where("id <> 7").collect()))


@pytest.mark.parametrize(
    "kind", ["update", *(pytest.param(kind, marks=pytest.mark.deep) for kind in ("delete", "merge"))]
)
def test_a_statement_that_loses_to_our_rewrite_is_run_again(
    lake: Lake, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = lake.overlapping(3, 20)
    table = lake.table(name)
    table.cluster_by("k")
    gate = Gate(lake.spark, tmp_path)
    after = expected(lake, name, kind)
    told: list[Mapping[str, Any]] = []
    statement = STATEMENTS[kind].format(t=name, gate=gate.name)

    def run() -> Any:
        return lk.sql(lake.spark, statement, observer=lambda _, info: told.append(info))

    with caplog.at_level(logging.WARNING, "lakekeeper"):
        future = gate.around(run, table.recluster)
    future.result()
    assert sorted(map(tuple, lake.spark.table(name).collect())) == after
    assert len(told) == 1, "lost once, and only once"
    assert "lakekeeper run" in told[0]["reason"]
    assert "run again" in caplog.text


def test_a_statement_that_loses_to_somebody_else_fails_as_ever(lake: Lake, tmp_path: Path) -> None:
    name = lake.overlapping(2, 20)
    gate = Gate(lake.spark, tmp_path)
    statement = STATEMENTS["update"].format(t=name, gate=gate.name)
    rival = f"UPDATE {name} SET v = 'rival' WHERE id = 7"
    future = gate.around(lambda: lk.sql(lake.spark, statement), lambda: lake.spark.sql(rival))
    error = future.exception()
    assert error is not None
    assert [r["v"] for r in lake.spark.table(name).where("id = 7").collect()] == ["rival"]


def test_other_statements_are_handed_on(lake: Lake) -> None:
    name = lake.overlapping(1, 5)
    assert lk.sql(lake.spark, f"SELECT count(*) FROM {name}").collect()[0][0] == 5
    with pytest.raises(OptionError, match="statement"):
        lk.sql(lake.spark, "DELETE FORM nothing")
    with pytest.raises(Exception, match=r"(?i)not.found|cannot be found"):
        lk.sql(lake.spark, f"DELETE FROM {name}_not_there WHERE id = 1")
