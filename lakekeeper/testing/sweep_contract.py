"""The contract of ``storage`` between the look of a vacuum and its deletes: what came back in between is kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakekeeper.core.vacuum.retention import Retention, keep
from lakekeeper.core.vacuum.stream_positions import SinkCommit
from lakekeeper.errors import Conflict
from lakekeeper.testing.harness import ContractTable, Harness, Selected, needs, recluster
from lakekeeper.testing.optional_methods import OptionalMethods, extra
from lakekeeper.testing.snapshot_contract import KV, keys
from lakekeeper.testing.storage_contract import LATER, Look, look
from lakekeeper.testing.undo_contract import undone
from lakekeeper.testing.values import fingerprint

Name = Callable[[OptionalMethods, int], None]
"""Gives a version a name."""


def overwritten(harness: Harness) -> tuple[ContractTable, int]:
    """A table whose rows were replaced, and the version with the rows 1, 2 and 3 of before."""
    table = harness.create(KV, [keys(1, 2), keys(3)])
    before = table.adapter().version().version
    assert before is not None
    table.overwrite(keys(4))
    return table, before


def swept(at: Look) -> set[str]:
    """The paths that a sweep deleted; none if a commit since the look made it stop."""
    try:
        return at.sweep()
    except Conflict:
        return set()


def dead_data(at: Look) -> set[str]:
    """The data files that the look found dead; metadata of another version may be dead beside them."""
    return {dead.path for dead in at.garbage.files if dead.kind == "data"}


def gets_a_name_after_the_look(harness: Harness, name: Name) -> None:
    """The version was about to expire, and its files were about to be deleted."""
    table, before = overwritten(harness)
    at = look(table)
    assert before in at.kept.gone
    name(extra(table), before)
    with pytest.raises(Conflict):
        at.storage.require_dead(at.versions, at.kept, at.files)
    swept(at)
    assert fingerprint(table.rows(before)) == fingerprint(keys(1, 2, 3))


def has_a_name(harness: Harness, name: Name) -> None:
    """A vacuum that keeps only the newest version keeps this one, too."""
    table, before = overwritten(harness)
    dead = dead_data(look(table))
    assert dead, "without a name, nothing keeps the version"
    name(extra(table), before)
    at = look(table)
    assert before in at.kept.reasons
    assert not dead_data(at) & dead
    assert at.storage.live(at.versions, dead), "the version of a name is read"
    at.sweep()
    assert fingerprint(table.rows(before)) == fingerprint(keys(1, 2, 3))
    assert fingerprint(table.rows()) == fingerprint(keys(4))


class SweepContract(Selected):
    """What a vacuum relies on if others commit while it runs, or if a name or a stream needs an older version."""

    def test_files_that_come_back_after_the_look_are_not_deleted(self, harness: Harness) -> None:
        """Both checks must see it: the one with the expiry, and the one before each batch of deletes."""
        table = harness.create(KV, [keys(1, 2), keys(3)])
        recluster(harness, table)
        at = look(table)
        at.storage.require_dead(at.versions, at.kept, at.files)
        undone(table)
        storage = table.adapter().storage
        live = storage.live(storage.versions(), at.files)
        assert live, "the undo brings back files that the look found dead"
        with pytest.raises(Conflict):
            at.storage.require_dead(at.versions, at.kept, at.files)
        assert not swept(at) & live
        assert fingerprint(table.rows()) == fingerprint(keys(1, 2, 3))

    @needs("restore_version")
    def test_a_version_that_is_restored_after_the_look_keeps_its_files(self, harness: Harness) -> None:
        table, before = overwritten(harness)
        at = look(table)
        extra(table).restore_version(before)
        with pytest.raises(Conflict):
            at.storage.require_dead(at.versions, at.kept, at.files)
        swept(at)
        assert fingerprint(table.rows()) == fingerprint(keys(1, 2, 3))

    @needs("tag")
    def test_a_version_that_is_tagged_after_the_look_keeps_its_files(self, harness: Harness) -> None:
        gets_a_name_after_the_look(harness, lambda table, version: table.tag("kept", version))

    @needs("branch")
    def test_a_version_that_becomes_a_branch_after_the_look_keeps_its_files(self, harness: Harness) -> None:
        gets_a_name_after_the_look(harness, lambda table, version: table.branch("kept", version))

    @needs("tag")
    def test_a_version_with_a_tag_stays(self, harness: Harness) -> None:
        has_a_name(harness, lambda table, version: table.tag("kept", version))

    @needs("branch")
    def test_a_version_with_a_branch_stays(self, harness: Harness) -> None:
        has_a_name(harness, lambda table, version: table.branch("kept", version))

    @needs("stream")
    def test_the_last_position_of_a_stream_is_known_and_its_version_stays(self, harness: Harness) -> None:
        """A stream that no longer finds its position on restart adds its rows a second time."""
        table = harness.create(KV, [keys(1)])
        assert list(table.adapter().storage.sinks()) == []
        found: list[SinkCommit] = []
        for batch in (7, 8):
            extra(table).stream(keys(batch), batch)
            found += table.adapter().storage.sinks()
        assert len(found) == 2, "one stream, after each of its batches"
        first, last = found
        assert first.sink == last.sink
        assert "7" in first.position
        assert "8" in last.position
        table.append(keys(9))
        versions = table.adapter().storage.versions()
        rule = Retention(age_ms=0, last=1, allow_unsafe=True, sink_ms=LATER)
        kept = keep("contract", versions, rule, LATER)
        assert last.version is None or last.version in kept.reasons
        assert fingerprint(table.rows()) == fingerprint(keys(1, 7, 8, 9))
