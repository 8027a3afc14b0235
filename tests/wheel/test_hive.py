"""Tables of a Hive metastore, found with nothing but a spark-defaults.conf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.catalogs.metastore import hive_metastore
from tests.wheel.user import FILES, User, fallback, reclustered

pytestmark = pytest.mark.wheel
HEADING = "## A Hive metastore"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """The address of a metastore, a process of its own, in the place of that of the page."""
    (tmp_path / "metastore").mkdir()
    with hive_metastore(tmp_path / "metastore") as address:
        yield {"thrift://metastore:9083": address}


def test_delta_by_its_name_and_iceberg_in_a_hive_catalog(user: User, here: Mapping[str, str]) -> None:
    look, of_delta, of_iceberg = user.follow(HEADING, here)
    before = user.fill("db.t delta", "ice.db.e iceberg")
    assert f"{FILES} (" in user.run(look).out
    for merge in (of_delta, of_iceberg):
        done = user.run(merge)
        reclustered(done)
        assert fallback(done) == ""
        assert done.err.count("\n") == 3, "three lines of progress, and no log"
    assert user.run(f"{look} --json").result["total_partition_count"] == 1
    assert user.rows("db.t", "ice.db.e") == before
    assert sorted(path.name for path in user.folder.iterdir()) == ["conf", "spark-warehouse", "tables.sql"]


def test_iceberg_by_its_name_in_the_session_catalog(user: User, here: Mapping[str, str]) -> None:
    look, merge, _ = user.follow(HEADING, {**here, "db.t": "db.e"}, file=1)
    before = user.fill("db.e iceberg")
    reclustered(user.run(merge))
    assert user.run(f"{look} --json").result["total_partition_count"] == 1
    assert user.rows("db.e") == before
