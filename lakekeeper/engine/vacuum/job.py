"""``vacuum``: delete what no retained version needs, with a record before the first delete.

    intents ─► versions ─► keep ─► garbage ─► look ─► plan ─┬─ dry run: that is all
       ▲                                                    ▼
       │                        brake ─► record, list ─► intents ─► expire ─┬─ LostRace: expire again (bounded)
       │                                                   │ a new one      ├─ Conflict: look again (bounded)
       └───────────────────────────────────────────────────┴────────────────┘  Unknown: delete nothing, keep the list
                                        delete what no newer commit names, oldest version first ─► result, cursor

The list is written before the metadata is expired, so that no crash loses it: the next vacuum takes it as a hint, and
checks each file in it again. A file is deleted only after a search of everything that stays found no reference to it. A
file that the log itself does not explain is deleted only if no other table is inside or around this one's folders.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.vacuum.path_guard import require_roots, within
from lakekeeper.core.vacuum.retention import (
    Kept,
    Retention,
    Stream,
    Versions,
    keep,
    lines_from,
    reaches_back,
)
from lakekeeper.core.vacuum.vacuum_plan import (
    METADATA_KINDS,
    FileInfo,
    Garbage,
    VacuumPlan,
    brake,
    plan_vacuum,
)
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.commit_loop import CommitLoop, Retry
from lakekeeper.engine.events import Events, Halted
from lakekeeper.engine.retries import SHORT_PAUSES, retried
from lakekeeper.engine.state.leases import Intent, read_by_runs, registered
from lakekeeper.engine.trash.drop_partition import note_descendants, settle
from lakekeeper.engine.trash.entries import held_versions
from lakekeeper.engine.vacuum.deleter import NOTHING, Removal, Removed, foretold
from lakekeeper.engine.vacuum.foreign_tables import Neighbours
from lakekeeper.engine.vacuum.journal import Records
from lakekeeper.engine.vacuum.orphans import Leftovers, Unnamed, leftovers_of, orphans_of, unnamed_leftovers
from lakekeeper.errors import Conflict, LostRace, RetentionError, Unsupported
from lakekeeper.spi import Adapter, Observer
from lakekeeper.spi.storage import Storage


@dataclass(frozen=True, slots=True)
class VacuumRequest:
    """The request of a vacuum; ``options`` are resolved.

    age_ms      versions that were the newest within this time stay; None: as the table says
    older_than_ms   a time in place of the age: versions that were the newest after it are kept
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

    Raises RetentionError if a rule forbids it, Unsupported for ``trash`` if the storage cannot rename, AdapterError if
    a log or the storage does not respond, Conflict if others kept committing, Rejected, or Unknown: nothing was deleted
    in any of these cases. An error once deletes have begun ends them and is in the report (``stopped``), which counts
    the files that could not be deleted.
    """
    clock = clock or Clock()
    run_id = uuid.uuid4().hex[:16]
    storage = adapter.storage.allowing(request.options.vacuum.allowed_locations)
    neighbours = Neighbours(adapter.table, storage)
    events = Events(adapter.table, run_id, observer)
    try:
        return VacuumJob(adapter, storage, neighbours, request, events, clock, run_id).run()
    except Halted as halted:
        raise halted.cause from None


@dataclass(frozen=True, slots=True)
class _Look:
    """Everything that was read for one plan.

    own         slot → intent, of runs that are certainly this table's: what they left is cleaned up
    active      versions that runs had read, and those of the trash
    dealt_with  paths that are gone or will be deleted
    deferred    dead files that stay: another table uses them, or no operator allows their place yet
    doubted     files of old lists stay because another table may own them: no list is deleted for its age
    """

    versions: Versions
    kept: Kept
    plan: VacuumPlan
    own: Mapping[str, Intent]
    active: frozenset[int]
    leftovers: Leftovers
    dealt_with: frozenset[str]
    deferred: frozenset[str]
    doubted: bool


@dataclass(slots=True)
class VacuumJob:
    """One vacuum: what it was given, its records beside the table, and its clock. For one use."""

    adapter: Adapter[Any]
    storage: Storage
    neighbours: Neighbours
    request: VacuumRequest
    events: Events
    clock: Clock
    run_id: str
    started_ms: int = field(init=False)
    records: Records = field(init=False)
    loop: CommitLoop = field(init=False)

    def __post_init__(self) -> None:
        self.started_ms = self.clock.now_ms()
        self.records = Records(self.adapter.notes, self.run_id, self.clock, self._timeout_ms)
        self.loop = CommitLoop(
            self.events, self.request.options, self.clock, "the vacuum", "nothing was deleted"
        )

    def run(self) -> VacuumReport:
        require_roots(self.adapter.table, self.storage.grounds)
        if self.request.trash and (why := self.storage.refuses_trash()):
            raise Unsupported(
                self.adapter.table,
                "trash",
                f"{why}; nothing was deleted. Vacuum without the trash",
            )
        try:
            return self._swept()
        except (Exception, KeyboardInterrupt):
            self.records.stopped()  # after a crash, the registration says that deletes may go on
            raise

    def _swept(self) -> VacuumReport:
        done = self._expire()
        if isinstance(done, VacuumReport):
            return done
        removed = self._remove(done)
        self.records.after(done.plan, removed)
        if removed.failed:
            self.records.stopped()
        else:
            self._finish(done)
        return self._report(done, removed, _ended(removed))

    def _expire(self) -> _Look | VacuumReport:
        """Plan and commit the expiry; plan again if another commit or run changed what the plan depends on."""
        look: _Look | VacuumReport | None = None

        def attempt() -> _Look | VacuumReport:
            nonlocal look
            if look is None:
                look = self._prepared()
            return self._expired(look) if isinstance(look, _Look) else look

        def after(conflict: Conflict) -> Retry:
            return Retry(resume=(lambda: None) if isinstance(conflict, LostRace) else plan_again)

        def plan_again() -> None:
            nonlocal look
            look = None

        try:
            return self.loop.run(attempt, after)
        except Conflict:
            self.records.withdrawn()
            raise

    def _prepared(self) -> _Look | VacuumReport:
        """A plan whose list and proof are written; the report if nothing is to be deleted, or not by this call."""
        look = retried(self._look, self.clock, SHORT_PAUSES)
        if look is None:
            return VacuumReport(
                self.adapter.table, self.request.dry_run, None, ended=Reason.of(Code.NO_VERSIONS)
            )
        plan = look.plan
        self.events.emit("planned", files=len(plan.files), bytes=plan.bytes, plan=plan)
        due = plan.files or self._expires(look) or plan.expired_refs
        if self.request.dry_run:
            return self._report(look, foretold(plan) if due else NOTHING, Reason.of(Code.DRY_RUN))
        if not due:
            self._take_over(look)
            self._finish(look)
            return self._report(look, NOTHING, Reason.of(Code.NOTHING_TO_DO))
        brake(plan, self.request.options.vacuum.max_share)
        self.records.before(plan)
        self._require_unread(look)
        self._take_over(look)
        return look

    def _require_unread(self, look: _Look) -> None:
        """Raise Conflict if a run has come to read an expired version: one that comes later finds us registered."""
        intents = retried(lambda: registered(self.adapter.notes), self.clock, SHORT_PAUSES)
        for version, run_id in read_by_runs(intents, self._timeout_ms, self.clock.now_ms()).items():
            if look.versions.linear:
                gone = version < look.kept.oldest
            else:
                gone = not lines_from(look.versions, [version]).isdisjoint(look.plan.gone)
            if gone and version not in look.active:
                raise Conflict(
                    f"{self.adapter.table}: run {run_id} reads version {version} now", f"run {run_id}"
                )

    def _expired(self, look: _Look) -> _Look:
        """Expire the versions in the metadata; returns the look without the files that a newer commit names again."""
        plan = look.plan
        if self.request.trash:  # from the trash it may come back
            self.storage.require_dead(look.versions, look.kept, _paths(plan))
            return look
        again = self.storage.expire(look.versions, look.kept, _paths(plan))
        if not again:
            return look
        spared = {**plan.spared, **dict.fromkeys(again, "a commit made after the plan references it")}
        files = tuple(file for file in plan.files if file.path not in again)
        return replace(look, plan=replace(plan, files=files, spared=spared))

    def _remove(self, look: _Look) -> Removed:
        paths = _paths(look.plan)

        def check() -> None:
            self.records.renew()
            # Nothing was expired: an old version may come back at any time.
            if look.versions.linear or self.request.trash:
                self.storage.require_dead(look.versions, look.kept, paths)

        removal = Removal(self.adapter, self.storage, self.request.options, self.events, self.clock, check)
        return removal.run(look.plan, self.run_id if self.request.trash else "")

    def _take_over(self, look: _Look) -> None:
        # Not every dead file is moved to the trash, so no list is deleted for its age then.
        by_age = not self.request.trash and not look.doubted
        timeout_ms = self._timeout_ms if by_age else None
        self.records.took_over(look.own, look.dealt_with, timeout_ms, look.deferred)

    def _finish(self, look: _Look) -> None:
        """All dead files are gone, so their notes are removed too; those that another table uses are listed."""
        self.records.finished(look.plan, look.own, look.leftovers.settled, look.dealt_with, look.deferred)
        for intent in look.leftovers.settled.values():
            self.storage.forget(intent.folder)

    @property
    def _timeout_ms(self) -> int:
        return self.request.options.vacuum.lease_timeout_ms

    def _expires(self, look: _Look) -> bool:
        """Whether the metadata loses versions: not in a linear log, nor for the trash, which can be restored."""
        return bool(look.plan.gone) and not look.versions.linear and not self.request.trash

    def _look(self) -> _Look | None:
        """Read everything and plan; None for a table without versions."""
        storage, options = self.storage, self.request.options
        all_intents = registered(self.adapter.notes)
        now = self.clock.now_ms()
        own = {
            slot: intent
            for slot, intent in all_intents.items()
            if storage.same_table(intent.table_uuid, intent.read_version)
        }
        listed = self.orphans_listed()
        leftovers = leftovers_of(storage, self.neighbours, own, options, now)
        hints = self.records.hints(own)
        versions = self.records.versions(
            storage, hints, lambda found: self.reaches_back(found, all_intents, now)
        )
        if not versions.items and not versions.refs and not versions.refused:
            if self.request.orphans:
                raise RetentionError(
                    f"{self.adapter.table}: the table has no version, so every file would look like an orphan; nothing "
                    "was deleted"
                )
            return None
        # After the versions were read: a drop that lands later than that is a commit that the expiry would meet. A dry
        # run writes no note: what a drop or restore in doubt may need counts as held then.
        if not self.request.dry_run:
            settle(self.adapter, self.request.options, now)
            note_descendants(self.adapter)
        retention = self._retention(versions, all_intents, now)
        kept = keep(self.adapter.table, versions, retention, now)
        backlog = self.records.backlog(versions)
        found, doubted = self.believed(storage.garbage(versions, kept, hints, backlog))
        left = unnamed_leftovers(storage, versions, leftovers, found)
        garbage = left.with_garbage(found, storage.grounds)
        orphans = orphans_of(storage, versions, listed, garbage, all_intents, options, now)
        if self.request.orphans:
            orphans = self.seen_twice(orphans)
        garbage = orphans.with_garbage(garbage, storage.grounds)
        notes = (garbage.note, leftovers.note, *self._not_listed())
        garbage = replace(garbage, note="; ".join(filter(None, notes)))
        paths = [dead.path for dead in garbage.files]
        infos = dict(zip(paths, storage.look(paths), strict=True))
        used = self._used_by_others(paths)
        plan = plan_vacuum(
            self.adapter.table,
            versions,
            kept,
            garbage,
            infos,
            storage.grounds,
            spared=used,
        )
        ours = {dead.path for dead in found.files}
        shared = {
            path for path in used if path in ours and plan.spared.get(path) == used[path] and infos[path]
        }
        barred = self.storage.grounds.barred
        deferred = shared.union(
            path for path in found.outside if any(within(path, place) for place in barred)
        )
        spared = {**plan.spared, **doubted, **orphans.spared}
        plan = replace(plan, spared=spared, unrecognised=orphans.unrecognised)
        if self.request.trash:
            # Versions that stay in the metadata have to be readable: only data comes back from the trash.
            files = tuple(file for file in plan.files if file.kind not in METADATA_KINDS)
            plan = replace(plan, files=files)
        missing = (path for path, info in infos.items() if info is None)
        dealt_with = frozenset((*missing, *(file.path for file in plan.files)))
        active = frozenset(retention.active)
        return _Look(
            versions, kept, plan, own, active, leftovers, dealt_with, frozenset(deferred), bool(doubted)
        )

    def reaches_back(self, versions: Versions, intents: Mapping[str, Intent], now: int) -> bool:
        """Whether no version before these stays."""
        retention = self._retention(versions, intents, now)
        return reaches_back(versions, retention, keep(self.adapter.table, versions, retention, now))

    def believed(self, garbage: Garbage) -> tuple[Garbage, dict[str, str]]:
        """The garbage without files that only an old list names and that may belong to another table; and these, with
        reasons.

        The list is beside the table, where others may write, and the log has forgotten the files in it. The brake was
        applied before the list was written.
        """
        hinted = [dead.path for dead in garbage.files if not dead.logged]
        if not hinted:
            return garbage, {}
        obstacle = self.neighbours.around(())
        known = set() if obstacle else self.storage.recognised(hinted)
        why = f"only an earlier vacuum's list names it, and {obstacle or 'no writer of the format uses such a name'}"
        doubted = {path: why for path in hinted if path not in known}
        files = tuple(replace(dead, logged=True) for dead in garbage.files if dead.path not in doubted)
        return replace(garbage, files=files), doubted

    def orphans_listed(self) -> list[FileInfo]:
        """All files of the table, listed before the log is read: the log then names every file committed in between."""
        if not self.request.orphans:
            return []
        self.neighbours.refuse_orphans()
        return list(self.storage.files())

    def _not_listed(self) -> list[str]:
        """Places of the table that no operator allows to list."""
        if not self.request.orphans:
            return []
        barred = self.storage.grounds.barred
        return [
            f"{place} ({name}) was not listed: it is not in vacuum.allowed-locations"
            for place, name in barred.items()
        ]

    def seen_twice(self, unnamed: Unnamed) -> Unnamed:
        """Orphans that a second check confirms."""
        again = {info.path: info for info in self.storage.files()}
        versions = self.storage.versions(None)
        still = {path for path in unnamed.infos if again.get(path) == unnamed.infos[path]}
        named = self.storage.named(versions, still)
        return unnamed.only(still - named)

    def _retention(self, versions: Versions, intents: Mapping[str, Intent], now_ms: int) -> Retention:
        options, request = self.request.options, self.request
        age = request.age_ms
        if age is None and request.older_than_ms is not None:
            age = now_ms - request.older_than_ms
        least = 0
        if age is None and options.vacuum.retention_ms is not None:
            # A property can only lengthen the retention.
            if options.origins["retention-hours"] == "property":
                least = options.vacuum.retention_ms
            else:
                age = options.vacuum.retention_ms
        # A commit is checked against all commits since the version that its run read: those must be there, too.
        active_runs = {
            number: Reason.of(Code.READ_BY_RUN, run_id=run_id)
            for version, run_id in read_by_runs(intents, self._timeout_ms, now_ms).items()
            for number in lines_from(versions, [version])
        }
        keep_ms = options.vacuum.trash_retention_ms
        held = held_versions(self.adapter.notes, versions, keep_ms, now_ms)
        return Retention(
            age_ms=age,
            least_ms=least,
            last=options.vacuum.retain_last,
            named=tuple(request.named),
            active={**active_runs, **held},
            streams=request.streams,
            allow_unsafe=request.allow_unsafe,
            sink_ms=options.vacuum.sink_retention_ms,
            names_expire=not request.trash,
        )

    def _used_by_others(self, paths: Sequence[str]) -> dict[str, str]:
        """Paths used by tables that the caller names, each with its table."""
        spared: dict[str, str] = {}
        for user in self.request.users:
            if paths:
                named = user.storage.named(user.storage.versions(None), set(paths))
                spared |= dict.fromkeys(named, f"{user.table} uses it")
        return spared

    def _report(self, look: _Look, removed: Removed, ended: Reason) -> VacuumReport:
        plan = look.plan
        deleted = removed is not NOTHING and not self.request.dry_run
        # A version of a linear log expires with the first of its files: it is there as long as all of them are.
        expired = (
            removed is not NOTHING and not self.request.trash and (removed.files or not look.versions.linear)
        )
        return VacuumReport(
            table=plan.table,
            dry_run=self.request.dry_run,
            version=plan.version,
            deleted_files_count=removed.files,
            deleted_bytes_count=removed.bytes,
            deleted_by_kind=removed.by_kind,
            failed_files_count=removed.failed,
            expired_snapshots_count=len(plan.gone) if expired else 0,
            expired_refs_count=len(plan.expired_refs) if expired else 0,
            kept_versions_count=len(plan.kept),
            settled_runs=tuple(sorted({intent.run_id for intent in look.leftovers.settled.values()})),
            batches=removed.batches,
            retries=self.loop.lost,
            run_id=self.run_id,
            trash=self.run_id if deleted and removed.files and self.request.trash else "",
            proof=f"_lakekeeper/vacuum/{self.run_id}/proof.json" if deleted else "",
            ended=ended,
            duration_ms=self.clock.now_ms() - self.started_ms,
            plan=plan,
        )


def _paths(plan: VacuumPlan) -> frozenset[str]:
    return frozenset(file.path for file in plan.files)


def _ended(removed: Removed) -> Reason:
    if removed.stopped:
        return Reason.of(Code.STOPPED, files=removed.failed, error=removed.stopped)
    return Reason.of(Code.FILES_REMAIN, files=removed.failed) if removed.failed else Reason.of(Code.DONE)
