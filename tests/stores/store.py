"""A store of tables, read without Spark's code."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from pathlib import Path


class Store(ABC):
    """Files by their keys: paths in the store, without a slash in front."""

    @property
    @abstractmethod
    def root(self) -> str:
        """How Spark names the store; a key follows."""

    @property
    @abstractmethod
    def readable(self) -> dict[str, str]:
        """What pyiceberg needs to read the store."""

    @abstractmethod
    def key(self, location: str) -> str:
        """The key of a location that Spark or a table's metadata names."""

    @abstractmethod
    def entries(self, prefix: str) -> dict[str, str]:
        """Key → its entry in a listing, of all keys below a prefix."""

    @abstractmethod
    def get(self, key: str) -> bytes:
        """The content of a file."""

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write a file, or write over it."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Delete a file."""

    def keys(self, prefix: str) -> set[str]:
        """All keys below a prefix."""
        return set(self.entries(prefix))

    def contents(self, prefix: str) -> dict[str, bytes]:
        """All files below a prefix."""
        return {key: self.get(key) for key in sorted(self.keys(prefix))}

    def copy_to(self, prefix: str, folder: Path) -> Path:
        """A folder with the files below a prefix, for readers of files."""
        shutil.rmtree(folder, ignore_errors=True)
        for key, data in self.contents(f"{prefix}/").items():
            file = folder / key.removeprefix(f"{prefix}/")
            if not key.endswith("/"):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
        return folder
