"""The costs of reading and rewriting: coefficients with documented defaults, and their fit to measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

import numpy as np

MIB = 1 << 20
_FEWEST = 3
"""Minimum number of measurements per coefficient; with fewer, a fit would only reproduce them."""


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Costs of reading and rewriting, in byte-equivalents; the defaults are documented, and can be fitted.

    open_bytes     O, cost of opening a file (Spark's and Iceberg's open-file cost)
    column_share   φ, share of a file's bytes that a query fetches
    rewrite        ρ, cost of rewriting a byte: read and write (2), sort and encode (3)
    deleted_row    κ, cost of a deleted row that a reader discards
    core_speed     β, bytes per second per core
    error          median relative error of the fit against the measurements; None for the defaults
    measured       number of measurements in the fit
    """

    open_bytes: float = 4.0 * MIB
    column_share: float = 0.2
    rewrite: float = 5.0
    deleted_row: float = 64.0
    core_speed: float = 200e6
    error: float | None = None
    measured: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data, fields as above."""
        return asdict(self)

    def fitted(self, measured: Sequence[Measured]) -> Coefficients:
        """Coefficients that best fit the measurements; those that the measurements do not determine are unchanged.

            scans     core seconds = (O·files + φ·bytes + κ·deleted rows) / β
            merges    core seconds = (ρ·bytes + O·files) / β

        O, κ and β are fitted to scans by least squares of relative errors, so that small scans count; φ is not fitted.
        ρ is the median over the merges, at least 1.
        """
        scans = [m for m in measured if not m.rewritten and m.core_seconds > 0]
        found = self._fit_scans(scans) if scans else self
        merges = [m for m in measured if m.rewritten and m.core_seconds > 0 and m.bytes > 0]
        if merges:
            per_byte = [
                (m.core_seconds * found.core_speed - found.open_bytes * m.files) / m.bytes for m in merges
            ]
            found = replace(found, rewrite=max(float(median(per_byte)), 1.0))
        pairs = [(found.seconds(m), m.core_seconds) for m in (*scans, *merges)]
        if not pairs:
            return self
        wrong = float(median(abs(predicted - real) / real for predicted, real in pairs))
        return replace(found, error=round(wrong, 4), measured=len(pairs))

    def seconds(self, one: Measured) -> float:
        """Predicted core seconds of a scan or merge."""
        if one.rewritten:
            return (self.rewrite * one.bytes + self.open_bytes * one.files) / self.core_speed
        read = self.column_share * one.bytes + self.deleted_row * one.deleted_rows
        return (self.open_bytes * one.files + read) / self.core_speed

    def _fit_scans(self, scans: Sequence[Measured]) -> Coefficients:
        facts = np.array([[m.files, m.bytes * self.column_share, m.deleted_rows] for m in scans], np.float64)
        real = np.array([m.core_seconds for m in scans], np.float64)
        varying = [c for c in range(3) if np.ptp(facts[:, c]) > 0]
        while varying and len(scans) >= _FEWEST * len(varying):
            # Relative errors: each equation is divided by its measurement.
            slope, _, rank, _ = np.linalg.lstsq(
                facts[:, varying] / real[:, None], np.ones(len(real)), rcond=None
            )
            if rank == len(varying) and (slope > 0).all():
                return self._from_slopes(dict(zip(varying, slope.tolist(), strict=True)))
            # Costs are not negative: the data does not determine a coefficient that comes out so.
            varying.remove(varying[int(np.argmin(slope))])
        return self

    def _from_slopes(self, slope: dict[int, float]) -> Coefficients:
        speed = 1 / slope[1] if 1 in slope else self.core_speed
        opened = slope[0] * speed if 0 in slope else self.open_bytes
        deleted = slope[2] * speed if 2 in slope else self.deleted_row
        return replace(self, open_bytes=opened, core_speed=speed, deleted_row=deleted)


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured scan or merge (``rewritten``): what it read, and the core seconds of all its tasks."""

    files: int
    bytes: int
    core_seconds: float
    deleted_rows: int = 0
    rewritten: bool = False


DEFAULTS = Coefficients()
