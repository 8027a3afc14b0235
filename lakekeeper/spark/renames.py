"""File systems on which a rename fails if its target exists, so that of two drivers one loses.

    driver A   is 3.json there? no ─┐  ┌─ rename to 3.json            the second rename replaces the first:
    driver B   is 3.json there? no ─┴──┴───────── rename to 3.json    the commit of A is gone

HDFS and Azure check and rename in one step. Elsewhere, Hadoop checks first. On a local disk the rename follows within
about a millisecond. On a mount that machines share, a machine may remember for seconds that a file did not exist.
"""

from __future__ import annotations

import re
from typing import Any

from lakekeeper.spark.jvm import Jvm

_IN_ONE_STEP = frozenset(("hdfs", "viewfs", "webhdfs", "swebhdfs", "abfs", "abfss", "adl", "wasb", "wasbs"))
_SHARED = re.compile(
    r"nfs|cifs|smb|afs\b|ceph|lustre|gpfs|beegfs|gfs2|ocfs2|orangefs|fuse\b|macfuse|osxfuse|webdav|davfs"
)


def renames_safely(scheme: str) -> bool:
    """Whether two drivers cannot rename to the same path at locations of a scheme; ``file`` depends on the mount."""
    return scheme.lower() in _IN_ONE_STEP or scheme.lower() == "file"


def shared_mount(jvm: Jvm, scheme: str, path: str) -> str:
    """The type of the mount that a local path is on, such as ``nfs4``, if several machines may share it; else empty."""
    kind = mount(jvm, path) if scheme.lower() == "file" else ""
    return kind if shared(kind) else ""


def shared(kind: str) -> bool:
    """Whether several machines may share a mount of this type: NFS, SMB, cluster file systems, and FUSE."""
    return _SHARED.match(kind.lower()) is not None


def mount(jvm: Jvm, path: str) -> str:
    """The type of the mount that a local path is on, such as ``ext4`` or ``nfs4``; empty where Java cannot find it."""
    try:
        view: Any = jvm.view
        return str(view.java.nio.file.Files.getFileStore(view.java.io.File(path).toPath()).type())
    except Exception:
        return ""
