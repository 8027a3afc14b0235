"""One location for each file, however the log spells it: relative or absolute, encoded, or by a deletion vector's id.

    p=a%20b/x.parquet          ┐
    file:/lake/t/p=a%20b/x…    ├─►  file:/lake/t/p=a b/x.parquet      decoded once, as Delta itself reads it
    /lake/t/./p=a%20b/x…       ┘

A path that is not a URI has no certain meaning: every file that it may name is kept, and none is deleted because of it.
"""

from __future__ import annotations

import posixpath
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from lakekeeper.core.vacuum.path_guard import spelled

_URI = re.compile(r"(?:[A-Za-z0-9_\-!.~'()*,;:$&+=@/]|%[0-9A-Fa-f]{2}|[^\x00-\x7f])+")
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*:)(//[^/]*)?(/.*)", re.DOTALL)
_AMBIGUOUS = re.compile(r"[^A-Za-z0-9_.=/%-]|%(?!2[0235fF]|3[cCeEfF]|5[b-eB-E]|60|7[b-dB-DfF]|[01])")
_SCHEME = re.compile(r"[^/]*:")
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_ID = 20  # characters of a UUID in Z85


@dataclass(frozen=True, slots=True)
class Locator:
    """Locations of one table's files.

    root     the table's folder as Hadoop spells it, without a trailing slash
    default  scheme and authority of paths that have none: ``file:``, ``hdfs://host:8020``
    """

    root: str
    default: str

    def at(self, location: str) -> str:
        """A decoded location in its canonical spelling; below the root it begins with the root."""
        one, base = spelled(location), spelled(self.root)
        if one == base or one.startswith(base + "/"):
            return self.root + one[len(base) :]
        return one

    def inside(self, location: str) -> bool:
        """Whether the location is below the table's folder."""
        return location.startswith(self.root + "/")

    def above(self) -> tuple[str, ...]:
        """The folders that contain the table's folder, outermost first."""
        parts = _ABSOLUTE.fullmatch(self.root)
        if parts is None:
            return ()
        steps = parts[3].split("/")
        return tuple(parts[1] + (parts[2] or "") + "/".join(steps[:n]) for n in range(1, len(steps)))

    def of(self, path: str) -> str | None:
        """The location that an action's path means; None if that is not certain."""
        return None if _doubtful(path) else self._placed(path, decoded_path(path))

    def readings(self, path: str) -> tuple[str, ...]:
        """All locations that a path may mean; files at any of them must be kept."""
        certain = self.of(path)
        if certain is not None:
            return (certain,)
        cut = re.split("[?#]", path)[0]
        texts = [(path, path), (path, decoded_path(path)), (cut, cut), (cut, decoded_path(cut))]
        return tuple(sorted({self._placed(raw, text) for raw, text in texts if text}))

    def vector(self, descriptor: Mapping[str, Any] | None) -> str:
        """The file that holds a deletion vector; empty if none does. Raises ValueError if it cannot be located."""
        if descriptor is None or descriptor["storageType"] == "i":
            return ""
        kind, place = descriptor["storageType"], str(descriptor["pathOrInlineDv"])
        if kind == "u":
            return self._below(
                posixpath.join(place[:-_ID], f"deletion_vector_{decoded_id(place[-_ID:])}.bin")
            )
        location = self.of(place) if kind in ("p", "r") else None
        if location is None:
            raise ValueError(f"a deletion vector of kind {kind!r} at {place!r}")
        return location

    def is_absolute(self, path: str) -> bool:
        """Whether the path starts at the root of a file system."""
        return path.startswith("/") or _ABSOLUTE.fullmatch(path) is not None

    def is_ambiguous(self, path: str) -> bool:
        """Whether writers may spell the path in two ways: ``ä`` or ``%C3%A4``, but a space is always ``%20``.

        To Delta, two spellings are two files, though they name one place.
        """
        return _AMBIGUOUS.search(path) is not None

    def _placed(self, path: str, text: str) -> str:
        """The location of ``path``; ``text`` is the path, decoded or not."""
        parts = _ABSOLUTE.fullmatch(path)
        if parts is not None:
            store = parts[1] + (parts[2] or "")
            return self._plain(store, text[len(store) :])
        return self._plain(self.default, text) if path.startswith("/") else self._below(text)

    def _below(self, relative: str) -> str:
        parts = _ABSOLUTE.fullmatch(self.root)
        if parts is None:
            return self.root + "/" + relative
        return self._plain(parts[1] + (parts[2] or ""), parts[3] + "/" + relative)

    def _plain(self, store: str, path: str) -> str:
        # As in Hadoop's Path, by the text alone: empty steps and dots are dropped, and two dots remove the step before.
        return self.at(store + posixpath.normpath("/" + path.lstrip("/")))


def decoded_id(text: str) -> uuid.UUID:
    """The UUID encoded by 20 characters of Z85. Raises ValueError."""
    raw = b""
    for start in range(0, _ID, 5):
        value = 0
        for char in text[start : start + 5].ljust(5, "\x00"):
            value = value * 85 + _Z85.index(char)
        if value >= 1 << 32:
            raise ValueError(f"{text!r} is not an identifier in Z85")
        raw += value.to_bytes(4, "big")
    return uuid.UUID(bytes=raw)


def encoded_id(identifier: uuid.UUID) -> str:
    """A UUID as 20 characters of Z85."""
    text = ""
    for start in range(0, 16, 4):
        value = int.from_bytes(identifier.bytes[start : start + 4], "big")
        text += "".join(_Z85[value // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


def decoded_path(path: str) -> str:
    """The path with percent-encoding decoded, except in scheme and authority."""
    parts = _ABSOLUTE.fullmatch(path)
    store = parts[1] + (parts[2] or "") if parts else ""
    return store + unquote(path[len(store) :])


def _doubtful(path: str) -> bool:
    if not _URI.fullmatch(path):
        return True
    # A colon in a first step that is not a scheme: Java rejects such a URI.
    first = _SCHEME.match(path) is not None and _ABSOLUTE.fullmatch(path) is None
    return first or path.startswith("//") or path.endswith("/") or "\ufffd" in unquote(path)
