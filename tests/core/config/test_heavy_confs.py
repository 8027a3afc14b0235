"""Confs of the application of heavy tasks: which are accepted, and what errors say."""

from __future__ import annotations

import pytest

from lakekeeper.core.config.heavy_confs import heavy_confs
from lakekeeper.core.config.options import resolve
from lakekeeper.errors import OptionError

MEMORY = "spark.lakekeeper.heavy.conf.spark.executor.memory"


def test_heavy_confs_are_found_among_other_confs() -> None:
    confs = {"spark.lakekeeper.heavy.master": "yarn", MEMORY: "8g", "spark.executor.memory": "1g"}
    assert heavy_confs(confs) == {"spark.executor.memory": "8g"}
    assert resolve(conf=confs).heavy.own_master == "yarn"


@pytest.mark.parametrize(
    "name, expected",
    [
        ("spark.master", "which spark.lakekeeper.heavy.master sets"),
        ("spark.lakekeeper.budget-bytes", "a conf of Spark"),
        ("executor.memory", "a conf of Spark, as in spark.lakekeeper.heavy.conf.spark.executor.memory"),
    ],
)
def test_a_conf_that_must_not_be_set_is_an_error_before_anything_starts(name: str, expected: str) -> None:
    with pytest.raises(OptionError, match=expected):
        resolve(conf={f"spark.lakekeeper.heavy.conf.{name}": "x"})


def test_an_error_hides_a_secret() -> None:
    with pytest.raises(OptionError) as error:
        resolve(conf={"spark.lakekeeper.heavy.conf.fs.s3a.secret.key": "canary"})
    assert "canary" not in str(error.value)


def test_a_table_property_has_no_effect() -> None:
    ignored = resolve(
        properties={MEMORY.removeprefix("spark."): "8g", "lakekeeper.heavy.master": "yarn"}
    ).ignored
    assert ignored == {
        "lakekeeper.heavy.conf.spark.executor.memory": f"only the operator can set it, as {MEMORY}",
        "lakekeeper.heavy.master": "only the operator can set it, as spark.lakekeeper.heavy.master",
    }


def test_a_call_cannot_set_them() -> None:
    with pytest.raises(OptionError):
        resolve({"heavy.conf.spark.executor.memory": "8g"})


@pytest.mark.parametrize("master", [None, "", "none", "NONE"])
def test_without_a_master_heavy_tasks_run_in_the_session(master: str | None) -> None:
    confs = {} if master is None else {"spark.lakekeeper.heavy.master": master}
    assert resolve(conf=confs).heavy.own_master is None
