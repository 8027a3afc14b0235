from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.config.quantities import parse_size, parse_time, size_text, time_text


@pytest.mark.parametrize(
    "text, expected",
    [
        ("0", 0),
        ("1000000", 1_000_000),
        ("12B", 12),
        ("64MB", 64_000_000),
        ("64 mb", 64_000_000),
        ("128MiB", 128 << 20),
        ("20GB", 20 * 10**9),
        ("2g", 2 << 30),
        (" 1.5TiB ", 3 << 39),
        ("0.1MiB", 104_857),  # a fraction of a byte is cut off
        ("1PB", 10**15),
    ],
)
def test_sizes(text: str, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize(
    "text", ["", "MB", "-1MB", "1 M B", "1e6", "1,000", "1.5", "1.", "0x10", "1EB", "7d", "٣MB x"]
)
def test_text_that_is_not_a_size(text: str) -> None:
    with pytest.raises(ValueError):
        parse_size(text)


@pytest.mark.parametrize(
    "text, bare_ms, expected",
    [
        ("250ms", None, 250),
        ("90s", None, 90_000),
        ("15m", 1, 900_000),
        ("2H", None, 7_200_000),
        (" 7 d ", None, 7 * 86_400_000),
        ("1.5h", None, 5_400_000),
        ("0s", None, 0),
        ("250", 1, 250),
        ("36", 3_600_000, 36 * 3_600_000),
        ("0.25", 3_600_000, 900_000),
    ],
)
def test_times(text: str, bare_ms: int | None, expected: int) -> None:
    assert parse_time(text, bare_ms) == expected


@pytest.mark.parametrize(
    "text, bare_ms",
    [
        ("", 1),
        ("15", None),
        ("0.5", 1),
        ("0.5ms", 1),
        ("-1s", 1),
        ("1h30m", 1),
        ("15 minutes", 1),
        ("1e3", 1),
        ("64MB", 1),
    ],
)
def test_text_that_is_not_a_time(text: str, bare_ms: int | None) -> None:
    with pytest.raises(ValueError):
        parse_time(text, bare_ms)


@given(st.integers(0, 1 << 60) | st.builds(lambda n, p: n * 1024**p, st.integers(0, 5000), st.integers(0, 5)))
def test_a_size_survives_as_text(count: int) -> None:
    assert parse_size(size_text(count)) == count
    assert len(size_text(count)) <= max(len(str(count)), 4)


@given(
    st.integers(0, 1 << 60)
    | st.builds(lambda n, p: n * p, st.integers(0, 5000), st.sampled_from([1000, 60_000, 86_400_000]))
)
def test_a_time_survives_as_text(ms: int) -> None:
    assert parse_time(time_text(ms), None) == ms


@pytest.mark.parametrize(
    "count, text",
    [
        (0, "0"),
        (1, "1"),
        (1024, "1KiB"),
        (1000, "1KB"),
        (500_000_000, "500MB"),
        (128 << 20, "128MiB"),
        (16 << 30, "16GiB"),
        (1234567, "1234567"),
    ],
)
def test_sizes_are_printed_in_the_unit_that_is_shortest(count: int, text: str) -> None:
    assert size_text(count) == text


@pytest.mark.parametrize(
    "ms, text",
    [
        (0, "0s"),
        (250, "250ms"),
        (90_000, "90s"),
        (900_000, "15m"),
        (86_400_000, "1d"),
        (36 * 3_600_000, "36h"),
    ],
)
def test_times_are_printed_in_the_largest_unit_that_divides_them(ms: int, text: str) -> None:
    assert time_text(ms) == text
