"""Scopes with a vacuum: what it can encounter, on both kinds of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakekeeper.engine.clock import Clock
from lakekeeper.engine.trash.restore_files import restore_files
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from lakekeeper.spi import Observer
from lakekeeper.testing.lake import Settings
from tests.model.asking import SWEEP_FAULTS
from tests.model.cells import delete, rewrite
from tests.model.keeping import Keep
from tests.model.program import Run, Scripted
from tests.model.world import Scope

LINES: Mapping[str, Settings] = {
    "linear": Settings(linear=True),
    "expiring": Settings(linear=False),
}
_UNSURE = tuple(fault for fault in SWEEP_FAULTS if fault != "down after")
"""An expiry whose response is lost is a call that failed although it took effect."""
WEEKS = 300
"""Hours: longer than the grace, the timeout and the retention together."""


def sweep(keep: Keep, *, orphans: bool = False, trash: bool = False) -> Run:
    """A call of ``vacuum``."""
    request = VacuumRequest(keep.options, named=keep.named, orphans=orphans, trash=trash)

    def run(adapter: Scripted, observer: Observer, clock: Clock) -> Any:
        return vacuum(adapter, request, observer=observer, clock=clock)

    return run


def write(adapter: Scripted, _observer: Observer, _clock: Clock) -> None:
    """A writer that does not register an intent: it writes a file, and commits it later."""
    adapter.ask("publish", adapter.ask("stage"))


def restore(name: str) -> Run:
    """A user restores files of a vacuum from the trash."""

    def run(adapter: Scripted, _observer: Observer, clock: Clock) -> Any:
        return restore_files(adapter, name, clock.now_ms())

    return run


def _worker(keep: Keep, kind: str) -> Run:
    if kind == "r":
        return rewrite(watchful=True, vacuum_intent_timeout_hours=keep.timeout)
    return delete(vacuum_intent_timeout_hours=keep.timeout)


def sweep_scopes(depth: int = 0) -> list[Scope]:
    """Scopes with a vacuum; each further ``depth`` alternately adds a jump of time or a user action."""
    found: list[Scope] = []
    jumps, users = (depth + 1) // 2, depth // 2
    one, two, careful = Keep(), Keep(last=2), Keep(share=0.01, orphans=True)
    lists = Keep(orphans=True)
    for name, settings in LINES.items():
        least = Scope("", settings, {}, (), keep=one, hours=(30, WEEKS), users=users, jumps=1 + jumps)
        found += [
            replace(
                least,
                name=f"vacuum, rewrite and users, {name}",
                programs={"r": _worker(one, "r"), "v": sweep(one)},
                acts=("overwrite", "delete_equal") if settings.linear else ("overwrite",),
                users=1 + users,
                crashes=1,
            ),
            replace(
                least,
                name=f"vacuum and a delete, {name}",
                programs={"d": _worker(one, "d"), "v": sweep(one)},
                acts=("overwrite",),
                users=1 + users,
                crashes=1,
            ),
            replace(
                least,
                name=f"vacuum, names and restores, {name}",
                programs={"v": sweep(two)},
                acts=("overwrite", "undo", "tag", "untag"),
                users=2 + users,
                jumps=1 + jumps,
                crashes=1,
                restarts=1,
                keep=two,
            ),
            replace(
                least,
                name=f"vacuum with faults, {name}",
                programs={"v": sweep(one)},
                acts=("overwrite", "undo"),
                users=2 + users,
                faults=1,
                crashes=1,
                restarts=1,
                fault_kinds=SWEEP_FAULTS if settings.linear else _UNSURE,
            ),
            replace(
                least,
                name=f"vacuum with a brake, {name}",
                programs={"v": sweep(careful, orphans=True), "w": write},
                acts=("overwrite", "tag"),
                users=1 + users,
                crashes=1,
                hours=(WEEKS,),
                keep=careful,
            ),
            replace(
                least,
                name=f"orphans and a writer, {name}",
                programs={"v": sweep(lists, orphans=True), "w": write},
                acts=("overwrite",),
                users=1 + users,
                crashes=1,
                faults=1,
                fault_kinds=("empty",),
                hours=(WEEKS,),
                keep=lists,
            ),
        ]
    return found
