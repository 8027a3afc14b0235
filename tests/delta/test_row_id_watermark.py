"""The row id watermark is prefetched during the replay; a failed prefetch is reported by the commit."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lakekeeper_delta.native import Log
from tests.delta.race import VECTORS, Race, table
from tests.delta.scene import Scene

pytestmark = pytest.mark.delta
_NAME = "lakekeeper-delta-row-ids"


def _finished() -> None:
    for thread in threading.enumerate():
        if thread.name == _NAME:
            thread.join()


@pytest.mark.parametrize("row_ids", [True, False])
def test_only_a_table_with_row_ids_reads_ahead(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, row_ids: bool
) -> None:
    real, ahead = Log.latest, []

    def latest(self: Log) -> Any:
        ahead.append(threading.current_thread().name == _NAME)
        return real(self)

    monkeypatch.setattr(Log, "latest", latest)
    properties = f"{VECTORS}, 'delta.enableRowTracking'='{str(row_ids).lower()}'"
    table(scene, properties, "k INT").run(
        "INSERT INTO {t} SELECT id FROM range(9)", "INSERT INTO {t} VALUES (9)"
    )
    race = Race.start(scene)
    scene.run("DELETE FROM {t} WHERE k = 3")
    race.won()
    _finished()
    assert sum(ahead) == row_ids


def test_a_read_that_fails_does_not_fail_the_replay(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    table(scene, VECTORS + ", 'delta.enableRowTracking'='true'", "k INT").run(
        "INSERT INTO {t} SELECT id FROM range(9)", "INSERT INTO {t} VALUES (9)"
    )
    race = Race.start(scene)
    scene.run("DELETE FROM {t} WHERE k = 3")
    real, failed = Log.latest, []

    def latest(self: Log) -> Any:
        if threading.current_thread().name == _NAME:
            failed.append(True)
            raise OSError("the store does not answer")
        return real(self)

    monkeypatch.setattr(Log, "latest", latest)
    race.replay()
    _finished()
    assert failed
    race.commit()
    assert sum(scene.spark_rows().values()) == 9
