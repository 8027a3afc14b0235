"""Rewrites: what a merge wrote and no version names yet, and what replays made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason


@dataclass(frozen=True, slots=True)
class Output:
    """One file that a rewrite wrote and no version names yet: path as the log would name it, rows, bytes.

    ``rows`` are live; the file holds ``masked`` more, which a replay has marked as deleted.
    """

    path: str
    rows: int
    bytes: int
    masked: int = 0


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The outputs of one task. ``native`` is the adapter's own handle on them.

    ``rows_in`` is the number of live rows that were read, if the adapter knows it. ``run_id`` is the run that owns the
    folder of the files.

    After a replay ``applied`` are the deletes in force at each input that the outputs reflect (None: the input
    is gone), ``replayed`` the rows that all replays masked, ``extra`` the files in use that replays wrote, ``stale``
    those that a later replay replaced, and ``unmasked`` the rewrite as it was written. ``successors`` are the files in
    place of removed inputs that the commit also removes (None: none of them, now or later, since a replay has found
    that they hold mostly other rows), and ``moved`` the files with the rows that only these have. ``by_rows`` is the
    reason why Spark sorted the rows, if the adapter has a columnar half.
    """

    task: MergeTask
    outputs: tuple[Output, ...]
    rows_in: int | None = None
    native: Any = field(default=None, compare=False, repr=False)
    applied: tuple[str | None, ...] = ()
    replayed: int = 0
    extra: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    unmasked: Rewrite | None = field(default=None, compare=False, repr=False)
    successors: tuple[str, ...] | None = ()
    moved: tuple[Output, ...] = ()
    run_id: str = ""
    by_rows: Reason | None = None

    @property
    def inputs_now(self) -> Mapping[str, str | None]:
        """Path → deletes in force, as this rewrite may be committed upon; None: the input must be gone.

        The successors, which have no deletes, are among them.
        """
        inputs = dict(zip(self.task.inputs, self.applied or self.task.delete_ids, strict=True))
        return inputs | dict.fromkeys(self.successors or (), "")

    @property
    def added(self) -> tuple[str, ...]:
        """The data files that the commit adds."""
        return tuple(output.path for output in (*self.outputs, *self.moved))

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of this rewrite: its outputs, and those that replays wrote."""
        return (*(output.path for output in self.outputs), *self.extra, *self.stale)

    @property
    def written(self) -> Rewrite:
        """The rewrite as it was written, before any replay."""
        return self.unmasked or self

    def masked(
        self,
        outputs: Iterable[Output],
        native: Any,
        *,
        applied: tuple[str | None, ...],
        rows: int,
        extra: Iterable[str],
        before: Rewrite,
        successors: tuple[str, ...] | None = (),
        moved: Iterable[Output] = (),
    ) -> Rewrite:
        """This rewrite with ``rows`` more rows masked, by a replay of ``before``; ``extra`` are all files now in use.

        This rewrite is ``before`` itself, or what was written, where a replay starts over.
        """
        came = tuple(moved)
        kept = (*extra, *(output.path for output in came))
        files = dict.fromkeys((*before.extra, *before.stale))
        return replace(
            self,
            outputs=tuple(outputs),
            native=native,
            applied=applied,
            replayed=self.replayed + rows,
            extra=kept,
            stale=tuple(path for path in files if path not in kept),
            unmasked=self.written,
            successors=successors,
            moved=came,
        )

    @property
    def rows_out(self) -> int:
        return sum(output.rows for output in self.outputs)

    @property
    def bytes_out(self) -> int:
        return sum(output.bytes for output in self.outputs)
