"""Merges for the tests of the columnar worker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from lakekeeper.core.model.file_merge import FileColumn, FileInput, FileMerge


def task_of(folder: Path, columns: tuple[FileColumn, ...], **how: Any) -> FileMerge:
    """A merge of all files of a folder into its folder ``out``, by the first column unless ``how`` says otherwise."""
    task = FileMerge(
        inputs=tuple(FileInput(str(path)) for path in sorted(folder.glob("*.parquet"))),
        columns=columns,
        key=(0,),
        folder=str(folder / "out"),
        name="{id}{codec}.parquet",
        target_bytes=1 << 30,
        row_group_bytes=1 << 27,
    )
    return replace(task, **how)
