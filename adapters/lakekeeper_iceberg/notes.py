"""Small texts beside the table, in ``_lakekeeper``: listings for orphans skip names with a leading underscore."""

from __future__ import annotations

from typing import Any

from lakekeeper.errors import AdapterError
from lakekeeper.spark.jvm import causes

FOLDER = "_lakekeeper"


class IcebergNotes:
    """Satisfies ``spi.Notes``, through the table's own FileIO."""

    def __init__(self, table: Any, name: str) -> None:
        self._table = table
        self._name = name

    def read(self, name: str) -> str | None:
        try:
            found = self._table.io().newInputFile(self._place(name))
            if not found.exists():
                return None
            stream = found.newStream()
            try:
                return bytes(stream.readAllBytes()).decode(errors="replace")
            finally:
                stream.close()
        except Exception as error:
            raise AdapterError(f"{self._name}: {FOLDER}/{name} cannot be read ({error})") from error

    def keep(self, name: str, text: str) -> str:
        there = self.read(name)
        if there is not None:
            return there
        try:
            stream = (
                self._table.io().newOutputFile(self._place(name)).create()
            )  # refused where there is a file
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
        except Exception as error:
            there = self.read(name)
            if there is None or not any("AlreadyExists" in cause for cause, _ in causes(error)):
                raise AdapterError(f"{self._name}: {FOLDER}/{name} cannot be written ({error})") from error
            return there
        return text

    def _place(self, name: str) -> str:
        return f"{str(self._table.location()).rstrip('/')}/{FOLDER}/{name}"
