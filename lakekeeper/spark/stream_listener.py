"""A listener on the streaming queries of a session: which sinks have just been written to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StreamWrites:
    """After each batch with rows, calls ``wrote`` with the description of its sink: a table's name or path."""

    def __init__(self, spark: SparkSession, wrote: Callable[[str], object]) -> None:
        from pyspark.sql.streaming.listener import StreamingQueryListener

        class Listener(StreamingQueryListener):
            def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark calls it by this name
                """A query that has started has written nothing."""

            def onQueryProgress(self, event: Any) -> None:  # noqa: N802  # Spark calls it by this name
                if event.progress.numInputRows:
                    wrote(str(event.progress.sink.description))

            def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  # Spark calls it by this name
                """Its batches were reported one by one."""

        self._streams = spark.streams
        self._listener = Listener()
        self._streams.addListener(self._listener)

    def stop(self) -> None:
        """Stop listening."""
        self._streams.removeListener(self._listener)
