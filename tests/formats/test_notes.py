"""Notes beside a table, read while other processes write and remove them."""

from __future__ import annotations

from threading import Event, Thread

from tests.formats.lakes import Lake


def test_a_note_removed_during_a_read_is_present_or_absent(lake: Lake) -> None:
    name = lake.create("id BIGINT")
    ours, theirs = lake.adapter(name).notes, lake.adapter(name).notes
    ended = Event()

    def come_and_go() -> None:
        while not ended.is_set():
            theirs.keep("trash/0.json", "entry")
            theirs.remove("trash/0.json")

    other = Thread(target=come_and_go)
    other.start()
    try:
        seen = {ours.read("trash/0.json") for _ in range(1_000)}
    finally:
        ended.set()
        other.join()
    assert seen <= {"entry", "", None}
    assert len(seen) > 1
