"""``where``: files that may contain a match, and files in which every row matches, by Delta's data skipping."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakekeeper.errors import AdapterError, LakekeeperError, OptionError, reason
from lakekeeper.spark.jvm import causes
from lakekeeper.spark.predicates import referenced, unmatched
from lakekeeper_delta.known_state import Parts, parts_of
from lakekeeper_delta.native import Log, State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NOTHING = pa.array([], pa.string())
_PREPARED = "PreparedDeltaFileIndex"
# Types whose statistics are exact: no truncated text, no rounded time, no NaN.
_EXACT = ('"byte"', '"short"', '"integer"', '"long"', '"date"')
_OF_A_VALUE = re.compile(r"org\.apache\.spark\.Spark(?!Exception$|File)\w+Exception")
"""Errors of an expression, such as a cast: of files and jobs are SparkFile…Exception and SparkException."""
_DECIMAL = re.compile(r'"decimal\((\d+),')
_DIGITS = 15
"""Digits of a decimal that a double keeps: some writers, delta-rs among them, record the bounds of one as a double."""


def matching(log: Log, state: State, where: str) -> pa.Array | None:
    """Paths of all files of ``state`` that may contain a row for which ``where`` is true; None for all.

    Of a large log, files that came after its base are chosen by their partition alone. Raises OptionError for text that
    does not parse, that names an unknown column, or that has no value for a partition; AdapterError if the log could
    not be read.
    """
    try:
        return _matching(log, state, where)
    except LakekeeperError:
        raise
    except Exception as error:
        try:
            _planned(log, _without_files(log, state).where(where))
        except Exception as invalid:
            raise _invalid(where, invalid) from invalid
        if any(_OF_A_VALUE.fullmatch(kind) for kind, _ in causes(error)):
            raise _invalid(where, error) from error
        raise AdapterError(
            f"{log.name}: the files that may match '{where}' could not be found ({reason(error)})"
        ) from error


def _matching(log: Log, state: State, where: str) -> pa.Array | None:
    parts = parts_of(log, state)
    if not parts.kept:
        scan = _planned(log, table_frame(log, state).where(where))
        return None if scan is None else _paths(log, scan.files()) if scan else _NOTHING
    scan = _planned(log, _without_files(log, state).where(where))
    return None if scan is None else _candidates(log, parts, scan, _meaning(log, where))


def _invalid(where: str, error: Exception) -> OptionError:
    chain = causes(error)
    text = (chain[0][1] if chain else str(error)).strip().splitlines()
    return OptionError("where", where, f"a predicate over the table's columns; {text[0] if text else error}")


def covered(log: Log, state: State, where: str, paths: Collection[str]) -> frozenset[str]:
    """Those of ``paths`` in which every row matches: Delta skips them in a search for rows that do not.

    Uses partition values, and statistics only where they are exact.
    """
    parts = parts_of(log, state)
    frame = _without_files(log, state) if parts.kept else table_frame(log, state)
    partition = {name.lower() for name in state.partition_columns}
    try:
        columns = referenced(log.jvm, frame, where)
        if any(name.lower() not in partition and not _is_exact(kind) for name, kind in columns.items()):
            return frozenset()
        others = _planned(log, unmatched(log.jvm, frame, where))
    except ValueError:  # Spark plans more than a filter for the predicate
        return frozenset()
    if others is None:
        return frozenset()
    if not parts.kept:
        return frozenset(paths) - set(_paths(log, others.files()).to_pylist() if others else ())
    some = _planned(log, frame.where(where))
    if some is None:
        return frozenset()
    # A file in which no row can match is not covered: only the candidates are searched for rows that do not match.
    meaning = _meaning(log, where)
    known = parts.found.get(meaning)
    candidates = _candidates(log, parts, some, meaning) if known is None else known
    left = _selected(log, parts, [some, others]) if some and others else _NOTHING
    return frozenset(paths) & set(candidates.to_pylist()) - set(left.to_pylist())


def _is_exact(kind: str) -> bool:
    """Whether every writer records the bounds of this type, given as JSON, as they are."""
    decimal = _DECIMAL.match(kind)
    return kind in _EXACT if decimal is None else int(decimal[1]) <= _DIGITS


def _meaning(log: Log, where: str) -> tuple[str, str]:
    """A predicate and all confs of the session, on which its meaning may depend."""
    return where, str(log.jvm.session.sessionState().conf().getAllConfs().toString())


def _candidates(log: Log, parts: Parts, scan: Any, meaning: tuple[str, str]) -> pa.Array:
    """The files that the filters of a scan may match, which are kept until the next look for any."""
    paths = _selected(log, parts, [scan]) if scan else _NOTHING
    parts.found.clear()
    parts.found[meaning] = paths
    return paths


def _selected(log: Log, parts: Parts, scans: Sequence[Any]) -> pa.Array:
    """The files that pass the filters of all scans; those of the tail by their partition."""

    def together(name: str) -> Any:
        sets = [getattr(scan, name)().toSeq() for scan in scans]
        return log.jvm.seq([each for found in sets for each in log.jvm.python_list(found)])

    paths = _paths(log, parts.base.filesForScan(together("allFilters"), False).files())
    if parts.tail is None:
        return paths
    late = parts.tail.filterOnPartitions(together("partitionFilters"), False)._1()
    return pa.concat_arrays([parts.untouched(paths), _paths(log, late)])


def table_frame(log: Log, state: State) -> DataFrame:
    """All rows of a version as a DataFrame with Delta's data skipping."""
    pinned = True  # as for time travel; else Delta would check for a newer version
    with log.jvm.active():
        relation = log.log.createRelation(
            log.jvm.seq([]), log.jvm.some(state.snapshot), log.catalog_table, pinned
        )
    frame: DataFrame = log.jvm.dataframe(log.jvm.session.baseRelationToDataFrame(relation))
    return frame


def _without_files(log: Log, state: State) -> DataFrame:
    """The same frame over no files: its plan has the filters with which Delta looks for files, and starts no job."""
    metadata, protocol = state.snapshot.metadata(), log.jvm.some(state.snapshot.protocol())
    empty = log.delta.DummySnapshot(log.log.logPath(), log.log, metadata, protocol)
    frame: DataFrame = log.located(table_frame(log, state), log.shim.index_of(log, empty))
    return frame


def _planned(log: Log, frame: DataFrame) -> Any:
    """The DeltaScan in the optimized plan of a frame; False where the plan reads no table: nothing matches.

    None where data skipping is turned off in this session.
    """
    plan = frame._jdf.queryExecution().optimizedPlan()
    for leaf in log.jvm.python_list(plan.collectLeaves()):
        if not str(leaf.getClass().getSimpleName()).startswith("LogicalRelation"):
            continue
        index = leaf.relation().location()
        prepared = str(index.getClass().getSimpleName()) == _PREPARED
        return index.preparedScan() if prepared else None
    return False


def _paths(log: Log, files: Any) -> pa.Array:
    encoder = log.singleton("implicits.package").addFileEncoder()
    made = log.jvm.session.createDataset(files, encoder).toDF()
    return log.jvm.to_arrow(log.jvm.dataframe(made).select("path"))["path"].combine_chunks()
