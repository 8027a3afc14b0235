"""An Iceberg table of a REST catalog that asks for a token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.oracles.admission import with_token
from tests.oracles.rest_catalog import rest_catalog
from tests.wheel.user import FILES, User, reclustered

pytestmark = pytest.mark.wheel
HEADING = "## A REST catalog with a token"
TOKEN, WRONG = "right-0f3a-not-for-logs", "wrong-77c1-not-for-logs"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """The address of a server and its token in the place of those of the page."""
    (tmp_path / "rest").mkdir()
    with rest_catalog(tmp_path / "rest", admits=with_token(TOKEN)) as address:
        yield {"https://catalog.example": address, "the-token": TOKEN}


def test_an_iceberg_table(user: User, here: Mapping[str, str]) -> None:
    look, merge = user.follow(HEADING, here)
    before = user.fill("lake.db.e iceberg")
    assert f"{FILES} (" in user.run(look).out
    done = user.run(merge)
    reclustered(done)
    assert TOKEN not in done.out + done.err
    assert user.run(f"{look} --json").result["total_partition_count"] == 1
    assert user.rows("lake.db.e") == before


def test_a_wrong_token_is_one_sentence(user: User, here: Mapping[str, str]) -> None:
    look, merge = user.follow(HEADING, {**here, "the-token": WRONG})
    for command in (look, merge):
        done = user.run(command)
        assert done.code == 1
        (sentence,) = done.err.splitlines()
        conf = "spark.sql.catalog.lake"
        assert sentence.startswith(
            f"lakekeeper: lake.db.e: catalog 'lake' refuses access (check {conf}.token or {conf}.credential): "
        )
        assert WRONG not in done.out + done.err
    assert user.run(look).out == ""
