"""``lk.install`` without Spark: when automatic runs end, and what they leave behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from threading import Barrier, BrokenBarrierError, Event, get_ident
from types import SimpleNamespace
from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper import application
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.auto_report import AutoReport, TableResult
from lakekeeper.engine.auto_settings import AutoSettings
from lakekeeper.errors import AdapterError
from lakekeeper.recording import FleetMemory
from lakekeeper.spark import application as of_spark
from lakekeeper.spi import TableName

TABLES = ("ice.db.event", "ice.db.events")
WHY = Reason.of(Code.FAILED, error="the session has ended")


class Session:
    """A session whose Spark ends when the test says so: as in PySpark, no Python object notices that."""

    def __init__(self) -> None:
        self.ended = False
        bus = SimpleNamespace(waitUntilEmpty=lambda _: None)
        java = SimpleNamespace(isStopped=lambda: self.ended, listenerBus=lambda: bus)
        self.session = SimpleNamespace(sparkContext=lambda: java)
        system = SimpleNamespace(getProperty={"user.dir": "/app"}.__getitem__)
        self.view = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system)))
        self.properties: dict[int, dict[str, str | None]] = {}
        self.sparkContext = SimpleNamespace(
            _jsc=java,
            setLocalProperty=lambda key, value: self.of_thread().update({key: value}),
            getLocalProperty=lambda key: self.of_thread().get(key),
        )

    def of_thread(self) -> dict[str, str | None]:
        """The local properties of the current thread."""
        return self.properties.setdefault(get_ident(), {})


class Runs:
    """Automatic runs over two tables; each pass does what ``during`` says, and changes its tables.

    ``places`` has the locations of tables that are opened by a path.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tables: tuple[str, ...] = TABLES
        self.places: dict[str, str] = {}
        self.passes: list[list[str]] = []
        self.during: Callable[[], object] = lambda: None
        self.lane_closed = Event()
        self.reported: Callable[[str], object] = lambda _: None
        listening = SimpleNamespace(report_writes=self._listen, stop=lambda: None)
        settings = AutoSettings(TABLES, ("compact",), 86_400)
        for name, replacement in {
            "require_classic": lambda _: None,
            "is_enabled": lambda _: False,
            "lakekeeper_confs": lambda _: {"spark.lakekeeper.auto.enabled": "true"},
            "service_settings": lambda *_: settings,
            "fleet_memory": lambda _: FleetMemory(),
            "heavy_lane": self._lane,
            "listener_of": lambda _: listening,
            "StreamWrites": lambda *_: listening,
            "one_pass": self._pass,
            "resolve": lambda _, name: TableName(name, "", name, path=self.places.get(name, "")),
            "aliases": self._aliases,
        }.items():
            monkeypatch.setattr(application, name, replacement)
        for module in (application, of_spark):
            monkeypatch.setattr(module, "Jvm", lambda session: session)

    def wrote(self, table: str) -> None:
        """A query of the user has written a table."""
        self.reported(f"AppendData RelationV2[id#1L] {table} {table}, [write-format=parquet], true")

    def _listen(self, wrote: Callable[[str], object] | None) -> None:
        self.reported = wrote or (lambda _: None)

    def _aliases(self, _spark: Any, table: TableName) -> tuple[str, ...]:
        if table.path:
            return (table.path,)
        return table.text, table.text.removeprefix("ice."), table.text.replace("ice.db.", "file:/app/wh/")

    @contextmanager
    def _lane(self, *_: object) -> Iterator[Any]:
        yield SimpleNamespace(close=self.lane_closed.set)

    def _pass(self, _spark: Any, _settings: Any, *, only: Any, **_: Any) -> AutoReport:
        tables = [name for name in self.tables if only(name)]
        self.passes.append(tables)
        self.during()
        return AutoReport(tuple(TableResult(name, "done", WHY) for name in tables), 1)


class Passes:
    """A service whose passes the test starts."""

    def __init__(self, whole: Callable[[], object], _: float, *, early: Callable[[], object], **_more: Any):
        self.whole, self.early = whole, early
        self.running = True

    def start(self) -> None:
        """The test starts the passes."""

    def sooner(self) -> None:
        """The test starts the pass."""

    def stop(self) -> None:
        self.running = False


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


