"""Other tables in or around a table's folders: their files would look like orphans.

Several engines deleted a neighbour that way (amoro 4292, apache/iceberg 17213).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from lakekeeper.errors import AdapterError
from lakekeeper_iceberg.disk import Disk, is_child
from lakekeeper_iceberg.reach import keys_of, path_key

_METADATA = re.compile(r"\.metadata\.json(\.gz)?$|\.gz\.metadata\.json$")
_DELTA = re.compile(r"/_delta_log/[^/]+$")
_UUID = re.compile(rb'"table-uuid"\s*:\s*"([0-9a-fA-F-]{36})"')
_START = 1 << 16


def strangers_of(disk: Disk, roots: Sequence[str], uuid: str, own: Collection[str]) -> tuple[str, ...]:
    """Where metadata of other tables lies below the roots, or in a folder above one of them. LISTs.

    ``own`` are metadata files that the table names itself. Raises AdapterError for one that cannot be read: it may be
    anybody's.
    """
    known = keys_of(own)
    found: dict[str, None] = {}
    for path in _candidates(disk, roots):
        place = path.rpartition("/")[0]
        if place not in found and path_key(path) not in known and _is_strange(disk, path, uuid):
            found[place] = None
    return tuple(found)


def _candidates(disk: Disk, roots: Sequence[str]) -> Iterator[str]:
    for root in roots:
        for info in disk.files(root):
            if _METADATA.search(info.path) or _DELTA.search(info.path):
                yield info.path
        for above in _above(root):
            for folder in (f"{above}/metadata", f"{above}/_delta_log"):
                # A table beside it may be called "metadata": what lies deeper is no neighbour's.
                for info in disk.files(folder):
                    if is_child(info.path, folder) and (
                        _METADATA.search(info.path) or _DELTA.search(info.path)
                    ):
                        yield info.path


def _above(root: str) -> Iterator[str]:
    """Folders above a root, nearest first, down to but without the file system's own."""
    found = re.fullmatch(r"((?:[A-Za-z][A-Za-z0-9+.\-]*:)?(?://[^/]*)?)(/.*)", root.rstrip("/"), re.DOTALL)
    if found is None:
        return
    store, steps = found[1], found[2].split("/")[1:-1]
    while any(steps):
        yield f"{store}/{'/'.join(steps)}"
        steps = steps[:-1]


def _is_strange(disk: Disk, path: str, uuid: str) -> bool:
    if _DELTA.search(path):
        return True
    told = _UUID.search(disk.start(path, _START))
    if told is None:
        raise AdapterError(
            f"{disk.name}: {path} is metadata of a table that cannot be told; nothing was deleted. Move it away if it "
            "is nobody's"
        )
    return told[1].decode().lower() != uuid.lower()
