"""Random histories with rivals at random phases: maintenance never changes users' rows.

The model is a plain list of rows to which the same user operations are applied; maintenance must be invisible.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from lakekeeper.errors import Conflict, Rejected, Unknown
from lakekeeper.testing.draws import draw_table
from lakekeeper.testing.memory import Fault
from lakekeeper.testing.values import Row, fingerprint
from tests.engine.scene import Scene

FAULTS: list[Fault] = ["rejected", "unknown, landed", "unknown, lost"]


class Users:
    """Commits of users, applied to the table and to the model."""

    def __init__(self, scene: Scene, rng: random.Random) -> None:
        self.table = scene.table
        self.rng = rng
        self.model: list[Row] = scene.table.rows()
        self._lock = threading.Lock()

    def act(self) -> None:
        with self._lock:
            getattr(self, self.rng.choice(["append", "append", "delete", "delete", "foreign", "overwrite"]))()

    def append(self) -> None:
        if not self.model:
            return
        batch = [dict(self.rng.choice(self.model)) for _ in range(self.rng.randint(1, 5))]
        self.table.append(batch)
        self.model += batch

    def delete(self) -> None:
        value = self.rng.choice([0, 1, 2, 3, 5, 8])
        self.table.delete(f"j = {value}")
        self.model = [row for row in self.model if row["j"] != value]

    def foreign(self) -> None:
        self.table.rewrite_foreign()

    def overwrite(self) -> None:
        if self.rng.random() < 0.2:
            self.model = self.model[: len(self.model) // 2]
            self.table.overwrite(self.model)


def _rival(users: Users, chance: float) -> Any:
    phases = random.Random(users.rng.random())
    lock = threading.Lock()

    def observer(phase: str, info: Mapping[str, Any]) -> None:
        with lock:
            now = phases.random() < chance
        if now:
            users.act()

    return observer


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(150))
def test_no_history_loses_doubles_or_restores_a_row(seed: int) -> None:
    rng = random.Random(seed)
    scene = Scene(draw_table(rng))
    users = Users(scene, rng)
    doubted = False
    for _ in range(4):
        users.act()
        kept = {v.number: scene.table.fingerprint(v.number) for v in scene.table.versions}
        if rng.random() < 0.3:
            scene.adapter.faults.outcomes.append(rng.choice(FAULTS))
        if rng.random() < 0.3:
            scene.adapter.faults.races.append(users.act)
        options = {
            "max-rows-per-file": rng.choice([3, 10]),
            "depth-threshold": rng.choice([1, 2]),
            "partial-progress.bytes-per-commit": 1 if rng.random() < 0.3 else 1 << 40,
            "commit.retry.num-retries": rng.choice([0, 2]),
        }
        policies = rng.choice([("ranges",), ("peaks",), ("sizes",), ("full",), ("ranges", "sizes")])
        try:
            report = scene.run(*policies, observer=_rival(users, rng.choice([0, 0.1, 0.5])), final=rng.random() < 0.5,
                               options=options)  # fmt: skip
            # The outcome of one part of a run may be unknown while others landed.
            doubted |= any("is not known" in str(group.detail) for group in report.groups)
        except Unknown:
            doubted = True
        except (Conflict, Rejected):
            pass
        assert fingerprint(scene.table.rows()) == fingerprint(users.model)
        assert {number: scene.table.fingerprint(number) for number in kept} == kept
        assert doubted or scene.table.leftovers() == set()
        scene.adapter.faults.outcomes.clear()
        scene.adapter.faults.races.clear()
