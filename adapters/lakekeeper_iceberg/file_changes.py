"""The files that a commit of rewrites removes from a table and adds to it, as Java objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper_iceberg.changes import sequence_of
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.planning import Planner
from lakekeeper_iceberg.position_deletes import leaving_with_file
from lakekeeper_iceberg.scanned_files import deletes_of
from lakekeeper_iceberg.staging import Made


@dataclass(frozen=True, slots=True)
class Exchange:
    """Java files to remove (``inputs`` and their file-scoped ``deletes``) and to add (``outputs``).

    ``masks`` are delete files to add that apply to the outputs. The outputs hold the rows as of ``read_version``,
    without those deleted up to ``valid_from``. ``replayed`` is the number of rows deleted by replays.
    """

    inputs: Sequence[Any]
    deletes: Sequence[Any]
    outputs: Sequence[Any]
    read_version: int
    run_id: str
    masks: Sequence[Any] = ()
    valid_from: int | None = None
    replayed: int = 0


def exchange_of(
    jvm: Iceberg, planner: Planner, table: Any, rewrites: Sequence[Rewrite], version: int, run_id: str
) -> Exchange:
    """The Java files of a commit; inputs as of the snapshot ``version``, or of the snapshot of their last replay."""
    made: list[Made] = [rewrite.native for rewrite in rewrites]
    paths = [path for r in rewrites if r.native.version is None for path in r.task.inputs]
    tasks = planner.tasks(table, version, paths) if paths else []
    deletes = leaving_with_file(jvm, deletes_of(jvm, tasks), vectors=False)
    replayed = {m.version for m in made if m.version is not None}
    metadata = table.operations().current()
    return Exchange(
        inputs=[*(t.file() for t in tasks), *(f for m in made for f in m.inputs)],
        deletes=[*deletes, *(d for m in made for d in m.deletes)],
        outputs=[f for m in made for f in (*m.files, *m.moved)],
        read_version=version,
        run_id=run_id,
        masks=[d for m in made for d in m.masks],
        # Rewrites replayed for an older snapshot were checked again against the newest of these snapshots.
        valid_from=max(replayed, key=lambda at: sequence_of(metadata, at)) if replayed else None,
        replayed=sum(r.replayed for r in rewrites),
    )
