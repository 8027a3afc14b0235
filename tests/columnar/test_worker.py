"""The memory pool of a columnar worker: a process that later runs other tasks."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakekeeper.columnar import worker
from lakekeeper.columnar.values import Declined
from lakekeeper.core.model.file_merge import FileMerge

TASK = FileMerge((), (), (), "/nowhere", "{id}{codec}", 1, 1).to_json()


@pytest.mark.parametrize("ends", [None, Declined("a reason"), OSError("a full disk")])
def test_a_merge_uses_the_systems_pool_and_leaves_the_processs_own(
    monkeypatch: pytest.MonkeyPatch, ends: Exception | None
) -> None:
    before, during = pa.default_memory_pool().backend_name, []

    def merge(*_args: object, **_options: object) -> list[object]:
        during.append(pa.default_memory_pool().backend_name)
        if ends is not None:
            raise ends
        return []

    monkeypatch.setattr(worker, "merge", merge)
    if isinstance(ends, OSError):
        with pytest.raises(OSError, match="a full disk"):
            worker.merge_part(TASK, 0)
    else:
        assert worker.merge_part(TASK, 0) == ([] if ends is None else ["declined: a reason"])
    assert during == ["system"]
    assert pa.default_memory_pool().backend_name == before
