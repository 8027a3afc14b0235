"""Which file systems refuse to rename a file to a path that exists, as two drivers with one version need."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.renames import mount, renames_safely, shared, shared_mount
from tests.mounts import java_with_mounts


@pytest.mark.parametrize("scheme", ["hdfs", "HDFS", "viewfs", "webhdfs", "abfss", "wasbs", "file"])
def test_schemes_of_which_a_rename_is_safe(scheme: str) -> None:
    assert renames_safely(scheme)


@pytest.mark.parametrize("scheme", ["s3a", "gs", "oss", "cosn", "obs", "oci", "jfs", "alluxio", "files", ""])
def test_schemes_of_which_it_may_not_be(scheme: str) -> None:
    assert not renames_safely(scheme)


@pytest.mark.parametrize(
    "kind",
    [
        "nfs",
        "nfs4",
        "NFS4",
        "cifs",
        "smb3",
        "smbfs",
        "ceph",
        "lustre",
        "beegfs",
        "fuse",
        "fuse.s3fs",
        "fuse.gcsfuse",
    ],
)
def test_mounts_that_machines_share(kind: str) -> None:
    assert shared(kind)
    assert shared_mount(java_with_mounts({"/t": kind}), "file", "/t") == kind


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "apfs", "fuseblk", "9p", ""]
)
def test_mounts_of_one_machine(kind: str) -> None:
    assert shared_mount(java_with_mounts({"/t": kind}), "file", "/t") == ""


def test_only_local_paths_are_on_mounts() -> None:
    assert shared_mount(java_with_mounts({"/t": "nfs"}), "hdfs", "/t") == ""


@pytest.mark.spark
def test_the_mount_of_a_path(spark: SparkSession, tmp_path: Path) -> None:
    jvm = Jvm(spark)
    assert mount(jvm, "/proc") == "proc"
    assert mount(jvm, str(tmp_path))
    assert mount(jvm, str(tmp_path / "missing")) == ""
