"""What ``lakekeeper info`` shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakekeeper.core.layout.clustering_info import ClusteringInformation
from lakekeeper.core.text.result import Result
from lakekeeper.core.vacuum.streams_report import StreamsReport


@dataclass(frozen=True)
class Information(Result):
    """The clustering of a table and the streams that write into it, as a page or as JSON."""

    clustering: ClusteringInformation
    streams: StreamsReport

    def to_dict(self) -> dict[str, Any]:
        return {**self.clustering.to_dict(), "streams": self.streams.to_dict()["streams"]}

    def __str__(self) -> str:
        if not self.streams.streams:
            return str(self.clustering)
        return f"{self.clustering}\n\n{self.streams}"
