"""The trash of dropped tables, without Spark: what is not known to be empty stays, and one table stops no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import EntryPoints
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from lakekeeper import opening as lakekeeper_opening
from lakekeeper.core.units import DAY_MS
from lakekeeper.engine import plugins
from lakekeeper.engine.clock import Clock
from lakekeeper.errors import AdapterError, NotFound, OptionError, Unsupported
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.memory import MemoryAdapter

dropped = import_module("lakekeeper.dropped_tables")  # the package exports a function of this name


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that a session runs whose catalog has two dropped tables; the files of neither must stay."""
    monkeypatch.setattr(dropped, "require_classic", lambda _spark: None)
    monkeypatch.setattr(dropped, "lakekeeper_confs", lambda _spark: {})
    monkeypatch.setattr(dropped, "resolve_name", lambda _spark, name: SimpleNamespace(provider=name))
    monkeypatch.setattr(dropped, "full_name", lambda _spark, _text, parts: parts)
    return []


def session(
    statements: list[str],
    names: Sequence[str] = ("t__lakekeeper_trash_1", "u__lakekeeper_trash_2"),
    failing: str = "none",
) -> Any:
    """A session whose catalog lists these tables, and fails at a statement that contains ``failing``."""

    def sql(text: str) -> SimpleNamespace:
        if failing in text:
            raise RuntimeError("the catalog refuses it")
        statements.append(text)
        return SimpleNamespace(collect=lambda: [SimpleNamespace(tableName=name) for name in names])

    return SimpleNamespace(sql=sql, catalog=SimpleNamespace(tableExists=lambda _name: False))


def opening(monkeypatch: pytest.MonkeyPatch, failing: str, error: Exception) -> None:
    """Let a table fail to open; the others have no trash, as lakekeeper has no adapter for their format."""

    def open_adapter(_spark: object, name: str) -> NoReturn:
        foreign = AdapterError("no adapter for format 'parquet' is installed", missing="parquet")
        raise error if failing in name else foreign

    monkeypatch.setattr(dropped, "open_adapter", open_adapter)


OWN = "lakekeeper.vacuum.trash-retention-hours"


def with_properties(monkeypatch: pytest.MonkeyPatch, **tables: dict[str, str]) -> None:
    """Let tables open by the letter they begin with, each with its properties and an empty trash."""

    def open_adapter(_spark: object, name: str) -> SimpleNamespace:
        table = MemoryTable(name, {"k": "int"}, properties=tables[name.rpartition(".")[2][0]])
        return SimpleNamespace(adapter=MemoryAdapter(table))

    monkeypatch.setattr(dropped, "open_adapter", open_adapter)


def after_days(days: float) -> Clock:
    return Clock(lambda: int(days * DAY_MS))


@pytest.mark.parametrize("spelling", [OWN, "lakekeeper.vacuum_trash_retention_hours"])
def test_a_table_is_kept_for_as_long_as_its_own_property_says(
    monkeypatch: pytest.MonkeyPatch, statements: list[str], spelling: str
) -> None:
    """Loss L113: only the call and the confs counted, so a table was purged years before its own retention ended."""
    with_properties(monkeypatch, t={spelling: "90d"}, u={spelling: "1h"})
    spark = session(statements)
    assert [each.name for each in dropped.empty_dropped(spark, "ice.db", clock=after_days(6))] == []
    assert [each.name for each in dropped.empty_dropped(spark, "ice.db", clock=after_days(8))] == ["ice.db.u"]
    assert not any(text.startswith("DROP TABLE ice.db.t__") for text in statements)
    assert "ice.db.t" in [e.name for e in dropped.empty_dropped(spark, "ice.db", clock=after_days(91))]


