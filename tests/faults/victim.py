"""A process that kills itself during a call, its JVM first: ``python -m tests.faults.victim <json>``."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from tests.faults.ground import add_files, point_to
from tests.faults.trial import PROGRAMS, VACUUM, Program
from tests.opening import table_with

POINTS = (
    "planned:1",
    "read:1",
    "written:1",
    "read:2",
    "written:2",
    "before_commit:1",
    "conflict:1",
    "commit:before",
    "commit:within",
    "commit:after",
    "committed:1",
)
"""Phases of the observer with their number, and the engine's read of the log, the swap, and its response."""
VACUUM_POINTS = (
    "planned:1",
    "expire:before",
    "expire:within",
    "expire:after",
    "before_delete:1",
    "deleted:1",
    "before_delete:2",
    "delete:after",
)
"""The points of a vacuum."""


@dataclass(frozen=True)
class Errand:
    """What the victim does and where it ends; paths as text."""

    program: str
    point: str
    sql: str
    home: str
    warehouse: str
    catalog_file: str
    name: str
    winner: str
    pointer: str

    def json(self) -> str:
        return json.dumps(asdict(self))


def main(errand: Errand) -> None:
    from lakekeeper.spark.session import local_session

    spark = local_session(
        warehouse=Path(errand.warehouse),
        catalogs={"ice": f"jdbc:sqlite:{errand.catalog_file}"},
        master="local[2]",
        small_data=True,
    )
    gateway: Any = spark.sparkContext._gateway
    java = gateway.proc.pid
    print(f"java {java}", flush=True)

    def end() -> NoReturn:
        os.kill(java, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("the process should have ended")

    what, _, where = errand.point.partition(":")

    def ending(adapter: Any) -> Any:
        return Ending(adapter, _LAST[what], where, end) if what in _LAST else adapter

    table = table_with(spark, errand.sql, ending)
    program(errand.program).run(table, observer(errand, end))


def program(name: str) -> Program:
    return VACUUM if name == VACUUM.name else PROGRAMS[name]


def observer(errand: Errand, end: Callable[[], NoReturn]) -> Callable[[str, Mapping[str, Any]], None]:
    """Lands the winner at its phase, ends the process at the point."""
    race, counts = program(errand.program), {"": 0}

    def observe(phase: str, _: Mapping[str, Any]) -> None:
        counts[phase] = counts.get(phase, 0) + 1
        if phase == race.phase and counts[phase] == 1:
            add_files(Path(errand.winner), Path(errand.home))
            if errand.pointer:
                point_to(errand.catalog_file, errand.name, errand.pointer)
        if errand.point == f"{phase}:{counts[phase]}":
            end()

    return observe


_LAST = {
    "commit": {"commit", "deletes.delete"},
    "expire": {"storage.expire"},
    "delete": {"storage.delete"},
}
"""The step at which the process ends, by the first word of a point."""


class Ending:
    """Wraps an adapter, or a half of it, one of whose methods ends the process."""

    def __init__(
        self, real: Any, last: set[str], where: str, end: Callable[[], NoReturn], at: str = ""
    ) -> None:
        self._real = real
        self._named = last
        self._where = where
        self._end = end
        self._at = at

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name == "allowing":
            return lambda locations: Ending(found(locations), self._named, self._where, self._end, self._at)
        if name in ("deletes", "storage"):
            return Ending(found, self._named, self._where, self._end, f"{name}.")
        return partial(self._last, found) if f"{self._at}{name}" in self._named else found

    def _last(self, method: Callable[..., Any], *args: Any) -> NoReturn:
        if self._where == "before":
            self._end()
        if self._where == "within":
            within_the_swap(self._end)
        method(*args)
        self._end()


def within_the_swap(end: Callable[[], NoReturn]) -> None:
    """The process ends after the native commit, before the caller gets its response."""
    from py4j.java_gateway import JavaMember

    calling = JavaMember.__call__

    def call(member: Any, *args: Any) -> Any:
        answer = calling(member, *args)
        if member.name == "commit":
            end()
        return answer

    JavaMember.__call__ = call


if __name__ == "__main__":
    main(Errand(**json.loads(sys.argv[1])))
