"""What a commit of rewrites takes out of a table and puts in, as Java objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.planning.rebase import Rewrite
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.planning import Planner
from lakekeeper_iceberg.position_deletes import leaves_with_file
from lakekeeper_iceberg.staging import Made


@dataclass(frozen=True, slots=True)
class Exchange:
    """Java files to take out (``inputs`` with their file-scoped ``deletes``) and to put in (``outputs``).

    ``masks`` are delete files on the outputs. Outputs hold rows as of ``read_version``, without those that were
    deleted until ``valid_from``. ``replayed`` is the number of rows that the masks or their like delete.
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
    """The Java files of a commit: inputs as of the snapshot ``version``, or of the one a replay brought them to."""
    made: list[Made] = [rewrite.native for rewrite in rewrites]
    paths = [path for r in rewrites if r.native.version is None for path in r.task.inputs]
    tasks = planner.tasks(table, version, paths)
    deletes = {
        str(d.location()): d
        for task in tasks
        for d in task.deletes()
        # Deletion vectors leave with their data files by themselves.
        if leaves_with_file(jvm, d) and not jvm.api.util.ContentFileUtil.isDV(d)
    }
    replayed = {m.version for m in made if m.version is not None}
    metadata = table.operations().current()
    return Exchange(
        inputs=[*(t.file() for t in tasks), *(f for m in made for f in m.inputs)],
        deletes=[*deletes.values(), *(d for m in made for d in m.deletes)],
        outputs=[f for m in made for f in m.files],
        read_version=version,
        run_id=run_id,
        masks=[d for m in made for d in m.masks],
        # What was kept or replayed for an older snapshot was looked at again in the newest of them.
        valid_from=max(replayed, key=lambda at: int(metadata.snapshot(at).sequenceNumber()))
        if replayed
        else None,
        replayed=sum(r.replayed for r in rewrites),
    )
