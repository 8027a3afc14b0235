"""Adapters whose ``storage`` is wrong: most of these defects delete live files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from lakekeeper.core.vacuum.path_guard import move_refusal, refusal
from lakekeeper.core.vacuum.retention import Versions
from lakekeeper.core.vacuum.vacuum_plan import Dead, region_of
from lakekeeper.testing.storage import MemoryStorage
from tests.testing.mutants import Mutant, Patch, always, changed

_TAGGED = "test_a_version_that_is_tagged_after_the_look_keeps_its_files"
_BRANCHED = "test_a_version_that_becomes_a_branch_after_the_look_keeps_its_files"
_TAG, _BRANCH = "test_a_version_with_a_tag_stays", "test_a_version_with_a_branch_stays"
_BACK = "test_files_that_come_back_after_the_look_are_not_deleted"
_POSITION = "test_the_last_position_of_a_stream_is_known_and_its_version_stays"
_LIVE = "test_only_what_the_current_version_reads_is_live"


def _expiry_for_no_file() -> list[Patch]:
    real = MemoryStorage.expire
    return [(MemoryStorage, "expire", lambda self, versions, kept, _files: real(self, versions, kept, ()))]


def _expiry_of_what_has_a_name() -> list[Patch]:
    real = MemoryStorage.expire

    def expire(self: MemoryStorage, *args: Any) -> set[str]:
        with patch.object(MemoryStorage, "require_unnamed", lambda *_args: None):
            return real(self, *args)

    return [(MemoryStorage, "expire", expire)]


def _versions_without(*, branch: bool) -> list[Patch]:
    def change(_self: Any, found: Versions, *_: Any) -> Versions:
        left = tuple(ref for ref in found.refs if ref.name == "main" or ref.branch is not branch)
        return replace(found, refs=left)

    return changed(MemoryStorage, "versions", change)


def _live_of_main() -> list[Patch]:
    real = MemoryStorage.live

    def live(self: MemoryStorage, versions: Versions, paths: Collection[str]) -> set[str]:
        return real(self, replace(versions, refs=versions.refs[:1]), paths)

    return [(MemoryStorage, "live", live)]


def _trusting_hints(
    _self: Any, found: Any, _versions: Any, _kept: Any, hints: Sequence[str] = (), *_: Any
) -> Any:
    return replace(found, files=(*found.files, *(Dead(hint, "data", -1, 0) for hint in hints)))


def _move(self: Any, moves: Mapping[str, str]) -> list[str]:
    done = []
    for source, target in moves.items():
        short = [path.removeprefix(f"{self.grounds.roots[0]}/") for path in (source, target)]
        if not move_refusal(source, target, self.grounds) and short[0] in self._table.disk:
            self._table.disk[short[1]] = self._table.disk.pop(short[0])
            done.append(source)
    return done


def _all_that_it_may(self: Any, _gone: Any, files: Sequence[Any]) -> list[str]:
    return [file.path for file in files if not refusal(file.path, self.grounds, region_of(file.kind))]


def _paths_of_runs(self: Any, _found: Any, _runs: Any) -> Iterator[Any]:
    return (info for info in self.files() if "/data/" in info.path)


STORAGE = (
    Mutant("require_dead checks nothing", _BACK, always(MemoryStorage, "require_dead", None)),
    Mutant("no commit names a file again", _BACK, always(MemoryStorage, "named_since", set())),
    Mutant("an expiry checks no file", _BACK, _expiry_for_no_file()),
    Mutant(
        "no restore names a file again", "test_a_version_that_is_restored_after_the_look_keeps_its_files",
        always(MemoryStorage, "named_since", set()),
    ),
    Mutant("a new tag is overlooked", _TAGGED, always(MemoryStorage, "require_unnamed", None)),
    Mutant("a new branch is overlooked", _BRANCHED, always(MemoryStorage, "require_unnamed", None)),
    Mutant("an expiry overlooks a new tag", _TAGGED, _expiry_of_what_has_a_name()),
    Mutant("an expiry overlooks a new branch", _BRANCHED, _expiry_of_what_has_a_name()),
    Mutant("versions have no tags", _TAG, _versions_without(branch=False)),
    Mutant("versions have no branches", _BRANCH, _versions_without(branch=True)),
    Mutant("what a tag reads is not live", _TAG, _live_of_main()),
    Mutant("what a branch reads is not live", _BRANCH, _live_of_main()),
    Mutant(
        "an expiry expires nothing", "test_versions_that_expire_are_gone",
        [(MemoryStorage, "expire", lambda self, versions, _kept, files: self.named_since(versions, files))],
        linear=(False,),
    ),
    Mutant("nothing is live", _LIVE, always(MemoryStorage, "live", set())),
    Mutant(
        "what any version names is live", _LIVE,
        [(MemoryStorage, "live", lambda self, versions, paths: self.named(versions, paths))],
    ),
    Mutant(
        "only what is live is named", _LIVE,
        [(MemoryStorage, "named", lambda self, versions, paths: self.live(versions, paths))],
    ),
    Mutant("no stream has a position", _POSITION, always(MemoryStorage, "sinks", ())),
    Mutant(
        "versions have no positions", _POSITION,
        changed(MemoryStorage, "versions", lambda _self, found, *_: replace(found, sinks=())), linear=(False,),
    ),
    Mutant(
        "hints are trusted", "test_a_file_that_is_named_again_stays",
        changed(MemoryStorage, "garbage", _trusting_hints),
    ),
    Mutant("a move overwrites", "test_a_move_never_overwrites_a_file", [(MemoryStorage, "move", _move)]),
    Mutant(
        "each file that may be deleted is gone", "test_a_file_that_is_left_is_not_reported_as_gone",
        changed(MemoryStorage, "delete", _all_that_it_may),
    ),
    Mutant(
        "each file is the format's", "test_only_files_of_the_formats_writers_are_recognised",
        [(MemoryStorage, "recognised", lambda _self, paths: set(paths))],
    ),
    Mutant(
        "there is no other table", "test_a_table_inside_the_table_is_found",
        always(MemoryStorage, "foreign_tables", ()),
    ),
    Mutant(
        "each file is of each run", "test_files_of_a_run_are_found_by_its_folder_and_by_no_other",
        changed(MemoryStorage, "left_by", _paths_of_runs),
    ),
)  # fmt: skip
