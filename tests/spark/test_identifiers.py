"""Which table a text identifies: names, paths, quotes, patterns; and which texts identify none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.errors import AdapterError, NotFound, OptionError
from lakekeeper.spark.identifiers import Expanded, expand, resolve
from tests.oracles.admission import with_token
from tests.oracles.rest_catalog import rest_catalog

pytestmark = [pytest.mark.spark, pytest.mark.delta, pytest.mark.iceberg]


@pytest.fixture(scope="module")
def home(spark: SparkSession, warehouse: Path) -> Iterator[Path]:
    """Tables and views in two catalogs, and a Delta and a parquet folder."""
    for space in ("spark_catalog.names", "ice.names", "ice.other"):
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {space}")
    spark.sql("CREATE TABLE spark_catalog.names.events (id INT) USING delta")
    spark.sql("CREATE TABLE spark_catalog.names.plain (id INT) USING parquet")
    spark.sql("CREATE VIEW spark_catalog.names.shown AS SELECT * FROM spark_catalog.names.plain")
    for name in ("ice.names.events", "ice.names.`odd-name`", "ice.names.facts", "ice.other.events"):
        spark.sql(f"CREATE TABLE {name} (id INT) USING iceberg")
    spark.sql("CREATE VIEW ice.names.shown AS SELECT * FROM ice.names.events")
    spark.range(1).createOrReplaceTempView("names_temporary")
    place = warehouse / "names folder"
    spark.range(1).write.format("delta").save(str(place / "delta"))
    spark.range(1).write.parquet(str(place / "parquet"))
    yield place
    spark.catalog.dropTempView("names_temporary")


@pytest.fixture
def down(confs: RuntimeConfig, tmp_path: Path) -> None:
    """Two catalogs that do not respond: no server listens at ``down``, the folder of ``lost`` does not exist."""
    from lakekeeper.spark.session_confs import catalog_conf

    given = catalog_conf("down", "rest:http://127.0.0.1:9")
    given |= catalog_conf("lost", f"jdbc:sqlite:{tmp_path}/no/such/catalog.db")
    for key, value in given.items():
        confs.set(key, value)


@pytest.mark.parametrize(
    "text, provider, sql",
    [
        ("ice.names.events", "iceberg", "`ice`.`names`.`events`"),
        ("ice.names.`odd-name`", "iceberg", "`ice`.`names`.`odd-name`"),
        ("`ice`.names.EVENTS", "iceberg", None),
        ("names.events", "delta", "`spark_catalog`.`names`.`events`"),
        ("spark_catalog.names.events", "delta", "`spark_catalog`.`names`.`events`"),
        ("names.plain", "parquet", "`spark_catalog`.`names`.`plain`"),
    ],
)
def test_names(spark: SparkSession, home: Path, text: str, provider: str, sql: str | None) -> None:
    if sql is None:  # case sensitivity depends on the catalog: an embedded one is case-sensitive
        with pytest.raises(NotFound):
            resolve(spark, text)
        return
    found = resolve(spark, text)
    assert (found.text, found.provider, found.sql) == (text, provider, sql)
    assert spark.table(found.sql).columns == ["id"]


def test_a_short_name_is_of_the_current_catalog_and_namespace(spark: SparkSession, home: Path) -> None:
    before = spark.catalog.currentCatalog()
    spark.sql("USE ice.other")
    try:
        assert resolve(spark, "events").sql == "`ice`.`other`.`events`"
        assert resolve(spark, "names.facts").sql == "`ice`.`names`.`facts`"
    finally:
        spark.catalog.setCurrentCatalog(before)


def test_paths(spark: SparkSession, home: Path) -> None:
    path = str(home / "delta")
    for text in (path, path + "/", f"file:{path}", f"delta.`{path}`"):
        found = resolve(spark, text)
        assert (found.text, found.provider) == (text, "delta")
        assert spark.sql(f"SELECT count(*) FROM {found.sql}").collect()[0][0] == 1


@pytest.mark.parametrize(
    "text, said",
    [
        ("ice.names.nothing", r"no such table; SHOW TABLES IN ice\.names lists"),
        ("ice.nowhere.events", "catalog .ice. has no namespace .nowhere.; SHOW NAMESPACES IN ice lists"),
        ("names.nothing", "no such table"),
        ("nothing", "no such table"),
        ("nocatalog.names.events", "has no catalog .nocatalog. .*: set the conf spark.sql.catalog.nocatalog"),
        ("/no/such/path", "no Delta table at this path"),
        ("names.shown", "is a view; name its table"),
        ("ice.names.shown", "is a view; name its table"),
        ("names_temporary", "is a view; name its table"),
        ("ice.names.events.files", "a part of a table .*; name the table, ice.names.events"),
        ("ice.names.events.branch_main", "a part of a table"),
    ],
)
def test_not_found(spark: SparkSession, home: Path, text: str, said: str) -> None:
    with pytest.raises(NotFound, match=said) as raised:
        lk.table(spark, text)
    assert str(raised.value).startswith(f"{text}: ")
    assert "\n" not in str(raised.value)


def test_a_folder_without_a_log_is_not_a_table(spark: SparkSession, home: Path) -> None:
    with pytest.raises(NotFound, match="no _delta_log"):
        resolve(spark, str(home / "parquet"))
    folder = home.parent / "ice" / "names" / "events"
    with pytest.raises(NotFound, match="opened through a catalog"):
        resolve(spark, str(folder))


@pytest.mark.parametrize("text", ["a b c", "", "x..y", "ice.names.`events", None])
def test_no_name_at_all(spark: SparkSession, text: Any) -> None:
    with pytest.raises(OptionError, match="a table name such as"):
        resolve(spark, text)


def test_a_format_without_adapter(spark: SparkSession, home: Path) -> None:
    for text in ("names.plain", f"parquet.`{home}/parquet`"):
        with pytest.raises(AdapterError, match=r"'parquet'.*\(installed: delta, iceberg\)"):
            lk.table(spark, text)


def test_a_connect_session() -> None:
    class Connect:
        """Has no _jsparkSession, like a session of Spark Connect."""

    with pytest.raises(AdapterError, match=r"Spark Connect session.*needs a classic session"):
        lk.table(Connect(), "ice.names.events")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(AdapterError, match="classic"):
        lk.run(Connect(), "ice.names.*")  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize(
    "pattern, expected",
    [
        ("ice.names.*", ["ice.names.events", "ice.names.facts", "ice.names.`odd-name`"]),
        ("ice.*.events", ["ice.names.events", "ice.other.events"]),
        ("ice.names.ev*", ["ice.names.events"]),
        ("ice.names.nothing*", []),
        ("ice.nowhere.*", []),
        ("names.*", ["spark_catalog.names.events", "spark_catalog.names.plain"]),
        ("no.such.table", ["no.such.table"]),
    ],
)
def test_patterns(spark: SparkSession, home: Path, pattern: str, expected: list[str]) -> None:
    (found,) = expand(spark, (pattern,))
    assert sorted(found.names) == sorted(expected)
    assert found.error == ""


def test_namespaces_that_need_quotes(spark: SparkSession, confs: RuntimeConfig) -> None:
    """SHOW NAMESPACES lists them in quotes, and Spark's legacy output without."""
    spaces = ("`my-quoted`", "`my``quoted`", "`2quoted`")
    for space in spaces:
        spark.sql(f"CREATE NAMESPACE ice.{space}")
        spark.sql(f"CREATE TABLE ice.{space}.`odd-name` (id INT) USING iceberg")
    try:
        for legacy in ("false", "true"):
            confs.set("spark.sql.legacy.keepCommandOutputSchema", legacy)
            every, one, quoted = expand(
                spark, ("ice.*quoted.odd*", "ice.my-quoted.*", "ice.`my``quoted`.odd-name*")
            )
            assert set(every.names) == {f"ice.{space}.`odd-name`" for space in spaces}
            assert one.names == ("ice.`my-quoted`.`odd-name`",)
            assert quoted.names == ("ice.`my``quoted`.`odd-name`",)
            assert every.error == one.error == quoted.error == ""
        assert [lk.table(spark, name).blocks().count() for name in every.names] == [0, 0, 0]
    finally:
        for space in spaces:
            spark.sql(f"DROP TABLE IF EXISTS ice.{space}.`odd-name`")
            spark.sql(f"DROP NAMESPACE ice.{space}")


