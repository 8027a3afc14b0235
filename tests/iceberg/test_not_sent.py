"""An error before the swap is NotSent: the engine commits again, and loses no finished group. No JVM is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.changes import Changes, Winner
from lakekeeper.errors import AdapterError, Conflict, LakekeeperError, NotFound, NotSent, Unsupported
from lakekeeper_iceberg import commit, executors, row_delete, rows, table
from lakekeeper_iceberg.commit_attempts import Attempts
from lakekeeper_iceberg.file_changes import Exchange
from lakekeeper_iceberg.producer import Producer

ERRORS = [AdapterError("503"), NotFound("t", "the catalog answered with an error page"), OSError("reset")]


def failing(error: Exception) -> Callable[..., Any]:
    def down(*_given: Any, **_more: Any) -> Any:
        raise error

    return down


def attempts_of(error: Exception) -> Attempts:
    jvm: Any = SimpleNamespace(hidden_field=lambda *_: "uuid", hidden_call=lambda *_: 7)
    notes: Any = SimpleNamespace(replace=failing(error))
    return Attempts(jvm, notes, "run")


@pytest.fixture
def prepared_table() -> Any:
    metadata = SimpleNamespace(metadataFileLocation=lambda: "00001.metadata.json", formatVersion=lambda: 1)
    rewrite: Any = SimpleNamespace(validateFromSnapshot=lambda _: rewrite, set=lambda *_: rewrite)
    return SimpleNamespace(
        operations=lambda: SimpleNamespace(current=lambda: metadata),
        newTransaction=lambda: SimpleNamespace(startMetadata=lambda: metadata),
        newRewrite=lambda: rewrite,
    )


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_the_note_of_an_attempt_cannot_be_written(prepared_table: Any, error: Exception) -> None:
    attempts = attempts_of(error)
    producer = Producer(attempts.jvm, prepared_table, "t", Exchange((), (), (), 1, "run"), attempts, ())
    with patch.object(executors, "for_commits", lambda *_: None), pytest.raises(NotSent, match="t: "):
        producer.land()
    with (
        patch.object(commit, "row_change", lambda *_: object()),
        pytest.raises(NotSent, match="could not be prepared"),
    ):
        commit.change_rows(attempts.jvm, prepared_table, "t", SimpleNamespace(), attempts)  # type: ignore[arg-type]


def looks(*answers: Exception | Changes) -> Callable[[Any], Changes]:
    """Answers of the log, one after the other."""
    left: Iterator[Exception | Changes] = iter(answers)

    def look(_snapshot: Any) -> Changes:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return look


def committed(look: Callable[[Any], Changes], swap: Callable[..., Any]) -> Any:
    """A commit of a rewrite by an adapter with these answers."""
    adapter: Any = SimpleNamespace(
        table="t",
        changes_since=look,
        _check_inputs=lambda *_: None,
        _jvm=SimpleNamespace(pinned=lambda _: None),
        _table=None,
        _planner=None,
        _attempts_of=lambda _: None,
    )
    snapshot: Any = SimpleNamespace(table_uuid="u", version=1)
    rewrite: Any = SimpleNamespace(task=SimpleNamespace(table_uuid="u"), run_id="a" * 16 + "-1")
    with patch.object(table, "exchange_of", lambda *_: None), patch.object(table, "swap", swap):
        return table.IcebergTable.commit(adapter, [rewrite], snapshot, "run")


def deleted(look: Callable[[Any], Changes], swap: Callable[..., Any]) -> Any:
    """A commit of a delete."""
    adapter: Any = SimpleNamespace(
        name="t",
        winners=look,
        jvm=None,
        table=lambda: None,
        table_at=lambda _: None,
        attempts=lambda _: None,
        lock=lambda _: nullcontext(),
    )
    snapshot: Any = SimpleNamespace(table_uuid="u", version=1)
    prepared: Any = SimpleNamespace(rows={"f": 1})
    with (
        patch.object(row_delete, "change_of", lambda *_: None),
        patch.object(rows, "change_rows", swap),
    ):
        return rows.IcebergRows.delete(adapter, [prepared], snapshot, "a" * 16 + "-1", "k = 1")


COMMITS = [committed, deleted]
WINNER = Winner(2, "append", "", False, True, 0)


@pytest.mark.parametrize("run", COMMITS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_the_look_before_the_swap_fails(run: Callable[..., Any], error: Exception) -> None:
    with pytest.raises(NotSent, match="could not be prepared"):
        run(looks(error), failing(AssertionError("it was sent")))


@pytest.mark.parametrize("run", COMMITS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_the_look_for_the_winner_fails(run: Callable[..., Any], error: Exception) -> None:
    """The attempt lost; who won is a detail."""
    with pytest.raises(Conflict, match="lost") as found:
        run(looks(Changes(1), error), failing(Conflict("t: lost")))
    assert found.value.winner == ""
    with pytest.raises(Conflict, match="lost") as found:
        run(looks(Changes(1), Changes(2, (WINNER,))), failing(Conflict("t: lost")))
    assert found.value.winner == str(WINNER)


@pytest.mark.parametrize("run", COMMITS)
def test_an_error_of_the_swap_itself_is_never_taken_for_one_before_it(run: Callable[..., Any]) -> None:
    with pytest.raises(AdapterError) as found:
        run(looks(Changes(1)), failing(AdapterError("503")))
    assert not isinstance(found.value, NotSent)


def test_what_the_table_says_is_raised_as_it_is() -> None:
    for error in (Unsupported("t", "row lineage"), Conflict("t: moved", "version 3")):
        with pytest.raises(type(error)) as found, commit.preparing("t"):
            raise error
        assert found.value is error
    with pytest.raises(LakekeeperError), commit.preparing("t"):
        raise KeyError("a bug")


def test_an_obstacle_is_named_where_no_commit_is() -> None:
    why = Reason.of(Code.TABLE_RECREATED)
    assert commit.winner_of(Changes(1, obstacle=why)) == str(why)
