"""After Trino's DML, optimize, vacuum and expire_snapshots, good files are not due, and the trash can be restored."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from tests.formats.lakes import Lake
from tests.neighbours import installation, trino_tables
from tests.neighbours.outcomes import Outcomes
from tests.neighbours.trino_server import Trino, TrinoFailed
from tests.neighbours.trino_tables import FORMAT, KINDS, Shared, Statements

pytestmark = [pytest.mark.neighbours, pytest.mark.delta, pytest.mark.iceberg, pytest.mark.slow]

TRINO = f"Trino {installation.TRINO}"
FILES, ROWS = 8, 5_000
SMALL_FILES = {"target-file-size-bytes": 60_000, "min-input-files": 2}
ALL = {"retention_hours": 0, "allow_unsafe_retention": True, "options": {"vacuum.max-share": 1}}


def laid_out(table: Shared, layout: str, *, keep_files: bool = False) -> lk.Table:
    """Overlapping files that lakekeeper sorted into several files; nothing is due."""
    table.append(FILES, ROWS)
    ours = lk.table(table.spark, table.name)
    ours.cluster_by(*(("k", "id") if layout == "hilbert" else ("k",)), layout=layout)
    assert ours.recluster(policy="full", options=SMALL_FILES).changed
    if not keep_files:
        ours.vacuum(**ALL)  # type: ignore[arg-type]  # keyword arguments of one call
    assert due(ours) == set()
    assert len(blocks(ours)) >= 4
    return ours


def blocks(table: lk.Table) -> dict[str, int]:
    """Path → level of the live files."""
    return {row.path: row.level for row in table.blocks().select("path", "level").collect()}


def due(table: lk.Table) -> set[str]:
    """Files that the next recluster or compaction would rewrite."""
    return {path for task in table.plan(options=SMALL_FILES).tasks for path in task.inputs}


@pytest.mark.parametrize("layout", ["linear", "hilbert"])
@pytest.mark.parametrize("kind", KINDS)
def test_dml_makes_no_good_file_due_for_a_rewrite(
    spark: SparkSession, trino: Trino, warehouse: Path, beside: Outcomes, kind: str, layout: str
) -> None:
    """At a query rate at which any overlap is worth a merge: new rows may overlap old ones."""
    table = trino_tables.made(spark, trino, warehouse, kind)
    verbs = "INSERT" if table.vectors_hidden else "DELETE, INSERT, UPDATE, MERGE"
    what = f"{verbs}; then what recluster would rewrite ({layout} key)"
    with beside.tried(TRINO, FORMAT[kind], what) as row:
        ours = laid_out(table, layout)
        good = blocks(ours)
        statements = Statements(table)
        if not table.vectors_hidden:
            for _ in range(4):
                statements.delete()
            assert due(ours) == set()
        for _ in range(8):
            statements.one()
        assert table.wrong() == ""
        left = {path: level for path, level in blocks(ours).items() if path in good}
        assert left == {path: good[path] for path in left}, "a level was lost"
        gone = len(good) - len(left)
        rewritten = f"; {gone} of {len(good)} files rewritten by Trino" if gone else ""
        due_then = "no good file is due" if table.vectors_hidden else "nothing is due after the deletes"
        row.outcome = f"rows exact; levels kept, {due_then}{rewritten}"


@pytest.mark.parametrize("kind", KINDS)
def test_trinos_maintenance_makes_no_good_file_due_for_a_rewrite(
    spark: SparkSession, trino: Trino, warehouse: Path, beside: Outcomes, kind: str
) -> None:
    table = trino_tables.made(spark, trino, warehouse, kind)
    calls = ["EXECUTE optimize(file_size_threshold => '1kB')"]
    if not kind.startswith("delta"):
        calls += ["EXECUTE expire_snapshots(retention_threshold => '0s')"]
        calls += ["EXECUTE remove_orphan_files(retention_threshold => '0s')"]
    names = (
        "optimize and vacuum"
        if kind.startswith("delta")
        else "optimize, expire_snapshots, remove_orphan_files"
    )
    with beside.tried(TRINO, FORMAT[kind], f"{names}; then what recluster would rewrite") as row:
        ours = laid_out(table, "linear")
        good = blocks(ours)
        refused = [text for call in calls for text in _refused(trino, f"ALTER TABLE {table.in_trino} {call}")]
        if kind.startswith("delta"):
            refused += _refused(trino, _vacuum(table, "0s"))
        assert blocks(ours) == good
        assert due(ours) == set()
        assert table.wrong() == ""
        row.outcome = "rows exact by both; no file is due" + "".join(f"; Trino: {text}" for text in refused)


@pytest.mark.parametrize("kind", KINDS)
def test_files_written_by_trino_are_not_rewritten_again(
    spark: SparkSession, trino: Trino, warehouse: Path, beside: Outcomes, kind: str
) -> None:
    """Trino's optimize merges all files into one: it overlaps no other file, so it is good as it is."""
    table = trino_tables.made(spark, trino, warehouse, kind)
    with beside.tried(TRINO, FORMAT[kind], "optimize of all files; then what recluster would rewrite") as row:
        ours = laid_out(table, "linear")
        if refused := _refused(trino, f"ALTER TABLE {table.in_trino} EXECUTE optimize"):
            row.outcome = f"Trino: {refused[0]}"
            return
        written = blocks(ours)
        assert due(ours) == set(), written
        assert table.wrong() == ""
        row.outcome = f"rows exact by both; {len(written)} file(s) of Trino's, none is due"


