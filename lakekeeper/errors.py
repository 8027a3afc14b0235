"""The exception tree. Every message states the problem and what to do; a TableError also names its table.

LakekeeperError
├── TableError                 a problem with the table itself
│   ├── NotFound               no such table, version, run or trash entry; or a view
│   ├── Unsupported            a feature of the table, its catalog or storage that the call cannot handle (``.feature``)
│   └── UndoError              a run that cannot be undone
├── OptionError                an invalid option, column, policy or predicate (``.key .value .expected``)
├── AdapterError               an adapter is missing or duplicated; or a catalog, storage or log cannot be used
├── RetentionError             a vacuum, or a deletion from the trash, that a retention rule forbids
├── HistoryError               the history cannot be read or written, or is another application's file
├── HeavyError                 the Spark application of heavy tasks did not start or has ended, or a task failed in it
└── CommitError
    ├── Conflict               a concurrent commit changed what we read: rebase, then commit again
    │   └── LostRace           another commit came first, and changed nothing that we read: commit again
    ├── Rejected               known to have failed: our files may be deleted
    │   └── NotSent            an error before the commit was sent, such as a failed read: it can be tried again
    └── Unknown                may have succeeded: NEVER delete files
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import takewhile
from traceback import format_exception
from typing import Any

from lakekeeper.redaction import HIDDEN, names_a_secret, redacted

MALFORMED = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""What reading text raises that is not JSON, or JSON of another shape: ``[1]``, ``null``, ``1e999``."""

_LONGEST_MESSAGE, _LONGEST_VALUE = 10_000, 500  # characters


class LakekeeperError(Exception):
    """Base class of all errors that lakekeeper raises deliberately. Secrets in the message are hidden."""

    def __init__(self, message: str = "") -> None:
        super().__init__(_cut(redacted(message), _LONGEST_MESSAGE))


class TableError(LakekeeperError):
    """A problem with one table; ``table`` is its name as the caller gave it."""

    def __init__(self, table: str, message: str) -> None:
        super().__init__(f"{table}: {message}")
        self.table = table


class NotFound(TableError):
    """No table, version, run or trash entry of this name exists, or the name is that of a view."""


class Unsupported(TableError):
    """The call cannot handle ``feature`` of the table, its catalog or its storage; nothing was written."""

    def __init__(self, table: str, feature: str, advice: str = "") -> None:
        hint = advice or "this version of lakekeeper does not support it; nothing was written"
        super().__init__(table, f"unsupported: '{feature}': {hint}")
        self.feature = feature


class UndoError(TableError):
    """A run cannot be undone; the message says why, and nothing was written."""


class OptionError(LakekeeperError):
    """An invalid value from a call, conf, property or command line."""

    def __init__(self, key: str, value: object, expected: str, *, message: str = "") -> None:
        quoted = "nothing" if value is None else _cut(redacted(repr(value)), _LONGEST_VALUE)
        shown = repr(HIDDEN) if names_a_secret(key) else quoted
        super().__init__(message or f"{key}: got {shown}, expected {expected}")
        self.key = key
        self.value = value
        self.expected = expected

    @classmethod
    def unknown(cls, name: str, hint: str) -> OptionError:
        """The error for a name that is no option, with a ``hint`` at the nearest one."""
        shown = _cut(redacted(repr(name)), _LONGEST_VALUE)
        return cls(name, name, f"a known option{hint}", message=f"unknown option {shown}{hint}")

    @classmethod
    def removed(cls, key: str, why: str) -> OptionError:
        """The error for an option that earlier versions had; ``why`` says what to use instead."""
        return cls(key, None, "an option of this version", message=f"{key}: {why}")

    @classmethod
    def twice(cls, key: str, value: object, other: str) -> OptionError:
        """The error for an option that ``other`` sets too, in its other spelling."""
        return cls(key, value, "each option once", message=f"{key}: {other} sets the same option; remove one")


class AdapterError(LakekeeperError):
    """An adapter is missing (``.missing`` is the format) or duplicated; or a catalog, storage or log cannot be used."""

    def __init__(self, message: str, *, missing: str = "") -> None:
        super().__init__(message)
        self.missing = missing


class RetentionError(LakekeeperError):
    """A vacuum, or a deletion from the trash, that a retention rule forbids; the message names the rule."""


class HistoryError(LakekeeperError):
    """The history cannot be read or written, is of another version, or is another application's file."""


