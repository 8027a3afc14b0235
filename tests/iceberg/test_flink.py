"""A vacuum keeps the files that a stopped Flink job has yet to commit."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from lakekeeper_iceberg.flink import Pending
from lakekeeper_iceberg.native import Iceberg
from tests.iceberg.scene import Scene
from tests.opening import table_later

pytestmark = pytest.mark.iceberg

JOB, OPERATOR = "5ba1" * 8, "3f2a" * 8
MANIFEST = f"{JOB}-{OPERATOR}-00000-0-7-00001.avro"
DATA = f"s3://b/t/data/00000-0-{uuid.uuid4()}-00001.parquet"
OTHER = f"s3://b/t/data/00000-0-{uuid.uuid4()}-00002.parquet"
DELETES = f"s3://b/t/data/00000-0-{uuid.uuid4()}-00003-deletes.parquet"


def pending(
    named: dict[str, list[str] | None], folder: str | None = None, there: tuple[str, ...] = ()
) -> Any:
    """Manifests with what they name (None: they cannot be read), and the files in ``folder``."""

    def files_in(_self: Pending, manifest: str) -> list[str]:
        found = named[manifest]
        if found is None:
            raise OSError("gone")
        return found

    nothing: Any = None
    disk: Any = SimpleNamespace(files=lambda _: [SimpleNamespace(path=path) for path in there])
    return patch.object(Pending, "files_of", files_in), Pending(
        nothing, nothing, disk, (folder,) if folder else ()
    )


@pytest.mark.parametrize(
    "name", [MANIFEST, f"{JOB}-00000-0-7-00001.avro", f"{JOB}-sink-1-00003-2-19-00120.avro"]
)
def test_files_that_a_manifest_of_a_job_names_are_kept(name: str) -> None:
    manifest = f"s3://b/t/metadata/{name}"
    files, jobs = pending({manifest: [DATA.replace("s3:", "s3a:"), DELETES]})
    with files:
        assert jobs.named([DATA, OTHER, DELETES, manifest]) == {DATA, DELETES}
        assert jobs.named([DATA, OTHER]) == set()


def test_if_a_manifest_cannot_be_read_every_data_file_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """It may name any of them; one that is gone since the listing was committed meanwhile."""
    manifest = f"s3://b/t/metadata/{MANIFEST}"
    stray = f"s3://b/t/metadata/{uuid.uuid4()}-m0.avro"
    files, jobs = pending({manifest: None})
    with files:
        assert jobs.named([DATA, OTHER, stray, manifest]) == {DATA, OTHER}
        assert "a job may commit it: OSError: gone" in caplog.text
        assert jobs.named([stray, manifest]) == set()


def test_manifests_in_a_folder_that_the_table_names() -> None:
    manifest = f"s3://other/flink/{MANIFEST}"
    files, jobs = pending({manifest: [DATA]}, "s3://other/flink/", (manifest, "s3://other/flink/readme"))
    with files:
        assert jobs.named([DATA, OTHER]) == {DATA}


def uncommitted(scene: Scene, name: str) -> tuple[Path, Any]:
    """A data file beside those of the table, and its DataFile."""
    table, jvm = scene.java(), Iceberg(scene.spark)
    (file,) = list(table.currentSnapshot().addedDataFiles(table.io()))
    written = Path(str(file.location()).removeprefix("file:"))
    made = written.parent / name
    shutil.copy(written, made)
    return made, jvm.api.DataFiles.builder(table.spec()).copy(file).withPath(f"file:{made}").build()


def by_flink(scene: Scene, file: Any, version: int) -> Path:
    """A manifest as Flink's sink writes it, which names this file."""
    table, jvm = scene.java(), Iceberg(scene.spark)
    place = f"{table.location()}/metadata/{MANIFEST}"
    snapshot = jvm.view.java.lang.Long(0)
    writer = jvm.api.ManifestFiles.write(version, table.spec(), table.io().newOutputFile(place), snapshot)
    writer.add(file)
    writer.close()
    return Path(place.removeprefix("file:"))


def test_a_vacuum_keeps_what_a_stopped_job_has_yet_to_commit(scene: Scene) -> None:
    scene.create("k INT, v STRING", more="PARTITIONED BY (k)").run("INSERT INTO {t} VALUES (1, 'v')")
    held, file = uncommitted(scene, f"00000-0-{uuid.uuid4()}-00001.parquet")
    orphan, _ = uncommitted(scene, f"00000-0-{uuid.uuid4()}-00002.parquet")
    manifest = by_flink(scene, file, 2)
    scene.run("ALTER TABLE {t} DROP PARTITION FIELD k")  # Flink's manifest has the spec of its time

    def vacuum() -> None:
        table_later(scene.spark, scene.sql, hours=24 * 20).vacuum(orphans=True)

    whole = manifest.read_bytes()
    manifest.write_bytes(whole[: len(whole) // 2])
    manifest.with_name(f".{manifest.name}.crc").unlink(missing_ok=True)
    vacuum()
    assert held.exists()
    assert orphan.exists()  # the manifest may name it
    manifest.write_bytes(whole)
    vacuum()
    assert held.exists()
    assert not orphan.exists()
    assert manifest.exists()
    manifest.unlink()  # the job committed, or was given up
    vacuum()
    assert not held.exists()
