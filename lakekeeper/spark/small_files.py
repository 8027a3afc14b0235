"""Small files on Hadoop's file systems, which differ in when a new file is visible and in how a rename works.

                a new file is visible        a rename
    hdfs        empty, once it is opened     one step, over a file only on request
    abfs, wasb  empty, once it is opened     one step or a copy, never over a file
    s3a, gs     whole, once it is closed     a copy

On Azure a file can therefore not be replaced in one step. Its new text is first written beside it, as a spare: a reader
that finds the file empty, while it is written over or after a crash, reads the spare.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lakekeeper.spark.jvm import Jvm, causes

NOTE_READERS = 16
"""Notes of a table on an object store that are read at once: a vacuum asks for some hundred, each a request."""
NOTE_READS = 5
"""How often a note is looked for that another writer removes, or replaces, between the look and the read."""
_REFUSED_PUT = re.compile(r"Status (Code:|code) (409|412)\b|^412 Precondition Failed\b")
"""How the SDKs of AWS and Azure, and Google's connector, say that a put did not find what it expected."""
SPARE = ".next"
"""A spare is named like its file, and ends so."""
AZURE = ("abfs", "abfss", "wasb", "wasbs")
_HDFS = ("hdfs", "viewfs")
RENAMING = ("file", *_HDFS)
"""Schemes whose files are visible while they are written, and are renamed in one step."""
_WITH_FOLDERS = ("abfs", "abfss")  # schemes that have folders, in accounts with a hierarchical namespace
_ACLS = "fs.capability.paths.acls"  # a capability that ABFS has in these accounts alone
_CONDITIONAL = "fs.option.create.conditional.overwrite"
_LOOKS = 3


def says_it_exists(error: BaseException) -> bool:
    """Whether an error of creating a file says that the file exists: by its class, or by the answer of a store."""
    if isinstance(error, FileExistsError):
        return True
    return any("AlreadyExists" in kind or _REFUSED_PUT.search(text) for kind, text in causes(error))


def repeated_if_refused(put: Callable[[], None], puts: int = 5) -> None:
    """Replace an object, again if another writer does so at the same time.

    Google's connector replaces only the version that it found when the stream was opened.
    """
    try:
        put()
    except Exception as error:
        if puts == 1 or not any(_REFUSED_PUT.search(text) for _, text in causes(error)):
            raise
        repeated_if_refused(put, puts - 1)


def scheme_of(files: Any) -> str:
    """The scheme of a Hadoop FileSystem."""
    return str(files.getUri().getScheme()).lower()


def renames_in_one_step(files: Any, place: Any) -> bool:
    """Whether a rename moves a file and does not copy it."""
    scheme = scheme_of(files)
    return scheme in RENAMING or (scheme in _WITH_FOLDERS and bool(files.hasPathCapability(place, _ACLS)))


def has_folders(files: Any) -> bool:
    """Whether an empty folder remains, and the file system refuses to delete one that is not empty."""
    return scheme_of(files) in ("hdfs", *_WITH_FOLDERS)


def create_once(jvm: Jvm, files: Any, place: Any, data: bytes) -> None:
    """Create a file of a file system that is not local, with its full content. Raises if the file exists.

    Where a file is there as soon as it is opened, it is written aside and renamed, which is refused where a file
    exists. Google's connector refuses to create one. S3A looks for it when the stream is opened and puts the object
    when it is closed: of two concurrent callers, the later one would replace the file of the earlier. A conditional put
    is used where S3A has one (Hadoop 3.4.2) and it is not switched off.
    """
    if scheme_of(files) in (*_HDFS, *AZURE):
        _create_by_rename(jvm, files, place, data)
        return
    if files.hasPathCapability(place, _CONDITIONAL):
        stream = files.createFile(place).overwrite(False).must(_CONDITIONAL, "true").build()
    else:
        stream = files.create(place, False)
    _write(stream, data)


def _create_by_rename(jvm: Jvm, files: Any, place: Any, data: bytes) -> None:
    fs = jvm.view.org.apache.hadoop.fs
    place = files.makeQualified(place)  # hdfs:///t has no address
    aside = place.suffix(f".{uuid.uuid4().hex}.tmp")
    try:
        _write(files.create(aside, False), data)
        if scheme_of(files) in AZURE:  # whose FileContext looks for the target and then renames
            if not files.rename(aside, place):
                raise FileExistsError(f"{place.toString()} exists, or it cannot be renamed to")
            return
        refusing = jvm.array(getattr(fs, "Options$Rename"), [])
        fs.FileContext.getFileContext(place.toUri(), files.getConf()).rename(aside, place, refusing)
    except BaseException:
        with suppress(Exception):
            files.delete(aside, False)
        raise


def replace_with_spare(files: Any, place: Any, data: bytes) -> None:
    """Write over a file of Azure; :func:`whole` finds its old or its new content at any time."""
    spare = place.suffix(SPARE)
    _write(files.create(spare, True), data)
    _write(files.create(place, True), data)
    files.delete(spare, False)


def remove_spare(files: Any, place: Any) -> None:
    """Remove what a crash may have left beside a file that is removed."""
    if scheme_of(files) in AZURE:
        files.delete(place.suffix(SPARE), False)


def whole(read: Callable[[str], str | None], name: str) -> str | None:
    """A text by its name; its spare where the file is empty."""
    text = read(name)
    for _ in range(_LOOKS):
        if text != "":
            break
        text = read(name + SPARE) or read(name)  # without a spare it has been written by now
    return text


def _write(stream: Any, data: bytes) -> None:
    try:
        stream.write(bytearray(data))
    finally:
        stream.close()
