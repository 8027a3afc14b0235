"""The arguments of ``CALL lakekeeper.system.…``, without Spark: what does not fit is refused before any work."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper.errors import OptionError
from lakekeeper.statements.procedures import PROCEDURES, Call, bound, run_call

NEEDED = {"delete": "where", "drop_partition": "where", "restore": "name", "undo": "run_id"}
"""Procedure → the parameter, besides the table, that has no default."""


@pytest.fixture
def unopened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a call get a table without an adapter, which can do no work."""
    monkeypatch.setattr(
        import_module("lakekeeper.statements.procedures"), "table", lambda *_: lk.Table.__new__(lk.Table)
    )


def run(name: str, *given: tuple[str, Any]) -> object:
    """Call a procedure with these arguments, and a value for the one that it needs besides."""
    unused: Any = None
    needed = NEEDED.get(name)
    more = [(needed, "a")] if needed and needed not in dict(given) else []
    return run_call(unused, Call(name, [("table", "/t"), *more, *given]), None, None)


@pytest.mark.parametrize(
    "name, flag",
    [
        ("empty_trash", "all_entries"),
        ("drop_partition", "force"),
        ("vacuum", "orphans"),
        ("vacuum", "allow_unsafe_retention"),
        ("cluster_by", "native"),
        ("undo", "allow_rollback"),
        ("compact", "dry_run"),
    ],
)
@pytest.mark.parametrize("value", ["false", "true", "", 0, 1])
def test_a_flag_is_not_text_or_a_number(unopened: None, name: str, flag: str, value: Any) -> None:
    """Loss L114: any text was true, so that ``all_entries => 'false'`` deleted the whole trash."""
    key = [("columns", "k")] if name == "cluster_by" else []
    with pytest.raises(OptionError, match="true or false without quotes") as raised:
        run(name, *key, (flag, value))
    assert (raised.value.key, raised.value.value) == (flag, value)


@pytest.mark.parametrize(
    "name, parameter",
    [(name, each) for name in PROCEDURES for each in PROCEDURES[name].parameters if each != "table"],
)
def test_null_is_not_the_default(unopened: None, name: str, parameter: str) -> None:
    """Loss L114: NULL counted as not given: ``dry_run => NULL`` ran, ``where => NULL`` took the whole table."""
    if (name, parameter) == ("cluster_by", "columns"):
        assert bound(PROCEDURES[name], [("", "t"), ("", None)]) == {"table": "t", "columns": None}
        return
    with pytest.raises(OptionError, match="got nothing, expected a value") as raised:
        run(name, (parameter, None))
    assert raised.value.key == f"{name}({parameter} => …)"


@pytest.mark.parametrize("name", PROCEDURES)
def test_null_is_no_table(name: str) -> None:
    unused: Any = None
    for parameter in ("", "table"):
        with pytest.raises(OptionError, match=r"\(table => …\): got nothing, expected a table name as text"):
            run_call(unused, Call(name, [(parameter, None)]), None, None)


def test_null_by_position_is_refused_too(unopened: None) -> None:
    unused: Any = None
    with pytest.raises(OptionError, match="leave the argument out") as raised:
        run_call(unused, Call("recluster", [("", "/t"), ("", None)]), None, None)
    assert raised.value.key == "recluster(columns => …)"


@pytest.mark.parametrize(
    "name, parameter, value",
    [
        ("recluster", "columns", ["k", None]),
        ("cluster_by", "columns", [None]),
        ("vacuum", "options", {"retention-hours": None}),
        ("vacuum", "shared_with", [None]),
    ],
)
def test_null_in_an_array_or_a_map_is_refused(unopened: None, name: str, parameter: str, value: Any) -> None:
    with pytest.raises(OptionError, match="without NULL"):
        run(name, (parameter, value))


@pytest.mark.parametrize("name, parameter", NEEDED.items())
def test_what_a_procedure_needs_is_named(unopened: None, name: str, parameter: str) -> None:
    unused: Any = None
    with pytest.raises(OptionError, match=f"expected a value, which {name} needs") as raised:
        run_call(unused, Call(name, [("", "/t")]), None, None)
    assert raised.value.key == f"{name}({parameter} => …)"
