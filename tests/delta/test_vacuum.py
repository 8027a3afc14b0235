"""Vacuum of Delta tables: what goes is what no kept version reads, found without a listing."""

from __future__ import annotations

import pytest

from tests.delta.scene import Scene, recluster
from tests.delta.vacuum import look, named, on_disk, swept
from tests.faults.storage import faulty_storage

pytestmark = pytest.mark.delta


@pytest.fixture
def worked(scene: Scene) -> Scene:
    """A table with deletion vectors, after six versions of ordinary work."""
    scene.run(
        "CREATE TABLE {t} (k int, s string) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = true, 'delta.enableChangeDataFeed' = true)",
        "INSERT INTO {t} SELECT id, 'a' FROM range(0, 40, 1, 1)",
        "DELETE FROM {t} WHERE k % 10 = 3",
        "UPDATE {t} SET s = 'c' WHERE k = 7",
        "DELETE FROM {t} WHERE k % 10 = 4",
    )
    recluster(scene)
    return scene


def test_what_goes_is_what_no_kept_version_reads_and_no_list_call_is_made(worked: Scene) -> None:
    with faulty_storage(worked.spark) as storage:
        half = worked.adapter().storage
        storage.arm(worked.path, "list")
        few = look(worked, last=3, storage=half)
        incremental = look(worked, since=2, storage=half)  # asks the live state for deletion vectors
        assert few.sweep() == few.names() != set()
        assert storage.disarm() == []
    for last in (3, 1):
        looked = swept(worked, last=last)
        feeds = {name for name in on_disk(worked.path) if name.startswith("_change_data/")}
        assert on_disk(worked.path) - feeds == named(worked, looked.kept.oldest)
        assert look(worked, last=last).plan.files == ()
        assert looked.garbage.through == looked.kept.oldest
    assert incremental.names("deletes")
    assert not any(worked.path.rglob("_change_data/*.parquet"))