class HeavyError(LakekeeperError):
    """The Spark application of heavy tasks did not start or has ended, or a task failed in it."""


class CommitError(LakekeeperError):
    """A commit did not complete normally; the three subclasses define what may be done next."""


class Conflict(CommitError):
    """A concurrent commit (``winner``) removed or changed our inputs; nothing was committed."""

    def __init__(self, message: str, winner: str = "") -> None:
        super().__init__(message)
        self.winner = winner


class LostRace(Conflict):
    """Another commit came first but changed nothing that this one depends on: the same commit can be retried."""


class Rejected(CommitError):
    """The commit is known to have failed; the files of the attempt may be deleted."""


class NotSent(Rejected):
    """The commit failed before anything was sent to the catalog or the log: the same commit can be tried again."""


class Unknown(CommitError):
    """The commit may or may not have succeeded; the files of the attempt must be kept."""


def nearest(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for the known word closest to ``word``; empty if none is close."""
    match = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean '{match[0]}'?)" if match else ""


def throwable(error: BaseException) -> Any:
    """The Java exception behind a py4j error or one that PySpark converted; None for a Python error."""
    # Only read these attributes from the Python error: on a Java object, py4j returns a member for any name.
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def causes(error: BaseException) -> tuple[tuple[str, str], ...]:
    """(class name, message) of a Java error and all its causes, outermost first; empty for a Python error."""
    java = throwable(error)
    found: list[tuple[str, str]] = [] if java is not None else _converted(error)
    while java is not None and len(found) < 20:
        found.append((java.getClass().getName(), str(java.getMessage())))
        java = java.getCause()
    return tuple(found)


def _converted(error: BaseException | None) -> list[tuple[str, str]]:
    """Class names and messages of an error whose Java exception was dropped when it was converted.

    The Python package of Delta 3.3 does so with its conflicts; the Python classes have the names of the Java ones.
    """
    found: list[tuple[str, str]] = []
    while isinstance(getattr(error, "stackTrace", None), str) and len(found) < 20:
        kind = type(error)
        found.append((f"{kind.__module__}.{kind.__qualname__}", str(getattr(error, "desc", ""))))
        error = getattr(error, "cause", None)
    return found


_OF_A_WORKER = ("An exception was thrown from the Python worker.", "Traceback (most recent call last):")
"""How the error of a Python worker begins, in a query and in a task of an RDD."""


def reason(error: BaseException) -> str:
    """The reason of an error in one line: the innermost cause, plus the outermost error if that adds information.

    ``ConnectException: Connection refused (RESTException: Error occurred while processing GET request)``

    The Python text of a Java error contains only the failed call and a stack trace. Secrets are hidden.
    """
    try:
        chain = () if isinstance(error, LakekeeperError) else causes(error)
    except Exception:  # the JVM is gone, so its error cannot be read
        chain = ()
    if not chain:
        return _line(type(error).__name__, str(error))
    (outer, outer_message), (inner, cause) = chain[0], chain[-1]
    last = _line(inner, cause)
    return last if len(chain) == 1 or cause in outer_message else f"{last} ({_line(outer, outer_message)})"


def message(error: BaseException) -> str:
    """The text of an error of lakekeeper, which says where and what to do; of any other error, its :func:`reason`."""
    return str(error) if isinstance(error, LakekeeperError) else reason(error)


def traceback_of(error: BaseException) -> str:
    """The traceback of an error and of its causes, for a log: Python's own shows the secrets in their messages."""
    return redacted("".join(format_exception(error)))


def _line(name: str, message: str) -> str:
    """The class without its package, and the first line of the message; Java's null counts as no message."""
    simple = name.rpartition(".")[2].rpartition("$")[2]
    lines = message.strip().splitlines()
    first = next(iter(lines), "")
    if first.startswith(_OF_A_WORKER):
        first = _raised(lines) or first
    return _cut(redacted(f"{simple}: {first}"), _LONGEST_MESSAGE) if first and first != "None" else simple


def _cut(text: str, most: int) -> str:
    """The beginning of a text that is too long. It must be redacted: a part of a secret is not recognised as one."""
    return text if len(text) <= most else f"{text[:most]} … ({len(text):,} characters)"


def _raised(lines: Sequence[str]) -> str:
    """The error of a Python worker, which ends its traceback; PySpark may add Java's stack to it."""
    own = takewhile(lambda line: line != "JVM stacktrace:", lines[1:])
    return next((line for line in reversed(list(own)) if line and not line[0].isspace()), "")