def test_automatic_runs_end_when_python_did_not_end_spark(runs: Runs) -> None:
    """After the master removed the application, each pass failed, and the history parked healthy tables for that."""
    spark: Any = Session()
    handle = lk.install(spark)
    assert handle.wait(1, timeout=30)
    assert handle.status().state == "running"
    spark.ended = True
    assert handle.status().state == "stopped"
    assert runs.lane_closed.wait(30), "the application of heavy tasks ends as well"
    assert not handle.wait(2, timeout=30)
    handle.stop()


def test_a_pass_in_which_spark_ends_does_not_count(runs: Runs) -> None:
    spark: Any = Session()
    runs.during = lambda: setattr(spark, "ended", True)
    handle = lk.install(spark)
    assert not handle.wait(1, timeout=30)
    assert (runs.passes, handle.status().last) == ([[*TABLES]], None)


def test_the_next_session_has_automatic_runs_of_its_own(runs: Runs) -> None:
    """Within a second of the end of the first session, the second one got its dead handle, and no runs."""
    first, second = Session(), Session()
    spark: Any = first
    handle = lk.install(spark)
    assert handle.wait(1, timeout=30)
    first.ended = True
    spark = second
    another = lk.install(spark)
    assert another.wait(1, timeout=30)
    assert another is not handle
    assert another.status().state == "running"
    another.stop()
    assert runs.passes == [[*TABLES], [*TABLES]]


def test_a_second_stop_leaves_later_runs_their_listener(runs: Runs) -> None:
    """The session has one listener: stopping an old handle again switched off the reports to the new one."""
    spark: Any = Session()
    old = lk.install(spark)
    assert old.wait(1, timeout=30)
    old.stop()
    new = lk.install(spark)
    assert new.wait(1, timeout=30)
    old.stop()
    runs.wrote("ice.db.event")
    assert new.status().writes_seen == 1
    new.stop()


