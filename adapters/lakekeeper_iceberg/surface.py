"""The members of Iceberg that the adapter uses but that are not public API; see :mod:`lakekeeper.spark.surface`.

Iceberg's public API is its module ``iceberg-api``. Classes of other modules may change in any minor release, even if
they are public in Java; some members listed here are not.
"""

from __future__ import annotations

from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.surface import Surface, parse

_MEMBERS = """
org.apache.iceberg.BaseFileScanTask: new/5
org.apache.iceberg.BaseTable: new/2 operations/0
org.apache.iceberg.ContentFileParser: fromJson/2 toJson/2
org.apache.iceberg.IcebergBuild: version/0
org.apache.iceberg.LocationProviders: locationsFor/2
org.apache.iceberg.ManifestFiles: read/3 readDeleteManifest/3 readPaths/3
org.apache.iceberg.ManifestReader: select/1
org.apache.iceberg.MetadataColumns: schemaWithRowLineage/1
org.apache.iceberg.MetadataTableType: .ENTRIES
org.apache.iceberg.MetricsConfig: forTable/1
org.apache.iceberg.PartitionSpecParser: toJson/1
org.apache.iceberg.SchemaParser: fromJson/1 toJson/1
org.apache.iceberg.SnapshotProducer: .base .commitUUID .manifestCount .manifestLists
org.apache.iceberg.SnapshotProducer: cleanAll/0 cleanUncommitted/1 snapshotId/0
org.apache.iceberg.SortOrderParser: toJson/1
org.apache.iceberg.StaticTableOperations: new/3
org.apache.iceberg.TableMetadataParser: read/2 toJson/1
org.apache.iceberg.TableMetadata: buildFrom/1 currentSchemaId/0 currentSnapshot/0 defaultSpecId/0 formatVersion/0
org.apache.iceberg.TableMetadata: location/0 metadataFileLocation/0 properties/0 uuid/0
org.apache.iceberg.TableMetadata: lastSequenceNumber/0 lastUpdatedMillis/0
org.apache.iceberg.TableMetadata$Builder: build/0 discardChanges/0 setBranchSnapshot/2 setCurrentSchema/1
org.apache.iceberg.TableMetadata$Builder: setProperties/1 withMetadataLocation/1
org.apache.iceberg.TableMetadata$Builder: setPartitionStatistics/1 setStatistics/1
org.apache.iceberg.TableOperations: commit/2 current/0 metadataFileLocation/1 refresh/0
org.apache.iceberg.avro.Avro: read/1
org.apache.iceberg.data.GenericFileWriterFactory: builderFor/1
org.apache.iceberg.SnapshotChanges: builderFor/1
org.apache.iceberg.data.BaseDeleteLoader: new/1 new/2 readPosDeletes/1
org.apache.iceberg.deletes.BaseDVFileWriter: new/2 close/0 result/0
org.apache.iceberg.deletes.Deletes: toPositionIndex/1
org.apache.iceberg.deletes.PositionDelete: create/0
org.apache.iceberg.deletes.PositionDeleteIndex: cardinality/0 delete/1 forEach/1 isDeleted/1 merge/1
org.apache.iceberg.expressions.Binder: bind/3
org.apache.iceberg.expressions.And: left/0 right/0
org.apache.iceberg.expressions.Expressions: alwaysFalse/0 alwaysTrue/0 and/2 or/2 rewriteNot/1
org.apache.iceberg.expressions.Or: left/0 right/0
org.apache.iceberg.expressions.UnboundPredicate: op/0 ref/0
org.apache.iceberg.io.CloseableIterable: combine/2 empty/0
org.apache.iceberg.types.TypeUtil: indexById/1
org.apache.iceberg.types.Types$StringType: get/0
org.apache.iceberg.util.JsonUtil: mapper/0
org.apache.iceberg.DataFiles: builder/1
org.apache.iceberg.SnapshotParser: fromJson/1 toJson/1
org.apache.iceberg.expressions.ResidualEvaluator: unpartitioned/1
org.apache.iceberg.hadoop.HadoopTableOperations: .version
org.apache.iceberg.io.OutputFileFactory: builderFor/3
org.apache.iceberg.spark.FileRewriteCoordinator: clearRewrite/2 fetchNewFiles/2 get/0
org.apache.iceberg.spark.ScanTaskSetManager: get/0 removeTasks/2 stageTasks/3
org.apache.iceberg.spark.Spark3Util: loadIcebergTable/2
org.apache.iceberg.spark.SparkSchemaUtil: convert/1
org.apache.iceberg.spark.SparkTableCache: add/2 get/0 remove/1
org.apache.iceberg.parquet.ParquetIO: file/1
org.apache.iceberg.parquet.ParquetUtil: footerMetrics/3 getSplitOffsets/1
org.apache.iceberg.shaded.org.apache.parquet.hadoop.ParquetFileReader: open/1
org.apache.iceberg.spark.SparkTableUtil: loadMetadataTable/3
org.apache.iceberg.spark.actions.SparkActions: get/1 computePartitionStats/1 computeTableStats/1
org.apache.iceberg.spark.actions.ComputePartitionStatsSparkAction: execute/0 snapshot/1
org.apache.iceberg.spark.actions.ComputeTableStatsSparkAction: columns/1 execute/0 snapshot/1
org.apache.iceberg.util.DataFileSet: of/1
org.apache.iceberg.util.DeleteFileSet: of/1
org.apache.iceberg.util.ContentFileUtil: isDV/1 isFileScoped/1 referencedDataFileLocation/1
org.apache.iceberg.util.StructLikeWrapper: forType/1
org.apache.spark.sql.execution.datasources.SparkExpressionConverter: convertToIcebergExpression/1
"""

_ON_S3 = """
org.apache.iceberg.aws.s3.BaseS3File: client/0 s3FileIOProperties/0 uri/0
org.apache.iceberg.aws.s3.S3RequestUtil: configureEncryption/2 configurePermission/2
org.apache.iceberg.aws.s3.S3URI: bucket/0 key/0
"""
_ON_AZURE = """
org.apache.iceberg.azure.adlsv2.BaseADLSFile: fileClient/0
"""
_IN_NESSIE = """
org.apache.iceberg.TableMetadataParser: overwrite/2
org.apache.iceberg.nessie.NessieIcebergClient: getRef/0
org.apache.iceberg.nessie.NessieTableOperations: .client .table
org.apache.iceberg.nessie.UpdateableReference: getName/0 isMutable/0
"""
_WITH = {
    "software.amazon.awssdk.services.s3.S3Client": _ON_S3,
    "com.azure.storage.file.datalake.DataLakeFileClient": _ON_AZURE,
    "org.apache.iceberg.nessie.NessieTableOperations": _IN_NESSIE,
}
"""Those that are used where a session has a class, without which the others cannot be loaded."""


def of_session(jvm: Jvm) -> Surface:
    """The members that are used, on all tested versions."""
    loadable = jvm.view.org.apache.spark.util.Utils.classIsLoadable
    return parse(_MEMBERS + "".join(more.lstrip() for name, more in _WITH.items() if loadable(name)))
