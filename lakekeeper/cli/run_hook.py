"""Runs a PySpark program as ``python PROGRAM ARGUMENTS...`` would, and installs lakekeeper in the sessions it creates.

``lakekeeper run`` starts this file as a script. It imports nothing else of lakekeeper unless the confs of a session
enable automatic runs, or SQL.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
import types
from pathlib import Path
from typing import Any

_ENABLED = (
    "spark.lakekeeper.auto.enabled",
    "spark.lakekeeper.auto_enabled",
    "spark.lakekeeper.sql.call.enabled",
    "spark.lakekeeper.sql_call_enabled",
)
_LOG = logging.getLogger("lakekeeper")
_handles: list[Any] = []


def main(program: str) -> None:
    """Run the program in a module ``__main__`` of its own. Its errors, output and exit code do not change."""
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(program).resolve().parent)
    _hook()
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=program, __builtins__=__builtins__, __cached__=None)
    ours, sys.modules["__main__"] = sys.modules["__main__"], module
    module.__dict__["__lakekeeper_runner__"] = ours  # a module without references is cleared
    try:
        # Otherwise the program inherits this module's __future__ imports, and sees its annotations as text.
        code = compile(Path(program).read_bytes(), program, "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - the program that the user names
    except SystemExit as end:
        if not end.code:
            _await_threads()
            _finish()
        raise
    except Exception as error:
        own = error.__traceback__  # starts with this frame, which `python PROGRAM` would not show
        error = error.with_traceback(own and own.tb_next)
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(1) from None
    _await_threads()
    _finish()


def _hook() -> None:
    """Install lakekeeper in each session that the program makes, and finish before a session is stopped.

    Sessions are made by ``getOrCreate``, or as ``SparkSession(context)``; those made from another one share its runs.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:  # the program reports the error if it needs PySpark
        return
    create: Any = SparkSession.Builder.getOrCreate
    begin: Any = SparkSession.__init__
    building = threading.local()
    stop: Any = SparkSession.stop

    @functools.wraps(create)
    def created(self: Any) -> Any:
        building.now = True
        try:
            session = create(self)
        finally:
            building.now = False
        _install(session)
        return session

    @functools.wraps(begin)
    def begun(self: Any, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        of_another = len(given) > 1 or named.get("jsparkSession") is not None
        if not of_another and not getattr(building, "now", False):
            _install(self)

    @functools.wraps(stop)
    def stopped(self: Any) -> Any:
        _finish()
        return stop(self)

    SparkSession.Builder.getOrCreate = created  # type: ignore[method-assign]  # the program calls it
    SparkSession.__init__ = begun  # type: ignore[method-assign]  # the same
    SparkSession.stop = stopped  # type: ignore[method-assign]  # the program may call it


def _install(session: Any) -> None:
    # Spark Connect has no such session, and each conf is a call of its server, which may refuse it.
    if not hasattr(session, "_jsparkSession"):
        return
    try:
        # `install` parses the value, and reports one that is neither true nor false.
        if all(str(session.conf.get(conf, "false")).strip().lower() == "false" for conf in _ENABLED):
            return
        from lakekeeper import install

        handle = install(session)
    except Exception as error:  # maintenance must not fail the program
        _log("lakekeeper could not be installed", error)
        return
    if handle not in _handles:
        _handles.append(handle)


def _await_threads() -> None:
    """Wait for the program's threads, as Python does before it exits: what they write is maintained too."""
    while threads := [each for each in threading.enumerate() if _is_awaited(each)]:
        threads[0].join()


def _is_awaited(thread: threading.Thread) -> bool:
    pool = sys.modules.get("concurrent.futures.thread")
    # The workers of a pool that is not shut down wait for more work until Python exits.
    workers = getattr(pool, "_threads_queues", {})
    return not thread.daemon and thread is not threading.current_thread() and thread not in workers


def _finish() -> None:
    """Run a last pass over the tables that the program wrote, before its session ends."""
    while _handles:
        _finish_one(_handles.pop())


def _finish_one(handle: Any) -> None:
    try:
        handle.finish()
    except Exception as error:  # as above
        _log("the last automatic pass failed", error)


def _log(what: str, error: Exception) -> None:
    from lakekeeper.errors import reason

    _LOG.error("%s: %s", what, reason(error))


if __name__ == "__main__":
    main(sys.argv[1])
