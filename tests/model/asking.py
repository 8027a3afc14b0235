"""How the memory adapter answers a program's question: correctly or with a fault."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakekeeper.errors import AdapterError, Conflict, Unknown
from lakekeeper.testing.lake import LiveFileDiscarded
from lakekeeper.testing.memory import Fault
from tests.model.oracle import Violation
from tests.model.program import Answer, Question, Stop
from tests.model.store import Node
from tests.model.users import staged_row

if TYPE_CHECKING:
    from tests.model.world import State, World

COMMIT_FAULTS = ("rejected", "unknown, landed", "unknown, lost", "unknown, late", "conflict with itself")
"""A commit is rejected; loses its response and landed, did not or will; landed, was retried and got a conflict."""
_COMMITS = ("commit", "delete")
_NEVER = ("error", "stop before", "down")
_THOUGH_DONE = ("error after", "stop after", "down after")
_WORK = ("read", "write", "compared", "remains", "lost", "places", "traces", "mask", "find", "prepare")
SWEEP_FAULTS = ("down", "down after", "empty", "unknown, landed", "unknown, lost")
"""The storage fails before or after the call took effect; the log looks empty; an expiry's response is lost."""


def possible_faults(state: State, slot: int, kinds: Iterable[str]) -> Iterator[str]:
    """Those of ``kinds`` that can occur at the next call of a program."""
    trace = state.actors[slot].trace
    assert trace is not None
    question = trace.next
    assert isinstance(question, Question)
    for fault in kinds:
        if fault in ("unknown, landed", "unknown, lost") and question.method == "storage.expire":
            possible = True
        elif fault in COMMIT_FAULTS:
            possible = question.method in _COMMITS and not (fault.endswith("late") and state.late)
        elif fault in ("down", "down after"):
            possible = question.method.startswith(("storage.", "notes."))
        elif fault == "empty":
            possible = question.method == "storage.versions"
        elif fault.startswith("error"):
            possible = question.method in _WORK
        else:
            possible = True
        if possible:
            yield fault


def answered(world: World, question: Question, node: Node, fault: str) -> Answer:
    """Execute the call with the fault; errors are answers too."""
    expires = question.method == "storage.expire"
    if fault in _NEVER or (expires and fault == "unknown, lost"):
        return Answer(error=_error(fault))
    lost = fault in ("unknown, lost", "unknown, late")
    world.adapter.fault = "unknown, lost" if lost else _commit_fault(fault)
    try:
        value = _call(world, question, node)
    except AdapterError as error:
        if not question.method.startswith("storage."):
            raise Violation(f"{question.method}: {error}") from error
        return Answer(error=error)
    except LiveFileDiscarded as error:
        raise Violation(str(error)) from error
    except Exception as error:  # the engine must handle it
        return Answer(error=error)
    finally:
        world.adapter.fault = None
    if fault == "conflict with itself":
        return Answer(error=Conflict(f"db.t: lost to version {world.table.current.number}"))
    if fault in _THOUGH_DONE or (expires and fault == "unknown, landed"):
        return Answer(value, _error(fault))
    return Answer(replace(value, items=()) if fault == "empty" else value)


def _error(fault: str) -> BaseException:
    if fault.startswith("error"):
        return OSError("storage")
    if fault.startswith("stop"):
        return Stop("stopped")
    if fault.startswith("down"):
        return AdapterError("db.t: the storage does not answer")
    return Unknown("db.t: no answer to the expiry")


def _call(world: World, question: Question, node: Node) -> Any:
    if question.method == "snapshot":
        return world.adapter.snapshot_of(node, *question.args)
    if question.method in (
        "compared", "remains", "lost", "places", "traces", "mask", "covered", "find", "prepare", "keep", "delete",
        "tidy",
    ):  # fmt: skip
        return getattr(world.adapter.deletes, question.method)(*question.args)
    if question.method == "deletes.discard":
        return world.adapter.deletes.discard(*question.args)
    if question.method == "look":
        return None
    if question.method == "stage":
        return world.table.stage(staged_row(node)[0])
    if question.method == "publish":
        return world.table.publish(*question.args)
    part, _, method = question.method.partition(".")
    if part in ("notes", "storage"):
        value = getattr(getattr(world.adapter, part), method)(*question.args)
        if method in ("expire", "missing"):
            value = sorted(value)
        return tuple(value) if method in ("expire", "missing", "files", "left_by", "named", "live") else value
    return getattr(world.adapter, question.method)(*question.args)


def _commit_fault(fault: str) -> Fault | None:
    return fault if fault in ("rejected", "unknown, landed") else None  # type: ignore[return-value]
