"""Bugs of vacuums that lost tables in other projects, planted in ours: the search must find each."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.vacuum import retention as core_retention
from lakekeeper.core.vacuum.retention import Kept, Retention, Versions
from lakekeeper.core.vacuum.vacuum_plan import (
    NO_BACKLOG,
    Backlog,
    Dead,
    Garbage,
    VacuumPlan,
)
from lakekeeper.engine.state.leases import Intent, Registration
from lakekeeper.engine.state.vacuum_cursor import CURSOR
from lakekeeper.engine.vacuum import job as engine_sweep
from lakekeeper.engine.vacuum import orphans
from lakekeeper.engine.vacuum.deleter import Removal, Removed
from lakekeeper.engine.vacuum.job import VacuumJob
from lakekeeper.engine.vacuum.journal import Records
from lakekeeper.errors import Unknown
from lakekeeper.testing import storage as memory_storage
from lakekeeper.testing.storage import MemoryStorage
from tests.model.bugs import Bug, Patch
from tests.model.ports import ScriptedStorage


def _forgets_tags() -> list[Patch]:
    real = core_retention.keep

    def keep(table: str, versions: Versions, retention: Retention, now_ms: int) -> Kept:
        branches = tuple(ref for ref in versions.refs if ref.branch)
        return real(table, replace(versions, refs=branches), retention, now_ms)

    return [(engine_sweep, "keep", keep)]


def _lists_after_it_read_the_log() -> list[Patch]:
    listed, orphans_of = VacuumJob.orphans_listed, orphans.orphans_of
    read: list[Versions] = []

    def log_first(self: VacuumJob) -> list[Any]:
        read[:] = [self.adapter.storage.versions(None)]
        return listed(self)

    def of_old(adapter: Any, _versions: Versions, *rest: Any) -> Any:
        return orphans_of(adapter, read[0], *rest)

    return [
        (VacuumJob, "orphans_listed", log_first),
        (engine_sweep, "orphans_of", of_old),
        (VacuumJob, "seen_twice", lambda _self, unnamed: unnamed),
    ]


def _an_empty_answer_is_believed() -> list[Patch]:
    keep, named = core_retention.keep, MemoryStorage.named

    def keep_none(table: str, versions: Versions, retention: Retention, now_ms: int) -> Kept:
        if versions.items:
            return keep(table, versions, retention, now_ms)
        return Kept({versions.newest: Reason.of(Code.NEWEST_VERSION)}, (), (), 0, now_ms)

    def none_named(self: MemoryStorage, versions: Versions, paths: Collection[str]) -> set[str]:
        return named(self, versions, paths) if versions.items else set()

    return [(engine_sweep, "keep", keep_none), (MemoryStorage, "named", none_named)]


def _what_was_dropped_is_dead() -> list[Patch]:
    """As if only the log's remove actions decided what is garbage: a file that was added again is live."""

    def garbage(
        self: MemoryStorage, versions: Versions, kept: Kept, hints: Any = (), _: Backlog = NO_BACKLOG
    ) -> Garbage:
        table = self._table
        dead = {}
        for number in kept.gone:
            for path in memory_storage.named_by(table, number):
                if number < table.current.number and path not in memory_storage.named_by(table, number + 1):
                    dead[path] = Dead(self._full(path), "data", number, number)
        return Garbage(tuple(dead.values()), through=min(kept.reasons) if versions.linear else None)

    return [(MemoryStorage, "garbage", garbage)]


def _off_by_one_grace() -> list[Patch]:
    """A version's age is that of its own commit: the version that was the newest at the cutoff is deleted."""
    return [(core_retention, "newest_until", lambda _versions: {})]


_NO_HINTS: Patch = (Records, "hints", lambda *_args: frozenset())


def _cursor_before_the_deletes() -> list[Patch]:
    real = Records.before

    def before(self: Records, plan: VacuumPlan) -> None:
        real(self, plan)
        if plan.through is not None:
            self.notes.replace(CURSOR, json.dumps({"through": plan.through, "uuid": plan.table_uuid}))

    return [(Records, "before", before), _NO_HINTS]


def _list_after_the_expiry() -> list[Patch]:
    before, run = Records.before, Removal.run
    late: list[tuple[Records, VacuumPlan]] = []

    def later(self: Records, plan: VacuumPlan) -> None:
        late[:] = [(self, plan)]

    def list_first(self: Removal, *args: Any) -> Removed:
        before(*late[0])
        return run(self, *args)

    return [(Records, "before", later), (Removal, "run", list_first)]


