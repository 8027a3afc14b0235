"""What a vacuum must keep and what it must delete, derived from the events and not from the code under test.

jumped    0        30        60        90        time passes in jumps of hours; a commit takes none
version   3 ──────►4 ──────────────────►5
at 90, with a grace of 48 h, a reader may still use 4: it was the newest until now
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakekeeper.core.config.options import Options, resolve
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.trash.empty import empty
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from tests.model.oracle import Violation
from tests.model.program import Names, Question, Trace
from tests.model.store import Extra, Node, Shelf, author_of, jumped_at

if TYPE_CHECKING:
    from tests.model.world import State, World

START_MS = 1_000_000
"""The start time of programs: all commits of a history are made before the next jump."""
_HURRIED = ("write", "mask", "commit", "delete", "tidy")
_LATER_MS = 2_000 * HOUR_MS


@dataclass(frozen=True, slots=True)
class Keep:
    """The retention of all vacuums of a scope, in hours.

    ``orphans``: writers do not register, so the last vacuum lists. ``trash``: files may be moving into the trash, which
    no commit can see.
    """

    age: int = 24
    last: int = 1
    named: tuple[int, ...] = ()
    timeout: int = 50
    grace: int = 72
    share: float = 1.0
    orphans: bool = False
    trash: bool = False

    @property
    def options(self) -> Options:
        """The options as programs set them."""
        return resolve(
            {
                "retention-hours": self.age,
                "retain-last": self.last,
                "vacuum.intent-timeout-hours": self.timeout,
                "vacuum.orphan-grace-hours": self.grace,
                "vacuum.max-share": self.share,
                "vacuum.max-batch-delete-size": 2,
                "vacuum.max-concurrent-deletes": 1,
                "commit.retry.num-retries": 1,
            }
        )


def held(world: World, keep: Keep, node: Node, shelf: Shelf, jumped: int) -> dict[int, str]:
    """Versions that must read as before, each with the reason."""
    found = dict.fromkeys(range(max(0, node.number + 1 - keep.last), node.number + 1), "is one of the last")
    for version, after in zip(node.chain, node.chain[1:], strict=False):
        if jumped_at(after) > jumped - keep.age * HOUR_MS:
            found[version.number] = "was the newest within the grace"
    found |= {ref.head: f"is tagged {name}" for name, ref in shelf.refs.items()}
    found |= dict.fromkeys(keep.named, "is named by the caller")
    for intent in _intents(shelf):
        read, until = intent["read_version"], intent["at_ms"] + keep.timeout * HOUR_MS
        if read is not None and not intent["ended"] and START_MS + jumped < until:
            found[read] = f"is read by run {intent['run_id']}"
    return found


def check(world: World, keep: Keep, node: Node, shelf: Shelf, jumped: int) -> None:
    """Every held version has its files. Raises Violation."""
    key = (node, shelf, jumped)
    if key in world.checked:
        return
    world.checked.add(key)
    if not shelf.gone and not shelf.expired:
        return
    numbers = world.registry.numbers
    known = held(world, keep, node, shelf, jumped)
    if not world.scope.settings.linear and not keep.trash:
        known |= {n: "did not expire" for n in range(node.number + 1) if n not in {*known, *shelf.expired}}
    for number, why in known.items():
        if number in shelf.expired:
            raise Violation(f"version {number} {why}, and expired")
        for path, entry in node.chain[number].files.items():
            if numbers[id(entry.file)] in shelf.gone:
                raise Violation(f"version {number} {why}, and {path} is gone")
        world.counts[f"kept: {why.split(' run ')[0]}"] += number < node.number


def relied_on(world: World, keep: Keep, node: Node, shelf: Shelf, jumped: int, number: int) -> bool:
    """Whether a user may tag or restore this version: on a log without a lock, only one that is held anyway."""
    files = (world.registry.numbers[id(e.file)] for e in node.chain[number].files.values())
    if number in shelf.expired or any(each in shelf.gone for each in files):
        return False
    unlocked = world.scope.settings.linear or keep.trash
    return not unlocked or number in held(world, keep, node, shelf, jumped)


def in_flight(world: World, state: State, by: Trace, left: Extra) -> None:
    """Unreferenced files were deleted. Raises Violation if the writer of one is still running."""
    keep = world.scope.keep
    if keep is None or not by.asks.startswith("storage."):
        return
    alive = {actor.trace.name for actor in state.actors if actor.trace is not None}
    for number in state.extra - left:
        path = world.registry.by_number[number].path
        name = author_of(path)
        if name not in alive:
            world.counts["leftovers deleted"] += 1
        elif name.startswith("w"):
            if state.jumped - world.registry.written_ms[number] < keep.grace * HOUR_MS:
                raise Violation(f"{path} is being written, and was deleted")
        elif any(_is_active(each, name, keep, state.jumped) for each in _intents(state.shelf)):
            raise Violation(f"{path} was written by {name}, which is still running, and was deleted")


def overtaken(world: World, trace: Trace, state: State) -> bool:
    """Whether so much time passed since the last answer that the step counts as one that never happens.

    No vacuum can wait for these: a call that takes longer than the grace, or than the timeout if it relies on a check
    of the registered runs; a version that is registered long after it was read; a writer that commits a file already
    taken for an orphan.
    """
    keep, question = world.scope.keep, trace.next
    assert keep is not None
    assert isinstance(question, Question)
    if question.method == "publish":
        return _outlived(world, keep, question.args[0].path, state, trace)
    if trace.answer is None:
        return False
    since = START_MS + state.jumped - trace.answer.now
    if question.method in ("storage.expire", "storage.require_dead", "notes.replace", "notes.remove"):
        return since >= keep.timeout * HOUR_MS
    if question.method in _HURRIED:
        return since >= keep.grace * HOUR_MS
    registers = question.method == "notes.keep" and '"kind": "rewrite"' in question.args[1]
    return registers and since > 0


def _outlived(world: World, keep: Keep, path: str, state: State, trace: Trace) -> bool:
    files = {world.registry.by_number[n].path: n for n in state.extra}
    if path not in files:
        return True
    if state.jumped - world.registry.written_ms[files[path]] < keep.grace * HOUR_MS:
        return False
    others = [a.trace for a in state.actors if a.trace is not None and a.trace is not trace]
    return any(_has_looked(other) for other in others)


def _has_looked(trace: Trace) -> bool:
    """Whether it listed files and then read the log: it cannot know later commits."""
    at: Trace | None = trace.parent
    read = False
    while at is not None:
        read = read or at.asks == "storage.versions"
        if read and at.asks in ("storage.files", "storage.left_by"):
            return True
        at = at.parent
    return False


def settle(world: World, state: State) -> None:
    """No program remains: the next vacuum leaves no garbage, and another one finds nothing to do."""
    keep = world.scope.keep
    key = (state.node, state.extra, state.shelf, state.jumped)
    if keep is None or key in world.settled:
        return
    world.settled.add(key)
    world.counts["settled"] += 1
    jumped = state.jumped + _LATER_MS
    table = world.table
    table.load(state.node, state.extra, "settle", state.shelf, jumped)
    kept = held(world, keep, state.node, state.shelf, jumped)
    for _ in empty(world.adapter, None, START_MS + jumped):
        pass
    first = _settling(world, keep, jumped)
    shelf = world.registry.shelf(table, state.node)
    check(world, keep, state.node, shelf, jumped)
    plan = first.plan
    assert plan is not None
    stays = {n for n in range(state.node.number + 1) if n in kept or _after(kept, n, world)}
    if set(plan.kept) != {n for n in stays if n not in state.shelf.expired}:
        raise Violation(f"versions {sorted(plan.kept)} are kept, expected {sorted(stays)}")
    named = {path for number in stays for path in state.node.chain[number].files}
    if left := sorted(set(table.disk) - named):
        raise Violation(f"{left} remain after the next vacuum")
    if notes := sorted(name for name in table.notes if name.startswith("intents/") or "/list-" in name):
        raise Violation(f"notes {notes} remain after the next vacuum")
    again = _settling(world, keep, jumped)
    if again.deleted_files_count or again.expired_snapshots_count * (not world.scope.settings.linear):
        raise Violation(f"a second vacuum deleted {again.deleted_files_count} files")
    world.counts["settled runs"] += bool(first.settled_runs)
    world.counts["settled files"] += first.deleted_files_count > 0


def _after(kept: dict[int, str], number: int, world: World) -> bool:
    return world.scope.settings.linear and number >= min(kept)


def _settling(world: World, keep: Keep, jumped: int) -> VacuumReport:
    options = replace(keep.options, vacuum=replace(keep.options.vacuum, max_share=1.0))
    request = VacuumRequest(options, named=keep.named, orphans=keep.orphans)
    Names.current = "settle"
    clock = Clock(now_ms=lambda: START_MS + jumped, wait=lambda _seconds: None)
    try:
        return vacuum(world.adapter, request, clock=clock)
    except Exception as error:
        raise Violation(f"the next vacuum ended with {type(error).__name__}: {error}") from error


def _intents(shelf: Shelf) -> Iterator[dict[str, Any]]:
    for name, text in shelf.notes.items():
        if name.startswith("intents/"):
            intent = json.loads(text)
            if intent["kind"] != "vacuum":
                yield intent


def _is_active(intent: Mapping[str, Any], name: str, keep: Keep, jumped: int) -> bool:
    mine = intent["run_id"].startswith(f"{name}-")
    return bool(mine and START_MS + jumped < intent["at_ms"] + keep.timeout * HOUR_MS)
