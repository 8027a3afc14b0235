"""What Azure does by its own rules: a rename is a copy and a delete, and a file is there, and empty, once it is opened.

The account has no hierarchical namespace: Azurite has none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from lakekeeper.cli import main
from tests.opening import table_later
from tests.stores.azurite import BlobRelay, missing
from tests.stores.blobs import ACCOUNT, LAKE, Container
from tests.stores.driver import Errand, second_driver
from tests.stores.faulty_s3 import Call
from tests.stores.kinds import BY_ADLS, ON_AZURE, Kind, StoreTable, of_kinds
from tests.stores.outcomes import Outcomes
from tests.stores.racing import calling, meeting_at, next_version, with_users
from tests.stores.rows import NOW, append, same_rows
from tests.stores.session import Places
from tests.stores.store import Store


@pytest.fixture(params=list(ON_AZURE.values()), ids=list(ON_AZURE))
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def relay(blobs: BlobRelay | None) -> Iterator[BlobRelay]:
    """Through which Spark reaches the container."""
    if blobs is None:
        pytest.skip(missing())
    yield blobs
    blobs.held = lambda _: None


@pytest.mark.parametrize("again", range(2))
@of_kinds(ON_AZURE | BY_ADLS)
def test_two_drivers_commit_at_the_same_instant(
    table: StoreTable, kind: Kind, relay: BlobRelay, outcomes: Outcomes, places: Places, again: int
) -> None:
    """Each has seen that the next version does not exist, and both copy their own to it: the service refuses one."""
    rows = table.spark_rows()
    verb, part = {
        "azure-delta": ("copy", f"_delta_log/{next_version(table):020d}.json" if kind.delta else ""),
        "azure-iceberg-jdbc": ("put blocklist", "/metadata/snap-"),
        "azure-iceberg-hadoop": ("copy", ".metadata.json"),
        "azure-iceberg-adls": ("put", "/metadata/snap-"),
    }[kind.name]
    with (
        second_driver(Errand(places, table.sql, "append")) as users,
        meeting_at(relay, verb, f"{table.prefix}/{part}" if kind.delta else part) as met,
    ):
        report = table.table().recluster("k", policy="full", observer=calling(users))
        users.wait_for("done")
    assert met.happened
    assert report.commits == 1
    outcomes[kind.name, "two drivers at a barrier"] = same_rows(table, with_users(rows))


def states_while(relay: BlobRelay, table: StoreTable, write: Callable[[], object]) -> list[dict[str, bytes]]:
    """The table's notes before each call that ``write`` makes: what readers see then, and what a crash leaves."""
    folder = f"{table.prefix}/_lakekeeper/"
    seen: list[dict[str, bytes]] = []

    def look(_: Call) -> None:
        seen.append(table.store.contents(folder))

    relay.held = look
    try:
        write()
    finally:
        relay.held = lambda _: None
    return [*seen, table.store.contents(folder)]


def texts_in(states: list[dict[str, bytes]], table: StoreTable, name: str) -> list[str | None]:
    """A note as it is read in each of these states."""
    notes, found = table.adapter().notes, []
    for state in states:
        for key in table.store.keys(f"{table.prefix}/_lakekeeper/") - set(state):
            table.store.delete(key)
        for key, data in state.items():
            table.store.put(key, data)
        found.append(notes.read(name))
    return found


@of_kinds(ON_AZURE | BY_ADLS)
def test_a_note_is_there_as_a_whole_or_not_at_all(table: StoreTable, relay: BlobRelay) -> None:
    """Otherwise a vacuum reads an empty registration, and takes the files of a live run for garbage."""
    notes = table.adapter().notes
    states = states_while(relay, table, lambda: notes.keep("intents/05.json", "ours"))
    found = texts_in(states, table, "intents/05.json")
    assert found[0] is None
    assert found[-1] == "ours"
    assert set(found) == {None, "ours"}


@of_kinds(ON_AZURE | BY_ADLS)
def test_a_note_that_is_replaced_is_the_old_one_or_the_new_one(table: StoreTable, relay: BlobRelay) -> None:
    """Loss L50: also after a crash in between, as the registration of a run must outlive its driver."""
    notes = table.adapter().notes
    notes.keep("intents/05.json", "old")
    states = states_while(relay, table, lambda: notes.replace("intents/05.json", "new"))
    found = texts_in(states, table, "intents/05.json")
    assert (found[0], found[-1]) == ("old", "new")
    assert set(found) == {"old", "new"}
    notes.replace("intents/05.json", "newer")
    assert notes.read("intents/05.json") == "newer"
    notes.remove("intents/05.json")
    assert notes.read("intents/05.json") is None
    assert not table.store.keys(f"{table.prefix}/_lakekeeper/intents")


@of_kinds(ON_AZURE | BY_ADLS)
def test_of_two_notes_of_one_name_the_second_is_refused(table: StoreTable, relay: BlobRelay) -> None:
    """Both callers have found the slot free when the other one writes: one run has it, the other takes the next."""
    ours, theirs = table.adapter().notes, table.adapter().notes
    waiting = ["theirs"]

    def write_first(call: Call) -> None:
        written = call.verb.startswith("put") or call.verb == "copy"
        if waiting and written and "/intents/" in call.key:
            assert theirs.keep("intents/05.json", waiting.pop()) == "theirs"

    relay.held = write_first
    assert ours.keep("intents/05.json", "ours") == "theirs"
    assert not waiting
    keys = table.store.keys(f"{table.prefix}/_lakekeeper/intents")
    assert {table.store.get(key) for key in keys} == {b"theirs"}


