"""Delta Lake 4.0: the generator of deletion vectors takes a transaction; other calls take fewer arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekeeper_delta.shims.delta_4_3 import Delta43

if TYPE_CHECKING:
    from lakekeeper_delta.native import Log, State


class Delta40(Delta43):
    """Calls of Delta Lake 4.0 that differ from 4.3."""

    version = "4.0.1"
    surface = """
org.apache.spark.sql.delta.DeltaLog: getSnapshotAt/3
org.apache.spark.sql.delta.DeltaLog$: forTable/4
org.apache.spark.sql.delta.DeltaOperations$Write: new/4
org.apache.spark.sql.delta.actions.DeletionVectorDescriptor: getRandomPrefixAndUuid/0
org.apache.spark.sql.delta.catalog.DeltaTableV2$: apply/6
org.apache.spark.sql.delta.commands.DeletionVectorBitmapGenerator$: buildDeletionVectors/4
org.apache.spark.sql.delta.files.TahoeLogFileIndex$: apply/7
"""

    def snapshot_at(self, log: Log, version: int) -> Any:
        return log.log.getSnapshotAt(version, log.jvm.none(), log.catalog_table)

    def build_vectors(self, log: Log, state: State, requests: Any, run: str) -> Any:
        """The transaction only determines whether a vector's file has a random prefix; it is never committed.

        It has none: the folder of the run becomes the prefix, and Trino reads only a prefix of letters and digits.
        """
        metadata = state.snapshot.metadata()
        properties = {k: v for k, v in state.properties.items() if k != "delta.randomizeFilePrefixes"}
        writer = log.writer(state, run, log.edited(metadata, configuration=properties))
        generator = log.singleton("commands.DeletionVectorBitmapGenerator")
        return generator.buildDeletionVectors(log.jvm.session, requests, log.at_folder(run), writer)

    def append_operation(self, log: Log) -> Any:
        none = log.jvm.none()
        return getattr(log.delta, "DeltaOperations$Write")(self._append(log), none, none, none)

    def relative_path(self, log: Log, vector: Any) -> str:
        root = log.log.dataPath()
        return str(root.toUri().relativize(vector.absolutePath(root).toUri()).toString())
