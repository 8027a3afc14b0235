"""A series of trials: each call in turn fails in one way, and the effects of the faults are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from lakekeeper.api import Table
from lakekeeper.core.model.report import MergeReport
from lakekeeper.errors import Conflict, Rejected, Unknown
from tests.faults.ground import Ground
from tests.faults.port import Dead, Faulty, Port
from tests.faults.storage import Storage
from tests.faults.trial import Program, Ran, Trial

Shot = tuple[int, str]
"""The number of the call that fails, and how."""


class Gun(Protocol):
    """Opens a table of which one call will fail; afterwards it returns the calls."""

    def aim(self, ground: Ground, at: int, mode: str) -> Table: ...

    def lower(self) -> list[str]: ...


@dataclass
class PortGun:
    """Fails methods of the adapter."""

    port: Port = field(default_factory=Port)

    def aim(self, ground: Ground, at: int, mode: str) -> Table:
        self.port = Port(at, mode)
        return ground.table(lambda adapter: Faulty(adapter, self.port))

    def lower(self) -> list[str]:
        return self.port.calls


@dataclass
class StorageGun:
    """Fails file system calls of some kinds."""

    storage: Storage
    kinds: str

    def aim(self, ground: Ground, at: int, mode: str) -> Table:
        table = ground.table()
        self.storage.arm(Path(ground.home), self.kinds, at, mode)
        return table

    def lower(self) -> list[str]:
        return self.storage.disarm()


@dataclass
class Series:
    """Trials of one program on one kind of table.

    If a fault leaves the table in a state seen before, Spark's part (the second run, and the reads by Spark) is
    skipped. A state is which commits landed and whether files are left over; with ``thorough``, also which files, and
    Spark reads each version, not just the newest.
    """

    ground: Ground
    program: Program
    gun: Gun
    thorough: bool
    tally: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    settled: set[tuple[Any, ...]] = field(default_factory=set)

    def calls(self) -> list[str]:
        """The calls of a run without a fault, which must succeed."""
        trial = Trial(self.ground, self.program).start()
        ran = trial.run(self.gun.aim(self.ground, -1, ""))
        calls = self.gun.lower()
        assert ran.error is None, f"the clean run failed: {ran.error!r}"
        trial.check()
        assert trial.commits() == 1
        assert not trial.leftovers(), "the clean run left files behind"
        return calls

    def shoot(self, shots: Iterable[Shot]) -> Counter[str]:
        """One trial for each shot; return the counts of all outcomes. Fails with all failures, not with the first."""
        for at, mode in shots:
            trial = Trial(self.ground, self.program).start()
            ran = trial.run(self.gun.aim(self.ground, at, mode))
            calls = self.gun.lower()
            hit = calls[at] if at < len(calls) else ""
            try:
                self._judge(trial, ran, mode, hit)
            except Exception as wrong:  # a failing reader is a finding too
                said = f"{type(wrong).__name__}: {wrong}"
                self.failures.append(f"call {at} {hit!r}, {mode}, ended {ran.ended} ({ran.error}): {said}")
        assert not self.failures, "\n".join([f"{len(self.failures)} trials:", *self.failures])
        return self.tally

    def _judge(self, trial: Trial, ran: Ran, mode: str, hit: str) -> None:
        landed, left = trial.commits(), trial.leftovers()
        kinds = tuple(sorted(Counter(_kind(path) for path in left).items())) if self.thorough else bool(left)
        state = (trial.raced, landed, kinds)
        new = state not in self.settled
        trial.check(spark_everywhere=new and self.thorough, spark=new)
        self._count(ran, mode, hit, landed, left)
        if ran.report is not None:
            commits = (
                ran.report.commits if isinstance(ran.report, MergeReport) else int(ran.report.run_id != "")
            )
            assert commits == landed, f"the report has {commits} commits, the log {landed}"
        if isinstance(ran.error, (Conflict, Rejected)):
            assert landed == 0, "the error says that nothing was committed"
        _as_answered(mode, ran, landed, left)
        if new:
            trial.finish(landed, spark_everywhere=self.thorough)
            self.settled.add(state)

    def _count(self, ran: Ran, mode: str, hit: str, landed: int, left: set[Any]) -> None:
        self.tally["trials"] += 1
        self.tally["not reached"] += not hit
        self.tally["crash"] += mode.startswith("crash") and ran.error is not None
        self.tally["abort"] += ran.error is not None and not mode.startswith("crash")
        self.tally["leftovers"] += bool(left)
        self.tally["landed, yet the call raised"] += bool(landed) and ran.error is not None
        unknown = mode in ("lost", "landed") or isinstance(ran.error, Unknown)
        self.tally["unknown, landed"] += unknown and bool(landed)
        self.tally["unknown, lost"] += isinstance(ran.error, Unknown) and not landed
        report = ran.report
        self.tally["survived"] += report is not None and bool(hit)
        if isinstance(report, MergeReport):
            self.tally["replay"] += bool(report.replayed_rows_count)
            self.tally["retry"] += mode == "beaten" and bool(report.conflicts)
            for group in report.groups:
                self.tally[f"group {group.status}"] += 1
        elif report is not None:
            self.tally["retry"] += bool(report.retries)


def _kind(path: Path) -> str:
    """The kind of a file, without the random part of its name."""
    return ("snapshot" if path.name.startswith("snap-") else "") + path.suffix


def _as_answered(mode: str, ran: Ran, landed: int, left: set[Any]) -> None:
    """What the run must report for each response to a commit."""
    if mode in ("landed", "contradicted", "beaten"):
        assert ran.error is None, "the commit is in the log or was retried"
        assert landed == 1
        assert not left
    elif mode == "lost":
        assert isinstance(ran.error, Unknown)
        assert landed == 0
    elif mode == "refused":
        # A rewrite is retried once, so that a short outage discards no finished group; a delete is not.
        assert (landed == 1) if ran.error is None else isinstance(ran.error, Rejected)
        assert not left
    elif mode.startswith("crash") and isinstance(ran.error, Dead):
        assert ran.report is None


def every_way(at: Sequence[int], modes: Sequence[str]) -> list[Shot]:
    """All calls in all ways.

    A crash after a call leaves the same state as one before the next call, so only the last call gets both.
    """
    ways = [mode for mode in modes if mode != "crash after"]
    return [*((number, mode) for number in at for mode in ways), (at[-1], "crash after")]


def by_turns(calls: Sequence[Any], modes: Sequence[str], *, every: int = 1, first: int = 0) -> list[Shot]:
    """Every n-th call, each with the next mode: a slice of all calls × all modes."""
    return [(at, modes[(at // every + first) % len(modes)]) for at in range(first % every, len(calls), every)]


def happened(tally: Counter[str], *names: str) -> None:
    """A fault without any effect tests nothing."""
    print(dict(tally))
    assert not [name for name in names if not tally[name]], dict(tally)
