"""Commits whose response is lost, through the public API: settled by the run id in the log, never done twice.

landed    the report says committed, the rows are right, no file is removed
lost      Unknown is raised, no file is removed, and the next call finishes the work
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakekeeper.errors import Unknown
from tests.faults.ground import Ground, IcebergGround
from tests.faults.storage import Storage
from tests.faults.trial import PROGRAMS, Ran, Trial
from tests.iceberg.swaps import tampered
from tests.oracles.rest_catalog import Answer, rest_catalog

Grounds = Callable[[str], Ground]
RACE, DELETE = "raced recluster", "delete"


def cases(names: str, here: list[tuple[Any, ...]], elsewhere: list[tuple[Any, ...]]) -> pytest.MarkDecorator:
    """Parameters: some for every run, and those only for the full series."""
    daily = [pytest.param(*case) for case in here]
    full = [pytest.param(*case, marks=pytest.mark.faults_full) for case in elsewhere]
    return pytest.mark.parametrize(names, [*daily, *full])


def ended_well(trial: Trial, ran: Ran) -> None:
    assert ran.error is None, repr(ran.error)
    trial.check()
    assert trial.commits() == 1
    assert not trial.leftovers()
    trial.finish(1)


def ended_unknown(trial: Trial, ran: Ran, calls: list[str]) -> None:
    """``calls`` are those of the storage."""
    assert isinstance(ran.error, Unknown), repr(ran.error)
    assert "history" in str(ran.error)
    trial.check()
    assert trial.commits() == 0
    notes = ("/_delta_log/", "/_lakekeeper/intents/")  # Delta's own, and the record that the run ended
    removed = [c for c in calls if c.startswith("delete") and not any(folder in c for folder in notes)]
    assert not removed, "files of a commit that may still land were deleted"
    left = trial.leftovers()
    assert left
    trial.finish(0)
    assert left <= trial.leftovers()


@pytest.mark.delta
@cases("program,landed", [(RACE, True)], [(DELETE, False), (RACE, False), (DELETE, True)])
def test_delta_fails_at_the_rename_of_the_commit(
    ground: Grounds, storage: Storage, program: str, landed: bool
) -> None:
    trial = Trial(ground("delta"), PROGRAMS[program]).start()
    table = trial.ground.table()
    storage.arm(trial.ground.home, "rename delete", 0, "after" if landed else "before")
    ran = trial.run(table)
    calls = storage.disarm()
    assert calls[0].endswith(".json")
    if landed:
        ended_well(trial, ran)
    else:
        ended_unknown(trial, ran, calls)


@pytest.mark.delta
@cases("program", [(DELETE,)], [(RACE,)])
def test_delta_gets_a_conflict_with_its_own_commit(ground: Grounds, storage: Storage, program: str) -> None:
    """The store's client retries its put-if-absent, and the store reports that the file exists: its own."""
    trial = Trial(ground("delta"), PROGRAMS[program]).start()
    table = trial.ground.table()
    storage.arm(trial.ground.home, "rename", 0, "exists after")
    ran = trial.run(table)
    assert storage.disarm()[0].endswith(".json")
    ended_well(trial, ran)


@pytest.mark.iceberg
@cases("program,landed", [(RACE, False), (DELETE, True)], [(RACE, True), (DELETE, False)])
def test_iceberg_loses_the_response_of_the_catalog(
    ground: Grounds, storage: Storage, program: str, landed: bool
) -> None:
    trial = Trial(ground("iceberg-v3"), PROGRAMS[program]).start()
    adapter, swaps = tampered(trial.ground.spark, trial.ground.sql)
    table = trial.ground.table(lambda _: adapter)

    def lost(real: Any, base: Any, updated: Any) -> None:
        if landed:
            real.commit(base, updated)
        raise ConnectionResetError("injected: reset by peer")

    storage.arm(trial.ground.home, "delete")
    with swaps.acting(lost):
        ran = trial.run(table)
    calls = storage.disarm()
    if landed:
        ended_well(trial, ran)
    else:
        ended_unknown(trial, ran, calls)


@dataclass
class Moody:
    """How the catalog treats the commits of a case: it applies the first one or not, and returns the status."""

    status: int = 0
    does: bool = True
    commits: int = 0

    def __call__(self, commit: Callable[[], None]) -> None:
        self.commits += 1
        first, status = self.commits == 1, self.status
        if self.does or not first or not status:
            commit()
        if first and status:
            raise Answer(status)


class RestGround(IcebergGround):
    """A table in a REST catalog of this process."""

    @property
    def catalog_file(self) -> str:
        return str(self.root.parent / "rest.db")


@pytest.fixture(scope="module")
def moody() -> Moody:
    return Moody()


@pytest.fixture(scope="module")
def rest(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, moody: Moody) -> Iterator[Ground]:
    home = tmp_path_factory.mktemp("rest")
    with rest_catalog(home, moody) as address:
        name = f"rest_{uuid.uuid4().hex[:8]}"
        prefix = f"spark.sql.catalog.{name}"
        spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set(f"{prefix}.type", "rest")
        spark.conf.set(f"{prefix}.uri", address)
        RestGround.catalog = name
        yield _made(spark, home / "rest_table")
        for key in (prefix, f"{prefix}.type", f"{prefix}.uri"):
            spark.conf.unset(key)


def _made(spark: SparkSession, root: Path) -> Ground:
    root.mkdir()
    return RestGround(spark, "iceberg-v2", root)


@pytest.mark.iceberg
@cases(
    "program,status",
    [(RACE, 409), (DELETE, 409), (RACE, 503), (DELETE, 500)],
    [(RACE, 500), *((program, status) for program in (RACE, DELETE) for status in (502, 504)), (DELETE, 503)],
)
def test_a_rest_catalog_commits_and_reports_failure(
    rest: Ground, moody: Moody, program: str, status: int
) -> None:
    """apache/iceberg 12818: 5xx after success, 409 against its own commit; the commit's files were deleted."""
    trial = Trial(rest, PROGRAMS[program]).start()
    table = trial.ground.table()
    moody.status, moody.does, moody.commits = status, True, 0
    ran = trial.run(table)
    moody.status = 0
    ended_well(trial, ran)


@pytest.mark.iceberg
@cases("program", [(DELETE,)], [(RACE,)])
def test_a_rest_catalog_fails_with_an_unknown_outcome(
    rest: Ground, storage: Storage, moody: Moody, program: str
) -> None:
    trial = Trial(rest, PROGRAMS[program]).start()
    table = trial.ground.table()
    moody.status, moody.does, moody.commits = 500, False, 0
    storage.arm(trial.ground.home, "delete")
    ran = trial.run(table)
    calls = storage.disarm()
    moody.status = 0
    assert moody.commits == 1
    ended_unknown(trial, ran, calls)
