"""The function that a Spark task calls: text in, text out, and no import of Spark."""

from __future__ import annotations

import os
import sys
import zipimport

import pyarrow as pa

from lakekeeper.columnar.memory import few_page_faults
from lakekeeper.columnar.merge import merge_range
from lakekeeper.columnar.values import Damaged, Declined
from lakekeeper.core.model.file_merge import FileMerge

DECLINED, DAMAGED, RANGES = "declined: ", "damaged: ", "ranges: "


def merge_part(task: str, part: int) -> list[str]:
    """Merge one part: the ranges of the merge after :data:`RANGES`, then each file written for this part as JSON.

    If the merge is declined, no file is left, and the result is one text that begins with :data:`DECLINED`, or with
    :data:`DAMAGED` if an input is: Spark's rows would copy wrong values, since its reader checks no checksum.

    Scratch files are written to the executor's local folders, which Spark names in the environment. An error of a store
    declines the merge, since each request has been repeated; one of a local disk fails the task, which Spark repeats.
    An OSError without a number is one of Arrow's decoders, and would come again.
    """
    scratch = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    given = FileMerge.from_json(task)
    try:
        with few_page_faults():
            ranges, written = merge_range(given, part, scratch=scratch or None)
    except (Declined, pa.ArrowException) as error:
        return [f"{DECLINED}{str(error) or type(error).__name__}"]
    except Damaged as error:
        return [f"{DAMAGED}{error}"]
    except OSError as error:
        if given.store is None and error.errno is not None:
            raise
        return [f"{DECLINED}{error}"]
    finally:
        _forget_archives()
    return [f"{RANGES}{ranges}", *(file.to_json() for file in written)]


def _forget_archives() -> None:
    """Drop what the import system caches of zip archives; it reads them again on demand.

    Before each task PySpark invalidates this cache (``importlib.invalidate_caches``), which reads the directory of each
    archive in it again. The session's jars are among them: 0.2 core-seconds a task, more than a small merge takes.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            sys.path_importer_cache.pop(path, None)
