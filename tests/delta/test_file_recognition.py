"""Which files in a Delta table's folder were written by a Delta writer, recognized by path and name."""

from __future__ import annotations

import pytest

from lakekeeper_delta.file_recognition import Folders, recognised

RUN = "lk3f2a9c01b7de5f6a3f30ccab40d1n1"
UUID = "3f2a9c01-b7de-4f6a-8f30-ccab40d1a2b3"
PART = f"part-00000-{UUID}.c000.zstd.parquet"
FOLDERS = Folders(columns=("day",), prefix=3)


@pytest.mark.parametrize(
    "path",
    [
        PART,
        f"day=1/{PART}",
        f"aBc/{PART}",
        f"{RUN}/{PART}",
        f"{RUN}/none/L1/{PART}",
        f"{RUN}/0a1b2c3d4e5f/L12/{PART}",
        f"{RUN}/0a1b2c3d4e5f/L12/day=1/{PART}",
        f"{RUN}/deletion_vector_{UUID}.bin",
        f"20260102_030405_00006_abcde-{UUID}",
    ],
)
def test_files_of_writers(path: str) -> None:
    assert recognised(path, FOLDERS)


@pytest.mark.parametrize(
    "path",
    [
        f"none/L1/{PART}",
        f"day=1/none/L1/{PART}",
        f"{RUN}/L1/{PART}",
        f"{RUN}/none/{PART}",
        f"{RUN}/none/L1/none/L1/{PART}",
        f"{RUN}/else/L1/{PART}",
        f"other=1/{PART}",
        f"{RUN}/none/L1/notes.txt",
        f"incoming/{PART}",
    ],
)
def test_files_of_others(path: str) -> None:
    assert not recognised(path, FOLDERS)
