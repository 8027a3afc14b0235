"""Metadata files of tables in a directory catalog."""

from __future__ import annotations

from pathlib import Path


def number_of(metadata: Path) -> int:
    return int(metadata.name[1:].split(".")[0])


def newest_metadata(home: Path) -> Path:
    return max((home / "metadata").glob("v*.metadata.json"), key=number_of)
