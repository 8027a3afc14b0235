"""Units of time, and the numpy array types that all packages of the core use."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
