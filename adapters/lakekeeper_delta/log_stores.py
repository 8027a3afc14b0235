"""The log store that Delta writes a table's commits with, and whether two drivers can lose a commit with it.

    DelegatingLogStore ─ by scheme ─► LogStoreAdaptor ─► S3SingleDriverLogStore

On S3 this last one checks whether N.json exists and then puts it. If two drivers check at the same time, both put, and
the later put replaces the earlier commit: the rows it added are lost, or the files it removed are live again. The store
for all schemes that Delta does not know, HDFSLogStore, renames a file to N.json, which is as safe as the rename is.
Maintenance next to a writer is that second driver, so it does not commit there unless the operator states that it is
the only one.
"""

from __future__ import annotations

from typing import Any

from lakekeeper.core.config.options import CONF_PREFIX
from lakekeeper.core.model.finding import Finding
from lakekeeper.errors import Unsupported
from lakekeeper.spark import renames
from lakekeeper.spark.jvm import Jvm
from lakekeeper_delta.native import Log

OPTION = "single-driver"
S3 = ("s3", "s3a", "s3n")
SHOWN = (*S3, "abfss", "gs", "hdfs", "file")
_OF_DELTA = ("io.delta.storage.", "org.apache.spark.sql.delta.storage.")
_SAFE_ON_S3 = ("io.delta.storage.S3DynamoDBLogStore",)
_BY_RENAME = (".HDFSLogStore", ".LocalLogStore")
_PAGE = "see docs/how-to/s3.md"


def store_class(store: Any, path: Any) -> str:
    """The class that writes commits at a Hadoop path, beneath all of Delta's wrappers."""
    for _ in range(4):  # delegating, adaptor, implementation
        name = str(store.getClass().getName())
        if name == "org.apache.spark.sql.delta.storage.DelegatingLogStore":
            store = store.getDelegate(path)
        elif name == "org.apache.spark.sql.delta.storage.LogStoreAdaptor":
            store = store.logStoreImpl()
        else:
            break
    return str(store.getClass().getName())


def loses_commits(scheme: str, store: str) -> bool:
    """Whether two drivers can overwrite each other's commits.

    They can with Delta's stores on S3, except the DynamoDB one, and with those that rename, where a rename may replace
    a file. A store that is not Delta's is the responsibility of the operator who configured it.
    """
    if not store.startswith(_OF_DELTA):
        return False
    if scheme.lower() in S3:
        return store not in _SAFE_ON_S3
    return store.endswith(_BY_RENAME) and not renames.renames_safely(scheme)


def refusal(log: Log, *, single_driver: bool) -> str:
    """Why nothing may be committed to a table; empty if it may. ``single_driver``: the operator vouches for it."""
    if single_driver:
        return ""
    path = log.log.logPath()
    uri = path.toUri()
    scheme = str(uri.getScheme() or "")
    store = store_class(log.log.store(), path)
    where = f"on {scheme}://" if loses_commits(scheme, store) else ""
    if not where and store.startswith(_OF_DELTA) and store.endswith(_BY_RENAME):
        shared = renames.shared_mount(log.jvm, scheme, str(uri.getPath()))
        where = f"on a mount of type {shared}, which machines may share," if shared else ""
    if not where:
        return ""
    safe = _SAFE_ON_S3[0] if scheme.lower() in S3 else "a log store that cannot"
    return (
        f"{where} the log store {store} can overwrite the commit of another driver; nothing was written. "
        f"Configure {safe} for every writer of the table (spark.delta.logStore.{scheme}.impl), "
        f"or, if no other driver ever writes to it, set {CONF_PREFIX}{OPTION}=true; {_PAGE}"
    )


def refuse_second_driver(log: Log, *, single_driver: bool) -> None:
    """Raise Unsupported where a commit could overwrite another driver's, or be overwritten by it."""
    reason = refusal(log, single_driver=single_driver)
    if reason:
        raise Unsupported(log.name, "a log store for one driver", reason)


def findings(jvm: Jvm, *, single_driver: bool) -> list[Finding]:
    """For each scheme, the session's log store and what it implies."""
    spark_conf, hadoop_conf = jvm.session.sparkContext().conf(), jvm.session.sessionState().newHadoopConf()
    store = jvm.object("org.apache.spark.sql.delta.storage.LogStore").apply(spark_conf, hadoop_conf)
    path = jvm.view.org.apache.hadoop.fs.Path
    return [_finding(store, path(f"{scheme}://b/t/_delta_log"), scheme, single_driver) for scheme in SHOWN]


def _finding(store: Any, path: Any, scheme: str, single_driver: bool) -> Finding:
    name, expected = f"delta log store, {scheme}", "a log store that can be loaded"
    try:
        found = store_class(store, path)
    except Exception as error:  # a configured class is missing: its jar is not in the session
        advice = f"give the session the jar of spark.delta.logStore.{scheme}.impl, or remove that conf"
        return Finding(name, ok=False, found=str(error).splitlines()[0], expected=expected, advice=advice)
    if not found.startswith(_OF_DELTA):
        found += " (not one of Delta's: it must keep two drivers from overwriting each other's commits)"
    elif loses_commits(scheme, found):
        effect = (
            f"commits are allowed by {CONF_PREFIX}{OPTION}=true" if single_driver else "commits are refused"
        )
        found += f" (for one driver only: {effect}; {_PAGE})"
    return Finding(name, ok=True, found=found, expected=expected)
