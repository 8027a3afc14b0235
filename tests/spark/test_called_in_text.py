"""CALL on Spark 3.5, whose parser has none: what Spark's own CALL means on the lines that have it."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakekeeper.errors import OptionError
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.parsed import parse
from lakekeeper.statements.procedures import Call, called, called_in_text

pytestmark = pytest.mark.spark

CALLS: dict[str, Any] = {
    "CALL lakekeeper.system.recluster('db.t')": ("recluster", [("", "db.t")]),
    "call LakeKeeper.SYSTEM.Compact(table => 'db.`a.b`', options => map('max-rounds', '3'), dry_run => true);": (
        "compact",
        [("table", "db.`a.b`"), ("options", {"max-rounds": "3"}), ("dry_run", True)],
    ),
    "CALL /* a comment ( */ lakekeeper.`system`.cluster_by('t', columns => array('a', 'b(')) -- the end": (
        "cluster_by",
        [("", "t"), ("columns", ["a", "b("])],
    ),
    "CALL lakekeeper.system.history()": ("history", []),
    "SELECT 1": None,
    "CALL ice.system.rewrite_data_files('db.t')": None,
}


@pytest.mark.parametrize("statement", CALLS)
def test_a_call_has_its_procedure_and_arguments(spark: SparkSession, statement: str) -> None:
    expected = CALLS[statement] and Call(*CALLS[statement])
    assert called_in_text(spark, statement) == expected
    if Jvm(spark).shim.parses_call:
        assert called(parse(spark, statement)) == expected


def test_an_unknown_procedure_is_refused(spark: SparkSession) -> None:
    with pytest.raises(OptionError, match="recluster"):
        called_in_text(spark, "CALL lakekeeper.system.reclusters('db.t')")
