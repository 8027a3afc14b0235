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

from lakekeeper.errors import AdapterError
from lakekeeper.spark import properties
from lakekeeper.spark.installation import SUBMIT_ARGS

_OPTION = "--properties-file"


@contextmanager
def startup_file(confs: Mapping[str, str], properties_file: Path | None = None) -> Iterator[None]:
    """Let a JVM that starts in this block read these confs; those of a properties file apply where they set nothing.

    A properties file in PYSPARK_SUBMIT_ARGS takes the place of ``properties_file``. Raises AdapterError if the file
    cannot be read.
    """
    before = os.environ.get(SUBMIT_ARGS)
    words, named = _split(before or "pyspark-shell")
    below = named or properties_file
    text = properties.text_of((_read(below) if below else {}) | dict(confs))
    handle, path = tempfile.mkstemp(prefix="lakekeeper-", suffix=".conf")  # readable by its owner alone
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
        os.environ[SUBMIT_ARGS] = shlex.join([_OPTION, path, *words])
        yield
    finally:
        os.environ.pop(SUBMIT_ARGS, None)
        if before is not None:
            os.environ[SUBMIT_ARGS] = before
        Path(path).unlink(missing_ok=True)


def _split(arguments: str) -> tuple[list[str], Path | None]:
    """The arguments without ``--properties-file``, and the file that it names."""
    words, kept, named = iter(shlex.split(arguments)), [], None
    for word in words:
        option, equals, text = word.partition("=")
        if option == _OPTION:
            named = text if equals else next(words, "")
        else:
            kept.append(word)
    return kept, Path(named) if named else None


def _read(path: Path) -> dict[str, str]:
    try:
        return properties.spark_only(properties.read(path))
    except (OSError, UnicodeDecodeError) as error:
        raise AdapterError(f"{path} cannot be read: {error}") from error
