"""Names that prove whose a file is: each run of a table writes into a folder of its own.

    <root>/lk + 3f2a9c01b7de + 5f6a3f30ccab40d1 + n + 1/…
           │    │              │                      └ the number of the run id
           │    │              └ the rest of it
           │    └ the table: the beginning of a hash of its uuid
           └ lakekeeper

What a dead run left is found by this name alone, and no table can mistake another's folder for its own, wherever the
two lie. The name has letters and digits only: Trino and Presto refuse a deletion vector whose prefix has anything else.
"""

from __future__ import annotations

import hashlib
import re

RUN_FOLDER = r"lk[0-9a-f]{12}[0-9a-z]{1,32}n[0-9]{1,9}"
"""A pattern (of Python, Java and RE2) for the name of a run's folder."""

_RUN_ID = re.compile(r"([0-9a-z]{1,32})-([0-9]{1,9})")
_FOLDER = re.compile(RUN_FOLDER)
_NAME = re.compile(r"[0-9a-z]{1,32}(?:-[0-9a-z]{1,9})?")


def is_run_id(text: str) -> bool:
    """Is it the id of a run that writes files: lower-case letters and digits, a hyphen, a number?"""
    return _RUN_ID.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Is it an id of any kind, of which a step of a path can be made safely?"""
    return _NAME.fullmatch(text) is not None


def run_folder(table_uuid: str, run_id: str) -> str:
    """The name of the folder that a run of a table writes into. Raises ValueError for what is no run id."""
    found = _RUN_ID.fullmatch(run_id)
    if found is None:
        raise ValueError(f"{run_id!r} is no run id: letters and digits, a hyphen and a number are")
    table = hashlib.sha256(table_uuid.lower().encode()).hexdigest()[:12]
    return f"lk{table}{found[1]}n{found[2]}"


def folders_of_run(path: str) -> tuple[str, ...]:
    """The folders that a file of a run lies in, from the innermost to the run's own; none for another file's."""
    steps = path.split("/")
    found = next((number for number, step in enumerate(steps[:-1]) if is_run_folder(step)), len(steps))
    return tuple("/".join(steps[:end]) for end in range(len(steps) - 1, found, -1))


def is_run_folder(step: str) -> bool:
    """Is a step of a path the folder of a run, of whatever table?"""
    return _FOLDER.fullmatch(step) is not None
