"""Errors in a search for files: of the predicate, or of the log, which can be read again."""

from __future__ import annotations

from typing import Any

import pytest

from lakekeeper.errors import AdapterError, NotFound, OptionError
from lakekeeper_delta import where
from lakekeeper_delta.native import Log
from tests.delta.scene import Scene

pytestmark = pytest.mark.delta


@pytest.fixture
def log(scene: Scene) -> Log:
    scene.run(
        "CREATE TABLE {t} (k BIGINT, p STRING) USING delta PARTITIONED BY (p)",
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')",
    )
    return scene.log()


@pytest.mark.parametrize("text", ["nope = 1", "k = ", "k = interval 1 day", "cast(p AS INT) = 1"])
def test_an_error_of_the_predicate_names_it(log: Log, text: str) -> None:
    with pytest.raises(OptionError, match="a predicate over the table's columns"):
        where.matching(log, log.latest(), text)


def test_an_error_of_the_log_is_none_of_the_predicate(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delete that had searched for an hour reported an invalid predicate, and discarded its work."""

    def down(*_: Any) -> None:
        raise ConnectionError("503 Slow Down")

    with monkeypatch.context() as patch:
        patch.setattr(where, "parts_of", down)
        with pytest.raises(AdapterError, match=r"could not be found .*503 Slow Down"):
            where.matching(log, log.latest(), "k = 1")
    found = where.matching(log, log.latest(), "p = 'a'")
    assert found is not None
    assert len(found) == 1


def test_a_version_that_could_not_be_read_is_not_gone(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of the trash were taken for those of another table."""
    uuid = log.latest().table_uuid
    with pytest.raises(NotFound, match="version 99 can no longer be read"):
        log.at(99, uuid)
    with pytest.raises(NotFound, match="belongs to another table"):
        log.at(0, "another")

    def down(*_: Any) -> None:
        raise ConnectionError("503 Slow Down")

    with monkeypatch.context() as patch:
        patch.setattr(type(log.shim), "snapshot_at", down)
        with pytest.raises(AdapterError, match=r"could not be read .*503 Slow Down"):
            log.at(98, uuid)
