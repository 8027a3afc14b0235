"""Advice for one table: finds the columns that can be keys, and reads the statistics of them from the log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakekeeper.core.cost.key_advisor import CANDIDATES, Advice, advise, candidate_columns
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.workload.workload import Workload
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.planning import look
from lakekeeper.engine.merge.request import Request
from lakekeeper.engine.table_session import TableSession, session_of
from lakekeeper.errors import OptionError
from lakekeeper.spi import Adapter


def advise_table(
    table: Adapter[Any] | TableSession, request: Request, workload: Workload, clock: Clock
) -> Advice:
    """What another key would bring; ``request.columns`` limit the candidates, else the workload names them.

    Reads no data file. Raises OptionError for an empty workload, one that filters no column, and for columns of the
    request that cannot be a key.
    """
    now = clock.now_ms()
    session = session_of(table)
    adapter = session.adapter
    present = look(session, replace(request, columns=None, needs_key=False))
    named = request.columns
    candidates = list(named or candidate_columns(workload, now))
    if not len(workload):
        source = workload.source or "the workload"
        raise OptionError(
            "workload", source, f"scans of {adapter.table}, but the workload contains none of it"
        )
    if not candidates:
        raise OptionError(
            "workload", workload.source, f"scans of {adapter.table} that filter on a column, but none does"
        )
    missing: dict[str, str] = {}
    beside = _beside(present, candidates, most=CANDIDATES - (len(named) if named else 1))
    first = candidates[: CANDIDATES - len(beside)]
    snapshot = _under(adapter, [*first, *beside], request.where, missing, strict=named is not None)
    missing |= dict.fromkeys(candidates[len(first) :], f"filtered less often than {', '.join(first)}")
    if snapshot is None:
        problems = "; ".join(f"{column}: {why}" for column, why in missing.items())
        raise OptionError(
            "workload", ", ".join(candidates), f"filters on columns that can be a key ({problems})"
        )
    return advise(snapshot, present.key, workload, request.options, now, missing)


def _beside(present: Snapshot, candidates: list[str], most: int) -> list[str]:
    """The columns of the present key that are not candidates, so that it is weighed too; none if there is no room."""
    named = {column.lower() for column in candidates}
    found = [c.name for c in present.key.columns if c.name.lower() not in named] if present.key else []
    return found if len(found) <= most else []


def _under(
    adapter: Adapter[Any], columns: list[str], where: str | None, missing: dict[str, str], *, strict: bool
) -> Snapshot | None:
    """A snapshot with the statistics of the columns; those that cannot be a key are added to ``missing``."""
    try:
        return adapter.snapshot(columns, where)
    except OptionError:
        if strict:
            raise
    good = [column for column in columns if _possible(adapter, column, missing)]
    return adapter.snapshot(good, where) if good else None


def _possible(adapter: Adapter[Any], column: str, missing: dict[str, str]) -> bool:
    try:
        adapter.snapshot([column])
    except OptionError as error:
        missing[column] = f"it cannot be a key: expected {error.expected}"
        return False
    return True
