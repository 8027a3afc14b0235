"""Files that a Flink job has written and not committed yet: it lists them in manifests of its own.

    checkpoint ─► <job>-<operator>-00000-0-1-00001.avro in the metadata folder ─► commit ─► the manifest is deleted

A job that was stopped in between commits these files when it is restored, however long that takes. Until then no
snapshot references them. The restored job fails if one is missing, or commits a version that cannot be read.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.errors import reason
from lakekeeper_iceberg.file_recognition import is_data
from lakekeeper_iceberg.filesystem import Disk
from lakekeeper_iceberg.metadata_reads import read_again
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.reachability import keys_of, path_key

_LOG = logging.getLogger("lakekeeper")
FOLDER = "flink.manifests.location"
"""The table property with another folder for these manifests."""
_MANIFEST = re.compile(r"[0-9a-f]{32}-(?:.+-)?\d{5,}-\d+-\d+-\d{5,}\.avro")
_PATHS = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {
            "id": 2,
            "name": "data_file",
            "required": True,
            "type": {
                "type": "struct",
                "fields": [{"id": 100, "name": "file_path", "required": True, "type": "string"}],
            },
        }
    ],
}
"""The only columns that are read, of data and delete manifests alike: their own specs need not be known."""


@dataclass(frozen=True, slots=True)
class Pending:
    """What jobs may still commit to one table. ``folders`` have manifests of jobs outside what a vacuum lists."""

    jvm: Iceberg
    io: Any
    disk: Disk
    folders: Sequence[str]

    def named(self, listed: Collection[str]) -> set[str]:
        """Those of ``listed``, the files of a table, that a job may still commit.

        If a manifest cannot be read, these are all data files: it may name any of them. A manifest that is gone since
        the listing was committed meanwhile, so this holds until the next listing.
        """
        data = {path for path in listed if is_data(path.rpartition("/")[2])}
        if not data:
            return set()
        try:
            known = keys_of(path for manifest in self._manifests(listed) for path in self.files_of(manifest))
        except Exception as error:
            _LOG.warning("no data file counts as an orphan, since a job may commit it: %s", reason(error))
            return data
        return {path for path in data if path_key(path) in known}

    def _manifests(self, listed: Collection[str]) -> set[str]:
        found = set(listed)
        for folder in self.folders:
            found |= {info.path for info in self.disk.files(folder.rstrip("/"))}
        return {path for path in found if _MANIFEST.fullmatch(path.rpartition("/")[2])}

    def files_of(self, manifest: str) -> list[str]:
        """The files that a manifest names."""
        schema = self.jvm.static("org.apache.iceberg.SchemaParser", "fromJson")(json.dumps(_PATHS))
        avro = self.jvm.view.org.apache.iceberg.avro.Avro

        def read() -> list[str]:
            records = avro.read(self.io.newInputFile(manifest)).project(schema).build()
            try:
                found = self.jvm.collect.Lists.newArrayList(records)
            finally:
                records.close()
            return [json.loads(text)["data_file"]["file_path"] for text in self.jvm.texts(found)]

        return read_again(read)
