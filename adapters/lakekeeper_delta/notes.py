"""Small texts next to the table's data, in ``_lakekeeper``: Delta's listings skip names with a leading underscore."""

from __future__ import annotations

import uuid
from functools import cached_property
from typing import Any

from lakekeeper.errors import AdapterError, reason
from lakekeeper.spark.small_files import (
    AZURE,
    NOTE_READERS,
    NOTE_READS,
    RENAMING,
    create_once,
    remove_spare,
    repeated_if_refused,
    replace_with_spare,
    says_it_exists,
    whole,
)
from lakekeeper_delta.filesystem import missing
from lakekeeper_delta.native import Log

FOLDER = "_lakekeeper"


class DeltaNotes:
    """Satisfies ``spi.Notes``. A reader may see a partly written text; every text read is validated anyway."""

    def __init__(self, log: Log) -> None:
        self._log = log

    @property
    def readers(self) -> int:
        """``NOTE_READERS`` where each read is a request, 1 on a local disk."""
        folder, files = self._folder
        return 1 if _scheme(folder, files) == "file" else NOTE_READERS

    def read(self, name: str) -> str | None:
        """The text under a name; None if it does not exist."""
        return whole(self._read, name)

    def _read(self, name: str, reads: int = NOTE_READS) -> str | None:
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
            if reads > 1 and missing(error):
                # It was removed after the first call, or replaced: Google's connector reads the version it has found.
                return self._read(name, reads - 1)
            raise AdapterError(
                f"{self._log.name}: {FOLDER}/{name} cannot be read ({reason(error)})"
            ) from error

    def keep(self, name: str, text: str) -> str:
        """Write a text unless one exists; returns the stored one. The store creates a file only once."""
        there = self.read(name)
        if there is not None:
            return there
        try:
            place, files = self._place(name)
            if _scheme(place, files) == "file":
                self._log.jvm.create_file(str(place.toUri().getPath()), text.encode())
            else:
                create_once(self._log.jvm, files, place, text.encode())
        except Exception as error:
            there = self.read(name)
            if there is None or not says_it_exists(error):
                raise AdapterError(
                    f"{self._log.name}: {FOLDER}/{name} cannot be written ({reason(error)})"
                ) from error
            return there
        return text

    def replace(self, name: str, text: str) -> None:
        """Replace a text: a reader sees either the old or the new one."""
        try:
            place, files = self._place(name)
            if _scheme(place, files) in AZURE:
                replace_with_spare(files, place, text.encode())
                return
            if _scheme(place, files) not in RENAMING:
                # An object is visible as a whole, or not at all.
                repeated_if_refused(lambda: _write(files, place, text, over=True))
                return
            beside = self._place(f"{name}.{uuid.uuid4().hex}.tmp")[0]
            try:
                _write(files, beside, text, over=False)
                self._rename_over(beside, place)
            finally:
                files.delete(beside, False)
        except Exception as error:
            raise AdapterError(
                f"{self._log.name}: {FOLDER}/{name} cannot be written ({reason(error)})"
            ) from error

    def remove(self, name: str) -> None:
        """Delete a text; a missing one is no error."""
        try:
            place, files = self._place(name)
            gone = files.delete(place, False) or not files.exists(place)
            remove_spare(files, place)
        except Exception as error:
            raise AdapterError(
                f"{self._log.name}: {FOLDER}/{name} cannot be removed ({reason(error)})"
            ) from error
        if not gone:
            raise AdapterError(f"{self._log.name}: {FOLDER}/{name} cannot be removed")

    def _rename_over(self, source: Any, target: Any) -> None:
        fs = self._log.jvm.view.org.apache.hadoop.fs
        over = self._log.jvm.array(fs.Options.Rename, [fs.Options.Rename.OVERWRITE])
        context = fs.FileContext.getFileContext(target.toUri(), self._log.log.newDeltaHadoopConf())
        context.rename(source, target, over)

    def _place(self, name: str) -> tuple[Any, Any]:
        folder, files = self._folder
        return self._log.jvm.view.org.apache.hadoop.fs.Path(folder, name), files

    @cached_property
    def _folder(self) -> tuple[Any, Any]:
        """The folder's Path and its FileSystem, read once: a vacuum reads some hundred notes."""
        folder = self._log.jvm.view.org.apache.hadoop.fs.Path(self._log.log.dataPath(), FOLDER)
        return folder, folder.getFileSystem(self._log.log.newDeltaHadoopConf())


def _scheme(place: Any, files: Any) -> str:
    return str(place.toUri().getScheme() or files.getScheme())


def _write(files: Any, place: Any, text: str, *, over: bool) -> None:
    stream = files.create(place, over)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()