def _trusts_hints() -> list[Patch]:
    real = MemoryStorage.garbage

    def garbage(
        self: MemoryStorage, versions: Versions, kept: Kept, hints: Any = (), _: Backlog = NO_BACKLOG
    ) -> Garbage:
        found = real(self, versions, kept)
        return replace(found, files=(*found.files, *(Dead(path, "data", -1) for path in sorted(hints))))

    return [(MemoryStorage, "garbage", garbage)]


def _expires_whatever_came() -> list[Patch]:
    return [(MemoryStorage, "require_unnamed", lambda *_args: None)]


def _forgets_what_came() -> list[Patch]:
    return [(MemoryStorage, "named_since", lambda *_args: set())]


def _unknown_is_done() -> list[Patch]:
    real = ScriptedStorage.expire

    def expire(self: ScriptedStorage, *args: Any) -> Any:
        try:
            return real(self, *args)
        except Unknown:
            return set()

    return [(ScriptedStorage, "expire", expire)]


def _young_files_are_orphans() -> list[Patch]:
    real: Any = orphans.orphans_of

    def orphans_of(*args: Any) -> Any:
        *rest, _intents, options, now_ms = args
        return real(*rest, {}, options, now_ms + (1 << 40))

    return [(engine_sweep, "orphans_of", orphans_of)]


def _forgets_leftovers() -> list[Patch]:
    real = orphans.leftovers_of

    def leftovers_of(storage: Any, neighbours: Any, intents: Mapping[str, Intent], *rest: Any) -> Any:
        return replace(real(storage, neighbours, intents, *rest), files=())

    return [(engine_sweep, "leftovers_of", leftovers_of)]


def _forgets_the_slot_of_another() -> list[Patch]:
    def forget(self: Records, slot: str, intent: Intent) -> None:
        self.notes.remove(slot)

    return [(Records, "forget", forget)]


def _both(name: str) -> tuple[str, ...]:
    return f"{name}, linear", f"{name}, expiring"


_REWRITE = _both("vacuum, rewrite and users")
_NAMES = _both("vacuum, names and restores")
_FAULTS = _both("vacuum with faults")
_ORPHANS = _both("orphans and a writer")
_BRAKE = _both("vacuum with a brake")

VACUUM_BUGS: tuple[Bug, ...] = (
    Bug("tags are forgotten", _forgets_tags, _NAMES),
    Bug(
        "files are listed after the log was read", _lists_after_it_read_the_log, _ORPHANS,
        "a second pass, of the log after the listing, would find it",
    ),
    Bug(
        "a log without versions is an answer", _an_empty_answer_is_believed, _ORPHANS,
        "retention refuses it, and so does the check of referenced files",
    ),
    Bug("a file that was dropped and added again is dead", _what_was_dropped_is_dead, _NAMES),
    Bug("the version that was the newest at the cutoff goes", _off_by_one_grace, _REWRITE),
    Bug(
        "the cursor moves on before the deletes", _cursor_before_the_deletes, _FAULTS[:1],
        "the list of what was to be deleted would be found, too",
    ),
    Bug("the list of a vacuum that died is not read", lambda: [_NO_HINTS], _FAULTS[1:]),
    Bug("intents hold no version", lambda: [(Intent, "alive", lambda *_args: False)], _REWRITE),
    Bug("the expiry is committed before the list is written", _list_after_the_expiry, _FAULTS[1:]),
    Bug("an older list is believed", _trusts_hints, (*_FAULTS, *_NAMES)),
    Bug(
        "the brake is ignored", lambda: [(engine_sweep, "brake", lambda *_args: None)],
        _BRAKE,
    ),
    Bug("versions expire that were named meanwhile", _expires_whatever_came, _BRAKE[1:]),
    Bug("files are deleted that a newer commit names", _forgets_what_came, _FAULTS),
    Bug("an expiry that was not answered is taken for done", _unknown_is_done, _FAULTS[1:]),
    Bug("files that are being written are orphans", _young_files_are_orphans, _ORPHANS),
    Bug(
        "a run that was taken for dead commits",
        lambda: [(Registration, "require", lambda _self: None)], _REWRITE,
    ),
    Bug("what the dead have left is forgotten", _forgets_leftovers, _REWRITE),
    Bug("lists are forgotten, slots alone are freed", _forgets_the_slot_of_another, _FAULTS),
)  # fmt: skip
