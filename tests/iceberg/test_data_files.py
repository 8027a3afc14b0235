"""How Python opens the data files of a table: with the client that the FileIO uses for each of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakekeeper_iceberg import data_files
from lakekeeper_iceberg.data_files import DataFiles


def opened(monkeypatch: pytest.MonkeyPatch, prefixes: list[str], path: str, failing: str = "none") -> Any:
    """What opens a file of a FileIO with credentials for these prefixes, each client named by what was requested."""

    class Files:
        def __init__(self, _jvm: object, _io: object, place: str) -> None:
            if place.startswith(failing):
                raise RuntimeError("the client finds no credentials")
            self.store = place

        def path(self, location: str) -> str:
            return location

    monkeypatch.setattr(data_files, "FilesOfTable", Files)
    monkeypatch.setattr(
        data_files,
        "files_on_s3",
        lambda store, _place: SimpleNamespace(open=lambda path: (store, path)),
    )
    monkeypatch.setattr(data_files, "JavaFile", lambda stream, size: (stream, size))
    vended = [SimpleNamespace(prefix=lambda each=each: each) for each in prefixes]
    io = SimpleNamespace(
        credentials=lambda: vended,
        newInputFile=lambda location: SimpleNamespace(newStream=lambda: f"stream of {location}"),
    )
    path_class = SimpleNamespace(fs=SimpleNamespace(Path=str))
    jvm: Any = SimpleNamespace(
        view=SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=path_class))),
        is_a=lambda _item, name: name.endswith("SupportsStorageCredentials") and bool(prefixes),
        items=list,
    )
    return DataFiles(jvm, io).opener(path, 9)()


def test_the_credentials_of_the_longest_prefix_open_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog vends them for the table alone; those of the bucket's root are the driver's own, or none at all."""
    vended, path = ["s3://b/wh", "s3://b/wh/t/"], "s3://b/wh/t/data/f.parquet"
    assert opened(monkeypatch, vended, path) == ("s3://b/wh/t/any", path)
    assert opened(monkeypatch, vended, "s3://b/wh/u/f") == ("s3://b/wh/any", "s3://b/wh/u/f")
    assert opened(monkeypatch, vended, "s3://b/other/f") == ("s3://b/any", "s3://b/other/f")
    assert opened(monkeypatch, [], path) == ("s3://b/any", path)


def test_the_stream_of_the_file_io_opens_what_no_client_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "s3://b/wh/t/f"
    assert opened(monkeypatch, [], path, failing="s3://b") == (f"stream of {path}", 9)
