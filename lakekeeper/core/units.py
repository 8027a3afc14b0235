"""Units of time, and the numpy array types that all packages of the core use."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
CLOCKS_DIFFER_MS = 5 * 60_000
"""How far the clock of another host may be ahead. A later time is a wrong clock's, and does not count."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
