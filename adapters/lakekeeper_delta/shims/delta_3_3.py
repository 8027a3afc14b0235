"""Delta Lake 3.3: fewer methods on logs and on the descriptors of deletion vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekeeper_delta.shims.delta_4_0 import Delta40

if TYPE_CHECKING:
    from lakekeeper_delta.native import Log

_ENCODED_ID = 20  # characters of a UUID in base 85, at the end of a relative path in the log


class Delta33(Delta40):
    """Calls of Delta Lake 3.3 that differ from 4.0."""

    version = "3.3.2"
    surface = """
org.apache.spark.sql.delta.DeltaLog: getSnapshotAt/3
org.apache.spark.sql.delta.DeltaOperations$Write: new/4
org.apache.spark.sql.delta.actions.DeletionVectorDescriptor: pathOrInlineDv/0
org.apache.spark.sql.delta.catalog.DeltaTableV2$: apply/6
org.apache.spark.sql.delta.commands.DeletionVectorBitmapGenerator$: buildDeletionVectors/4
org.apache.spark.sql.delta.files.TahoeLogFileIndex$: apply/6
org.apache.spark.sql.delta.util.Codec$Base85Codec$: decodeUUID/1
"""

    def log_at(self, log: Log, folder: Any) -> Any:
        return log.singleton("DeltaLog").forTable(log.jvm.session, folder, log.log.options())

    def table_object(self, log: Log) -> Any:
        kind, none = log.singleton("catalog.DeltaTableV2"), log.jvm.none()
        return kind.apply(log.jvm.session, log.log.dataPath(), log.catalog_table, none, none, log.jvm.map({}))

    def index_of(self, log: Log, snapshot: Any) -> Any:
        made, nothing = log.singleton("files.TahoeLogFileIndex"), log.jvm.seq([])
        return made.apply(log.jvm.session, log.log, log.log.dataPath(), snapshot, nothing, True)

    def prefix_and_id(self, log: Log, vector: Any) -> tuple[str, Any]:
        text = str(vector.pathOrInlineDv())
        codec = log.singleton("util.Codec$Base85Codec")
        return text[:-_ENCODED_ID], codec.decodeUUID(text[-_ENCODED_ID:])
