"""Calls that differ between release lines of Delta Lake: a module for each, chosen by the version of the jar.

    delta_4_3   the newest release line: all of these calls
    delta_4_0   those that Delta 4.0 makes differently from 4.3
    delta_3_3   those that Delta 3.3 makes differently from 4.0

Code outside this package calls the shim of its `Log` and never compares versions.
"""

from __future__ import annotations

from typing import Any

from lakekeeper.spark.jvm import Jvm
from lakekeeper_delta.shims.delta_3_3 import Delta33
from lakekeeper_delta.shims.delta_4_0 import Delta40
from lakekeeper_delta.shims.delta_4_3 import Delta43

__all__ = ["TESTED", "Delta43", "delta_version", "shim_of"]

_SHIMS: tuple[Delta43, ...] = (Delta43(), Delta40(), Delta33())
TESTED = tuple(shim.version for shim in _SHIMS)
"""The releases of Delta Lake that lakekeeper is tested with, newest first."""


def delta_version(jvm: Jvm) -> str:
    """The version of Delta Lake in the session."""
    return _version(jvm.spark._jvm, jvm)


def shim_of(jvm: Jvm) -> Delta43:
    """The shim of the session's Delta Lake; for an untested version, that of the nearest older release line."""
    wanted = _number(delta_version(jvm))
    return next((shim for shim in _SHIMS if _number(shim.version) <= wanted), _SHIMS[-1])


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


_versions: dict[Any, str] = {}


def _version(view: Any, jvm: Jvm) -> str:
    if view not in _versions:
        _versions[view] = str(jvm.object("io.delta.package").VERSION())
    return _versions[view]
