"""Delta Lake 4.3, the newest release line: all calls that older release lines make differently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakekeeper_delta.native import Log, State


class Delta43:
    """Calls of Delta Lake 4.3; Java objects have the type ``Any``."""

    version = "4.3.1"
    surface = """
org.apache.spark.sql.delta.DeltaLog: getSnapshotAt/4
org.apache.spark.sql.delta.DeltaLog$: forTable/4
org.apache.spark.sql.delta.DeltaOperations$Write: new/9
org.apache.spark.sql.delta.actions.DeletionVectorDescriptor: getRandomPrefixAndUuid/0 urlEncodedRelativePathIfExists/1
org.apache.spark.sql.delta.catalog.DeltaTableV2$: apply/6
org.apache.spark.sql.delta.commands.DeletionVectorBitmapGenerator$: buildDeletionVectors/4
org.apache.spark.sql.delta.files.TahoeLogFileIndex$: apply/7
"""
    """Members that only some release lines have, or whose arguments differ between them."""

    def snapshot_at(self, log: Log, version: int) -> Any:
        """The Snapshot of an older version."""
        return log.log.getSnapshotAt(version, log.jvm.none(), log.catalog_table, False)

    def log_at(self, log: Log, folder: Any) -> Any:
        """A DeltaLog of another folder, with the options of ``log``."""
        kind = log.singleton("DeltaLog")
        return kind.forTable(log.jvm.session, folder, log.log.options(), log.catalog_table)

    def table_object(self, log: Log) -> Any:
        """A DeltaTableV2, which Delta's ALTER TABLE commands take."""
        kind, none = log.singleton("catalog.DeltaTableV2"), log.jvm.none()
        return kind.apply(log.jvm.session, log.log.dataPath(), log.catalog_table, none, log.jvm.map({}), none)

    def index_of(self, log: Log, snapshot: Any) -> Any:
        """The file index of a Snapshot, pinned to it."""
        made, nothing = log.singleton("files.TahoeLogFileIndex"), log.jvm.seq([])
        return made.apply(
            log.jvm.session, log.log, log.log.dataPath(), snapshot, log.catalog_table, nothing, True
        )

    def build_vectors(self, log: Log, state: State, requests: Any, run: str) -> Any:
        """DeletionVectorResults, one for each file of the requests; the vectors are in the folder of a run."""
        generator = log.singleton("commands.DeletionVectorBitmapGenerator")
        return generator.buildDeletionVectors(log.jvm.session, requests, log.at_folder(run), 0)

    def append_operation(self, log: Log) -> Any:
        """The operation of an append."""
        none = log.jvm.none()
        kind = getattr(log.delta, "DeltaOperations$Write")
        return kind(self._append(log), none, none, none, none, none, none, none, none)

    def _append(self, log: Log) -> Any:
        return log.jvm.view.org.apache.spark.sql.SaveMode.Append

    def prefix_and_id(self, log: Log, vector: Any) -> tuple[str, Any]:
        """The folder and the UUID of the file of a deletion vector with a relative path."""
        found = vector.getRandomPrefixAndUuid().get()
        return str(found._1()), found._2()

    def relative_path(self, log: Log, vector: Any) -> str:
        """The file of a deletion vector on disk, as an encoded path relative to the table."""
        return str(vector.urlEncodedRelativePathIfExists(log.log.dataPath()).get())
