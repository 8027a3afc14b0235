"""A vacuum beside real streams: files they have not read are kept, and they read each row once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

import lakekeeper as lk
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.errors import OptionError
from tests.formats.lakes import Lake

ROWS = 10


class Stream:
    """A stream from a table into files; each run reads until it has caught up."""

    def __init__(self, lake: Lake, name: str, home: Path) -> None:
        self.lake = lake
        self.name = name
        self.checkpoint = home / "checkpoint"
        self.sink = home / "sink"

    def run(self) -> None:
        source = self.lake.spark.readStream
        if self.lake.iceberg:
            # From the first snapshot; a Delta stream begins with the current table.
            source = source.format("iceberg").option("stream-from-timestamp", "0")
        # Under availableNow Iceberg's source requests its very first snapshot again, even if it has expired.
        once = {"once": True} if self.lake.iceberg else {"availableNow": True}
        started = (
            source.table(self.name)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(**once)
            .start(str(self.sink))
        )
        started.awaitTermination()

    def ids(self) -> list[int]:
        """The ids that the stream has read, sorted."""
        return sorted(row.id for row in self.lake.spark.read.parquet(str(self.sink)).collect())

    def forget_the_last_batch(self) -> None:
        """The state after a crash within the batch: it was planned, and the sink has none of it."""
        number = max(int(p.name) for p in (self.checkpoint / "commits").iterdir() if p.name.isdigit())
        for path in (
            self.checkpoint / "commits" / str(number),
            self.checkpoint / "commits" / f".{number}.crc",
            self.sink / "_spark_metadata" / str(number),
            self.sink / "_spark_metadata" / f".{number}.crc",
        ):
            path.unlink(missing_ok=True)


@pytest.fixture
def stream(lake: Lake, tmp_path: Path) -> Stream:
    """A stream of a table with three commits."""
    made = Stream(lake, lake.create("id bigint, v string"), tmp_path)
    for number in range(3):
        append(made, number)
    return made


def append(stream: Stream, number: int) -> None:
    rows = stream.lake.spark.range(number * ROWS, (number + 1) * ROWS)
    stream.lake.append(stream.name, rows.selectExpr("id", "cast(id AS string) AS v"))


def replace_files(stream: Stream) -> None:
    """Merge all files of the newest version into one: only older versions reference the previous files."""
    assert stream.lake.table(stream.name).recluster("id", policy="full").changed


def vacuum(stream: Stream, *checkpoints: Path) -> VacuumReport:
    """Keep only the newest version and what the checkpoints need."""
    options: dict[str, Any] = {"vacuum.max-share": 1}
    if checkpoints:
        options["vacuum.streaming-checkpoints"] = ",".join(map(str, checkpoints))
    return stream.lake.table(stream.name).vacuum(
        retention_hours=0, allow_unsafe_retention=True, options=options
    )


def fall_behind(stream: Stream) -> None:
    """Three commits that the stream has not read; a compaction replaces the files of each."""
    for number in (3, 4, 5):
        append(stream, number)
        replace_files(stream)


def test_a_stream_that_is_behind_reads_each_row_once(stream: Stream) -> None:
    first = stream.lake.on_disk(stream.name)
    replace_files(stream)
    stream.run()
    fall_behind(stream)
    unread = stream.lake.on_disk(stream.name) - first
    vacuum(stream, stream.checkpoint)
    left = stream.lake.on_disk(stream.name)
    # The offset of Iceberg's source stays at the last snapshot that added rows: a little more is kept.
    assert unread <= left if stream.lake.iceberg else unread == left
    stream.run()
    assert stream.ids() == list(range(6 * ROWS))


def test_a_stream_that_crashed_in_a_batch_reads_it_again(stream: Stream) -> None:
    """The last planned batch may not have completed."""
    stream.run()
    append(stream, 3)
    stream.run()
    stream.forget_the_last_batch()
    assert stream.ids() == list(range(3 * ROWS))
    replace_files(stream)
    fall_behind_since(stream, 4)
    vacuum(stream, stream.checkpoint)
    stream.run()
    if stream.lake.iceberg:  # ``once`` runs one batch: the repeated one
        stream.run()
    assert stream.ids() == list(range(6 * ROWS))


def fall_behind_since(stream: Stream, first: int) -> None:
    for number in range(first, 6):
        append(stream, number)
        replace_files(stream)


def test_without_the_option_the_stream_fails(stream: Stream) -> None:
    """The purpose of the option; it also shows that these tests would fail without it."""
    stream.run()
    fall_behind(stream)
    vacuum(stream)
    with pytest.raises(StreamingQueryException):
        stream.run()


def test_a_stream_that_has_caught_up_keeps_only_the_newest_version(stream: Stream) -> None:
    stream.run()
    replace_files(stream)
    stream.run()
    vacuum(stream, stream.checkpoint)
    left = stream.lake.on_disk(stream.name)
    # Iceberg's offset stays at the last snapshot that added rows.
    assert len(left) == 1 or stream.lake.iceberg
    append(stream, 3)
    stream.run()
    assert stream.ids() == list(range(4 * ROWS))


def test_the_slowest_of_several_streams_decides(stream: Stream, tmp_path: Path) -> None:
    slow = Stream(stream.lake, stream.name, tmp_path / "slow")
    slow.run()
    for number in (3, 4):
        append(stream, number)
        replace_files(stream)
    stream.run()
    vacuum(stream, stream.checkpoint, slow.checkpoint)
    for each in (stream, slow):
        each.run()
        assert each.ids() == list(range(5 * ROWS))


def test_an_unfinished_first_batch_stops_the_vacuum_or_keeps_its_files(stream: Stream) -> None:
    """Delta's offset holds the end of a batch, but not the start of the first one; Iceberg's holds both."""
    stream.run()
    while (stream.checkpoint / "commits" / "0").exists():
        stream.forget_the_last_batch()
    shutil.rmtree(stream.sink)
    replace_files(stream)
    if not stream.lake.iceberg:
        with pytest.raises(OptionError, match=r"has not done its first batch"):
            vacuum(stream, stream.checkpoint)
        assert len(stream.lake.on_disk(stream.name)) == 4
    else:
        vacuum(stream, stream.checkpoint)
    stream.run()
    assert stream.ids() == list(range(3 * ROWS))


@pytest.mark.parametrize("what", ["nothing", "no offsets", "another source", "torn"])
def test_an_invalid_checkpoint_stops_the_vacuum(stream: Stream, tmp_path: Path, what: str) -> None:
    """Treated as a stream that needs nothing, it would protect nothing."""
    folder = tmp_path / "other"
    if what != "nothing":
        for name in ("offsets", "commits"):
            (folder / name).mkdir(parents=True)
    if what in ("another source", "torn"):
        (folder / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
        offset = json.dumps({"topic": {"0": 17}}) if what == "another source" else '{"reservoirVersion": 1'
        (folder / "offsets" / "0").write_text('v1\n{"batchWatermarkMs":0}\n' + offset)
    replace_files(stream)
    before = stream.lake.on_disk(stream.name)
    with pytest.raises(OptionError, match=r"vacuum\.streaming-checkpoints"):
        vacuum(stream, folder)
    assert stream.lake.on_disk(stream.name) == before


def test_a_first_batch_of_both_formats_stops_the_vacuum(stream: Stream, tmp_path: Path) -> None:
    """Only Iceberg's source records where it starts; the version that the Delta source needs is unknown."""
    folder = tmp_path / "both"
    delta: dict[str, Any] = {
        "sourceVersion": 1,
        "reservoirId": "u",
        "reservoirVersion": 1,
        "index": -1,
        "isStartingVersion": True,
    }
    iceberg: dict[str, Any] = {"version": 1, "snapshot_id": 17, "position": 0, "scan_all_files": False}
    for place, offsets in {"offsets": [iceberg, delta], "sources/0/offsets": [iceberg]}.items():
        (folder / place).mkdir(parents=True)
        lines = ["v1", '{"batchWatermarkMs":0}', *map(json.dumps, offsets)]
        (folder / place / "0").write_text("\n".join(lines))
    replace_files(stream)
    before = stream.lake.on_disk(stream.name)
    with pytest.raises(OptionError, match=r"has not done its first batch"):
        vacuum(stream, folder)
    assert stream.lake.on_disk(stream.name) == before


