"""What streams have yet to read: the offsets in their checkpoints, of Delta's source and of Iceberg's.

    offsets/  0  1  2  3        the end of each batch, recorded before the batch runs
    commits/  0  1  2           completed batches: the stream continues from the end of 2, and repeats 3

Only Iceberg's source records the start of the first batch, in ``sources/<n>/offsets/0``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lakekeeper.core.vacuum.retention import Stream
from lakekeeper.errors import OptionError, reason
from lakekeeper.spark.jvm import Jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OPTION = "vacuum.streaming-checkpoints"
_DELTA = "reservoirId"  # the key of the table's uuid in an offset of Delta's source
_EMPTY = -1  # Iceberg's source started on a table without a snapshot


def streams_of(
    spark: SparkSession, checkpoints: Sequence[str], *, required: bool = True
) -> tuple[Stream, ...]:
    """What the streams of these checkpoint folders have yet to read; ``required`` as in :class:`Stream`.

    Raises OptionError for a folder that is not a streaming checkpoint, or whose position cannot be read: treating it as
    a stream that needs nothing would leave the versions it needs unprotected.
    """
    return tuple(Stream(folder, _positions(Jvm(spark), folder), required) for folder in checkpoints)


def _positions(jvm: Jvm, folder: str) -> tuple[tuple[str, int | None], ...]:
    try:
        texts = _offsets(_Folder(jvm, folder))
        found = tuple(position for text in texts for line in text.splitlines() for position in _read(line))
    except OptionError:
        raise
    except Exception as error:
        raise OptionError(_OPTION, folder, f"the checkpoint folder of a stream ({reason(error)})") from error
    if not found:
        raise OptionError(
            _OPTION, folder, "the checkpoint of a stream that reads a Delta or an Iceberg table"
        )
    return found


def _offsets(folder: _Folder) -> list[str]:
    """The offset files that define where the stream continues."""
    done = folder.numbers("commits")
    if done:
        return [folder.text("offsets", str(max(done)))]
    begun = [("sources", source, "offsets", "0") for source in folder.names("sources")]
    texts = [folder.text(*steps) for steps in begun if folder.has(*steps)]
    if not texts or _names_delta(folder):
        raise OptionError(
            _OPTION,
            folder.name,
            "the checkpoint of a stream that has completed a batch; this one has not done its first batch, so the "
            "version from which it reads is not known",
        )
    return texts


def _names_delta(folder: _Folder) -> bool:
    """Whether the first batch is planned and reads a Delta table, beside which an Iceberg source proves nothing."""
    return folder.has("offsets", "0") and _DELTA in folder.text("offsets", "0")


class _Folder:
    """A checkpoint folder, read through Hadoop."""

    def __init__(self, jvm: Jvm, name: str) -> None:
        self.name = name
        self._path = jvm.view.org.apache.hadoop.fs.Path
        self._root = self._path(name)
        self._files = self._root.getFileSystem(jvm.session.sessionState().newHadoopConf())

    def names(self, *steps: str) -> list[str]:
        """The names in a subfolder, sorted; empty if it does not exist."""
        if not self.has(*steps):
            return []
        return sorted(str(status.getPath().getName()) for status in self._files.listStatus(self._at(*steps)))

    def numbers(self, *steps: str) -> list[int]:
        """The numeric names in a subfolder, which are batches."""
        return [int(name) for name in self.names(*steps) if name.isdigit()]

    def has(self, *steps: str) -> bool:
        """Whether a file or subfolder exists."""
        return bool(self._files.exists(self._at(*steps)))

    def text(self, *steps: str) -> str:
        """The text of a file in the folder."""
        stream = self._files.open(self._at(*steps))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def _at(self, *steps: str) -> Any:
        place = self._root
        for step in steps:
            place = self._path(place, step)
        return place


def _read(line: str) -> Iterator[tuple[str, int | None]]:
    """(uuid of the table, version) of each offset in a line; empty for other kinds of lines and other sources."""
    try:
        plain = json.loads(line)
    except ValueError:
        return
    yield from _found(plain)


def _found(plain: Any) -> Iterator[tuple[str, int | None]]:
    if not isinstance(plain, dict):
        return
    if isinstance(plain.get("reservoirVersion"), int):
        yield str(plain.get(_DELTA, "")), int(plain["reservoirVersion"])
    elif isinstance(plain.get("snapshot_id"), int):
        number = int(plain["snapshot_id"])
        yield "", None if number == _EMPTY else number
    else:
        for value in plain.values():  # offsets keyed by the name of their source
            yield from _read(value) if isinstance(value, str) else _found(value)