def test_a_vacuum_leaves_no_empty_folder_of_a_run(table: StoreTable) -> None:
    """Hadoop marks folders by empty blobs, which remain when the files in them are deleted."""
    table.table().recluster("k", policy="full")
    first = table.store.keys(table.prefix)
    append(table, 60, 80, files=2)
    table.table().recluster("k", policy="full")
    assert table.table().vacuum(**NOW).failed_files_count == 0
    assert isinstance(table.store, Container)
    folders, keys = table.store.folders(table.prefix), table.store.keys(table.prefix)
    assert first - keys, "nothing was deleted"
    empty = {folder for folder in folders if not any(key.startswith(f"{folder}/") for key in keys)}
    assert not {folder for folder in empty if "/lk" in folder}


def test_each_folder_is_listed_once(table: StoreTable, relay: BlobRelay) -> None:
    """A marked folder with files is in a listing twice; three folders deep, one in each would be listed eight times."""
    table.table().recluster("k", policy="full")
    storage, listed = table.adapter().storage, Counter[str]()

    def count(call: Call) -> None:
        if call.verb == "list":
            listed[call.key] += 1

    relay.held = count
    paths = [info.path for info in storage.files()]
    assert len(paths) == len(set(paths)) >= 7
    assert max(listed.values()) <= 2, "once for its files, and once to see whether it exists"


@of_kinds(BY_ADLS)
def test_verbs_by_the_client_of_iceberg(table: StoreTable, kind: Kind, outcomes: Outcomes) -> None:
    """Those that list nothing."""
    assert table.table().delete("id IN (14, 33, 59)").deleted_rows_count == 3
    rows = table.spark_rows()
    assert table.table().recluster("k", policy="full").commits == 1
    outcomes[kind.name, "recluster"] = outcomes[kind.name, "delete"] = same_rows(table, rows)
    assert table.table().vacuum(**NOW).deleted_files_count >= 6
    outcomes[kind.name, "vacuum"] = same_rows(table, rows)


@of_kinds({"azure-delta": ON_AZURE["azure-delta"]})
def test_a_file_that_the_log_names_by_wasb_is_no_orphan(table: StoreTable) -> None:
    """Loss L51: an older client names the same container by its Blob endpoint."""
    [live, *_] = sorted(key for key in table.store.keys(table.prefix) if key.endswith(".parquet"))
    folder, _, file = live.rpartition("/")
    named, data = f"{folder}/{file.replace('0000', '0001', 1)}", table.store.get(live)
    table.store.put(named, data)
    add = {
        "path": f"wasbs://{LAKE}@{ACCOUNT}.blob.core.windows.net/{named}",
        "partitionValues": {},
        "size": len(data),
        "modificationTime": 0,
        "dataChange": True,
    }
    commit = f"{table.prefix}/_delta_log/{next_version(table):020d}.json"
    table.store.put(commit, json.dumps({"add": add}).encode())
    table.forget()
    report = table_later(table.spark, table.sql, hours=200).vacuum(orphans=True, **NOW)
    assert named in table.store.keys(table.prefix), f"a live file is gone:\n{report}"


def test_names_that_urls_encode(
    spark: SparkSession, store: Store, kind: Kind, name: str, outcomes: Outcomes
) -> None:
    """Partitions whose folders have such names: a path is encoded once, and by each layer the same."""
    table = kind.table(spark, store, name)
    values = ("a b", "ü", "1%41", "x+y&z", "q?#", "c:d", "e=f", "g\\'h")
    table.create("id BIGINT, k INT, p STRING", more="PARTITIONED BY (p)")
    listed = ", ".join(f"({i + 100 * n}, {i}, '{p}')" for n in range(2) for i, p in enumerate(values))
    for half in range(2):
        table.run(f"INSERT INTO {{t}} SELECT id + {1000 * half}, k, p FROM VALUES {listed} AS s(id, k, p)")
    rows = table.spark_rows()
    assert rows.total() == 4 * len(values)
    report = table.table().recluster("k", policy="full")
    assert report.commits == 1
    assert {group.status for group in report.groups} == {"committed"}
    same_rows(table, rows)
    live = [key for key in table.store.keys(table.prefix) if key.endswith(".parquet")]
    for key in live:
        table.store.put(key.replace("part-", "part-9", 1).replace("/0", "/9"), b"orphan")
    done = table_later(table.spark, table.sql, hours=200).vacuum(orphans=True, **NOW)
    assert done.failed_files_count == 0
    assert done.deleted_files_count >= 2 * len(values)
    assert table.leftovers() == set()
    outcomes[kind.name, "names that URLs encode"] = same_rows(table, rows)


def test_doctor_shows_the_log_store_that_renames(
    spark: SparkSession, relay: BlobRelay, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["doctor", "--session"])
    [line] = [each for each in capsys.readouterr().out.splitlines() if "log store, abfss:" in each]
    assert line.split(maxsplit=1) == ["ok", "delta log store, abfss: io.delta.storage.AzureLogStore"]