def test_a_table_of_which_only_the_name_goes_is_kept_as_long(
    monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    """Without its name, nothing can restore it."""
    with_properties(monkeypatch, t={OWN: "90d"}, u={})
    shared = SimpleNamespace(keeps_files=lambda _spark, _name, _tables, _allowed: "others need them")
    monkeypatch.setattr(dropped, "find_format", lambda _provider, _name: shared)
    [gone] = dropped.empty_dropped(session(statements), "ice.db", clock=after_days(8))
    assert (gone.name, gone.files_stay) == ("ice.db.u", "others need them")


def test_the_retention_of_a_call_and_of_a_forced_drop_comes_before_that_of_the_table(
    monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    with_properties(monkeypatch, t={OWN: "90d"}, u={OWN: "90d"})
    spark = session(statements, ["t__lakekeeper_trash_1", "u__lakekeeper_trash_2_forced"])
    assert [e.name for e in dropped.empty_dropped(spark, "ice.db", clock=after_days(8))] == ["ice.db.u"]
    options = {"vacuum.trash-retention-hours": 24}
    gone = dropped.empty_dropped(spark, "ice.db", options=options, clock=after_days(8))
    assert [each.name for each in gone] == ["ice.db.t", "ice.db.u"]


def test_a_table_whose_own_retention_is_not_known_is_kept(
    monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    with_properties(monkeypatch, t={OWN: "ninety days"}, u={"lakekeeper.max-level": "many"})
    with pytest.raises(AdapterError, match=rf"ice\.db\.t__\w+: OptionError: {OWN}: got 'ninety days'"):
        dropped.empty_dropped(session(statements), "ice.db", clock=after_days(8))
    gone = [text for text in statements if text.startswith("DROP")]
    assert gone == ["DROP TABLE ice.db.u__lakekeeper_trash_2 PURGE"]


def test_a_table_whose_properties_cannot_be_read_is_kept(
    monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    class Silent(MemoryAdapter):
        def properties(self) -> NoReturn:
            raise AdapterError("the catalog does not answer")

    def open_adapter(_spark: object, name: str) -> SimpleNamespace:
        kind = Silent if "t__" in name else MemoryAdapter
        return SimpleNamespace(adapter=kind(MemoryTable(name, {"k": "int"})))

    monkeypatch.setattr(dropped, "open_adapter", open_adapter)
    waited: list[float] = []
    clock = Clock(lambda: 8 * DAY_MS, waited.append)
    with pytest.raises(AdapterError, match="does not answer"):
        dropped.empty_dropped(session(statements), "ice.db", clock=clock)
    assert len(waited) == 2
    assert statements[-1] == "DROP TABLE ice.db.u__lakekeeper_trash_2 PURGE"


def test_a_table_whose_trash_cannot_be_looked_at_is_kept(
    monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    """Loss L53: a store that did not answer counted as an empty trash, and the table was purged."""
    opening(monkeypatch, "t__", AdapterError("ice.db.t: the catalog does not answer"))
    with pytest.raises(AdapterError, match="does not answer"):
        dropped.empty_dropped(session(statements), "ice.db")
    gone = [text for text in statements if text.startswith("DROP")]
    assert gone == ["DROP TABLE ice.db.u__lakekeeper_trash_2 PURGE"]


@pytest.mark.parametrize("forced", [False, True], ids=["retained", "forced"])
@pytest.mark.parametrize(
    "error", [Unsupported("ice.db.t", "column type time"), NotFound("ice.db.t", "no such Iceberg table")]
)
def test_a_table_that_cannot_be_opened_is_kept_unless_its_drop_was_forced(
    monkeypatch: pytest.MonkeyPatch, statements: list[str], error: Exception, forced: bool
) -> None:
    """Loss: such a table was purged though its own retention, which was never read, had not ended."""
    opening(monkeypatch, "t__", error)
    kept_as = f"t__lakekeeper_trash_1{'_forced' if forced else ''}"
    spark = session(statements, [kept_as, "u__lakekeeper_trash_2"])
    if forced:
        assert [each.name for each in dropped.empty_dropped(spark, "ice.db")] == ["ice.db.t", "ice.db.u"]
        return
    with pytest.raises(
        AdapterError, match=rf"1 could not be deleted; the first: ice\.db\.{kept_as}: \w+: {error}"
    ):
        dropped.empty_dropped(spark, "ice.db")
    gone = [text for text in statements if text.startswith("DROP")]
    assert gone == ["DROP TABLE ice.db.u__lakekeeper_trash_2 PURGE"]


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installation without any adapter."""
    monkeypatch.setattr(plugins, "entry_points", lambda **_: EntryPoints())
    plugins.known_entry_points.cache_clear()
    yield
    plugins.known_entry_points.cache_clear()


def of_format(monkeypatch: pytest.MonkeyPatch, provider: str) -> None:
    """Let all tables be of a format."""
    found = SimpleNamespace(provider=provider)
    for module in (dropped, lakekeeper_opening):
        name = "resolve_name" if module is dropped else "resolve"
        monkeypatch.setattr(module, name, lambda _spark, _name: found)


NAMES = ["t__lakekeeper_trash_1", "u__lakekeeper_trash_2_forced"]


def test_a_table_of_a_format_without_adapter_is_deleted(
    monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    """It stayed forever, even a forced one, and every call on its namespace raised."""
    of_format(monkeypatch, "parquet")
    gone = dropped.empty_dropped(session(statements, NAMES), "ice.db", clock=after_days(8))
    assert [(each.name, each.files_stay) for each in gone] == [("ice.db.t", ""), ("ice.db.u", "")]
    assert statements[1:] == [f"DROP TABLE ice.db.{name} PURGE" for name in NAMES]


@pytest.mark.parametrize("provider", ["delta", "iceberg"])
def test_a_table_whose_adapter_is_only_not_installed_is_kept(
    monkeypatch: pytest.MonkeyPatch, statements: list[str], nothing_installed: None, provider: str
) -> None:
    """Only the adapter knows whether others need its files."""
    of_format(monkeypatch, provider)
    with pytest.raises(AdapterError, match=f"no adapter for format '{provider}' is installed"):
        dropped.empty_dropped(session(statements, NAMES), "ice.db", clock=after_days(8))
    assert not any(text.startswith("DROP") for text in statements)


def test_a_table_whose_trash_cannot_be_opened_for_want_of_an_adapter_is_kept(
    monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    opening(monkeypatch, "__", AdapterError("no adapter for format 'delta' is installed", missing="delta"))
    with pytest.raises(AdapterError, match="no adapter for format 'delta' is installed"):
        dropped.empty_dropped(session(statements, NAMES), "ice.db", clock=after_days(8))
    assert not any(text.startswith("DROP") for text in statements)


def test_a_table_that_cannot_be_dropped_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    """Another user may have restored it meanwhile, or the user may lack the right to drop it."""
    opening(monkeypatch, "none", NotFound("t", "unused"))
    spark = session(statements, failing="DROP TABLE ice.db.t__")
    with pytest.raises(
        AdapterError,
        match=r"1 dropped table deleted, 1 could not be .*; the first: ice\.db\.t__.* refuses it",
    ):
        dropped.empty_dropped(spark, "ice.db")
    assert statements[-1] == "DROP TABLE ice.db.u__lakekeeper_trash_2 PURGE"


def test_a_table_that_does_not_resolve_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    opening(monkeypatch, "none", NotFound("t", "unused"))

    def resolve_name(_spark: object, name: str) -> SimpleNamespace:
        if "t__" in name:
            raise NotFound(name, "no such table")
        return SimpleNamespace(provider=name)

    monkeypatch.setattr(dropped, "resolve_name", resolve_name)
    with pytest.raises(AdapterError, match="no such table"):
        dropped.empty_dropped(session(statements), "ice.db")
    assert statements[-1] == "DROP TABLE ice.db.u__lakekeeper_trash_2 PURGE"


@pytest.mark.parametrize(
    "space, listed, renamed",
    [
        ("ice.a.b", "ice.a.b", "a.b.t"),
        ("ice", "ice", "t"),
        ("ice.`my-db`", "ice.`my-db`", "`my-db`.t"),
        ("ice.`a.b`", "ice.`a.b`", "`a.b`.t"),
    ],
)
def test_a_namespace_may_have_any_number_of_steps(
    statements: list[str], space: str, listed: str, renamed: str
) -> None:
    spark = session(statements, ["t__lakekeeper_trash_1"])
    [table] = dropped.dropped_tables(spark, space)
    assert statements == [f"SHOW TABLES IN {listed}"]
    assert dropped.restore_table(spark, f"{space}.t") == table
    assert statements[-1] == f"ALTER TABLE {listed}.t__lakekeeper_trash_1 RENAME TO {renamed}"


def test_text_that_is_no_name_is_refused(statements: list[str]) -> None:
    for call, option in ((dropped.dropped_tables, "namespace"), (dropped.restore_table, "name")):
        with pytest.raises(OptionError, match="a name such as") as raised:
            call(session(statements), "ice..`t")
        assert raised.value.key == option


@pytest.mark.parametrize(
    "names, wanted, kept_as",
    [
        (["events__lakekeeper_trash_5"], "Events", "events__lakekeeper_trash_5"),
        (
            ["events__lakekeeper_trash_5", "Events__lakekeeper_trash_3"],
            "Events",
            "Events__lakekeeper_trash_3",
        ),
        (["events__lakekeeper_trash_5", "EVENTS__lakekeeper_trash_3"], "Events", ""),
        (
            ["events__lakekeeper_trash_5", "events__lakekeeper_trash_7"],
            "Events",
            "events__lakekeeper_trash_7",
        ),
    ],
)
def test_letter_case_counts_only_where_it_distinguishes_names(
    statements: list[str], names: list[str], wanted: str, kept_as: str
) -> None:
    """A Hive metastore lists a table in lower case, however it was named when it was dropped."""
    spark = session(statements, names)
    if not kept_as:
        with pytest.raises(NotFound, match="no table of that name"):
            dropped.restore_table(spark, f"hive.db.{wanted}")
        return
    assert dropped.restore_table(spark, f"hive.db.{wanted}").kept_as == f"hive.db.{kept_as}"
    original = kept_as.partition("__")[0]
    assert statements[-1] == f"ALTER TABLE hive.db.{kept_as} RENAME TO db.{original}"


def test_a_forced_drop_is_the_last_one_and_due_at_once(
    monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    """It was recorded at time 0, so that a restore took an older table of the name."""
    opening(monkeypatch, "none", NotFound("t", "unused"))
    found = SimpleNamespace(catalog="ice", namespace=("db",), name="t", sql="`ice`.`db`.`t`")
    monkeypatch.setattr(dropped, "resolve_name", lambda _spark, _name: found)
    forced = dropped.drop_table(session(statements), "ice.db.t", force=True, clock=Clock(lambda: 2_000))
    assert (forced.at_ms, forced.forced) == (2_000, True)
    older = "t__lakekeeper_trash_1000"
    spark = session(statements, [forced.kept_as.rpartition(".")[2], older])
    assert dropped.restore_table(spark, "ice.db.t") == forced
    monkeypatch.setattr(dropped, "resolve_name", lambda _spark, name: SimpleNamespace(provider=name))
    assert dropped.empty_dropped(spark, "ice.db", clock=Clock(lambda: 2_001)) == (forced,)
    assert statements[-1] == f"DROP TABLE {forced.kept_as} PURGE"


def test_a_drop_that_an_earlier_version_forced_is_due(
    monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    opening(monkeypatch, "none", NotFound("t", "unused"))
    spark = session(statements, ["t__lakekeeper_trash_0"])
    assert [table.at_ms for table in dropped.empty_dropped(spark, "ice.db")] == [0]
