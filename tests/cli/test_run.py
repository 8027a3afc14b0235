"""Arguments that ``lakekeeper run`` passes to PySpark; ``tests/spark/test_run_program.py`` runs whole programs."""

from __future__ import annotations

import shlex

import pytest

from lakekeeper.cli.run import submit_args


@pytest.mark.parametrize("given", ["", "pyspark-shell", "--conf spark.a=env --name 'a b' pyspark-shell"])
def test_the_command_line_wins_over_the_environment(given: str) -> None:
    found = shlex.split(submit_args(given, ["--conf", "spark.a=it's ours"]))
    assert found[-3:] == ["--conf", "spark.a=it's ours", "pyspark-shell"], "the last of several values counts"
    assert found[:-3] == shlex.split(given)[:-1]
