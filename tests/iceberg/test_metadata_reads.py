"""A read of metadata that breaks off is made again; an outage is reported."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakekeeper_iceberg.metadata_reads import read_again


def failing(times: int) -> Callable[[], str]:
    """Fails so many times, each time with an error of its own."""
    errors = [OSError(f"failure {number}") for number in range(times)]

    def read() -> str:
        if errors:
            raise errors.pop(0)
        return "read"

    return read


@pytest.mark.parametrize("times", [0, 1, 2])
def test_a_read_that_fails_now_and_then_is_made_again(times: int) -> None:
    assert read_again(failing(times)) == "read"


def test_a_read_that_goes_on_failing_is_reported() -> None:
    with pytest.raises(OSError, match="failure 2"):
        read_again(failing(9))
