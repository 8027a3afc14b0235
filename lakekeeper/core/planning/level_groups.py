"""Groups of neighbours of one level that are rewritten for a reason other than overlap. They keep their level."""

from __future__ import annotations

from lakekeeper.core.config.options import Options
from lakekeeper.core.layout.adjacency import group_of, line_of, stretches
from lakekeeper.core.layout.ranks import rank_blocks
from lakekeeper.core.model.blocks import Bools, Index, Snapshot


def level_groups(
    snapshot: Snapshot, candidates: Index, due: Bools, options: Options
) -> list[tuple[Index, int]]:
    """The candidates that are ``due`` as groups, positions among the candidates, each with its level.

    Groups are filled up to what one task sorts, but never less than a file of the target size, so that ten half-empty
    files do not become ten half-size ones.
    """
    blocks = snapshot.blocks.take(candidates)
    level = blocks.level_under(snapshot.key)
    group = group_of(blocks, level)
    keyed = snapshot.key is not None
    line = line_of(blocks, group, rank_blocks(blocks, group, null_region=False) if keyed else None)
    task = max(options.groups.single_task_bytes, options.files.target_bytes)
    found = stretches(
        blocks,
        line,
        due,
        max_bytes=min(task, options.groups.max_bytes),
        max_files=options.groups.max_files,
    )
    return [(at, int(level[at[0]])) for at in found]
