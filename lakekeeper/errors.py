"""The exception tree. Every message says what, on which table, what was expected and what to do.

LakekeeperError
├── TableError                 the table itself stands in the way
│   ├── NotFound               no such table, or a view
│   └── Unsupported            a feature that lakekeeper does not know (``.feature``)
├── OptionError                a bad option, column, policy or predicate (``.key .value .expected``)
├── AdapterError               an adapter is missing, doubled or broke its contract
├── RetentionError             a vacuum that a rule forbids
└── CommitError
    ├── Conflict               a winner changed what we read: rebase, then commit again
    ├── Rejected               known not to have happened: our files may be cleaned up
    └── Unknown                may have happened: NEVER clean up
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from lakekeeper.redaction import HIDDEN, names_a_secret, redacted


class LakekeeperError(Exception):
    """Base of all errors that lakekeeper raises on purpose. Secrets in the message are hidden."""

    def __init__(self, message: str = "") -> None:
        super().__init__(redacted(message))


class TableError(LakekeeperError):
    """Something about one table; ``table`` is its name as the caller gave it."""

    def __init__(self, table: str, message: str) -> None:
        super().__init__(f"{table}: {message}")
        self.table = table


class NotFound(TableError):
    """There is no table of that name, or it is a view."""


class Unsupported(TableError):
    """The table uses ``feature``, which is not on the allow-list; nothing was written."""

    def __init__(self, table: str, feature: str, advice: str = "") -> None:
        hint = advice or "lakekeeper refuses what it does not know; nothing was written"
        super().__init__(table, f"unsupported feature '{feature}': {hint}")
        self.feature = feature


class OptionError(LakekeeperError):
    """A value from a call, conf, property or command line that cannot be taken."""

    def __init__(self, key: str, value: object, expected: str) -> None:
        shown = repr(HIDDEN) if names_a_secret(key) else repr(value)
        super().__init__(f"{key}: got {shown}, expected {expected}")
        self.key = key
        self.value = value
        self.expected = expected


class AdapterError(LakekeeperError):
    """An adapter is missing (``.missing`` is the format), doubled, or broke its contract."""

    def __init__(self, message: str, *, missing: str = "") -> None:
        super().__init__(message)
        self.missing = missing


class RetentionError(LakekeeperError):
    """A vacuum that one of the retention rules forbids; names the rule."""


class CommitError(LakekeeperError):
    """A commit did not go the plain way; see the three kinds for what may be done next."""


class Conflict(CommitError):
    """A concurrent commit (``winner``) took away or changed inputs of ours; nothing was committed."""

    def __init__(self, message: str, winner: str = "") -> None:
        super().__init__(message)
        self.winner = winner


class LostRace(Conflict):
    """Another commit came first and changed nothing that this one rests on: the same commit can be tried again."""


class Rejected(CommitError):
    """The commit is known not to have happened; the attempt's files may be removed."""


class Unknown(CommitError):
    """The commit may or may not have happened. Files of the attempt must be left alone."""


def nearest(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for the known word closest to ``word``, or nothing."""
    match = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean '{match[0]}'?)" if match else ""


def throwable(error: BaseException) -> Any:
    """The Java object behind an error of py4j, or behind one that PySpark converted; None for a Python error."""
    # Not by getattr on the Java object: py4j makes a member of any name up.
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def causes(error: BaseException) -> tuple[tuple[str, str], ...]:
    """(class name, message) of a Java error and all its causes, outermost first; empty for a Python error."""
    java = throwable(error)
    found: list[tuple[str, str]] = []
    while java is not None and len(found) < 20:
        found.append((java.getClass().getName(), str(java.getMessage())))
        java = java.getCause()
    return tuple(found)


def reason(error: BaseException) -> str:
    """What went wrong in one line: the last cause, and the error that it came as where that says more.

    ``ConnectException: Connection refused (RESTException: Error occurred while processing GET request)``

    The text of a Java error in Python is about the call that failed, and a stack trace. Secrets are hidden.
    """
    try:
        chain = () if isinstance(error, LakekeeperError) else causes(error)
    except Exception:  # the JVM is gone: its error cannot be asked any more
        chain = ()
    if not chain:
        return _line(type(error).__name__, str(error))
    (outer, said), (inner, cause) = chain[0], chain[-1]
    last = _line(inner, cause)
    return last if len(chain) == 1 or cause in said else f"{last} ({_line(outer, said)})"


def _line(name: str, message: str) -> str:
    """The class without its package, and the first line of the message; Java's null is none."""
    simple = name.rpartition(".")[2].rpartition("$")[2]
    first = next(iter(message.strip().splitlines()), "")
    return redacted(f"{simple}: {first}") if first and first != "None" else simple
