"""A simulation as text, with its depth over time as a chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekeeper.core.text.chart import chart
from lakekeeper.core.text.formatting import counted, indent, size, table

if TYPE_CHECKING:
    from lakekeeper.core.simulation.simulate import SimulationReport


def render_simulation(report: SimulationReport) -> str:
    """A simulation on one page: its cost, the files that queries would have opened, and depth over time."""
    rounds = "until nothing is left to do" if report.final else "one round each"
    by = ", ".join(report.policies)
    cost = f"{report.write_amplification:.2f} bytes per byte ingested"
    files = [
        ("files read by a query", "over time", "without maintenance"),
        ("for one key", f"{report.depth:.2f}", f"{report.untouched_depth:.2f}"),
        ("  95th percentile", f"{report.depth_p95:.2f}", ""),
        ("  at the end", f"{report.depth_at_end:.2f}", f"{report.course.untouched[-1]:.2f}"),
        ("for 1% of the data", f"{report.range_files:.2f}", ""),
    ]
    lines = [
        f"simulation of {report.ingest}" + (f", key {report.key}" if report.key else ""),
        f"  commits     {report.commits:,}; {by} after every {report.every} ({rounds})",
        f"  ingested    {counted(report.ingested_files, 'file')}, {size(report.ingested_bytes)}",
        f"  rewritten   {counted(report.rewritten_files, 'file')}, {size(report.rewritten_bytes)}: {cost}",
        f"  tasks       {report.tasks:,}, largest {size(report.largest_task_bytes)}",
        f"  at the end  {counted(report.files_at_end, 'file')}",
        indent(table(files, right=frozenset({1, 2}))),
        f"  read        {size(report.point_bytes)} by a query for one key, {size(report.range_bytes)} for 1%",
    ]
    lines += [
        "  files read by a query for one key, by commit:",
        indent(chart(report.course.depth, report.course.commit)),
    ]
    return "\n".join(lines)
