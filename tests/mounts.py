"""A Java virtual machine that knows nothing but the types of mounts."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any


def java_with_mounts(types: Mapping[str, str]) -> Any:
    """Has the type of the mount of each path; other paths do not exist."""

    def store(path: str) -> Any:
        return SimpleNamespace(type=lambda: types[path])

    nio = SimpleNamespace(file=SimpleNamespace(Files=SimpleNamespace(getFileStore=store)))
    io = SimpleNamespace(File=lambda path: SimpleNamespace(toPath=lambda: path))
    return SimpleNamespace(view=SimpleNamespace(java=SimpleNamespace(nio=nio, io=io)))
