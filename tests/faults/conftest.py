"""The full series are run where they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from tests.faults.ground import Ground, ground_of
from tests.faults.storage import Storage, faulty_storage


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "faults_full" in str(config.option.markexpr):
        return
    left = [item for item in items if item.get_closest_marker("faults_full") is not None]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session")
def ground(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ground]:
    """The table of a kind; each is made once."""
    made: dict[str, Ground] = {}

    def of(kind: str) -> Ground:
        if kind not in made:
            made[kind] = ground_of(spark, kind, tmp_path_factory.mktemp("faults") / kind)
        return made[kind]

    return of


@pytest.fixture
def storage(spark: SparkSession) -> Iterator[Storage]:
    with faulty_storage(spark) as made:
        yield made
