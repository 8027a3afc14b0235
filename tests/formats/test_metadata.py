"""Compaction of metadata: planning opens fewer files, and every version has the same rows."""

from __future__ import annotations

from pyspark.sql import SparkSession

import lakekeeper as lk
from tests.formats.lakes import Lake


def test_metadata_is_compacted_where_it_pays(spark: SparkSession, lake: Lake) -> None:
    properties = (
        {"commit.manifest-merge.enabled": "false"} if lake.iceberg else {"delta.checkpointInterval": "100"}
    )
    name = lake.create("id BIGINT", properties=properties)
    table = lk.table(spark, name)
    first = table.compact_metadata()
    assert not first.changed
    assert first.ended.code in ("no_versions", "checkpoint_not_due")
    for i in range(11):
        lake.append(name, spark.range(i, i + 1))
    before = lake.fingerprint(name)
    preview = table.compact_metadata(dry_run=True)
    assert preview.files_before >= 11
    assert preview.files_after == 1
    assert not preview.changed
    done = table.compact_metadata()
    assert (done.files_before, done.files_after, done.changed) == (preview.files_before, 1, True)
    assert lake.fingerprint(name) == before
    again = table.compact_metadata()
    assert not again.changed
    assert again.ended.code in ("manifests_not_due", "checkpoint_not_due")
    assert again.to_dict()["ended"]["code"] == again.ended.code
    assert again.files_before <= 2
    assert "metadata files" in str(again)
