"""Coefficients of cost, fitted to measurements."""

from __future__ import annotations

import numpy as np
import pytest

from lakekeeper.core.model.coefficients import DEFAULTS, MIB, Coefficients, Measured

TRUE = Coefficients(open_bytes=8.0 * MIB, rewrite=9.0, deleted_row=200.0, core_speed=50e6)


def _measured(noise: float = 0.0) -> list[Measured]:
    rng = np.random.default_rng(3)
    found = []
    for _ in range(40):
        one = Measured(
            files=int(rng.integers(1, 400)),
            bytes=int(rng.integers(1, 4000)) * MIB,
            core_seconds=0.0,
            deleted_rows=int(rng.integers(0, 10**7)),
        )
        found.append(_timed(one, rng.normal(1, noise)))
    for _ in range(10):
        one = Measured(int(rng.integers(2, 60)), int(rng.integers(100, 4000)) * MIB, 0.0, rewritten=True)
        found.append(_timed(one, rng.normal(1, noise)))
    return found


def _timed(one: Measured, factor: float) -> Measured:
    return Measured(one.files, one.bytes, TRUE.seconds(one) * factor, one.deleted_rows, one.rewritten)


def test_a_fit_recovers_the_coefficients_behind_the_measurements() -> None:
    found = DEFAULTS.fitted(_measured())
    for name in ("open_bytes", "rewrite", "deleted_row", "core_speed"):
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=0.01)
    assert (found.error, found.measured) == (0.0, 50)


def test_the_error_of_a_fit_is_that_of_the_measurements() -> None:
    found = DEFAULTS.fitted(_measured(noise=0.1))
    assert 0.03 < (found.error or 0.0) < 0.15
    assert found.core_speed == pytest.approx(TRUE.core_speed, rel=0.15)


def test_too_few_measurements_change_nothing_but_report_the_error() -> None:
    found = DEFAULTS.fitted(_measured()[:2])
    assert (found.core_speed, found.open_bytes) == (DEFAULTS.core_speed, DEFAULTS.open_bytes)
    assert (found.error or 0.0) > 0.5


def test_without_measurements_there_is_no_fit() -> None:
    assert DEFAULTS.fitted([]) is DEFAULTS


def test_scans_that_all_read_alike_say_nothing_about_the_cost_of_opening() -> None:
    same = [Measured(4, 100 * MIB, 1.0) for _ in range(30)]
    assert DEFAULTS.fitted(same).open_bytes == DEFAULTS.open_bytes
