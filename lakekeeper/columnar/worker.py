"""The function that a Spark task calls: text in, text out, and no import of Spark."""

from __future__ import annotations

import os

import pyarrow as pa

from lakekeeper.columnar.merge import merge
from lakekeeper.columnar.values import Declined
from lakekeeper.core.model.file_merge import FileMerge

DECLINED = "declined: "


def merge_part(task: str, part: int) -> list[str]:
    """The written files of one range, each as JSON; or one text that begins with :data:`DECLINED`, and no file.

    Scratch files are written to the executor's local folders, which Spark names in the environment.
    """
    scratch = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    try:
        written = merge(FileMerge.from_json(task), part, scratch=scratch or None)
    except (Declined, pa.ArrowException) as error:
        return [f"{DECLINED}{str(error) or type(error).__name__}"]
    finally:
        pa.default_memory_pool().release_unused()
    return [file.to_json() for file in written]
