"""A commit to Nessie whose answer is lost or wrong: the rows are right, and the outcome is known or called unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.errors import NotFound, Rejected, Unknown
from tests.catalogs.branches import ALL, WRITES, at, filled, ids, read, stored
from tests.catalogs.kinds import ICEBERG, add_nessie
from tests.catalogs.nessie import Nessie, nessie_server
from tests.catalogs.relay import LANDS, MODES, NOT_SENT, Relay
from tests.faults.processes import serving
from tests.iceberg.scene import Scene

pytestmark = [pytest.mark.iceberg, pytest.mark.stores]
WORK: dict[str, tuple[Callable[[lk.Table], object], Counter[int]]] = {
    "recluster": (lambda t: t.recluster("k", policy="full"), ALL),
    "delete": (lambda t: t.delete("id = 14"), ALL - ids(14)),
    "drop_partition": (lambda t: t.drop_partition("id < 20"), Counter(range(20, 60))),
}


@pytest.fixture(scope="module")
def relay(nessie: Nessie) -> Iterator[Relay]:
    with serving(Relay(nessie)) as made:
        yield made


@pytest.fixture(scope="module")
def relayed(spark: SparkSession, relay: Relay, home: Path) -> str:
    """A catalog behind the relay."""
    name = add_nessie(spark, relay.nessie, home)
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}.{ICEBERG}")
    return name


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("work", WORK)
def test_a_commit_fails(
    relayed: str, relay: Relay, spark: SparkSession, nessie: Nessie, home: Path, work: str, mode: str
) -> None:
    """Loss L49: what landed is reported as done, and what is not known as unknown."""
    table = filled(Scene(spark, relayed))
    act, after = WORK[work]
    relay.arm(mode)
    if mode == NOT_SENT:  # which the client cannot know
        with pytest.raises(Unknown, match="none of its files was removed"):
            act(lk.table(spark, table.sql))
    else:
        act(lk.table(spark, table.sql))
    lands = mode in LANDS
    direct = Scene(spark, add_nessie(spark, nessie, home), table.name)
    assert read(spark, direct.sql) == (after if lands else ALL)
    act(lk.table(spark, table.sql))
    assert read(spark, direct.sql) == after


def raced(relay: Relay, act: Callable[[], object]) -> Callable[[str, object], None]:
    """Does something on the server after a commit was sent, and before the server gets it."""

    def race(phase: str, _: object) -> None:
        if phase == "before_commit":
            relay.before(act)

    return race


def test_a_branch_is_set_back_under_a_commit(
    relayed: str, relay: Relay, spark: SparkSession, nessie: Nessie
) -> None:
    """The base of the commit is on no branch any more: nothing is committed, and no file is deleted."""
    table = filled(Scene(spark, relayed))
    name = nessie.branch(f"back_{table.name}")
    before, back = nessie.hash(name), at(table, name)
    spark.sql(f"DELETE FROM {back} WHERE id = 20")
    files = stored(table)
    race = raced(relay, lambda: nessie.assign(name, before))
    with pytest.raises(Unknown, match="none of its files was removed"):
        lk.table(spark, back).recluster("k", policy="full", observer=race)
    assert files < stored(table)
    assert read(spark, back) == ALL
    assert lk.table(spark, back).recluster("k", policy="full").commits == 1
    assert read(spark, back) == ALL


def test_a_branch_is_deleted_under_a_commit(
    relayed: str, relay: Relay, spark: SparkSession, nessie: Nessie
) -> None:
    """Another branch may have got the commit meanwhile, so the files stay."""
    table = filled(Scene(spark, relayed))
    name = nessie.branch(f"gone_{table.name}")
    files = stored(table)
    race = raced(relay, lambda: nessie.drop(name))
    with pytest.raises(Unknown, match="none of its files was removed"):
        lk.table(spark, at(table, name)).recluster("k", policy="full", observer=race)
    assert files < stored(table)
    assert read(spark, table.sql) == ALL


def test_a_table_is_dropped_under_a_commit(
    relayed: str, relay: Relay, spark: SparkSession, nessie: Nessie, home: Path
) -> None:
    table = filled(Scene(spark, relayed))
    dev = at(table, nessie.branch(f"dev_{table.name}"))
    direct = Scene(spark, add_nessie(spark, nessie, home), table.name)
    files = stored(table)
    race = raced(relay, lambda: direct.run("DROP TABLE {t}"))
    with pytest.raises(NotFound, match="no such Iceberg table"):
        lk.table(spark, table.sql).recluster("k", policy="full", observer=race)
    assert all(Path(file).exists() for file in files)
    assert read(spark, dev) == ALL


def test_a_delete_is_first_under_a_commit(
    relayed: str, relay: Relay, spark: SparkSession, nessie: Nessie, home: Path
) -> None:
    table = filled(Scene(spark, relayed))
    direct = Scene(spark, add_nessie(spark, nessie, home), table.name)
    race = raced(relay, lambda: direct.run("DELETE FROM {t} WHERE id = 14"))
    report = lk.table(spark, table.sql).recluster("k", policy="full", observer=race)
    assert (report.commits, report.replayed_rows_count) == (1, 1)
    assert read(spark, table.sql) == ALL - ids(14)


def test_a_commit_that_is_forbidden(spark: SparkSession, home: Path) -> None:
    """The server refuses it: nothing was committed, and the files of the run go."""
    rules = {
        "nessie.server.authorization.enabled": "true",
        "nessie.server.authorization.rules.all": "op != 'COMMIT_CHANGE_AGAINST_REFERENCE' || ref == 'main'",
    }
    (home / "closed").mkdir()
    with nessie_server(home / "closed", **rules) as server:
        name = add_nessie(spark, server, home)
        spark.sql(f"CREATE NAMESPACE {name}.{ICEBERG}")
        table = filled(Scene(spark, name))
        closed = at(table, server.branch(f"closed_{table.name}"))
        files = stored(table)
        for verb in ("recluster", "delete"):
            with pytest.raises(Rejected, match="refused the commit"):
                WRITES[verb](lk.table(spark, closed))
        assert {file for file in stored(table) - files if ".metadata.json" not in file} == set()
        assert read(spark, closed) == ALL
