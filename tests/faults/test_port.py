"""Every method of the adapter fails once, at every call: how the engine handles it, on real tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.faults.ground import KINDS, Ground
from tests.faults.port import ANSWERS, COMMITS, MODES
from tests.faults.series import PortGun, Series, Shot, by_turns, every_way, happened
from tests.faults.trial import PROGRAMS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("merged_by")]
Grounds = Callable[[str], Ground]
ONE_A_DAY = pytest.mark.sampled("each way of a raced call")


def answers(calls: list[str], those: Sequence[str] = ANSWERS) -> list[Shot]:
    """Each response that a commit can get, for the first commit of the run."""
    return [(next(i for i, name in enumerate(calls) if name in COMMITS), answer) for answer in those]


@ONE_A_DAY
@pytest.mark.delta
def test_a_raced_recluster_of_delta(ground: Grounds) -> None:
    series = Series(ground("delta"), PROGRAMS["raced recluster"], PortGun(), thorough=False)
    calls = series.calls()
    tally = series.shoot(
        [*by_turns(calls, MODES[:3], every=4), *answers(calls, ("lost", "landed", "contradicted"))]
    )
    happened(tally, "replay", "unknown, landed", "crash", "abort")


@ONE_A_DAY
@pytest.mark.iceberg
def test_a_raced_recluster_of_iceberg(ground: Grounds) -> None:
    series = Series(ground("iceberg-v3"), PROGRAMS["raced recluster"], PortGun(), thorough=False)
    calls = series.calls()
    tally = series.shoot([*by_turns(calls, MODES[:3]), *answers(calls)])
    happened(tally, "replay", "retry", "unknown, landed", "unknown, lost", "crash", "abort")


@ONE_A_DAY
@pytest.mark.iceberg
def test_a_raced_delete_of_iceberg(ground: Grounds) -> None:
    series = Series(ground("iceberg-v2"), PROGRAMS["raced delete"], PortGun(), thorough=False)
    calls = series.calls()
    tally = series.shoot([*by_turns(calls, MODES[:3], every=3, first=1), *answers(calls, ("lost", "landed"))])
    happened(tally, "retry", "unknown, landed", "unknown, lost", "abort")


@pytest.mark.faults_full
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_call_in_every_way(ground: Grounds, kind: str, program: str) -> None:
    series = Series(ground(kind), PROGRAMS[program], PortGun(), thorough=True)
    calls = series.calls()
    tally = series.shoot([*every_way(range(len(calls)), MODES), *answers(calls)])
    print(f"\n{kind}, {program}: {len(calls)} calls, {dict(tally)}")
    happened(tally, "crash", "abort", "unknown, landed", "unknown, lost", "retry")
