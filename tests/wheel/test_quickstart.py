"""The quickstart block by block, and its tables as readers without Spark see them afterwards."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from tests.docs.blocks import QUICKSTART, statements, to_run
from tests.docs.walk import READER
from tests.wheel.user import User

pytestmark = pytest.mark.wheel
_DELETED = 4_711


def test_the_quickstart(user: User) -> None:
    doctor = user.run("lakekeeper doctor")
    assert doctor.code == 0, doctor.out
    given = [asdict(block) | {"statements": list(statements(block.code))} for block in to_run(QUICKSTART)]
    done = subprocess.run(
        [str(user.place / "bin" / "python"), "-c", READER],
        cwd=user.folder,
        env=user.env,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=1_800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("--- end ---")
    assert "by rows in Spark" not in done.stdout, "the merges of a new user are columnar"
    assert (user.folder / "report.html").read_text().startswith("<!doctype html>")
    warehouse = user.folder / "warehouse"
    catalog = SqlCatalog("ice", uri=f"sqlite:///{warehouse}/catalog.db")
    scan = catalog.load_table("db.events").scan()
    written = [number * 7 for number in range(1_000) for _ in range(5)]
    kept = sorted(user_id for user_id in written if user_id != _DELETED)
    assert sorted(scan.to_arrow()["user_id"].to_pylist()) == kept
    assert len(list(scan.plan_files())) == 1
    delta = DeltaTable(str(warehouse / "db.db" / "events"))
    assert sorted(delta.to_pyarrow_table()["user_id"].to_pylist()) == sorted(written)
    catalog.engine.dispose()
