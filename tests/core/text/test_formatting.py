"""Numbers, tables and bars, formatted for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.text.formatting import (
    bar,
    bars,
    counted,
    duration,
    indent,
    labels,
    percent,
    significant,
    size,
    table,
    wrapped,
)


@pytest.mark.parametrize(
    "count, text",
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1023.6, "1.0 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (-(1024**2) + 1, "-1.0 MiB"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (5 << 30, "5.0 GiB"),
        (5 << 50, "5120.0 TiB"),
        (-2048, "-2.0 KiB"),
    ],
)
def test_sizes_are_in_the_largest_unit_that_is_not_above_them(count: float, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    "share, text",
    [
        (0.0, "0%"),
        (0.00001, "under 0.1%"),
        (0.001, "0.1%"),
        (0.125, "12.5%"),
        (0.2999, "29.9%"),  # never rounded up to the 30% at which something is due
        (0.3, "30%"),
        (1.0, "100%"),
    ],
)
def test_a_share_below_a_threshold_never_reads_as_equal_to_it(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0, "0 seconds"),
        (-5, "0 seconds"),
        (1, "1 second"),
        (119, "119 seconds"),
        (120, "2 minutes"),
        (7199, "120 minutes"),
        (93600, "26 hours"),
        (7 * 86_400, "7 days"),
        (2 * 31_557_600, "2 years"),
        (101 * 31_557_600, "more than 100 years"),
    ],
)
def test_a_duration_is_in_the_largest_unit_of_which_there_are_two(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    "number, text",
    [
        (0, "0"),
        (0.012345, "0.0123"),
        (0.00012345, "0.000123"),
        (0.00001, "under 0.0001"),
        (-0.00001, "above -0.0001"),
        (1.5, "1.5"),
        (99.94, "99.9"),
        (3600.0, "3,600"),
        (1.2e8, "120,000,000"),
    ],
)
def test_a_number_has_three_significant_digits_and_no_exponent(number: float, text: str) -> None:
    assert significant(number) == text


def test_counts_agree_with_their_noun() -> None:
    assert [counted(n, "file") for n in (0, 1, 2, 1200)] == ["0 files", "1 file", "2 files", "1,200 files"]


@pytest.mark.parametrize(
    "value, top, drawn",
    [(0, 8, ""), (8, 8, "█" * 4), (4, 8, "██"), (1, 8, "▌"), (1, 10_000, "▏"), (5, 0, "")],
)
def test_a_bar_is_proportional_and_every_value_shows(value: float, top: float, drawn: str) -> None:
    assert bar(value, top, width=4) == drawn


def test_columns_are_aligned() -> None:
    rows = [("name", "files"), ("a", "7"), ("much longer", "1,200")]
    assert table(rows, right=frozenset({1})).splitlines() == [
        "name         files",
        "-----------  -----",
        "a                7",
        "much longer  1,200",
    ]


def test_the_last_column_is_wrapped_to_the_width_and_the_others_are_not_repeated() -> None:
    why = "overlaps no file, and is full or has no small neighbour of its level"
    lines = table([("blocks", "why"), ("12", why), ("3", "short")], width=48).splitlines()
    assert max(map(len, lines)) <= 48
    assert " ".join(line[8:].strip() for line in lines[2:-1]) == why
    assert [line[:6].strip() for line in lines[2:]] == ["12", *[""] * (len(lines) - 4), "3"]


def test_a_column_is_never_narrower_than_a_sentence_needs() -> None:
    wide = "x" * 60
    lines = table([(wide, "why"), (wide, "one two three four five six seven eight")], width=40).splitlines()
    assert max(len(line) - 62 for line in lines[2:]) > 20


def test_a_histogram_begins_and_ends_with_a_bucket_that_is_not_empty() -> None:
    counts = {"00": 0, "01": 4, "02": 0, "04": 8, "08": 0}
    assert [line.split()[:2] for line in bars(counts).splitlines()] == [["01", "4"], ["02", "0"], ["04", "8"]]
    assert bars({"00": 0}) == "  (empty)"


def test_paragraphs_keep_words_whole() -> None:
    text = wrapped("spark.lakekeeper.commit.retry.num-retries is far too low", 20, first="* ", rest="  ")
    assert text.splitlines()[0] == "* spark.lakekeeper.commit.retry.num-retries"
    assert all(line.startswith(("* ", "  ")) for line in text.splitlines())
    assert indent("a\nb", 2) == "  a\n  b"


@pytest.mark.parametrize(
    "texts, expected",
    [
        (["a", "b" * 8, ""], ["a", "b" * 8, ""]),
        (["apple trees", "pear trees"], ["apple t…", "pear tr…"]),
        (["2026-01-01 10:00", "2026-01-01 11:30"], ["…10:00", "…11:30"]),
        (["2026-01-01 10:00:00", "2026-01-01 10:00:05"], ["…00", "…05"]),
        (["https://example.org/a/1", "https://example.org/b/2", "NULL"], ["…a/1", "…b/2", "NULL"]),
        (["user00000000017", "user00000000023", "user00000000023"], ["…17", "…23", "…23"]),
        (["user00000017-abcdefgh", "user00000023-abcdefgh"], ["…17-abc…", "…23-abc…"]),
        (["same for both", "same for both"], ["same fo…", "same fo…"]),
        ([], []),
    ],
)
def test_labels_that_a_common_start_would_make_equal_are_cut_there(
    texts: list[str], expected: list[str]
) -> None:
    assert labels(texts, 8) == expected


@given(st.lists(st.text("ab-", max_size=12)))
def test_labels_are_short_and_as_many_as_a_plain_cut_leaves(texts: list[str]) -> None:
    found = labels(texts, 5)
    assert all(len(label) <= 5 for label in found)
    assert all(label == text for label, text in zip(found, texts, strict=True) if len(text) <= 5)
    assert len(set(found)) >= len({text if len(text) <= 5 else text[:4] for text in texts})
