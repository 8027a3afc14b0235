"""Lookup of files in the log's newest state: matched inside the JVM, so that only matches reach the driver."""

from __future__ import annotations

import posixpath
import re
import uuid
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from lakekeeper_delta.file_history import Journal
from lakekeeper_delta.known_state import all_files
from lakekeeper_delta.locations import Locator, encoded_id
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.row_positions import small
from lakekeeper_delta.spellings import of_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# try_url_decode is missing before Spark 4.0, and url_decode raises for anything else.
_ENCODED = "^(?:[^%]|%[0-9A-Fa-f]{2})*$"
_VECTORS = re.compile(r"deletion_vector_([0-9a-fA-F-]{36})\.bin")


def alive(log: Log, state: State, journal: Journal, locations: Collection[str]) -> set[str]:
    """Those of ``locations`` that are live in the newest version: in ``state`` or added since, and not dropped since.

    Paths are compared as Delta does: what is dropped under one spelling is live under another one.
    """
    locator, canonical = journal.locator, of_log(log)
    undone = {(canonical(path), vector) for path, vector in journal.undone}
    live = set(journal.added)
    for row in matching(all_files(log, state), locations):
        known = canonical(row["path"]), locator.vector(row["deletionVector"])
        if known not in undone:
            live.add(known)
    found = {place for path, vector in live for place in (*locator.readings(path), vector)}
    return found & set(locations)


def named_in(locator: Locator, frame: DataFrame, locations: Collection[str]) -> set[str]:
    """Those of ``locations`` that actions (columns ``path``, ``deletionVector``) name."""
    found: set[str] = set()
    for row in matching(frame, locations):
        found |= {locator.vector(row["deletionVector"]), *locator.readings(row["path"])}
    return found & set(locations)


def matching(frame: DataFrame, locations: Collection[str]) -> Iterator[dict[str, Any]]:
    """Actions (``path`` and ``deletionVector`` as plain data) that may name one of these files, by its file name.

    One location has many spellings, its file name only a few; the caller compares whole locations.
    """
    from pyspark.sql import functions as F

    wanted = small(frame, wanted=sorted(_names(locations)))
    dv = F.col("deletionVector")
    place, kind = dv.getField("pathOrInlineDv"), dv.getField("storageType")
    by_vector = F.when(kind == "u", F.substr(place, F.lit(-20))).when(
        kind != "i", _last_step(_decoded(place))
    )
    path = F.col("path")
    # A path that is not a URI may be literal, or only the part before a query or fragment mark may count.
    raw = _last_step(path)
    names = F.array(_last_step(_decoded(path)), raw, F.regexp_replace(raw, "[?#].*", ""), by_vector)
    narrow = frame.select(
        "path",
        F.struct(kind.alias("storageType"), place.alias("pathOrInlineDv")).alias("dv"),
        names.alias("names"),
    )
    each = narrow.select("path", "dv", F.explode("names").alias("wanted"))
    found = each.join(F.broadcast(wanted), "wanted", "left_semi").select("path", "dv").distinct()
    for row in found.toLocalIterator():
        vector = row["dv"].asDict()
        yield {"path": row["path"], "deletionVector": vector if vector["storageType"] else None}


def _names(locations: Collection[str]) -> set[str]:
    """File names, and the ids of deletion vector files as descriptors encode them."""
    names = {posixpath.basename(location) for location in locations}
    found = [match for name in names if (match := _VECTORS.fullmatch(name))]
    return names | {encoded_id(uuid.UUID(match[1])) for match in found}


def _decoded(text: Any) -> Any:
    from pyspark.sql import functions as F

    # A plus is literal in a path, but a space in form encoding.
    form = F.replace(text, F.lit("+"), F.lit("%2B"))
    return F.when(form.rlike(_ENCODED), F.url_decode(form))


def _last_step(text: Any) -> Any:
    from pyspark.sql import functions as F

    return F.substring_index(text, "/", -1)
