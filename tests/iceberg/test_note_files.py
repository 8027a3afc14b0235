"""Notes of a table on a local disk. No JVM is needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakekeeper.errors import AdapterError
from lakekeeper_iceberg.notes import IcebergNotes

NOTE = "/t/_lakekeeper/a.json"


class Disk:
    """A local disk, as Hadoop's file system and Iceberg's FileIO; ``fails`` names what does not work."""

    def __init__(self, fails: str) -> None:
        self.texts = {NOTE: b"old"}
        self.fails = fails

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Any] = {
            "getUri": SimpleNamespace(getScheme=lambda: "file"),
            "getConf": None,
            "getRawFileSystem": self,
        }
        return lambda *_: answers[name]

    def getChecksumFile(self, place: str) -> str:  # noqa: N802 - Java's name
        return f"{place}.crc"

    def newOutputFile(self, place: str) -> Any:  # noqa: N802 - Java's name
        def write(data: bytearray) -> None:
            self.texts[place] = bytes(data[:1])
            if "write" in self.fails:
                raise OSError("no space left")
            self.texts[place] = bytes(data)

        stream = SimpleNamespace(write=write, close=lambda: None)
        return SimpleNamespace(createOrOverwrite=lambda: stream)

    def rename(self, old: str, new: str) -> bool:
        if self.fails != "rename":
            self.texts[new] = self.texts.pop(old)
        return self.fails != "rename"

    def delete(self, place: str, _recursive: bool) -> None:
        if "delete" in self.fails:
            raise OSError("the disk is gone")
        self.texts.pop(place, None)


@pytest.mark.parametrize("fails", ["", "write", "rename", "write, delete"])
def test_a_note_that_cannot_be_replaced_leaves_no_other(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    """The new text stayed beside the note, under a name that nothing looks for."""
    disk = Disk(fails)

    class Path(str):
        __slots__ = ()

        def getFileSystem(self, _: Any) -> Disk:  # noqa: N802 - Java's name
            return disk

    monkeypatch.setattr("lakekeeper_iceberg.notes.through_hadoop", lambda *_: True)
    hadoop = SimpleNamespace(fs=SimpleNamespace(Path=Path))
    jvm: Any = SimpleNamespace(
        view=SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop)))
    )
    notes = IcebergNotes(jvm, SimpleNamespace(location=lambda: "/t", io=lambda: disk), "db.t")
    if not fails:
        notes.replace("a.json", "new")
        assert disk.texts == {NOTE: b"new"}
        return
    said = "could not be renamed" if fails == "rename" else "no space left"
    with pytest.raises(AdapterError, match=said):
        notes.replace("a.json", "new")
    assert disk.texts[NOTE] == b"old"
    assert len(disk.texts) == (2 if "delete" in fails else 1)
