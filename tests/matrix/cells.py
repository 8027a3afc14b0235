"""The cells of the matrix, how a cell is run, and which cells cover every pair of their axes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import GroupResult, MergeReport
from tests.formats.gate import Gate
from tests.matrix.actions import ACTIONS, Action, maintain
from tests.matrix.sides import KINDS, listed
from tests.matrix.world import World
from tests.opening import table_with

VERBS = ("recluster", "compact", "merge_deletes")
PHASES = {
    "before read": "planned",
    "after read": "written",
    "before commit": "before_commit",
    "between attempts": "",
    "across": "",
}
"""When the rival commits, and the observer's phase if it is one.

before read        planned, no data file read yet
after read         outputs written
before commit      before the engine looks for rivals
between attempts   after it looked, so that the commit attempt is lost
across             the rival read before us and commits after us, through ``lk.sql``
"""


@dataclass(frozen=True, order=True)
class Cell:
    """One race."""

    action: str
    when: str
    verb: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}-{self.verb}-{self.action}-{self.when}".replace(" ", "_")

    @property
    def rival(self) -> Action:
        return ACTIONS[self.action]


def every_cell() -> list[Cell]:
    """All valid cells."""
    made = (Cell(*axes) for axes in itertools.product(ACTIONS, PHASES, VERBS, KINDS))
    return [c for c in made if c.kind in c.rival.kinds and (c.rival.stoppable or c.when != "across")]


def pairwise(cells: Sequence[Cell]) -> list[Cell]:
    """A few cells that together contain every pair of values, with ``PHASES`` in turn; always the same ones."""
    missing = {pair for cell in cells for pair in pairs(cell)}
    chosen: list[Cell] = []
    while missing:
        phases = Counter(cell.when for cell in chosen)
        best = max(cells, key=lambda cell: (len(pairs(cell) & missing), -phases[cell.when]))
        chosen.append(best)
        missing -= pairs(best)
    return chosen


def pairs(cell: Cell) -> set[tuple[str, str, str, str]]:
    """Each pair of the cell's four axes, by name and value.

    Before the first attempt the engine meets the same winner, whenever it committed: these times count as one for
    each action.
    """
    found = set()
    for one, two in itertools.combinations(("action", "when", "verb", "kind"), 2):
        second = getattr(cell, two)
        if (one, two) == ("action", "when") and PHASES[cell.when]:
            second = "early"
        found.add((one, getattr(cell, one), two, second))
    return found


def play(spark: SparkSession, cell: Cell, folder: Path) -> tuple[str, MergeReport]:
    """Run the race on a fresh table; return the outcome in a word, and the report."""
    world = World.make(
        spark,
        cell.kind,
        folder,
        partitioned=cell.rival.partitioned,
        deleted=cell.rival.deleted or cell.verb == "merge_deletes",
    )
    if world.iceberg and cell.rival.properties:
        spark.sql(f"ALTER TABLE {world.side.sql} SET {listed(cell.rival.properties)}")
    if cell.when == "across":
        return _across(world, cell, folder)
    rival = once(lambda: cell.rival.happen(world, cell.verb))
    table = world.table
    if cell.when == "between attempts":
        table = before_attempt(world, rival)
        report = maintain(world, cell.verb, table=table)
    else:
        phase = PHASES[cell.when]
        report = maintain(
            world, cell.verb, table=table, observer=lambda now, _: rival() if now == phase else None
        )
    assert not rival.left, "the rival never acted"
    world.check()
    return outcome(report), report


def _across(world: World, cell: Cell, folder: Path) -> tuple[str, MergeReport]:
    """The rival's statement is stopped between its read and its commit while we commit."""
    gate = Gate(world.spark, folder)
    now: list[Mapping[str, Any]] = []
    reports: list[MergeReport] = []
    with cell.rival.set(world.spark):
        text = cell.rival.text(world, gate.name)
        done: Future[Any] = gate.around(
            lambda: lk.sql(world.spark, text, observer=lambda _, info: now.append(info)),
            lambda: reports.append(maintain(world, cell.verb)),
        )
        done.result()
    (report,) = reports
    assert {g.status for g in report.groups} == {"committed"}, report
    world.theirs |= world.side.unreferenced()  # files of the failed attempt
    world.note(cell.rival.change)
    world.check()
    return "retried" if now else "landed", report


OBSTACLES = frozenset(
    {
        Code.TABLE_RECREATED,
        Code.LOG_REPLACED,
        Code.SCHEMA_CHANGED,
        Code.KEY_COLUMN_DROPPED,
        Code.FEATURE_ADDED,
        Code.NOT_AN_ANCESTOR,
        Code.LOG_INCOMPLETE,
    }
)
"""After these, no output written for the snapshot may be committed."""


def outcome(report: MergeReport) -> str:
    """The outcomes of our groups, each different one once."""
    return "+".join(sorted({_fate(group) for group in report.groups})) or "nothing"


def _fate(group: GroupResult) -> str:
    if group.status == "committed":
        return "replayed" if group.detail and group.detail.code == "replayed" else "kept"
    if group.status == "dropped":
        obstacle = group.detail is None or group.detail.code in OBSTACLES
        return "obstacle" if obstacle else "dropped"
    return group.status


class Once:
    """Calls ``act`` the first time only."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self.left = True

    def __call__(self) -> None:
        if self.left:
            self.left = False
            self._act()


def once(act: Callable[[], object]) -> Once:
    return Once(act)


def before_attempt(world: World, act: Callable[[], object]) -> lk.Table:
    """The table, with ``act`` before each of the adapter's attempts to commit."""
    return table_with(world.spark, world.side.sql, lambda adapter: _Disturbed(adapter, act))


class _Disturbed:
    """An adapter that runs ``act`` before each commit."""

    def __init__(self, adapter: Any, act: Callable[[], object]) -> None:
        self._adapter = adapter
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

    def commit(self, *given: Any) -> Any:
        self._act()
        return self._adapter.commit(*given)


def shown(outcomes: Mapping[Cell, str]) -> Iterator[str]:
    """Outcomes, counted by action and kind, one line for each action."""
    yield f"{'':26} " + " ".join(f"{kind:28}" for kind in KINDS)
    for action in ACTIONS:
        fields = []
        for kind in KINDS:
            found = [w for c, w in outcomes.items() if (c.action, c.kind) == (action, kind)]
            counted = {w: found.count(w) for w in sorted(set(found))}
            fields.append(f"{', '.join(f'{n} {w}' for w, n in counted.items()) or '–':28}")
        yield f"{action:26} {' '.join(fields)}".rstrip()
    words = list(outcomes.values())
    yield "all: " + ", ".join(f"{words.count(w)} {w}" for w in sorted(set(words)))
