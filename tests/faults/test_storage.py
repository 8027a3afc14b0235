"""Every file system call fails once, in the JVM: data files, delete files, manifests, logs.

A crash after a call leaves the same state as one before the next call, and reads change nothing: writes fail in each
way, reads only before the call.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import lakekeeper as lk
from lakekeeper.errors import LakekeeperError, NotFound
from tests.faults.ground import KINDS, Ground
from tests.faults.series import Series, StorageGun, by_turns, every_way, happened
from tests.faults.storage import MODES, READS, WRITES, Storage
from tests.faults.trial import PROGRAMS

pytestmark = pytest.mark.slow
Grounds = Callable[[str], Ground]


@pytest.mark.parametrize(
    "kind,program",
    [
        pytest.param("delta", "raced recluster", marks=pytest.mark.delta),
        pytest.param("iceberg-v3", "raced recluster", marks=pytest.mark.iceberg),
        pytest.param("iceberg-v2", "delete", marks=pytest.mark.iceberg),
    ],
)
def test_some_writes_and_reads(ground: Grounds, storage: Storage, kind: str, program: str) -> None:
    series = Series(ground(kind), PROGRAMS[program], StorageGun(storage, f"{WRITES} {READS}"), thorough=False)
    calls = series.calls()
    writes = [at for at, call in enumerate(calls) if call.split()[0] in WRITES.split()]
    reads = [at for at in range(len(calls)) if at not in writes]
    tally = series.shoot(
        [(writes[i], mode) for i, mode in by_turns(writes, MODES[:3], every=4, first=1)]
        + [(reads[i], mode) for i, mode in by_turns(reads, ["before"], every=24, first=12)]
    )
    happened(tally, "crash")


@pytest.mark.delta
@pytest.mark.parametrize(
    "program", ["delete", pytest.param("raced recluster", marks=pytest.mark.faults_full)]
)
def test_a_truncated_vector_file_is_not_committed(ground: Grounds, storage: Storage, program: str) -> None:
    """delta-io/delta 7329: an error on closing the file is swallowed, and the commit references a truncated file."""
    series = Series(ground("delta"), PROGRAMS[program], StorageGun(storage, "close"), thorough=False)
    closes = [at for at, call in enumerate(series.calls()) if call.endswith(".bin")]
    assert closes
    tally = series.shoot((at, "before") for at in closes)
    happened(tally, "group dropped" if program == "raced recluster" else "abort")
    assert not tally["leftovers"]


@pytest.mark.parametrize(
    "kind,mode",
    [
        pytest.param("delta", "before", marks=pytest.mark.delta),
        pytest.param("iceberg-v3", "crash before", marks=pytest.mark.iceberg),  # it retries a failed read
    ],
)
def test_opening_an_unreadable_table_names_it(
    ground: Grounds, storage: Storage, kind: str, mode: str
) -> None:
    """Neither by a Java exception, nor as a table that does not exist."""
    made = ground(kind)
    made.fresh()
    named = 0
    for at in range(4):
        made.forget()
        storage.arm(Path(made.home), READS, at, mode)
        failed = error_of(lambda: lk.table(made.spark, made.sql))
        if at >= len(storage.disarm()):
            break
        if failed is not None:
            assert isinstance(failed, LakekeeperError), failed
            assert not isinstance(failed, NotFound), failed
            assert made.sql in str(failed)
            named += 1
    assert named, "the table opened without a read"


def error_of(act: Callable[[], object]) -> Exception | None:
    """The error that a call raises."""
    try:
        act()
    except Exception as error:
        return error
    return None


@pytest.mark.faults_full
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_write_in_every_way(ground: Grounds, storage: Storage, kind: str, program: str) -> None:
    series = Series(ground(kind), PROGRAMS[program], StorageGun(storage, WRITES), thorough=True)
    calls = series.calls()
    tally = series.shoot(every_way(range(len(calls)), MODES))
    print(f"\n{kind}, {program}: {len(calls)} writes, {dict(tally)}")
    happened(tally, "crash", "abort", "leftovers")


@pytest.mark.faults_full
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_read(ground: Grounds, storage: Storage, kind: str, program: str) -> None:
    series = Series(ground(kind), PROGRAMS[program], StorageGun(storage, READS), thorough=True)
    calls = series.calls()
    tally = series.shoot((at, "before") for at in range(len(calls)))
    print(f"\n{kind}, {program}: {len(calls)} reads, {dict(tally)}")
    if "delete" in program:
        happened(tally, "abort")
    else:
        assert tally["survived"] > tally["not reached"]  # a run makes a read fewer now and then
        assert tally["survived"] + tally["not reached"] == tally["trials"], (
            "one failed read may drop one group at most"
        )