def test_a_pattern_of_paths_is_a_path(spark: SparkSession) -> None:
    (found,) = expand(spark, ("/data/delta/*",))
    assert found == Expanded("/data/delta/*", ("/data/delta/*",))


@pytest.mark.parametrize(
    "pattern, said",
    [
        ("*", "catalog.namespace.pattern"),
        ("a.b.c.*", "catalog.namespace.pattern"),
        ("ice.*", "'ice' is a catalog; for all its namespaces: ice.*.*"),
        ("icx.names.*", "this session has no catalog 'icx' (did you mean 'ice'?), only "),
        (
            "down.names.*",
            "catalog 'down' does not respond: HttpHostConnectException: Connect to http://127.0.0.1:9",
        ),
        ("lost.names.*", "catalog 'lost' does not respond: SQLiteException: [SQLITE_CANTOPEN]"),
    ],
)
def test_a_pattern_that_cannot_be_expanded_stops_no_other(
    spark: SparkSession, home: Path, down: None, pattern: str, said: str
) -> None:
    failed, good = expand(spark, (pattern, "ice.names.ev*"))
    assert failed.names == ()
    assert said in failed.error
    assert "\n" not in failed.error
    assert good == Expanded("ice.names.ev*", ("ice.names.events",))


def test_a_namespace_that_cannot_be_listed_fails_no_other(
    spark: SparkSession, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = SparkSession.sql

    def broken(session: SparkSession, text: str) -> Any:
        if text == "SHOW TABLES IN `ice`.`names`":
            raise RuntimeError("the listing was torn")
        return original(session, text)

    monkeypatch.setattr(type(spark), "sql", broken)
    (found,) = expand(spark, ("ice.*.events",))
    assert found.names == ("ice.other.events",)
    assert found.error == "ice.names: RuntimeError: the listing was torn"


@pytest.mark.parametrize(
    "text, said",
    [
        (
            "down.names.events",
            "catalog 'down' does not respond: HttpHostConnectException: Connect to http://127.0.0.1:9",
        ),
        ("lost.names.events", "catalog 'lost' does not respond: SQLiteException: [SQLITE_CANTOPEN]"),
    ],
)
def test_a_catalog_that_is_down_has_not_lost_the_table(
    spark: SparkSession, down: None, text: str, said: str
) -> None:
    with pytest.raises(AdapterError) as raised:
        lk.table(spark, text)
    assert f"{text}: {said}" in str(raised.value)
    assert "An error occurred while calling" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_wrong_token_is_one_sentence_that_names_the_conf(
    spark: SparkSession, confs: RuntimeConfig, tmp_path: Path
) -> None:
    with rest_catalog(tmp_path, admits=with_token("the-right-one")) as address:
        confs.set("spark.sql.catalog.locked", "org.apache.iceberg.spark.SparkCatalog")
        for key, value in {"type": "rest", "uri": address, "token": "the-wrong-one"}.items():
            confs.set(f"spark.sql.catalog.locked.{key}", value)
        (found,) = expand(spark, ("locked.names.*",))
        with pytest.raises(AdapterError) as raised:
            lk.table(spark, "locked.names.events")
    conf = "spark.sql.catalog.locked"
    sentence = (
        f"catalog 'locked' refuses access (check {conf}.token or {conf}.credential): NotAuthorizedException: "
    )
    for said in (found.error, str(raised.value)):
        assert sentence in said
        assert "\n" not in said
        assert "the-wrong-one" not in said


def test_an_unknown_catalog_is_reported_with_the_known_ones(spark: SparkSession, home: Path) -> None:
    with pytest.raises(
        NotFound, match=r"this session has no catalog 'icx' \(did you mean 'ice'\?\), only .*ice"
    ):
        lk.table(spark, "icx.names.events")


def test_a_catalog_is_found_in_a_new_thread(spark: SparkSession, home: Path) -> None:
    """The thread has no active session yet, from which Spark loads a catalog."""
    fresh = spark.newSession()
    found: list[Any] = []

    def look() -> None:
        try:
            found.append(resolve(fresh, "ice.names.events").provider)
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == ["iceberg"]


def set_hadoop_catalog(confs: RuntimeConfig, name: str, folder: Path) -> None:
    """A catalog that can have tables without a namespace."""
    confs.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    confs.set(f"spark.sql.catalog.{name}.type", "hadoop")
    confs.set(f"spark.sql.catalog.{name}.warehouse", str(folder))


def test_a_branch_of_a_table_without_a_namespace_is_no_table(
    spark: SparkSession, confs: RuntimeConfig, tmp_path: Path
) -> None:
    """Iceberg takes the name for a namespace first, and for a table with a branch if there is none."""
    set_hadoop_catalog(confs, "bare", tmp_path)
    spark.sql("CREATE TABLE bare.t (id INT) USING iceberg")
    spark.sql("ALTER TABLE bare.t CREATE BRANCH b")
    assert resolve(spark, "bare.t").name == "t"
    for part in ("branch_b", "files"):
        with pytest.raises(NotFound, match=r"is a part of a table .* name the table, bare\.t"):
            resolve(spark, f"bare.t.{part}")


def test_a_table_named_with_its_catalog_alone_is_not_of_the_current_namespace(
    spark: SparkSession, confs: RuntimeConfig, tmp_path: Path
) -> None:
    """Loss L78: as for Spark, `rooted.t` is the table outside all namespaces, whatever the current one is."""
    set_hadoop_catalog(confs, "rooted", tmp_path)
    spark.sql("CREATE TABLE rooted.t (outside INT) USING iceberg")
    spark.sql("CREATE TABLE rooted.db.t (inside INT) USING iceberg")
    before = spark.catalog.currentCatalog()
    spark.sql("USE rooted.db")
    try:
        for text, column in {"rooted.t": "outside", "t": "inside", "rooted.db.t": "inside"}.items():
            found = resolve(spark, text)
            assert spark.table(text).columns == spark.table(found.sql).columns == [column]
            assert lk.table(spark, text).blocks().count() == 0
        with pytest.raises(NotFound):
            resolve(spark, "rooted.other")
    finally:
        spark.catalog.setCurrentCatalog(before)