def test_the_checkpoint_of_an_iceberg_stream_is_refused_on_a_delta_table(
    stream: Stream, tmp_path: Path
) -> None:
    if stream.lake.iceberg:
        return
    folder = tmp_path / "iceberg"
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    offset = {"version": 1, "snapshot_id": 1, "position": 0, "scan_all_files": False}
    (folder / "offsets" / "0").write_text('v1\n{"batchWatermarkMs":0}\n' + json.dumps(offset))
    with pytest.raises(OptionError, match="of another table"):
        vacuum(stream, folder)


@pytest.mark.delta
def test_the_checkpoint_of_another_table_is_refused(stream: Stream, tmp_path: Path) -> None:
    if stream.lake.iceberg:  # its offsets do not identify the table
        return
    other = Stream(stream.lake, stream.lake.create("id bigint, v string"), tmp_path / "other")
    append(other, 0)
    other.run()
    replace_files(stream)
    with pytest.raises(OptionError, match="of another table"):
        vacuum(stream, other.checkpoint)


# ------------------------------------------------------------------------------------------- tables of the same files


def test_files_that_another_table_uses_are_kept(lake: Lake, table_name: str) -> None:
    """``shared_with=``: a shallow clone on Delta, a table to which the files were added on Iceberg."""
    name = lake.create("id bigint, v string")
    rows = lake.spark.range(2 * ROWS).selectExpr("id", "cast(id AS string) AS v")
    lake.append(name, rows.where(f"id < {ROWS}"))
    lake.append(name, rows.where(f"id >= {ROWS}"))
    user = sharing(lake, name, table_name)
    expected = lake.fingerprint(user)
    assert lake.table(name).recluster("id", policy="full").changed
    unsafe: dict[str, Any] = {
        "retention_hours": 0, "allow_unsafe_retention": True, "options": {"vacuum.max-share": 1},
    }  # fmt: skip
    report = lake.table(name).vacuum(shared_with=[user], **unsafe)
    assert report.deleted_files_count == 0 if not lake.iceberg else "data file" not in str(report)
    assert report.plan is not None
    assert user in str(report.plan)
    lake.spark.sql(f"REFRESH TABLE {user}")
    assert lake.fingerprint(user) == expected
    with pytest.raises(lk.errors.NotFound):
        lake.table(name).vacuum(shared_with=["ice.formats.no_such_table"], **unsafe)
    lake.append(name, rows.limit(1))
    assert lake.table(name).vacuum(shared_with=[user], **unsafe).deleted_by_kind.get("data", (0, 0))[0] == 0
    # Loss L147: a version that the call names, before those that the next vacuum reads.
    if not lake.iceberg:
        read = 2
        assert lake.fingerprint(name, read) == expected
        lake.table(name).vacuum(keep_versions=[read], **unsafe)
        assert (lake.fingerprint(name, read), lake.fingerprint(user)) == (expected, expected)
    lake.spark.sql(f"DROP TABLE {user}")
    # Loss L60: its files, which the log read by this vacuum no longer names.
    assert lake.table(name).vacuum(**unsafe).deleted_by_kind["data"][0] >= 2


def sharing(lake: Lake, name: str, fresh: str) -> str:
    """Another table that uses the same files."""
    space, _, _ = name.rpartition(".")
    if not lake.iceberg:
        user = f"{space}.clone_{fresh}"
        lake.spark.sql(f"CREATE TABLE {user} SHALLOW CLONE {name}")
        return user
    user = f"{space}.user_{fresh}"
    lake.spark.sql(f"CREATE TABLE {user} (id bigint, v string) USING iceberg")
    folder = lake.home(name) / "data"
    lake.spark.sql(f"CALL ice.system.add_files(table => '{user}', source_table => '`parquet`.`{folder}`')")
    return user
