"""The whole matrix runs on demand; a summary of all outcomes is printed at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.matrix.cells import Cell, shown

_PARTITIONS = ("spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions")

OUTCOMES: pytest.StashKey[dict[Cell, str]] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    config.stash.setdefault(OUTCOMES, {})


@pytest.fixture
def outcomes(request: pytest.FixtureRequest) -> dict[Cell, str]:
    """Outcomes of the cells that ran so far."""
    return request.config.stash.setdefault(OUTCOMES, {})


@pytest.fixture(autouse=True)
def _tiny(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tables of thirty rows: a second task would cost only its start."""
    if "spark" not in request.fixturenames:
        yield
        return
    spark = request.getfixturevalue("spark")
    before = {name: spark.conf.get(name, None) for name in _PARTITIONS}
    for name in _PARTITIONS:
        spark.conf.set(name, "1")
    yield
    for name, value in before.items():
        spark.conf.set(name, value) if value is not None else spark.conf.unset(name)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "matrix" in str(config.option.markexpr):
        return
    left = [item for item in items if item.get_closest_marker("matrix") is not None]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    outcomes = config.stash.get(OUTCOMES, {})
    if outcomes:
        terminalreporter.section("outcomes of the matrix")
        for line in shown(outcomes):
            terminalreporter.write_line(line)
