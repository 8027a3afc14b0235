"""Folder names that prove which run wrote a file: each run of a table writes to its own folder.

    <root>/lk + 3f2a9c01b7de + 5f6a3f30ccab40d1 + n + 1/…
           │    │              │                      └ the number of the run id
           │    │              └ the rest of the run id
           │    └ the table: a prefix of the hash of its uuid
           └ lakekeeper

Files left by a dead run are found by this name alone, and no table can mistake another's folder for its own, wherever
the two are stored. The name has only letters and digits: Trino and Presto reject a deletion vector whose prefix has
any other character.

The level and key of a data file are in its path too, ``<folder of the run>/<key id or "none">/L<level>/``: a path
survives writers that rewrite the metadata of a file.
"""

from __future__ import annotations

import hashlib
import re

RUN_FOLDER = r"lk[0-9a-f]{12}[0-9a-z]{1,32}n[0-9]{1,9}"
"""A pattern for the name of a run's folder, valid in Python, Java and RE2."""

NO_KEY = "none"
LEVEL_FOLDERS = r"(none|[0-9a-f]{12})/L([0-9]{1,4})"
"""A pattern for the folders of a key and a level, with a group for each: as for `RUN_FOLDER`."""

_RUN_ID = re.compile(r"([0-9a-z]{1,32})-([0-9]{1,9})")
_FOLDER = re.compile(RUN_FOLDER)
_NAME = re.compile(r"[0-9a-z]{1,32}(?:-[0-9a-z]{1,9})?")


def is_run_id(text: str) -> bool:
    """Whether the text is the id of a run that writes files: lower-case letters and digits, a hyphen, a number."""
    return _RUN_ID.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Whether the text is an id of any kind that is safe to use as a path component."""
    return _NAME.fullmatch(text) is not None


def run_folder(table_uuid: str, run_id: str) -> str:
    """The name of the folder that a run of a table writes to. Raises ValueError for an invalid run id."""
    found = _RUN_ID.fullmatch(run_id)
    if found is None:
        raise ValueError(f"{run_id!r} is not a run id: letters and digits, a hyphen and a number")
    table = hashlib.sha256(table_uuid.lower().encode()).hexdigest()[:12]
    return f"lk{table}{found[1]}n{found[2]}"


def level_folder(home: str, key_id: str, level: int) -> str:
    """The folder for data files of a level and key (``""``: no key), in the folder ``home`` of a run."""
    return f"{home}/{key_id or NO_KEY}/L{level}"


def folders_of_run(path: str) -> tuple[str, ...]:
    """The folders that contain a run's file, from the innermost to the run's own; empty if no run wrote the file."""
    steps = path.split("/")
    found = next((number for number, step in enumerate(steps[:-1]) if is_run_folder(step)), len(steps))
    return tuple("/".join(steps[:end]) for end in range(len(steps) - 1, found, -1))


def is_run_folder(step: str) -> bool:
    """Whether a path component is the folder of a run, of any table."""
    return _FOLDER.fullmatch(step) is not None
