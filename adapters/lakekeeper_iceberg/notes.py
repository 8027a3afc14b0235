"""Notes next to the table's data, in ``_lakekeeper``: orphan file listings skip names with a leading underscore."""

from __future__ import annotations

import uuid
from contextlib import suppress
from functools import cached_property
from typing import Any

from lakekeeper.errors import AdapterError, reason
from lakekeeper.spark.jvm import causes
from lakekeeper.spark.small_files import (
    AZURE,
    NOTE_READERS,
    NOTE_READS,
    create_once,
    remove_spare,
    repeated_if_refused,
    replace_with_spare,
    says_it_exists,
    scheme_of,
    whole,
)
from lakekeeper_iceberg import adls, s3
from lakekeeper_iceberg.filesystem import OF_HADOOP, through_hadoop
from lakekeeper_iceberg.native import Iceberg

FOLDER = "_lakekeeper"
_NOT_FOUND = ("org.apache.iceberg.exceptions.NotFoundException", "java.io.FileNotFoundException")


class IcebergNotes:
    """Implements ``spi.Notes`` through the table's FileIO."""

    def __init__(self, jvm: Iceberg, table: Any, name: str) -> None:
        self._jvm = jvm
        self._table = table
        self._name = name

    @cached_property
    def readers(self) -> int:
        """``NOTE_READERS`` where each read is a request, 1 on a local disk."""
        system = self._hadoop(self._folder)
        return 1 if system and str(system.getUri().getScheme()) == "file" else NOTE_READERS

    def read(self, name: str) -> str | None:
        return whole(self._read, name)

    def _read(self, name: str, reads: int = NOTE_READS) -> str | None:
        try:
            found = self._found(name)
            if found is None:
                return None
            stream = found.newStream()
            try:
                return bytes(stream.readAllBytes()).decode(errors="replace")
            finally:
                stream.close()
        except Exception as error:
            if reads > 1 and _is_missing(error):
                # It was removed after the first call, or replaced: Google's connector reads the version it has found.
                return self._read(name, reads - 1)
            raise AdapterError(f"{self._name}: {FOLDER}/{name} cannot be read ({reason(error)})") from error

    def _found(self, name: str) -> Any:
        """The InputFile of a note; None if it does not exist: the FileIO in memory raises that."""
        try:
            found = self._table.io().newInputFile(self._place(name))
            return found if found.exists() else None
        except Exception as error:
            if _is_missing(error):
                return None
            raise

    def keep(self, name: str, text: str) -> str:
        there = self.read(name)
        if there is not None:
            return there
        try:
            self._create(self._place(name), text.encode())
        except Exception as error:
            there = self.read(name)
            if there is None or not says_it_exists(error):
                raise AdapterError(
                    f"{self._name}: {FOLDER}/{name} cannot be written ({reason(error)})"
                ) from error
            return there
        return text

    def replace(self, name: str, text: str) -> None:
        """Replace a note: by a rename on local disks and HDFS, with a spare on Azure, by one put on object stores."""
        place = self._place(name)
        aside = f"{place}.{uuid.uuid4().hex}.tmp"
        try:
            if azure := self._azure(place):
                replace_with_spare(azure, self._path(place), text.encode())
                return
            system = self._renames(place)
            if system:
                try:
                    self._overwrite(aside, text)
                    self._rename_over(system, aside, place)
                except BaseException:
                    with suppress(Exception):  # the first error says more
                        system.delete(self._path(aside), False)
                    raise
            else:
                repeated_if_refused(lambda: self._overwrite(place, text))
        except Exception as error:
            raise AdapterError(
                f"{self._name}: {FOLDER}/{name} cannot be written ({reason(error)})"
            ) from error

    def remove(self, name: str) -> None:
        try:
            io, place = self._table.io(), self._place(name)
            if io.newInputFile(place).exists():
                io.deleteFile(place)
            if azure := self._azure(place):
                remove_spare(azure, self._path(place))
        except Exception as error:
            if not _is_missing(error):
                raise AdapterError(
                    f"{self._name}: {FOLDER}/{name} cannot be removed ({reason(error)})"
                ) from error

    def _overwrite(self, place: str, text: str) -> None:
        stream = self._table.io().newOutputFile(place).createOrOverwrite()
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def _create(self, place: str, data: bytes) -> None:
        """Write a note that does not exist yet. Raises if it exists, also if another writer creates it meanwhile."""
        system = self._hadoop(place)
        if system and str(system.getUri().getScheme()) == "file":
            self._jvm.create_file(str(self._path(place).toUri().getPath()), data)
            return
        if system:
            create_once(self._jvm, system, self._path(place), data)
            return
        file = self._table.io().newOutputFile(place)
        if s3.is_s3(file):
            s3.put_once(self._jvm, file, data)
            return
        if adls.is_adls(file):
            adls.put_once(self._jvm, file, data)
            return
        stream = file.create()
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()

    def _hadoop(self, place: str) -> Any:
        """The Hadoop FileSystem through which the FileIO reaches a path; None if it does not use Hadoop's."""
        io = self._table.io()
        return (
            self._path(place).getFileSystem(io.getConf()) if through_hadoop(self._jvm, io, [place]) else None
        )

    def _renames(self, place: str) -> Any:
        """The Hadoop FileSystem of a path, if its renames are atomic; else None."""
        system = self._hadoop(place)
        return system if system and str(system.getUri().getScheme()) in OF_HADOOP else None

    def _azure(self, place: str) -> Any:
        """The Hadoop FileSystem of a path, if it is one of Azure; else None."""
        system = self._hadoop(place)
        return system if system and scheme_of(system) in AZURE else None

    def _rename_over(self, system: Any, aside: str, place: str) -> None:
        old, new = self._path(aside), self._path(place)
        if str(system.getUri().getScheme()) == "file":
            # One rename of the raw file: without a checksum file it is readable, with a stale one it is not.
            raw = system.getRawFileSystem()
            raw.delete(system.getChecksumFile(new), False)
            if not raw.rename(old, new):
                raise OSError(f"{aside} could not be renamed")
            raw.delete(system.getChecksumFile(old), False)
            return
        files = self._jvm.view.org.apache.hadoop.fs
        # py4j does not see `Options.Rename` as a field, and `FileSystem.rename` refuses an existing target.
        over = self._jvm.static("org.apache.hadoop.fs.Options$Rename", "valueOf")("OVERWRITE")
        kinds = self._jvm.array(getattr(files, "Options$Rename"), [over])
        old, new = system.makeQualified(old), system.makeQualified(new)  # hdfs:///t has no address
        files.FileContext.getFileContext(old.toUri(), self._table.io().getConf()).rename(old, new, kinds)

    def _path(self, place: str) -> Any:
        return self._jvm.view.org.apache.hadoop.fs.Path(place)

    def _place(self, name: str) -> str:
        return f"{self._folder}/{name}"

    @cached_property
    def _folder(self) -> str:
        return f"{str(self._table.location()).rstrip('/')}/{FOLDER}"


def _is_missing(error: Exception) -> bool:
    """Whether an error says that a file does not exist."""
    return any(name in _NOT_FOUND for name, _ in causes(error))
