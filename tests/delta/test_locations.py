"""A path in the log is decoded once: decoded twice, it means another file to vacuum (delta-rs 4646, delta 6813).

No JVM.
"""

from __future__ import annotations

from unittest.mock import patch
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.vacuum.path_guard import Grounds, refusal
from lakekeeper_delta import locations
from lakekeeper_delta.locations import Locator

LOCATOR = Locator("file:/lake/t", "file:")
GROUNDS = Grounds(("file:/lake/t",), ("_delta_log",))
NAMES = st.lists(
    st.sampled_from(["a b", "a%20b", "%2e%2e", "ä", "+", "%", "%25", "p=1", ".p"]), min_size=1, max_size=4
)


def check_once(steps: list[str]) -> None:
    """Each spelling that writers use resolves to the file on disk: relative, absolute, with a scheme."""
    plain = "/".join(steps)
    spelled = quote(plain)
    for path in (spelled, f"/lake/t/{spelled}", f"file:/lake/t/{spelled}", f"file:///lake/t/{spelled}"):
        location = LOCATOR.of(path)
        assert location == f"file:/lake/t/{plain}"
        assert refusal(location, GROUNDS) == ""


@given(NAMES)
def test_each_spelling_resolves_to_the_file_on_disk(steps: list[str]) -> None:
    check_once(steps)


@pytest.mark.parametrize(
    "path", ["%2e%2e/%2e%2e/other/x", "..%2F..%2Fother/x", "%2e%2e/x", "file:/lake/t/..%2Fx"]
)
def test_a_path_that_leaves_the_table_once_decoded_is_refused(path: str) -> None:
    assert refusal(str(LOCATOR.of(path)), GROUNDS) == "it is outside the table's location"


def test_a_path_that_is_decoded_twice_is_detected() -> None:
    once = locations.decoded_path
    with (
        patch.object(locations, "decoded_path", lambda path: once(once(path))),
        pytest.raises(AssertionError),
    ):
        check_once(["p=a%20b", "x"])
