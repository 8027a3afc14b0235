"""A merge of files and its outputs travel as text and are equal when read back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lakekeeper.core.model.file_merge import S3, ColumnStats, FileColumn, FileInput, FileMerge, WrittenFile

MERGE = FileMerge(
    inputs=(FileInput("/t/a ä.parquet", 3, "eJw="), FileInput("/t/b.parquet")),
    columns=(
        FileColumn("k", "int64", 7, by_id=True, nullable=False, may_lack=False),
        FileColumn("s", "string"),
    ),
    key=(0,),
    folder="/t/run",
    name="{id}{codec}.parquet",
    target_bytes=128 << 20,
    row_group_bytes=32 << 20,
    target_rows=5,
    cut_column=1,
    cuts=("é", "z"),
    codec="zstd",
    footer=(("org.apache.spark.version", "4.1.1"),),
    spark_calendar=True,
)


def test_a_merge_survives_its_text() -> None:
    assert FileMerge.from_json(MERGE.to_json()) == MERGE
    assert MERGE.parts == 3


def test_a_store_survives_its_text_and_its_secrets_are_in_no_other() -> None:
    merge = replace(
        MERGE, store=S3("AKIA", "zz-secret", "zz-token", "eu-west-1", "store:9000", path_style=True)
    )
    assert FileMerge.from_json(merge.to_json()) == merge
    assert not any(secret in repr(merge) for secret in ("AKIA", "zz-secret", "zz-token"))


def test_a_text_that_is_not_a_merge_is_refused() -> None:
    plain = json.loads(MERGE.to_json())
    del plain["key"]
    with pytest.raises(KeyError):
        FileMerge.from_json(json.dumps(plain))


def test_a_written_file_survives_its_text() -> None:
    written = WrittenFile(
        "/t/run/x.parquet", 3, 400, (ColumnStats(-5, 7, 0), ColumnStats("YQ==", "eg==", 1, 2))
    )
    assert WrittenFile.from_dict(json.loads(written.to_json())) == written
