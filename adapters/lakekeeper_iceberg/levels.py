"""Level and key id of a block, stored in its path: ``…/<folder of the run>/<key id or "none">/L<level>/…``.

No format field is suitable: sort order ids are also set by ordinary inserts, and other fields have a meaning for
readers. A path survives deletes, manifest rewrites, snapshot expiration and schema changes; a rewrite by another engine
gives ordinary paths, i.e. level 0. No leading underscore: orphan file listings skip hidden names.

Files of older releases are in ``…/lk/<key id>/L<level>/…``, and keep their level.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.model.run_folders import NO_KEY, RUN_FOLDER

_PLACE = rf"^.*/(?:lk|{RUN_FOLDER})/(?P<key>none|[0-9a-f]{{12}})/L(?P<level>[0-9]{{1,4}})/"


def data_root(location: str, properties: Mapping[str, str]) -> str:
    """The folder for the table's data files, without a trailing slash."""
    root = properties.get("write.data.path")
    if not root and properties.get("write.object-storage.enabled", "").lower() == "true":
        root = properties.get("write.object-storage.path")
    root = root or properties.get("write.folder-storage.path") or f"{location.rstrip('/')}/data"
    return root.rstrip("/")


def own_folder(home: str, path: str) -> str:
    """The folder for a copy of ``path``, in the folder ``home`` of a run, with the key and level of ``path`` if any."""
    found = re.match(_PLACE, path)
    return f"{home}/{found['key']}/L{found['level']}" if found else home


def places(paths: pa.Array) -> tuple[npt.NDArray[np.int16], list[str]]:
    """(levels, key ids) of the paths; 0 and ``""`` for files that lakekeeper did not write."""
    ours = pc.match_substring(paths, "/L")  # much cheaper than the pattern, and most files are not ours
    if not pc.any(ours).as_py():
        return np.zeros(len(paths), np.int16), [""] * len(paths)
    found = pc.extract_regex(pc.if_else(ours, paths, ""), _PLACE)
    level = pc.fill_null(pc.struct_field(found, "level"), "0").cast(pa.int16())
    key = pc.fill_null(pc.struct_field(found, "key"), "")
    key = pc.if_else(pc.equal(key, NO_KEY), "", key)
    return np.asarray(level.to_numpy(zero_copy_only=False), np.int16), key.to_pylist()
