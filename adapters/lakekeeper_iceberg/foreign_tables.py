"""Other tables in or around a table's folders: their files would be taken for orphans.

Several engines deleted files of a nearby table this way (amoro 4292, apache/iceberg 17213).

inside     metadata of another table in a listed folder
newer      metadata of the table that its catalog does not name: another catalog has the table too, and has changed it
around     metadata of another table directly in an ancestor folder of a root
catalogs   a table of a catalog whose location or declared paths overlap with these folders
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lakekeeper.core.model.keys import quote
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.path_guard import may_be_same, may_be_within, may_meet
from lakekeeper.errors import AdapterError, reason
from lakekeeper.spark.catalogs import SESSION_CATALOG, Place, catalogs, places
from lakekeeper.spark.jvm import says_no_such_table
from lakekeeper.spi import TableName
from lakekeeper_iceberg.filesystem import Disk, is_child
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.reachability import keys_of, path_key

_METADATA = re.compile(r"\.metadata\.json(\.gz)?$|\.gz\.metadata\.json$")
_DELTA = re.compile(r"/_delta_log/[^/]+$")
_UPDATED = re.compile(rb'"last-updated-ms"\s*:\s*(\d+)')
_IN_FLIGHT_MS = 900_000  # a commit writes its metadata file before the catalog names it
_UUID = re.compile(rb'"table-uuid"\s*:\s*"([0-9a-fA-F-]{36})"')
_START = 1 << 16
_THREADS = 4
_FOR_PATHS = frozenset({"default_iceberg", "default_cache_iceberg", "default_rewrite_catalog"})
"""Catalogs that Iceberg itself defines in a session, for tables read by path and for its own rewrites."""
DECLARED = (
    "write.data.path",
    "write.metadata.path",
    "write.folder-storage.path",
    "write.object-storage.path",
)
"""Table properties that set paths for the table's files, possibly outside its location."""


def inside(disk: Disk, folders: Sequence[str], uuid: str, own: Collection[str]) -> set[str]:
    """LIST: folders with metadata of other tables below ``folders``. ``own`` are the table's own metadata files.

    Raises AdapterError for a metadata file that cannot be read: it may belong to any table.
    """
    known = keys_of(own)
    found, unclear = set(), []
    for folder in folders:
        for info in disk.files(folder):
            if _DELTA.search(info.path):
                found.add(info.path.rpartition("/")[0])
            elif _METADATA.search(info.path) and path_key(info.path) not in known:
                unclear.append(info.path)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lakekeeper-foreign-tables") as pool:
        for path, strange in zip(
            unclear,
            pool.map(lambda path: _is_strange(disk, path, disk.start(path, _START), uuid), unclear),
            strict=True,
        ):
            if strange:
                found.add(path.rpartition("/")[0])
    return found


def newer(disk: Disk, metadata: Callable[[], Any], log_files: Callable[[Any], Collection[str]]) -> set[str]:
    """LIST: metadata files of the table that are newer than all that its catalog knows; one at most.

    After ``register_table`` in a second catalog, as in a migration, each catalog has its own current metadata, with one
    uuid and in one folder. Through the older one, all that the newer one has added looks like an orphan. ``metadata``
    reads the current metadata again: a commit may have landed during the listing.
    """
    base = metadata()
    place = base.metadataFileLocation()
    if place is None:
        return set()
    folder, known = str(place).rpartition("/")[0], keys_of(log_files(base))
    settled_ms = time.time_ns() // 1_000_000 - _IN_FLIGHT_MS
    # A table may have thousands of older files that its log no longer names.
    since_ms = int(base.lastUpdatedMillis()) - HOUR_MS
    unknown = [
        info.path
        for info in disk.files(folder)
        if _METADATA.search(info.path)
        and path_key(info.path) not in known
        and (since_ms < info.modified_ms < settled_ms or not info.modified_ms)
    ]
    if not unknown:
        return set()
    base = metadata()
    known, updated_ms, uuid = keys_of(log_files(base)), int(base.lastUpdatedMillis()), str(base.uuid())
    for path in (path for path in unknown if path_key(path) not in known):
        start = disk.start(path, _START)
        match = _UPDATED.search(start)
        if match is not None and int(match[1]) > updated_ms and not _is_strange(disk, path, start, uuid):
            return {f"{path}, which is newer than the metadata that this catalog names"}
    return set()


