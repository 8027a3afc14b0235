"""The streams that write into a table, as a result and as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lakekeeper.core.text.formatting import duration, table
from lakekeeper.core.text.result import Result
from lakekeeper.core.vacuum.stream_positions import SinkCommit


@dataclass(frozen=True, slots=True)
class StreamsReport(Result):
    """The last commit of each stream that writes into a table, the newest first.

    ``keep_ms`` is how long after that commit a vacuum keeps the versions that the stream looks up on restart, and
    ``now_ms`` the time of the call.
    """

    table: str
    streams: tuple[SinkCommit, ...]
    keep_ms: int
    now_ms: int

    def holds(self, stream: SinkCommit) -> str:
        """What a vacuum keeps for a stream now, and for how much longer."""
        if stream.version is None:
            return "nothing: the log keeps the position itself"
        left = self.keep_ms if stream.at_ms is None else stream.at_ms + self.keep_ms - self.now_ms
        if left <= 0:
            return "nothing any more"
        what = "all of its branch" if stream.checks_history else f"version {stream.version} and all after it"
        return f"{what}, for {duration(left / 1000)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        streams = [{**asdict(each), "holds": self.holds(each)} for each in self.streams]
        return {"table": self.table, "keep_ms": self.keep_ms, "now_ms": self.now_ms, "streams": streams}

    def __str__(self) -> str:
        if not self.streams:
            return "no stream has recorded a position in the log"
        rows = [["stream that writes", "position", "last commit", "vacuum keeps"]]
        for each in self.streams:
            age = None if each.at_ms is None else max(self.now_ms - each.at_ms, 0)
            ago = "unknown" if age is None else f"{duration(age / 1000)} ago"
            rows.append([each.sink, each.position, ago, self.holds(each)])
        return table(rows)
