"""Tidy."""

from __future__ import annotations

from typing import Any

from lakekeeper.spi import Tidied
from lakekeeper_iceberg.native import Iceberg


def tidy(jvm: Iceberg, table: Any, name: str, run_id: str) -> Tidied:
    raise NotImplementedError
