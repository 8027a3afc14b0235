"""The outcome of each verb on each store, as the table that ``make stores`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

Outcomes = dict[tuple[str, str], str]
"""(kind, verb) → outcome."""

OUTCOMES: pytest.StashKey[Outcomes] = pytest.StashKey()
SAME_ROWS = "same rows"
_TITLES = {
    "delta": "Delta, S3A",
    "iceberg-jdbc": "Iceberg JDBC, S3FileIO",
    "iceberg-s3a": "Iceberg JDBC, S3A",
    "iceberg-rest": "Iceberg REST, ResolvingFileIO",
    "iceberg-glue": "Iceberg Glue, S3FileIO",
    "delta, no retries": "Delta, S3A without retries",
    "iceberg-jdbc, no retries": "Iceberg JDBC, S3FileIO without retries",
    "hdfs-delta": "Delta",
    "hdfs-delta-plain": "Delta, plain path",
    "hdfs-iceberg-jdbc": "Iceberg JDBC, hdfs:///",
    "hdfs-iceberg-hadoop": "Iceberg Hadoop catalog",
    "hdfs-iceberg-plain": "Iceberg Hadoop catalog, plain path",
    "azure-delta": "Delta",
    "azure-iceberg-jdbc": "Iceberg JDBC, HadoopFileIO",
    "azure-iceberg-hadoop": "Iceberg Hadoop catalog",
    "azure-iceberg-adls": "Iceberg JDBC, ADLSFileIO",
    "gcs-delta": "Delta",
    "gcs-iceberg-jdbc": "Iceberg JDBC, HadoopFileIO",
}
_BEGIN, _END = "<!-- make stores: begin -->", "<!-- make stores: end -->"


def shown(outcomes: Outcomes) -> list[str]:
    """A Markdown table: a row for each verb, a column for each kind in the order of its titles."""
    kinds = sorted({kind for kind, _ in outcomes}, key=[*_TITLES].index)
    verbs = list(dict.fromkeys(verb for _, verb in outcomes))
    cells = [["", *(_TITLES[kind] for kind in kinds)]]
    cells += [[verb, *(outcomes.get((kind, verb), "") for kind in kinds)] for verb in verbs]
    return [_line(cells[0]), _line("---" for _ in cells[0]), *map(_line, cells[1:])]


def write_into(page: Path, lines: Sequence[str]) -> None:
    """Put the table between the marks of a page."""
    before, mark, rest = page.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (mark and end):
        raise ValueError(f"{page} has no {_BEGIN} … {_END}")
    page.write_text("\n".join([before + mark, *lines, end]) + after)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
