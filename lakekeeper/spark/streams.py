"""What streams have yet to read: the offsets in their checkpoints, of Delta's source and of Iceberg's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakekeeper.errors import OptionError, reason
from lakekeeper.spark.jvm import Jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VERSION = ("reservoirVersion", "snapshot_id")


def versions_to_read(spark: SparkSession, checkpoints: Sequence[str]) -> dict[int, str]:
    """Version → which stream goes on from there. Raises OptionError for a folder that is no stream's checkpoint.

    The last offset that was noted need not have been processed: the one before is told as well.
    """
    found: dict[int, str] = {}
    for folder in checkpoints:
        for text in _last_offsets(Jvm(spark), folder):
            for line in text.splitlines():
                version = _version(line)
                if version is not None:
                    found.setdefault(version, f"the stream of {folder} goes on from it")
    return found


def _last_offsets(jvm: Jvm, folder: str) -> list[str]:
    """The texts of the last two batches' offsets."""
    path = jvm.view.org.apache.hadoop.fs.Path
    try:
        place = path(folder.rstrip("/"), "offsets")
        files = place.getFileSystem(jvm.session.sessionState().newHadoopConf())
        numbers = sorted(int(s.getPath().getName()) for s in files.listStatus(place) if _is_batch(s))
        return [_text(files, path(place, str(number))) for number in numbers[-2:]]
    except Exception as error:
        raise OptionError(
            "vacuum.streaming-checkpoints", folder, f"the checkpoint folder of a stream ({reason(error)})"
        ) from error


def _is_batch(status: Any) -> bool:
    return str(status.getPath().getName()).isdigit()


def _text(files: Any, path: Any) -> str:
    stream = files.open(path)
    try:
        return bytes(stream.readAllBytes()).decode()
    finally:
        stream.close()


def _version(line: str) -> int | None:
    """The version in a source's offset; lines of other kinds, and offsets of other sources, have none."""
    try:
        plain = json.loads(line)
    except ValueError:
        return None
    if not isinstance(plain, dict):
        return None
    for name in _VERSION:
        if isinstance(plain.get(name), int):
            return int(plain[name])
    return None
