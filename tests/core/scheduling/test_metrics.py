"""The text for Prometheus: a parser of its grammar accepts it, and it agrees with the passes."""

from __future__ import annotations

import re

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.auto_report import STATUSES, AutoReport, PatternResult, TableResult
from lakekeeper.core.scheduling.debt import Debt
from lakekeeper.core.scheduling.metrics import ServiceMetrics

WHY = Reason.of(Code.DONE)
ODD = 'a "quoted" \\ name\nin two lines'
REPORT = AutoReport(
    (
        TableResult("a", "done", WHY, rewritten_bytes_count=100, debt=Debt(1.5, 300)),
        TableResult(ODD, "parked", WHY, deleted_bytes_count=7, debt=Debt(0.25, 30)),
    ),
    1_500,
    patterns=(PatternResult("x.*", "unmatched", WHY, 0),),
)
_SAMPLE = re.compile(
    r'([a-z_]+)((?:\{[a-z_]+="(?:[^"\\\n]|\\.)*"(?:,[a-z_]+="(?:[^"\\\n]|\\.)*")*\})?) (\S+)'
)


def samples(text: str) -> dict[str, float]:
    """Each sample by its name and labels; every line must be a sample, or the help or type of one."""
    assert text.endswith("\n")
    found, typed = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
        elif not line.startswith("# HELP "):
            match = _SAMPLE.fullmatch(line)
            assert match is not None, line
            assert match[1] in typed
            found[match[1] + match[2]] = float(match[3])
    return found


def test_counters_grow_from_pass_to_pass_and_gauges_show_the_last() -> None:
    metrics = ServiceMetrics().after(REPORT, 1_000).after(REPORT, 2_500).after_error("down", 3_000)
    found = samples(metrics.text())
    assert found["lakekeeper_passes_total"] == 3
    assert found["lakekeeper_pass_errors_total"] == 1
    assert found["lakekeeper_rewritten_bytes_total"] == 200
    assert found["lakekeeper_deleted_bytes_total"] == 14
    assert found["lakekeeper_last_pass_timestamp_seconds"] == 3.0
    assert found["lakekeeper_last_pass_duration_seconds"] == 1.5
    assert found["lakekeeper_last_pass_exit_code"] == 1
    assert found["lakekeeper_debt_query_seconds_per_day"] == 1.75
    assert found["lakekeeper_debt_bytes"] == 330
    assert found['lakekeeper_patterns{status="unmatched"}'] == 1


def test_each_status_has_a_sample_and_tables_that_need_attention_their_names() -> None:
    found = samples(ServiceMetrics().after(REPORT, 0).text())
    by_status = {s: found[f'lakekeeper_tables{{status="{s}"}}'] for s in STATUSES}
    assert by_status == {**dict.fromkeys(STATUSES, 0), "done": 1, "parked": 1}
    (named,) = [name for name in found if name.startswith("lakekeeper_table_unhealthy")]
    assert '\\"quoted\\"' in named


def test_before_the_first_pass_there_are_no_samples_of_passes() -> None:
    assert not any("tables" in name or "debt" in name for name in samples(ServiceMetrics().text()))


def test_large_numbers_are_exact() -> None:
    huge = AutoReport((TableResult("a", "done", WHY, rewritten_bytes_count=2**53 - 1),), 1)
    assert "lakekeeper_rewritten_bytes_total 9007199254740991\n" in ServiceMetrics().after(huge, 0).text()


def test_a_service_is_healthy_while_passes_end_with_reports() -> None:
    metrics = ServiceMetrics().after(REPORT, 1_000)
    assert metrics.healthy(1_000 + 30, 10, 20)
    assert not metrics.healthy(1_000 + 31, 10, 20)
    assert not metrics.after_error("down", 1_000).healthy(1_000, 10, 20)
    assert metrics.after_error("down", 1_000).after(REPORT, 1_001).healthy(1_001, 10, 20)
