"""The members of Delta Lake that the adapter uses but that are not public API; see :mod:`lakekeeper.spark.surface`.

Delta's public API is ``io.delta.tables``. Everything listed here may change in any release.
"""

from __future__ import annotations

from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.surface import Surface, joined, parse
from lakekeeper_delta.shims import shim_of

_ALL_LINES = """
io.delta.package$: VERSION/0
org.apache.spark.sql.delta.DeltaLog: createDataFrame/4 createRelation/4 dataPath/0 history/0 loadIndex/2 logPath/0
org.apache.spark.sql.delta.DeltaLog: newDeltaHadoopConf/0 options/0 startTransaction/2 store/0 unsafeVolatileSnapshot/0
org.apache.spark.sql.delta.DeltaLog: getCanonicalPathFunction/1 update/3
org.apache.spark.sql.delta.DeltaLog$: forTable/2 forTable/3 invalidateCache/2
org.apache.spark.sql.delta.Snapshot: allFiles/0 checksumOpt/0 domainMetadata/0 logSegment/0 metadata/0
org.apache.spark.sql.delta.Snapshot: protocol/0 statsSchema/0 version/0
org.apache.spark.sql.delta.Snapshot: new/5 deltaLog/0 filesForScan/2 filterOnPartitions/2 path/0 statsCollector/0
org.apache.spark.sql.delta.Snapshot: checkpointSizeInBytes/0 deltaFileSizeInBytes/0 equals/1 uncache/0
org.apache.spark.sql.delta.DeltaConfig: fromMetaData/1
org.apache.spark.sql.delta.DeltaConfigs$: ENABLE_EXPIRED_LOG_CLEANUP/0 LOG_RETENTION/0 TOMBSTONE_RETENTION/0
org.apache.spark.sql.delta.DeltaConfigs$: getMilliSeconds/1
org.apache.spark.sql.delta.EmptyCheckpointProvider$: .MODULE$
org.apache.spark.sql.delta.LogSegment: new/5 checkpointProvider/0 deltas/0
org.apache.spark.sql.delta.LogSegment: lastCommitFileModificationTimestamp/0
org.apache.spark.sql.delta.UninitializedCheckpointProvider: topLevelFiles/0
org.apache.spark.sql.delta.VersionChecksum: new/15 tableSizeBytes/0
org.apache.spark.sql.delta.DummySnapshot: new/4
org.apache.spark.sql.delta.OptimisticTransaction: new/3 commit/3 registerSQLMetrics/2 trackFilesRead/1
org.apache.spark.sql.delta.OptimisticTransaction: trackReadPredicates/3 writeFiles/4
org.apache.spark.sql.delta.DeltaOperations$Optimize: new/5
org.apache.spark.sql.delta.DeltaOperations$ComputeStats: new/1
org.apache.spark.sql.delta.DeltaOperations$Delete: new/1
org.apache.spark.sql.delta.DeltaOptions: new/2
org.apache.spark.sql.delta.DeltaLogFileIndex$: COMMIT_FILE_FORMAT/0 apply/3
org.apache.spark.sql.delta.RowTracking$: addPreservedRowTrackingTagIfNotSet/2 preserveRowTrackingColumns/2
org.apache.spark.sql.delta.DeletionVectorsTableFeature$: .MODULE$
org.apache.spark.sql.delta.ClusteringTableFeature$: .MODULE$
org.apache.spark.sql.delta.actions.Action: fromJson/1 json/0
org.apache.spark.sql.delta.actions.AddFile: deletionVector/0 json/0 numLogicalRecords/0 numPhysicalRecords/0 path/0
org.apache.spark.sql.delta.actions.AddFile: removeRows/3 removeWithTimestamp/2 size/0
org.apache.spark.sql.delta.actions.DeletionVectorDescriptor: absolutePath/1 cardinality/0 copyWithAbsolutePath/1
org.apache.spark.sql.delta.actions.DeletionVectorDescriptor: copyWithNewRelativePath/2 isOnDisk/0 offset/0
org.apache.spark.sql.delta.actions.DeletionVectorDescriptor: serializeToBase64/0 sizeInBytes/0
org.apache.spark.sql.delta.actions.DeletionVectorDescriptor$: inlineInLog/2 onDiskWithRelativePath/6
org.apache.spark.sql.delta.actions.Metadata: configuration/0 id/0 partitionColumns/0 schemaString/0
org.apache.spark.sql.delta.actions.Protocol: merge/1 minReaderVersion/0 minWriterVersion/0 readerAndWriterFeatureNames/0
org.apache.spark.sql.delta.actions.Protocol$: forTableFeature/1
org.apache.spark.sql.delta.actions.SetTransaction: new/3
org.apache.spark.sql.delta.catalog.DeltaCatalog: loadTable/1 namespaceExists/1 tableExists/1
org.apache.spark.sql.delta.catalog.DeltaTableV2: catalogTable/0 deltaLog/0 properties/0
org.apache.spark.sql.delta.commands.AlterTableClusterByDeltaCommand: new/2 run/1
org.apache.spark.sql.delta.commands.AlterTableSetPropertiesDeltaCommand: new/2 run/1
org.apache.spark.sql.delta.commands.AlterTableUnsetPropertiesDeltaCommand: run/1
org.apache.spark.sql.delta.commands.DeletionVectorResult: deletionVector/0 filePath/0 matchedRowCount/0
org.apache.spark.sql.delta.commands.DeletionVectorWriter$: createWriter/3
org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray: new/0 addAll/1 addRange/1 andNot/1 cardinality/0 copy/0
org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray: runOptimize/0 serializeAsByteArray/1 toArray/0
org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArrayFormat$: Portable/0
org.apache.spark.sql.delta.implicits.package$: addFileEncoder/0
org.apache.spark.sql.delta.skipping.clustering.ClusteringColumnInfo$: extractLogicalNames/1
org.apache.spark.sql.delta.stats.DeltaScan: allFilters/0 files/0
org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex: preparedScan/0
org.apache.spark.sql.delta.stats.StatisticsCollection$: truncateMaxStringAgg/2 truncateMinStringAgg/2
org.apache.spark.sql.delta.storage.DelegatingLogStore: getDelegate/1
org.apache.spark.sql.delta.storage.LogStore$: apply/2
org.apache.spark.sql.delta.storage.LogStoreAdaptor: logStoreImpl/0
org.apache.spark.sql.delta.storage.dv.DeletionVectorStore: pathWithFileSystem/1 read/2
org.apache.spark.sql.delta.storage.dv.DeletionVectorStore$: createInstance/1
org.apache.spark.sql.delta.util.DeltaFileOperations$: absolutePath/2
org.apache.spark.sql.delta.util.JsonUtils$: mapper/0
com.fasterxml.jackson.databind.ObjectMapper: getTypeFactory/0 readValue/2
"""


def of_session(jvm: Jvm) -> Surface:
    """The members that are used with the session's release line of Delta Lake."""
    return joined(parse(_ALL_LINES), parse(shim_of(jvm).surface))
