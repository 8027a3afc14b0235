"""Real engines beside lakekeeper: only on demand (``-m neighbours``, or ``make neighbours``)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.neighbours import outcomes, trino_server
from tests.neighbours.flink_jobs import Job
from tests.neighbours.outcomes import Outcomes
from tests.neighbours.trino_server import Trino

_OUTCOMES: pytest.StashKey[Outcomes] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    config.stash.setdefault(_OUTCOMES, Outcomes())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "neighbours" in str(config.option.markexpr):
        return
    left = [item for item in items if item.get_closest_marker("neighbours") is not None]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash[_OUTCOMES].rows
    if rows:
        terminalreporter.section("outcomes beside other engines")
        terminalreporter.write_line(outcomes.table(row.cells() for row in rows))
        outcomes.PAGE.write_text(outcomes.merged(outcomes.PAGE.read_text(), rows))


@pytest.fixture
def beside(request: pytest.FixtureRequest) -> Outcomes:
    """Where a test records its outcome."""
    return request.config.stash[_OUTCOMES]


@pytest.fixture(scope="session")
def seconds() -> int:
    """How long writers run beside maintenance: ``$LAKEKEEPER_NEIGHBOURS_SECONDS``, by default ten minutes."""
    return int(os.environ.get("LAKEKEEPER_NEIGHBOURS_SECONDS", "600"))


@pytest.fixture(scope="session")
def sqlite(spark: object, warehouse: Path) -> Path:
    """The database of the Iceberg catalog ``ice``, which all engines share: readers and a writer at the same time."""
    path = warehouse / "ice.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode=WAL")
    return path


@pytest.fixture(scope="session")
def trino(tmp_path_factory: pytest.TempPathFactory, sqlite: Path, warehouse: Path) -> Iterator[Trino]:
    server = trino_server.started(tmp_path_factory.mktemp("trino"), sqlite, warehouse)
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _as_users_run_it(request: pytest.FixtureRequest) -> Iterator[None]:
    """Commits wait for gaps between users' statements, as by default; the tests' own session disables this."""
    if "spark" not in request.fixturenames:
        yield
        return
    conf, name = request.getfixturevalue("spark").conf, "spark.lakekeeper.commit.quiet-window-ms"
    before = conf.get(name)
    conf.unset(name)
    yield
    conf.set(name, before)


@pytest.fixture
def jobs() -> Iterator[list[Job]]:
    """Jobs of a test; those still running at its end are killed."""
    made: list[Job] = []
    yield made
    for job in made:
        if job.running:
            job.kill()
