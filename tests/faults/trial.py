"""One case: a table is restored, a lakekeeper call runs with a fault, and every guarantee is checked.

restore ─► run with a fault ─► reopen ─► check ─► run again ─► check ─► nothing is left to do
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakekeeper.api import Table
from lakekeeper.core.model.report import DeleteReport, MergeReport
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.spi import Observer
from tests.faults.ground import OPTIONS, USERS, Ground

OURS = frozenset({5, 25})
"""Rows that our own delete removes: one in each group."""
EVERYTHING: Mapping[str, Any] = {
    "retention_hours": 0,
    "allow_unsafe_retention": True,
    "options": {
        "vacuum.max-share": 1,
        "vacuum.max-batch-delete-size": 2,
        "vacuum.max-concurrent-deletes": 1,
    },
}
"""A vacuum that keeps only the newest version, and deletes in many steps."""
_DEAD_MS = 200 * HOUR_MS


def _recluster(table: Table, observer: Observer) -> MergeReport:
    return table.recluster("k", observer=observer, options=OPTIONS)


def _vacuum(table: Table, observer: Observer) -> VacuumReport:
    return table.vacuum(observer=observer, **EVERYTHING)


def _delete(table: Table, observer: Observer) -> DeleteReport:
    where = f"id IN ({', '.join(map(str, sorted(OURS)))})"
    return table.delete(where, observer=observer, options=OPTIONS)


@dataclass(frozen=True)
class Program:
    """A call; the concurrent commit that lands during it (``winner``, at a phase); the rows that the call deletes."""

    name: str
    run: Callable[[Table, Observer], Any]
    winner: str = ""
    phase: str = ""
    takes: frozenset[int] = frozenset()


VACUUM = Program("vacuum", _vacuum)
PROGRAMS = {
    p.name: p
    for p in (
        Program("recluster", _recluster),
        Program("raced recluster", _recluster, "delete", "written"),
        Program("delete", _delete, takes=OURS),
        Program("raced delete", _delete, "layout", "before_commit", takes=OURS),
    )
}


@dataclass
class Ran:
    """How one call of lakekeeper ended."""

    report: MergeReport | DeleteReport | VacuumReport | None = None
    error: BaseException | None = None

    @property
    def ended(self) -> str:
        return "done" if self.error is None else type(self.error).__name__


@dataclass
class Trial:
    """One running case. ``raced``: the winner has landed."""

    ground: Ground
    program: Program
    raced: bool = False
    before: set[Any] = field(default_factory=set)

    def start(self) -> Trial:
        self.ground.fresh()
        self.before = self.ground.live()
        return self

    def run(self, table: Table) -> Ran:
        """Any error is the result of the fault."""
        try:
            return Ran(self.program.run(table, self._observer))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            return Ran(error=error)

    def _observer(self, phase: str, info: Mapping[str, Any]) -> None:
        if phase == self.program.phase and not self.raced:
            self.raced = True
            self.ground.land(self.program.winner)

    def check(self, *, spark: bool = True, spark_everywhere: bool = False) -> list[frozenset[int]]:
        """Every version reads as it was written and has all its files; return the ids of each version, oldest first."""
        ground = self.ground
        log = ground.log()
        ids = self._expected()
        run_ids = Counter(seen.run_id for seen in log if seen.run_id)
        assert all(number == 1 for number in run_ids.values()), f"a run committed twice: {run_ids}"
        for seen, held in zip(log, ids, strict=True):
            assert ground.rows(seen.version) == ground.expected(held), f"version {seen} reads differently"
        missing = ground.named() - ground.on_disk()
        assert not missing, f"versions reference missing files: {missing}"
        ground.forget()
        if spark:
            assert ground.spark_rows() == ground.expected(ids[-1]), (
                "Spark reads the newest version differently"
            )
        if spark_everywhere:
            for seen, held in zip(log, ids, strict=True):
                assert ground.spark_rows(seen.version) == ground.expected(held), (
                    f"Spark reads {seen} differently"
                )
        return ids

    def clean(self, held: frozenset[int]) -> None:
        """Once a killed process counts as dead, a vacuum leaves exactly what the newest version needs.

        ``held`` are the ids of its rows. Another vacuum deletes nothing.
        """
        ground = self.ground
        for deletes in (True, False):
            report = ground.table(later_ms=_DEAD_MS).vacuum(**EVERYTHING)
            assert report.failed_files_count == 0
            assert deletes or report.deleted_files_count == 0, "a second vacuum deleted files"
            assert ground.on_disk() == ground.needed(), f"files remain, or are missing:\n{report}"
        assert ground.rows(ground.log()[-1].version) == ground.expected(held), "rows differ after a vacuum"
        ground.forget()
        assert ground.spark_rows() == ground.expected(held), "Spark reads other rows after a vacuum"

    def _expected(self) -> list[frozenset[int]]:
        log, base = self.ground.log(), self.ground.base.log
        assert tuple(log[: len(base)]) == base, "the log has lost versions"
        ids = list(self.ground.held)
        won = self.ground.won[self.program.winner].log[len(base) :] if self.raced else ()
        theirs = {seen.run_id for seen in won}
        for seen in log[len(base) :]:
            if self.raced and seen.run_id in theirs:
                ids.append(ids[-1] - (USERS if self.program.winner == "delete" else frozenset()))
            else:
                assert seen.run_id, "a commit without a run id"
                ids.append(ids[-1] - self.program.takes)
        if self.raced:
            assert theirs & {seen.run_id for seen in log[len(base) :]}, "the winner's commit is lost"
        return ids

    def commits(self) -> int:
        """Our commits that landed."""
        base = len(self.ground.base.log)
        return len(self.ground.log()) - base - self.raced

    def leftovers(self) -> set[Any]:
        """Files that no version references."""
        return self.ground.on_disk() - self.ground.named()

    def finish(self, landed: int, *, spark_everywhere: bool = False) -> frozenset[int]:
        """The same call without a fault finishes the work, and does nothing twice; return the ids of its rows."""
        ran = self.run(self.ground.table())
        assert ran.error is None, f"the second run failed: {ran.error!r}"
        if self.program.takes:
            assert self.commits() == 1, "deleted twice, or never"
        else:
            assert not self.ground.live() & self.before, "inputs remain that were not rewritten"
            assert self.commits() <= landed + 1
        held = self.check(spark_everywhere=spark_everywhere)[-1]
        users = USERS if self.raced and self.program.winner == "delete" else frozenset()
        assert held == self.ground.held[-1] - self.program.takes - users, "not the expected result"
        return held
