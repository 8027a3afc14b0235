"""A read of metadata that fails once is retried; an outage is reported."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakekeeper_iceberg.metadata_reads import read_again


def failing(times: int) -> Callable[[], str]:
    """Fails the given number of times, each time with a different error."""
    errors = [OSError(f"failure {number}") for number in range(times)]

    def read() -> str:
        if errors:
            raise errors.pop(0)
        return "read"

    return read


@pytest.mark.parametrize("times", [0, 1, 2])
def test_a_read_that_fails_intermittently_is_retried(times: int) -> None:
    assert read_again(failing(times)) == "read"


def test_a_read_that_keeps_failing_is_reported() -> None:
    with pytest.raises(OSError, match="failure 2"):
        read_again(failing(9))