def around(disk: Disk, roots: Sequence[str]) -> set[str]:
    """LIST: metadata folders of other tables directly in an ancestor folder of a root."""
    found = set()
    for folder in {above for root in roots for above in _above(root)}:
        for metadata, pattern in ((f"{folder}/metadata", _METADATA), (f"{folder}/_delta_log", _DELTA)):
            # A sibling table may be named "metadata": files below the folder itself do not count.
            if any(
                is_child(info.path, metadata) and pattern.search(info.path) for info in disk.files(metadata)
            ):
                found.add(metadata)
    return found


def in_catalogs(
    jvm: Iceberg,
    own: TableName,
    roots: Sequence[str],
    folders: Sequence[str] | None,
    metadata_file: Callable[[], str],
) -> set[str]:
    """Other tables with a location, or a declared path, that is at, above or below a root; the first is the table's.

    Tables may share a data path, where folders of runs keep their files apart: if only such ``folders`` are listed, a
    declared path counts only if it is in one of them. If all of a place outside the table's location is listed, every
    catalog of the session is searched: the metadata of a table that writes there may be anywhere. ``metadata_file``
    reads which metadata file of the table is current.
    """
    everywhere = folders is None and len(roots) > 1
    chosen = searched(jvm) if everywhere else (own.catalog,)
    found = set()
    for place in (place for catalog in chosen for place in places(jvm, catalog, DECLARED)):
        if _is_own(place, own) or (place.catalog != own.catalog and may_be_same(place.location, roots[0])):
            continue  # another catalog may show the same table; what else is in its folder, the listing finds
        if may_be_same(place.location, roots[0]) and _is_respelled(jvm, place, own, metadata_file):
            continue
        if may_meet(place.location, roots):
            found.add(f"{place} at {place.location}")
        for name, root in place.declared.items():
            overlaps = (
                may_meet(root, roots)
                if folders is None
                else any(may_be_within(root, folder) for folder in folders)
            )
            if overlaps:
                found.add(f"{place}, whose {name} is {root}")
    return found


def searched(jvm: Iceberg) -> list[str]:
    """The catalogs of the session that may have tables."""
    return sorted(set(catalogs(jvm.spark)) - _FOR_PATHS)


def same_table(jvm: Iceberg, own: TableName, table: Any, listed: Iterable[Place]) -> str:
    """Another name of the same table among those of its catalog; empty if it has none.

    Glue adds the new name of a table before it removes the old one, and ``register_table`` adds a name for any metadata
    file. Raises AdapterError if a table cannot be read.
    """
    uuid, location = str(table.operations().current().uuid()), str(table.location())
    for place in listed:
        if place.is_named(own) or not may_be_same(place.location, location):
            continue
        try:
            other = jvm.load(".".join(map(quote, place.steps)))
        except Exception as error:
            if says_no_such_table(error):
                continue
            raise AdapterError(f"{place}, at the same location, cannot be read ({reason(error)})") from error
        if str(other.operations().current().uuid()) == uuid:
            return str(place)
    return ""


def _is_own(place: Place, own: TableName) -> bool:
    if own.catalog == SESSION_CATALOG:  # its names are case-insensitive
        return place.is_named(own)
    return place.steps == (own.catalog, *own.namespace, own.name)


def _is_respelled(jvm: Iceberg, place: Place, own: TableName, metadata_file: Callable[[], str]) -> bool:
    """Whether this is the table itself, as a catalog lists it that ignores the case of names (Hive, Glue).

    A catalog that does not may hold two tables of one metadata file, with one uuid, until one of them is changed: so
    the current metadata file decides. In doubt, it is another table.
    """
    if not place.is_named(own):
        return False
    try:
        listed = jvm.load(".".join(map(quote, place.steps)))
        listed.refresh()
        return str(listed.operations().current().metadataFileLocation()) == metadata_file()
    except Exception:
        return False


def _above(root: str) -> Iterator[str]:
    """Ancestor folders of a root, nearest first, without the root of the file system."""
    found = re.fullmatch(r"((?:[A-Za-z][A-Za-z0-9+.\-]*:)?(?://[^/]*)?)(/.*)", root.rstrip("/"), re.DOTALL)
    if found is None:
        return
    store, steps = found[1], found[2].split("/")[1:-1]
    while any(steps):
        yield f"{store}/{'/'.join(steps)}"
        steps = steps[:-1]


def _is_strange(disk: Disk, path: str, start: bytes, uuid: str) -> bool:
    """Whether a metadata file, by its first bytes, is another table's."""
    match = _UUID.search(start)
    if match is None:
        raise AdapterError(
            f"{disk.name}: {path} does not say which table it belongs to; nothing was deleted. If it belongs "
            "to none, move it away"
        )
    return match[1].decode().lower() != uuid.lower()
