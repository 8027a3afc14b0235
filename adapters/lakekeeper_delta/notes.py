"""Small texts beside the table, in ``_lakekeeper``: Delta's listings skip names with a leading underscore."""

from __future__ import annotations

from typing import Any

from lakekeeper.errors import AdapterError
from lakekeeper.spark.jvm import causes
from lakekeeper_delta.native import Log

FOLDER = "_lakekeeper"


class DeltaNotes:
    """Satisfies ``spi.Notes``. A reader may meet a text that is only half there; what is read is checked anyhow."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def read(self, name: str) -> str | None:
        """The text under a name, if there is one."""
        try:
            place, files = self._place(name)
            if not files.exists(place):
                return None
            stream = files.open(place)
            try:
                return bytes(stream.readAllBytes()).decode(errors="replace")
            finally:
                stream.close()
        except Exception as error:
            raise AdapterError(f"{self._log.name}: {FOLDER}/{name} cannot be read ({error})") from error

    def keep(self, name: str, text: str) -> str:
        """Write it unless there is one: the store makes a file once."""
        there = self.read(name)
        if there is not None:
            return there
        try:
            place, files = self._place(name)
            stream = files.create(place, False)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
        except Exception as error:
            there = self.read(name)
            if there is None or not any("AlreadyExists" in cause for cause, _ in causes(error)):
                raise AdapterError(
                    f"{self._log.name}: {FOLDER}/{name} cannot be written ({error})"
                ) from error
            return there
        return text

    def _place(self, name: str) -> tuple[Any, Any]:
        path = self._log.jvm.view.org.apache.hadoop.fs.Path
        root = self._log.log.dataPath()
        place = path(path(root, FOLDER), name)
        return place, place.getFileSystem(self._log.log.newDeltaHadoopConf())
