"""A frame that is kept for its caller is freed if the caller never gets it. No JVM is needed."""

from __future__ import annotations

from typing import Any

import pytest

from lakekeeper.spark.row_match import hold


class Frame:
    """Satisfies what ``hold`` calls of a DataFrame."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error
        self.kept = False

    def select(self, *_: str) -> Frame:
        return self

    def persist(self) -> Frame:
        self.kept = True
        return self

    def unpersist(self) -> Frame:
        self.kept = False
        return self

    def groupBy(self, *_: str) -> Frame:  # noqa: N802 (Spark's name)
        return self

    def count(self) -> Frame:
        return self

    def collect(self) -> list[dict[str, Any]]:
        if self.error is not None:
            raise self.error
        return [{"file": "f", "count": 2}]


@pytest.mark.parametrize("error", [RuntimeError("an executor was lost"), KeyboardInterrupt()])
def test_positions_whose_job_fails_are_not_kept(error: BaseException) -> None:
    """In a service, each stayed in the cache for as long as the session, and was compared with each later query."""
    frame: Any = Frame(error)
    with pytest.raises(type(error)):
        hold(frame)
    assert not frame.kept


def test_positions_are_kept_for_the_caller() -> None:
    frame: Any = Frame(None)
    assert dict(hold(frame).per_file) == {"f": 2}
    assert frame.kept
