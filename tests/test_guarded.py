"""Which statements run again after a lost race, without Spark."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.planning.changes import Changes, Winner
from lakekeeper.statements import guarded
from lakekeeper.statements.guarded import run_guarded


class Lost(Exception):
    """Another commit came first."""


@dataclass
class Session:
    """Loses the first statement; ``get`` is that of its confs."""

    confs: dict[str, str] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)

    @property
    def conf(self) -> Any:
        return SimpleNamespace(get=self.confs.get)

    def sql(self, statement: str) -> Any:
        self.ran.append(statement)
        if len(self.ran) == 1:
            raise Lost
        return "rows"


@pytest.fixture(autouse=True)
def _table_with_our_rewrites_only(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = Changes(7, (Winner(7, "OPTIMIZE", "run", layout=True),))
    adapter = SimpleNamespace(
        table="t", properties=dict, version=lambda: "before", changes_since=lambda _: changes
    )
    opened = SimpleNamespace(
        adapter=adapter, format=SimpleNamespace(lost_race=lambda error: isinstance(error, Lost))
    )
    monkeypatch.setattr(guarded, "open_adapter", lambda *_: opened)
    monkeypatch.setattr(guarded, "table_options", lambda *_, **__: resolve())


def test_a_statement_that_loses_to_a_rewrite_runs_again() -> None:
    session: Any = Session()
    found: object = run_guarded(session, "DELETE FROM t", "t", None, None)
    assert found == "rows"
    assert len(session.ran) == 2


@pytest.mark.parametrize("conf", ["spark.wap.branch", "spark.wap.id"])
def test_a_statement_that_may_write_to_a_branch_runs_once(conf: str) -> None:
    """What main lost to says nothing about the branch, where another writer may have committed."""
    session: Any = Session({conf: "audit"})
    with pytest.raises(Lost):
        run_guarded(session, "DELETE FROM t", "t", None, None)
    assert len(session.ran) == 1


def test_why_a_statement_runs_unguarded_is_logged_without_secrets(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> Any:
        raise ValueError("Invalid connection jdbc:postgresql://meta/db?user=a&password=hunter2\nat line 2")

    monkeypatch.setattr(guarded, "open_adapter", refuse)
    session: Any = Session()
    with caplog.at_level(logging.WARNING, "lakekeeper"), pytest.raises(Lost):
        run_guarded(session, "DELETE FROM t", "delta.`s3a://key:hunter2@lake/t`", None, None)
    [logged] = caplog.messages
    assert logged.startswith(
        "delta.`s3a://***@lake/t`: the statement is not run again if it loses to a rewrite: ValueError: Invalid "
    )
    assert "hunter2" not in logged
    assert "\n" not in logged
