"""An observer that raises halts the run as a crash would: neither then nor later is anything cleaned up."""

from __future__ import annotations

import gc
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from tests.engine.scene import IN_PARTS, groups_apart


class Crash(Exception):
    pass


@pytest.mark.parametrize("phase", ["before_commit", "committed"])
def test_outputs_of_other_groups_are_kept_after_a_crash(phase: str) -> None:
    scene = groups_apart(4)
    written = threading.Semaphore(0)

    def observer(now: str, info: Mapping[str, Any]) -> None:
        if now == "written":
            written.release()
        if now == phase:
            for _ in range(4):
                assert written.acquire(timeout=60)
            raise Crash

    with pytest.raises(Crash):
        scene.run(observer=observer, options=IN_PARTS)
    gc.collect()
    assert scene.table.touched.discarded == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lakekeeper")]
    assert scene.table.leftovers() != set()
