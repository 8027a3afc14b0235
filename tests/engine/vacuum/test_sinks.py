"""A vacuum keeps the positions that streams into a table look up on restart, and reports them."""

from __future__ import annotations

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.stream_positions import SinkCommit
from lakekeeper.core.vacuum.streams_report import StreamsReport
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from lakekeeper.errors import NotFound
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.storage import MemoryStorage
from tests.engine.scene import written

DAY = 24 * HOUR_MS
FLINK = {
    "flink.job-id": "5ba1",
    "flink.operator-id": "3f2a",
    "flink.max-committed-checkpoint-id": "7",
}
KAFKA = {"kafka.connect.offsets.control.group": '{"0":3}'}


@pytest.fixture
def table() -> MemoryTable:
    """A Flink job commits on day 2 and is down afterwards; the files are replaced daily, for ten days."""
    made = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=False))
    for day in range(10):
        made.later(DAY)
        made.overwrite([{"k": day}])
        if day == 1:
            made.apply("STREAM", lambda now: now, summary=FLINK)
    return made


def run(
    table: MemoryTable, *, trash: bool = False, orphans: bool = False, sink_hours: int = 720
) -> VacuumReport:
    options = {"vacuum.max-share": 1, "vacuum.sink-retention-hours": sink_hours}
    resolved = resolve(options, {}, {})
    request = VacuumRequest(resolved, age_ms=DAY, trash=trash, orphans=orphans)
    return vacuum(MemoryAdapter(table), request, clock=Clock(now_ms=lambda: table.now_ms))


def position(table: MemoryTable) -> str:
    """The position that the job finds on restart: from the newest version back, as far as the log goes."""
    for version in reversed(table.versions):
        if version.number in table.expired:
            return "nothing"
        if "flink.job-id" in version.summary:
            return version.summary["flink.max-committed-checkpoint-id"]
    return "nothing"


def test_the_position_of_a_job_that_is_down_outlives_the_retention(table: MemoryTable) -> None:
    report = run(table)
    assert position(table) == "7"
    assert [row["k"] for row in table.rows(3)] == [1]
    with pytest.raises(NotFound):
        table.rows(1)
    text = str(report)
    assert "the last commit of Flink job 5ba1 (operator 3f2a)" in text
    assert "vacuum.sink-retention-hours" in text


def test_its_files_stay_out_of_the_trash_too(table: MemoryTable) -> None:
    run(table, trash=True)
    assert position(table) == "7"
    assert [row["k"] for row in table.rows(3)] == [1]


def test_the_position_expires_after_the_retention_of_sinks(table: MemoryTable) -> None:
    run(table, sink_hours=24 * 7)
    assert position(table) == "nothing"
    assert len(table.versions) - len(table.expired) == 2


def test_where_the_log_itself_keeps_positions_no_version_is_held() -> None:
    made = MemoryTable("db.t", {"k": "int"})
    made.apply("STREAM", lambda now: now, summary=FLINK)
    for day in range(10):
        made.later(DAY)
        made.overwrite([{"k": day}])
    (found,) = MemoryAdapter(made).storage.sinks()
    assert found.version is None
    run(made)
    with pytest.raises(NotFound):
        made.rows(3)


@pytest.mark.parametrize("linear", [True, False])
def test_files_that_a_stream_may_yet_commit_are_no_orphans(linear: bool) -> None:
    """Loss L90: it is stopped between its data files and their commit, and comes back after their grace."""
    made = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=linear))
    made.append([{"k": 1}])
    abandoned = written(made)
    made.later(4 * DAY)
    made.apply("STREAM", lambda now: now, summary=KAFKA)
    pending = written(made)
    made.later(10 * DAY)
    report = run(made, orphans=True)
    assert (abandoned in made.disk, pending in made.disk) == (False, True)
    assert report.plan is not None
    assert "may yet commit it" in str(report.plan.spared)
    run(made, orphans=True, sink_hours=9 * 24)
    assert pending not in made.disk


def test_a_stream_that_records_no_times_may_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss L153: it counted as none. ``lastUpdated`` of Delta's ``txn`` is optional, and delta-rs leaves it out."""
    made = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=True))
    made.append([{"k": 1}])
    pending = written(made)
    made.later(10 * DAY)
    undated = SinkCommit("Delta application a", "transaction 1", None, None)
    monkeypatch.setattr(MemoryStorage, "sinks", lambda _: [undated])
    report = run(made, orphans=True)
    assert pending in made.disk
    assert report.plan is not None
    assert "may yet commit it" in str(report.plan.spared)
    run(made, orphans=True, sink_hours=0)
    assert pending not in made.disk


def test_the_streams_are_listed_with_the_position_kept_for_each(table: MemoryTable) -> None:
    found = tuple(MemoryAdapter(table).storage.sinks())
    report = StreamsReport("db.t", found, 30 * DAY, table.now_ms)
    assert str(report).splitlines()[2] == (
        "Flink job 5ba1 (operator 3f2a)  checkpoint 7  8 days ago   version 3 and all after it, for 22 days"
    )
    assert report.to_dict()["streams"][0]["version"] == 3
    over = StreamsReport("db.t", found, 7 * DAY, table.now_ms)
    assert over.holds(found[0]) == "nothing any more"
    assert str(StreamsReport("db.t", (), DAY, 0)) == "no stream has recorded a position in the log"
