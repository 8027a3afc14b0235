"""Who runs Iceberg's parallel tasks: its pools, or the calling thread where a task is shorter than the wait for it.

Iceberg waits for the tasks of a pool by polling every 10 ms (``org.apache.iceberg.util.Tasks``), and a commit waits
some six times. On a local disk, reading or writing a manifest takes a millisecond or two, and the duration of a commit
decides whether it fits between two statements of a writer. On an object store, parallel requests save more.
"""

from __future__ import annotations

from typing import Any

from lakekeeper_iceberg.data_files import DataFiles
from lakekeeper_iceberg.handles import BulkJvm

MOST_FILES = 10_000
"""The most live files of a table whose manifests one thread reads."""
_HANDLER = "java.util.concurrent.RejectedExecutionHandler"


def for_commits(jvm: BulkJvm, table: Any) -> Any | None:
    """An ExecutorService for the manifests of a table; None for Iceberg's own pool."""
    current = table.operations().current()
    snapshot = current.currentSnapshot() if current is not None else None
    summary = snapshot.summary() if snapshot is not None else {}
    counts = [str(summary.get(name)) for name in ("total-data-files", "total-delete-files")]
    few = all(map(str.isdecimal, counts)) and sum(map(int, counts)) <= MOST_FILES
    return calling_thread(jvm) if few and on_local_disk(jvm, table) else None


def on_local_disk(jvm: BulkJvm, table: Any) -> bool:
    """Whether the table's FileIO keeps its files on the driver's disk."""
    return DataFiles(jvm, table.io()).on_local_disk(str(table.location()))


def calling_thread(jvm: BulkJvm) -> Any:
    """An ExecutorService that runs each task at once in the thread that submits it.

    A ThreadPoolExecutor that was shut down rejects all tasks; its rejection handler runs them.
    """

    def make() -> Any:
        of, concurrent = jvm.handles, jvm.view.java.util.concurrent
        pool = of.java_class("java.util.concurrent.ThreadPoolExecutor")
        run = of.method("java.lang.Runnable", "run", "void")
        handler = of.proxy(_HANDLER, of.invoke.dropArguments(run, 1, jvm.array_list([pool])))
        queue = concurrent.LinkedBlockingQueue()
        made = concurrent.ThreadPoolExecutor(1, 1, 0, concurrent.TimeUnit.SECONDS, queue, handler)
        made.shutdown()
        return made

    return jvm.handles.once(make, "executor of the calling thread")
