"""``vacuum``: free what no kept version needs, with a record before the first delete.

    intents ─► versions ─► keep ─► garbage ─► look ─► plan ─┬─ dry run: that is all
                 ▲                                          ▼
                 │                        brake ─► record, list ─► expire ─┬─ Conflict: look again (bounded)
                 └─────────────────────────────────────────────────────────┘  Unknown: delete nothing, keep the list
                                                             └─► delete, oldest version first ─► result, cursor

The list is written before the metadata is expired, so that no crash loses it: the next vacuum takes it for a hint, and
looks at each file of it again. Nothing is deleted that was not looked for in everything that stays.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lakekeeper.core.containment import require_roots
from lakekeeper.core.options import Options
from lakekeeper.core.retention import Kept, Retention, Stream, Versions, keep
from lakekeeper.core.vacuum import METADATA_KINDS, FileInfo, VacuumPlan, brake, plan_vacuum
from lakekeeper.core.vacuum_report import VacuumReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.commit import pause_seconds
from lakekeeper.engine.drop import settle
from lakekeeper.engine.events import Events, Halted
from lakekeeper.engine.intents import Intent, registered
from lakekeeper.engine.leftovers import Leftovers, Unnamed, leftovers_of, orphans_of
from lakekeeper.engine.records import Records
from lakekeeper.engine.removal import NOTHING, Removal, Removed, foretold
from lakekeeper.engine.trash import held_versions
from lakekeeper.errors import Conflict, RetentionError
from lakekeeper.spi import Adapter, Observer


@dataclass(frozen=True, slots=True)
class VacuumRequest:
    """What a caller wants of a vacuum; ``options`` are resolved.

    age_ms      versions that were the newest within this time stay; None: as the table says
    older_than_ms   a moment in its place: what was the newest after it stays
    named       versions that stay in any case
    streams     what streams have yet to read
    users       adapters of tables that use this one's files (shallow clones)
    """

    options: Options
    age_ms: int | None = None
    older_than_ms: int | None = None
    named: Collection[int] = ()
    streams: Sequence[Stream] = ()
    users: Sequence[Adapter[Any]] = ()
    orphans: bool = False
    trash: bool = False
    dry_run: bool = False
    allow_unsafe: bool = False


def vacuum(
    adapter: Adapter[Any],
    request: VacuumRequest,
    *,
    observer: Observer | None = None,
    clock: Clock | None = None,
) -> VacuumReport:
    """Run a vacuum on one table.

    Raises RetentionError where a rule forbids it, AdapterError where a log or the storage does not answer, Conflict
    where others went on committing, Rejected, or Unknown: in all of these nothing was deleted. Files that could not be
    deleted are counted in the report.
    """
    clock = clock or Clock()
    run_id = uuid.uuid4().hex[:16]
    sweep = _Sweep(adapter, request, Events(adapter.table, run_id, observer), clock, run_id)
    try:
        return sweep.run()
    except Halted as halted:
        raise halted.cause from None


@dataclass(frozen=True, slots=True)
class _Picture:
    """All that was read for one plan."""

    versions: Versions
    kept: Kept
    plan: VacuumPlan
    leftovers: Leftovers
    dealt_with: frozenset[str]


@dataclass(slots=True)
class _Sweep:
    """One vacuum; ``lost`` counts how often somebody committed between the look and the expiry."""

    adapter: Adapter[Any]
    request: VacuumRequest
    events: Events
    clock: Clock
    run_id: str
    lost: int = 0

    def run(self) -> VacuumReport:
        started = self.clock.now_ms()
        require_roots(self.adapter.table, self.adapter.storage.grounds)
        records = Records(self.adapter.notes, self.run_id, self.clock)
        allowed = self.request.options.integer("commit.retry.num-retries")
        for attempt in range(allowed + 1):
            intents = registered(self.adapter.notes)
            picture = self._look(records, intents)
            if picture is None:
                return VacuumReport(
                    self.adapter.table, self.request.dry_run, None, ended="the table is empty"
                )
            plan = picture.plan
            self.events.tell("planned", files=len(plan.files), bytes=plan.bytes, plan=plan)
            if self.request.dry_run:
                return self._report(picture, foretold(plan), started, "dry run")
            if not plan.files and not self._expires(picture) and not plan.expired_refs:
                self._take_over(records, intents, picture)
                records.finished(plan.through, picture.versions, intents, picture.leftovers.settled)
                return self._report(picture, NOTHING, started, "nothing to do")
            brake(plan, self.request.options.number("vacuum.max-share"))
            records.before(plan)
            self._take_over(records, intents, picture)
            try:
                if not self.request.trash:
                    self.adapter.storage.expire(picture.versions, picture.kept, self.run_id)
            except Conflict as conflict:
                self.lost += 1
                self.events.tell("conflict", attempt=attempt, dropped=0, replayed=0, reason=str(conflict))
                if attempt == allowed:
                    records.withdrawn()
                    raise
                self.clock.wait(pause_seconds(attempt, self.request.options))
                continue
            removed = self._remove(picture)
            records.after(plan, removed)
            if not removed.failed:
                records.finished(plan.through, picture.versions, intents, picture.leftovers.settled)
            return self._report(picture, removed, started, _ended(removed))
        raise AssertionError("the loop returns or raises")

    def _remove(self, picture: _Picture) -> Removed:
        check = None
        if picture.versions.linear:  # nothing was expired: an old version may yet be restored
            check = partial(self.adapter.storage.expire, picture.versions, picture.kept, self.run_id)
        removal = Removal(self.adapter, self.request.options, self.events, self.clock, check)
        return removal.run(picture.plan, self.run_id if self.request.trash else "")

    def _take_over(self, records: Records, intents: Mapping[str, Intent], picture: _Picture) -> None:
        # What goes into the bin is not all that is dead: then no list goes for its age.
        records.took_over(intents, picture.dealt_with, None if self.request.trash else self._timeout_ms)

    @property
    def _timeout_ms(self) -> int:
        return self.request.options.ms("vacuum.intent-timeout-hours")

    def _expires(self, picture: _Picture) -> bool:
        """Does anything leave the metadata? Nothing on a linear log; nor for the bin, from which it may come back."""
        return bool(picture.plan.gone) and not picture.versions.linear and not self.request.trash

    def _look(self, records: Records, intents: Mapping[str, Intent]) -> _Picture | None:
        """Read everything and plan; None for a table without a version."""
        storage, now = self.adapter.storage, self.clock.now_ms()
        orphans = self._orphans_listed()
        leftovers = leftovers_of(self.adapter, intents, self.request.options, now)
        versions = records.versions(storage)
        if not versions.items and not versions.refs and not versions.refused:
            if self.request.orphans:
                raise RetentionError(
                    f"{self.adapter.table}: the table has no version, so every file looks like an orphan; nothing "
                    "was deleted"
                )
            return None
        # After the versions were read: a drop that lands later than that is a commit that the expiry would meet.
        settle(self.adapter, self.request.options, now)
        kept = keep(self.adapter.table, versions, self._retention(versions, intents, now), now)
        garbage = storage.garbage(versions, kept, records.hints(intents))
        unnamed = orphans_of(
            self.adapter,
            versions,
            [*leftovers.files, *orphans],
            garbage,
            intents,
            self.request.options,
            now,
        )
        if self.request.orphans:
            unnamed = self._seen_twice(unnamed)
        garbage = unnamed.with_garbage(garbage, storage.grounds)
        paths = [dead.path for dead in garbage.files]
        found = dict(zip(paths, storage.look(paths), strict=True))
        plan = plan_vacuum(
            self.adapter.table,
            versions,
            kept,
            garbage,
            found,
            storage.grounds,
            spared=self._used_by_others(paths),
        )
        if self.request.trash:
            # What stays in the metadata has to be readable: only data comes back out of the bin.
            files = tuple(file for file in plan.files if file.kind not in METADATA_KINDS)
            plan = replace(plan, files=files, expired_refs=())
        missing = (path for path, info in found.items() if info is None)
        dealt_with = frozenset((*missing, *(file.path for file in plan.files)))
        return _Picture(versions, kept, plan, leftovers, dealt_with)

    def _orphans_listed(self) -> list[FileInfo]:
        """All files of the table, listed before the log is read: what a commit names after that is named."""
        if not self.request.orphans:
            return []
        strangers = self.adapter.storage.strangers()
        if strangers:
            raise RetentionError(
                f"{self.adapter.table}: another table lies in or around its location ({', '.join(strangers[:3])}), and "
                "its files would look like orphans; nothing was deleted. Give each table a folder of its own"
            )
        return list(self.adapter.storage.files())

    def _seen_twice(self, unnamed: Unnamed) -> Unnamed:
        """Orphans that a second pass finds just as the first did."""
        again = {info.path: info for info in self.adapter.storage.files()}
        versions = self.adapter.storage.versions(None)
        still = {path for path in unnamed.infos if again.get(path) == unnamed.infos[path]}
        named = self.adapter.storage.named(versions, still)
        return unnamed.only(still - named)

    def _retention(self, versions: Versions, intents: Mapping[str, Intent], now_ms: int) -> Retention:
        options, request = self.request.options, self.request
        age = request.age_ms
        if age is None and request.older_than_ms is not None:
            age = now_ms - request.older_than_ms
        least = 0
        if age is None and options.number("retention-hours") >= 0:
            if (
                options.origins["retention-hours"] == "property"
            ):  # only ever longer than what holds without it
                least = options.ms("retention-hours")
            else:
                age = options.ms("retention-hours")
        at_work = {
            intent.read_version: f"run {intent.run_id} at work has read it"
            for intent in intents.values()
            if intent.read_version is not None and intent.alive(self._timeout_ms, now_ms)
        }
        keep_ms = options.ms("vacuum.trash-retention-hours")
        held = held_versions(self.adapter.notes, versions, keep_ms, now_ms)
        return Retention(
            age_ms=age,
            least_ms=least,
            last=options.integer("retain-last"),
            named=tuple(request.named),
            active={**at_work, **held},
            streams=request.streams,
            allow_unsafe=request.allow_unsafe,
        )

    def _used_by_others(self, paths: Sequence[str]) -> dict[str, str]:
        """Paths that tables named by the caller use, each with which."""
        spared: dict[str, str] = {}
        for user in self.request.users:
            if paths:
                named = user.storage.named(user.storage.versions(None), set(paths))
                spared |= dict.fromkeys(named, f"{user.table} uses it")
        return spared

    def _report(self, picture: _Picture, removed: Removed, started: int, ended: str) -> VacuumReport:
        plan = picture.plan
        deleted = removed is not NOTHING and not self.request.dry_run
        return VacuumReport(
            table=plan.table,
            dry_run=self.request.dry_run,
            version=plan.version,
            deleted_files_count=removed.files,
            deleted_bytes_count=removed.bytes,
            deleted_by_kind=removed.by_kind,
            failed_files_count=removed.failed,
            expired_snapshots_count=0 if removed is NOTHING or self.request.trash else len(plan.gone),
            kept_versions_count=len(plan.kept),
            settled_runs=tuple(sorted(picture.leftovers.settled.values())),
            batches=removed.batches,
            retries=self.lost,
            run_id=self.run_id,
            trash=self.run_id if deleted and removed.files and self.request.trash else "",
            proof=f"_lakekeeper/vacuum/{self.run_id}/proof.json" if deleted else "",
            ended=ended,
            duration_ms=self.clock.now_ms() - started,
            plan=plan,
        )


def _ended(removed: Removed) -> str:
    if removed.stopped:
        return f"stopped, {removed.failed:,} files stayed: {removed.stopped}"
    return "some files stayed" if removed.failed else "done"
