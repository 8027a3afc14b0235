"""``AdapterContract``: what every adapter must do, as one pytest class. See ``lakekeeper.testing.harness``."""

# ruff: noqa: E402  (pytest rewrites the asserts of modules that it knows before their import)
from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "lakekeeper.testing.snapshot_contract",
    "lakekeeper.testing.rewrite_contract",
    "lakekeeper.testing.race_contract",
    "lakekeeper.testing.replay_contract",
    "lakekeeper.testing.delete_contract",
    "lakekeeper.testing.curve_contract",
    "lakekeeper.testing.storage_contract",
    "lakekeeper.testing.undo_contract",
    "lakekeeper.testing.sweep_contract",
    "lakekeeper.testing.file_contract",
    "lakekeeper.testing.change_contract",
    "lakekeeper.testing.statistics_contract",
    "lakekeeper.testing.format_contract",
    "lakekeeper.testing.prepared_contract",
)

from lakekeeper.testing.change_contract import ChangeContract
from lakekeeper.testing.curve_contract import CurveContract
from lakekeeper.testing.delete_contract import DeleteContract
from lakekeeper.testing.file_contract import FileContract
from lakekeeper.testing.format_contract import FormatContract
from lakekeeper.testing.prepared_contract import PreparedContract
from lakekeeper.testing.race_contract import RaceContract
from lakekeeper.testing.replay_contract import ReplayContract
from lakekeeper.testing.rewrite_contract import RewriteContract
from lakekeeper.testing.snapshot_contract import SnapshotContract
from lakekeeper.testing.statistics_contract import StatisticsContract
from lakekeeper.testing.storage_contract import StorageContract
from lakekeeper.testing.sweep_contract import SweepContract
from lakekeeper.testing.undo_contract import UndoContract


class AdapterContract(
    SnapshotContract,
    RewriteContract,
    RaceContract,
    ReplayContract,
    DeleteContract,
    CurveContract,
    StorageContract,
    UndoContract,
    SweepContract,
    FileContract,
    ChangeContract,
    StatisticsContract,
    FormatContract,
    PreparedContract,
):
    """Subclass it, declare ``capabilities``, ``kinds`` and ``lacks``, and give it a fixture ``harness``."""
