"""An error before Delta's log is written is NotSent: the engine commits again. No JVM is needed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from lakekeeper.errors import AdapterError, Conflict, NotFound, NotSent, Unsupported
from lakekeeper_delta import commit, row_delete

ERRORS = [AdapterError("503"), NotFound("t", "no Delta log"), OSError("reset")]


def log_that(raises: Exception) -> Any:
    def down() -> Any:
        raise raises

    return SimpleNamespace(name="t", latest=down, jvm=SimpleNamespace(array_list=list))


def rewritten(log: Any) -> Any:
    return commit.commit(log, [], SimpleNamespace(key=None), "run")  # type: ignore[arg-type]


def deleted(log: Any) -> Any:
    with patch.object(row_delete, "discard", lambda *_: None):
        return row_delete.delete(log, [], SimpleNamespace(version=1), "run", "k = 1")  # type: ignore[arg-type]


@pytest.mark.parametrize("run", [rewritten, deleted])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_the_log_cannot_be_read(run: Callable[[Any], Any], error: Exception) -> None:
    with pytest.raises(NotSent, match="could not be prepared"):
        run(log_that(error))


@pytest.mark.parametrize("run", [rewritten, deleted])
@pytest.mark.parametrize("error", [Unsupported("t", "a feature"), Conflict("t: moved", "version 3")])
def test_what_the_table_says_is_raised_as_it_is(run: Callable[[Any], Any], error: Exception) -> None:
    with pytest.raises(type(error)) as found:
        run(log_that(error))
    assert found.value is error
