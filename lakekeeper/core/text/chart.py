"""A quantity over time as a text chart: one column per instant, with heights in eighths of a line."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_STEPS = " ▁▂▃▄▅▆▇█"


def chart(
    values: npt.NDArray[np.float64], marks: npt.NDArray[np.int64], *, height: int = 6, width: int = 60
) -> str:
    """Draw ``values`` as columns, averaging values that share a column; ``marks`` (one per value) label the axis below.

    The top is labelled with the highest column; the axis is zero.
    """
    columns = np.array_split(values, min(width, len(values)))
    heights = np.array([float(c.mean()) for c in columns])
    top = float(heights.max())
    eighths = np.ceil(heights / (top or 1.0) * height * 8).astype(np.int64)
    label = f"{top:.1f}"
    lines = []
    for line in range(height - 1, -1, -1):
        filled = np.clip(eighths - line * 8, 0, 8)
        edge = f"{label} ┤" if line == height - 1 else " " * len(label) + " │"
        lines.append((edge + "".join(_STEPS[int(f)] for f in filled)).rstrip())
    first, last = str(int(marks[0])), str(int(marks[-1]))
    lines.append(f"{'0':>{len(label)}} └" + "─" * len(columns))
    gap = max(1, len(columns) - len(first) - len(last))
    lines.append(" " * (len(label) + 2) + first + " " * gap + last)
    return "\n".join(lines)
