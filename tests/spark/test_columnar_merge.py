"""The worker's code travels by value: pickled once, whichever threads ask for it, and usable without the package."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from pyspark import cloudpickle

from lakekeeper.spark.columnar_merge import PickledWorker

_THREADS = 4


def test_groups_that_start_together_share_one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickling by value is a setting of the process: a thread that ended it broke the merges of the others."""
    pickled, together, dumps = PickledWorker(), Barrier(_THREADS), cloudpickle.dumps
    calls: list[Any] = []

    def counted(item: Any) -> bytes:
        calls.append(item)
        return bytes(dumps(item))  # type: ignore[no-untyped-call]  # PySpark's copy has no types

    def ask(_: int) -> bytes:
        together.wait()
        return pickled.pickled()

    monkeypatch.setattr(cloudpickle, "dumps", counted)
    with ThreadPoolExecutor(_THREADS) as pool:
        found = set(pool.map(ask, range(_THREADS)))
    assert (len(found), len(calls)) == (1, 1)


def test_the_worker_needs_no_installed_package(tmp_path: Path) -> None:
    (tmp_path / "worker").write_bytes(PickledWorker().pickled())
    code = (
        "import pickle, sys; merge_part = pickle.load(open('worker', 'rb')); "
        "assert not any(name.partition('.')[0] == 'lakekeeper' for name in sys.modules), 'imported'; "
        "print(merge_part('{}', 0))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "KeyError: 'inputs'" in done.stderr, done.stderr