@pytest.mark.parametrize("kind", ["delta-plain", "iceberg-v2"])
def test_the_trash_can_be_restored_after_trinos_vacuum(
    spark: SparkSession, trino: Trino, warehouse: Path, beside: Outcomes, kind: str
) -> None:
    """With Trino's minimum retention of 7 days, and files that are a month old.

    Trino does not vacuum Delta tables with deletion vectors, or Iceberg tables of format 3.
    """
    table = trino_tables.made(spark, trino, warehouse, kind)
    vacuum = "vacuum" if kind.startswith("delta") else "remove_orphan_files"
    with beside.tried(TRINO, FORMAT[kind], f"{vacuum} with 7 days, then a restore from the trash") as row:
        ours = laid_out(table, "linear", keep_files=True)
        lake = Lake(spark, kind)
        version, rows = _before_recluster(lake, table.name), lake.fingerprint(table.name)
        _age(warehouse / "shared" / table.name.rpartition(".")[2])
        report = ours.vacuum(trash=True, **ALL)  # type: ignore[arg-type]  # keyword arguments of one call
        assert report.deleted_files_count >= FILES
        if kind.startswith("delta"):
            trino.run(_vacuum(table, "7d"))
        else:
            trino.run(
                f"ALTER TABLE {table.in_trino} EXECUTE remove_orphan_files(retention_threshold => '7d')"
            )
        ours.restore(report.trash)
        assert table.wrong() == ""
        assert lake.fingerprint(table.name, version) == rows
        row.outcome = f"restored ({report.deleted_files_count} files); rows exact by both"


def _before_recluster(lake: Lake, name: str) -> int:
    """The newest version whose files the vacuum deletes: the last one before lakekeeper's commit."""
    return lake.versions(name)[-2]


def _vacuum(table: Shared, retention: str) -> str:
    return f"CALL dl.system.vacuum('db', '{table.in_trino.rpartition('.')[2]}', '{retention}')"


def _age(home: Path) -> None:
    """Make every data file a month old."""
    then = time.time() - 30 * 86_400
    for path in home.rglob("*"):
        if path.is_file() and not {"_delta_log", "metadata"} & set(path.relative_to(home).parts):
            os.utime(path, (then, then))


def _refused(trino: Trino, statement: str) -> list[str]:
    """Trino's error where it refuses its own maintenance on this kind of table."""
    try:
        trino.run(statement)
    except TrinoFailed as error:
        return [
            str(error)
            .partition(" in ALTER")[0]
            .partition(" in CALL")[0]
            .partition(". Table")[0]
            .replace("|", "/")[:140]
        ]
    return []
