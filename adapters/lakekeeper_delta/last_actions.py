"""The last action of a kind for each identity that it names: a transaction's application, a domain.

Read in the driver by columns where possible: Delta would build the state of the whole table by a Spark job.

checkpoint (Parquet) ─► the column of the kind ──┐
commits (JSON)       ─► lines with its name ─────┴─► the last action for each identity
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from lakekeeper_delta.log_files import LogFiles, read_in_driver
from lakekeeper_delta.native import Log, State

T = TypeVar("T")
Action = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """The name of an action, and its fields; the first one is the identity."""

    name: str
    fields: tuple[str, ...]


def last_actions(log: Log, state: State, kind: Kind, made: Callable[[Action], T]) -> list[T] | None:
    """What ``made`` returns for the last action of each identity, in no particular order.

    None where Delta has to read the log instead, also if ``made`` fails.
    """

    def read(files: LogFiles) -> list[T]:
        segment = files.segment(state)
        old = [each for part in segment.checkpoint for each in _of_checkpoint(files.checkpoint(part), kind)]
        return [made(action) for action in replayed(old, map(files.commit, segment.commits), kind)]

    return read_in_driver(log, read)


def replayed(checkpoint: Iterable[Action], commits: Iterable[bytes], kind: Kind) -> list[Action]:
    """The last action of each identity, of a checkpoint and the commits after it, oldest first.

    Raises ValueError or KeyError for a line that Delta may read in another way.
    """
    identity, quoted = kind.fields[0], f'"{kind.name}"'.encode()
    last = {each[identity]: each for each in checkpoint}
    for text in commits:
        for line in text.splitlines() if quoted in text else ():
            action = json.loads(line).get(kind.name) if quoted in line else None
            if action is not None:
                last[action[identity]] = action
    return list(last.values())


def _of_checkpoint(file: Any, kind: Kind) -> Iterator[Action]:
    """The actions in a file of a checkpoint."""
    with file:
        schema = file.schema_arrow
        if kind.name not in schema.names:
            return
        there = schema.field(kind.name).type
        read = [f"{kind.name}.{name}" for name in kind.fields if there.get_field_index(name) >= 0]
        for batch in file.iter_batches(columns=read):
            rows: pa.Array = batch.column(kind.name)
            yield from rows.filter(rows.field(kind.fields[0]).is_valid()).to_pylist()
