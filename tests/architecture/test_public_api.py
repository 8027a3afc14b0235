"""The public API: methods that mean the same take the same arguments, and their results have public names."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper.cli import app
from lakekeeper.errors import OptionError
from lakekeeper.spark.where import checked_where
from lakekeeper.spi import TableName

CARRIES_OUT = {"final", "dry_run", "observer"}
"""Arguments about the execution of a plan, which ``plan`` itself does not take."""


def parameters(method: Callable[..., Any]) -> dict[str, tuple[Any, Any, Any]]:
    found = inspect.signature(method).parameters.values()
    return {p.name: (p.kind, p.default, p.annotation) for p in found}


def test_plan_takes_what_recluster_takes() -> None:
    plan, recluster = parameters(lk.Table.plan), parameters(lk.Table.recluster)
    assert plan == {name: given for name, given in recluster.items() if name not in CARRIES_OUT}


def test_the_command_plan_takes_what_the_command_recluster_takes() -> None:
    commands = {
        command.callback.__name__: command.callback for command in app.registered_commands if command.callback
    }
    plan, recluster = (set(inspect.signature(commands[name]).parameters) for name in ("plan", "recluster"))
    assert plan - {"workload"} == recluster - {"final", "dry_run", "workload"}


@pytest.mark.parametrize(
    "name", ["clustering_information", "clustering_depth", "plan", "recluster", "simulate"]
)
def test_columns_come_first(name: str) -> None:
    _, first, *others = inspect.signature(getattr(lk.Table, name)).parameters.values()
    assert (first.name, first.default, first.kind) == (
        "columns",
        None,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    assert {other.kind for other in others} == {inspect.Parameter.KEYWORD_ONLY}


def test_one_name_for_one_argument() -> None:
    """An argument of several methods has one type and, unless it is required, one default."""
    seen: dict[str, set[tuple[Any, Any]]] = {}
    for name, method in inspect.getmembers(lk.Table, inspect.isfunction):
        if not name.startswith("_"):
            for argument, (_, default, annotation) in parameters(method).items():
                if default is not inspect.Parameter.empty:
                    seen.setdefault(argument, set()).add((str(default), str(annotation)))
    assert {argument: kinds for argument, kinds in seen.items() if len(kinds) > 1} == {}


def flags() -> list[tuple[Callable[..., Any], str]]:
    """Each function and method of the public API, with each argument whose default is True or False."""
    public = [getattr(lk, name) for name in lk.__all__]
    calls = [each for each in public if inspect.isfunction(each)]
    for kind in filter(inspect.isclass, public):
        calls += [each for name, each in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"]
    return [
        (call, name)
        for call in calls
        for name, (_, default, _) in parameters(call).items()
        if isinstance(default, bool)
    ]


@pytest.mark.parametrize("call, flag", flags(), ids=lambda each: getattr(each, "__qualname__", each))
def test_a_flag_is_a_boolean(call: Callable[..., Any], flag: str) -> None:
    """Loss L114: any text was true, so that ``empty_trash(all_entries="false")`` deleted the whole trash.

    The flag is checked before any work: the call has no table and no session here.
    """
    assert parameters(call)[flag][0] is inspect.Parameter.KEYWORD_ONLY
    for value in ("false", "", 0, None):
        with pytest.raises(OptionError, match=rf"^{flag}: got .*, expected a boolean: True or False"):
            call(**{flag: value})


def test_the_public_api_has_flags() -> None:
    assert len(flags()) > 15


@pytest.mark.parametrize("where", [False, 0, ["k = 1"], b"k = 1"])
def test_a_predicate_is_text_or_a_column(where: Any) -> None:
    name = TableName("db.t", "delta", "db.t")
    with pytest.raises(OptionError, match=r"where: got .*, expected Spark SQL or a Column"):
        checked_where(None, name, where)


def test_what_a_call_returns_has_a_public_name() -> None:
    calls: list[Callable[..., Any]] = [
        method for name, method in inspect.getmembers(lk.Table, inspect.isfunction) if name[0] != "_"
    ]
    calls += [
        lk.table,
        lk.listen,
        lk.report,
        lk.run,
        lk.auto,
        lk.drop_table,
        lk.dropped_tables,
        lk.restore_table,
    ]
    named: set[str] = set()
    for call in calls:
        returned = str(inspect.signature(call).return_annotation)
        named |= set(returned.replace("[", " ").replace("]", " ").replace(",", " ").split())
    ours = {word for word in named if word[0].isupper()} - {"None", "DataFrame", "Options", "Mapping"}
    assert len(ours) > 10
    assert sorted(ours - set(lk.__all__)) == []


def test_every_name_in_all_exists() -> None:
    assert [name for name in lk.__all__ if not hasattr(lk, name)] == []
    assert lk.__version__ == version("lakekeeper-spark")
    with pytest.raises(AttributeError, match="no_such_name"):
        lk.no_such_name  # noqa: B018 - the access itself is tested


def test_naming_a_returned_type_loads_no_spark() -> None:
    program = (
        "import sys, lakekeeper as lk; lk.Plan, lk.Listening, lk.__version__; print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
