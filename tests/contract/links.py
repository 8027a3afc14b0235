"""A file that a delete must leave."""

from __future__ import annotations

from pathlib import Path


def replace_by_link(location: str, folder: Path) -> None:
    """Move the file at a location to another folder, and leave a symbolic link to it."""
    path = Path(location.removeprefix("file:"))
    folder.mkdir(exist_ok=True)
    path.rename(folder / path.name)
    path.symlink_to(folder / path.name)
