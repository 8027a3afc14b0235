"""The file from which a JVM reads its confs when it starts.

PySpark passes confs to spark-submit as ``--conf key=value``, and every user of the machine can read the arguments of a
process. A file that only its owner can read keeps secrets there. spark-submit reads it in place of
``spark-defaults.conf``, and options in PYSPARK_SUBMIT_ARGS override it, as they override ``--conf``.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lakekeeper.spark import properties
from lakekeeper.spark.installation import PROPERTIES_FILE, SUBMIT_ARGS, confs_of, split_arguments


@contextmanager
def startup_file(confs: Mapping[str, str], properties_file: Path | None = None) -> Iterator[None]:
    """Let a JVM that starts in this block read these confs; those of a properties file apply where they set nothing.

    Without ``properties_file``, they are those of the file that PYSPARK_SUBMIT_ARGS names. Raises AdapterError if the
    file cannot be read.
    """
    before = os.environ.get(SUBMIT_ARGS)
    words, named = split_arguments(before or "pyspark-shell")
    below = properties_file or named
    text = properties.text_of((confs_of(below) if below else {}) | dict(confs))
    handle, path = tempfile.mkstemp(prefix="lakekeeper-", suffix=".conf")  # readable by its owner alone
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
        os.environ[SUBMIT_ARGS] = shlex.join([PROPERTIES_FILE, path, *words])
        yield
    finally:
        os.environ.pop(SUBMIT_ARGS, None)
        if before is not None:
            os.environ[SUBMIT_ARGS] = before
        Path(path).unlink(missing_ok=True)
