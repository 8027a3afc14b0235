"""Download Spark's packages in one process at a time.

Ivy's cache is not safe for two processes: a second one that starts Spark while the first is still downloading finds
half-written files and exits ("unresolved dependency"). On a machine with an empty cache this is the normal case for
parallel test workers, and for two commands of one cron job.

    cache lacks a jar     exclusive lock: resolve and download alone
    cache has all jars    shared lock: wait for a download in progress, then start in parallel
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from lakekeeper.spark.shims import shim

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@contextlib.contextmanager
def reserved(settings: Mapping[str, str]) -> Iterator[None]:
    """Hold the lock on the jar cache while Spark starts with these confs; without packages, nothing is locked.

    A cache that cannot be locked (read-only home, no POSIX locks) does not prevent the start.
    """
    packages = [name for name in settings.get("spark.jars.packages", "").split(",") if name]
    with contextlib.ExitStack() as held:
        if packages:
            # A user without a home has no cache: Path.home() raises RuntimeError.
            with contextlib.suppress(ImportError, OSError, RuntimeError):
                import fcntl

                cache = Path(settings.get("spark.jars.ivy") or Path.home() / shim().jar_cache)
                cache.mkdir(parents=True, exist_ok=True)
                lock = held.enter_context((cache / "lakekeeper.lock").open("a"))
                fcntl.flock(lock, fcntl.LOCK_SH if _complete(cache, packages) else fcntl.LOCK_EX)
        yield


def _complete(cache: Path, packages: list[str]) -> bool:
    """Whether the cache has the jar of each package; Spark copies them there once all are downloaded."""
    return all((cache / "jars" / _file_name(package)).is_file() for package in packages)


def _file_name(package: str) -> str:
    """``group:artifact:version`` as Spark names its jar."""
    group, artifact, version = (*package.split(":"), "", "")[:3]
    return f"{group}_{artifact}-{version}.jar"
