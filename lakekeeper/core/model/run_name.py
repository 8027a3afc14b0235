"""Runs by name: the id of one commit, or of the operation that made several; and the ids of restores."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RUN = re.compile(r"([0-9a-z]{1,32})(?:-([0-9a-z]{1,9}))?")
_RESTORE = re.compile(r"[0-9a-f]{16}-restore")


def restore_id(entry: str) -> str:
    """The run id of the commit that restores an entry of the trash: the same each time, so that it is recognized."""
    return f"{entry}-restore"


def is_restore_id(text: str) -> bool:
    """Whether the text is the run id of a restore: that of an entry of a dropped partition, as its drop names it."""
    return _RESTORE.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class RunName:
    """A run as a caller names it: the id of one commit, or of an operation, which means all its commits.

    ``operation`` is the part before the hyphen, ``commit`` the part after it; empty if the whole operation is meant.
    """

    operation: str
    commit: str = ""

    @classmethod
    def parse(cls, text: str) -> RunName:
        """Raises ValueError for a text that cannot be the id of a run."""
        found = _RUN.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not the id of a run")
        return cls(found[1], found[2] or "")

    def means(self, run_id: str) -> bool:
        """Whether ``run_id``, as a log records it, is a commit of this run."""
        operation, _, commit = run_id.partition("-")
        return operation == self.operation and (commit == self.commit if self.commit else commit.isdigit())

    @property
    def undo_id(self) -> str:
        """The run id of the commit that undoes it: the same each time, so that the log shows whether it happened."""
        return f"{self.operation}-undo{self.commit}"

    def __str__(self) -> str:
        return f"{self.operation}-{self.commit}" if self.commit else self.operation