def test_two_threads_that_install_share_one_service(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both found no service, and each started one: every table was maintained twice."""
    spark: Any = Session()
    both, settings = Barrier(2), AutoSettings(TABLES, ("compact",), 86_400)

    def slow(*_: Any) -> AutoSettings:
        with suppress(BrokenBarrierError):  # the second thread does not come this far
            both.wait(0.5)
        return settings

    monkeypatch.setattr(application, "service_settings", slow)
    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(lk.install, [spark, spark])
    assert one is other
    one.stop()


@pytest.mark.parametrize("before", [None, "reports"])
@pytest.mark.parametrize("fails", [False, True])
def test_the_last_pass_leaves_the_caller_in_its_scheduler_pool(
    runs: Runs, before: str | None, fails: bool
) -> None:
    """Later jobs of the program ran in the pool of maintenance."""
    session = Session()
    spark: Any = session
    handle = lk.install(spark)
    assert handle.wait(1, timeout=30)
    session.sparkContext.setLocalProperty("spark.scheduler.pool", before)
    pools: list[str | None] = []

    def note() -> None:
        pools.append(session.of_thread()["spark.scheduler.pool"])
        if fails:
            raise AdapterError("the catalog does not respond")

    runs.during = note
    runs.wrote("ice.db.event")
    with pytest.raises(AdapterError) if fails else nullcontext():
        handle.finish()
    assert pools == ["lakekeeper"]
    assert session.of_thread()["spark.scheduler.pool"] == before


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Passes]]:
    """The services that a test has installed."""
    made: list[Passes] = []

    def make(*given: Any, **named: Any) -> Passes:
        made.append(Passes(*given, **named))
        return made[-1]

    monkeypatch.setattr(application, "Service", make)
    yield made
    for each in made:
        each.stop()


def test_an_early_pass_forgets_no_write_to_another_table(runs: Runs, passes: list[Passes]) -> None:
    """A write during a pass may be its own commit, so it starts no early pass; the last pass has to see it."""
    spark: Any = Session()
    handle = lk.install(spark)
    runs.during = lambda: runs.wrote("ice.db.events")
    passes[0].whole()
    runs.during = lambda: None
    runs.wrote("ice.db.event")
    passes[0].early()
    handle.finish()
    assert runs.passes == [[*TABLES], ["ice.db.event"], ["ice.db.events"]]


def test_a_last_pass_looks_at_no_table_that_a_whole_pass_has_seen_since(
    runs: Runs, passes: list[Passes]
) -> None:
    spark: Any = Session()
    handle = lk.install(spark)
    runs.during = lambda: runs.wrote("ice.db.events")
    passes[0].whole()
    runs.during = lambda: None
    passes[0].whole()
    handle.finish()
    assert runs.passes == [[*TABLES], [*TABLES]]


def test_no_pass_follows_a_stop(runs: Runs, passes: list[Passes]) -> None:
    """`lakekeeper run` ran a last pass at the end of a program that had stopped its automatic runs."""
    spark: Any = Session()
    handle = lk.install(spark)
    runs.wrote("ice.db.event")
    handle.stop()
    handle.finish()
    assert runs.passes == []


def test_a_last_pass_is_the_last_one(runs: Runs, passes: list[Passes]) -> None:
    spark: Any = Session()
    handle = lk.install(spark)
    for _ in range(2):
        runs.wrote("ice.db.event")
        handle.finish()
    assert runs.passes == [["ice.db.event"]]


@pytest.mark.parametrize("at", ["ice.db.", "db.", "hdfs://nn:8020/app/wh/", "file:/app/wh/", "wh/", "./wh/"])
def test_a_pass_hides_no_write_to_a_table_with_a_longer_name(
    runs: Runs, passes: list[Passes], at: str
) -> None:
    """Writes to ``events`` during a pass that changed ``event`` started no early pass."""
    spark: Any = Session()
    handle = lk.install(spark)
    runs.wrote(f"{at}event")
    runs.during = lambda: runs.wrote(f"{at}events")
    passes[0].early()
    runs.during = lambda: None
    passes[0].early()
    assert runs.passes == [["ice.db.event"], ["ice.db.events"]]
    handle.stop()


SINK = "org.apache.spark.sql.connector.catalog.SupportsWrite[ice.db.event]"


@pytest.mark.parametrize(
    "others",
    [[SINK] * 1_000, [f"AppendData RelationV2[id#{n}L] ice.db.event" for n in range(1_000)]],
    ids=["batches of a stream", "inserts"],
)
def test_many_writes_to_one_table_hide_none_to_another(
    runs: Runs, passes: list[Passes], others: list[str]
) -> None:
    """The last pass of `lakekeeper run` missed a table: a stream had reported its sink a thousand times since."""
    spark: Any = Session()
    handle = lk.install(spark)
    runs.wrote("ice.db.events")
    for text in others:
        runs.reported(text)
    handle.finish()
    assert runs.passes == [[*TABLES]]


@pytest.mark.parametrize("at", [0, 1_000], ids=["before them", "after them"])
def test_a_pass_with_many_commits_hides_no_write_of_a_user(runs: Runs, passes: list[Passes], at: int) -> None:
    """Its own texts, which start no early pass, are too many to keep them and that of the user."""
    spark: Any = Session()
    handle = lk.install(spark)
    written = [f"ice.db.event, commit {n}" for n in range(1_000)]
    written.insert(at, "ice.db.events")
    runs.wrote("ice.db.event")
    runs.during = lambda: [runs.reported(each) for each in written]
    passes[0].early()
    runs.during = lambda: None
    passes[0].early()
    assert runs.passes == [["ice.db.event"], [*TABLES]]
    handle.stop()


RELATIVE = "warehouse/db.db/events"
PLACES = {
    "/app/warehouse/db.db/events": "file:/app/warehouse/db.db/events",
    "delta.`/app/warehouse/db.db/events`": "file:/app/warehouse/db.db/events",
    f"./{RELATIVE}/": f"file:/app/{RELATIVE}",
    RELATIVE: f"hdfs://nn:8020/user/me/{RELATIVE}",
    f"delta.`{RELATIVE}`": f"hdfs://nn:8020/user/me/{RELATIVE}",
}
"""A table as automatic runs call it → where it is. The JVM of a session was started in ``/app``."""


@pytest.mark.parametrize("table", PLACES)
@pytest.mark.parametrize("written", [RELATIVE, f"./{RELATIVE}"])
def test_a_write_to_a_relative_path_is_one_to_the_table(
    runs: Runs, passes: list[Passes], table: str, written: str
) -> None:
    """The last pass missed tables that the program had written with ``save("warehouse/db.db/events")``."""
    spark: Any = Session()
    runs.tables, runs.places = (table, "/app/warehouse/db.db/event"), PLACES
    handle = lk.install(spark)
    runs.reported(f"SaveIntoDataSourceCommand DeltaDataSource@1, Map(path -> {written}), Append")
    handle.finish()
    assert runs.passes == [[table]]
