"""Whose run or trash entry a note is: a table that does not answer is never taken for another one."""

from __future__ import annotations

from typing import Any

import pytest

from lakekeeper.errors import AdapterError
from lakekeeper_delta.storage import DeltaStorage
from lakekeeper_iceberg.storage import IcebergStorage


class _Down:
    """A log or a catalog that answers nothing but its name."""

    name = text = "db.t"

    def __getattr__(self, member: str) -> Any:
        raise ConnectionError("503")

    def __call__(self) -> Any:
        raise ConnectionError("503")


@pytest.mark.parametrize("format_name", ["delta", "iceberg"])
def test_an_error_is_no_answer(format_name: str) -> None:
    """Loss L58: it was answered with no, and a vacuum ignored the live runs of its own table."""
    down: Any = _Down()
    storage = (
        DeltaStorage(down, down, down)
        if format_name == "delta"
        else IcebergStorage(down, down, table=down, refresh=down, lock=down)
    )
    for version in (None, 3):
        with pytest.raises(AdapterError, match="503"):
            storage.same_table("uuid", version)
