"""The two formats behind one face: make a table, read any version of it in two ways, find files nobody names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from tests.delta.scene import Scene as DeltaScene
from tests.iceberg.scene import Scene as IcebergScene
from tests.matrix.rows import multiset
from tests.oracles import delta_log, iceberg_log

KINDS = ("delta-vectors", "delta-copies", "iceberg-v2", "iceberg-v3")


class Side(Protocol):
    """One table of one kind."""

    @property
    def sql(self) -> str:
        """The table's name in a statement."""
        ...

    def create(self, columns: str, partitioned: str, properties: dict[str, str]) -> None: ...

    def version(self) -> int: ...

    def by_spark(self, version: int | None) -> Counter[str]: ...

    def by_log(self, version: int | None) -> Counter[str]:
        """The rows, by a reader that is not Spark."""
        ...

    def kept_versions(self) -> set[int]: ...

    def files(self) -> set[str]:
        """Full paths of all data and delete files on disk."""
        ...

    def leftovers(self) -> set[str]:
        """Files on disk that no version names."""
        ...


def side_of(spark: SparkSession, kind: str, folder: Path) -> Side:
    if kind.startswith("delta"):
        return DeltaSide(DeltaScene(spark, folder / "table"))
    return IcebergSide(IcebergScene(spark), int(kind[-1]))


class DeltaSide:
    """A Delta table at a path."""

    def __init__(self, scene: DeltaScene) -> None:
        self.scene = scene

    @property
    def sql(self) -> str:
        return self.scene.sql

    def create(self, columns: str, partitioned: str, properties: dict[str, str]) -> None:
        by = f"PARTITIONED BY ({partitioned})" if partitioned else ""
        self.scene.run(f"CREATE TABLE {{t}} ({columns}) USING delta {by} {listed(properties)}")

    def version(self) -> int:
        return self.scene.version

    def by_spark(self, version: int | None) -> Counter[str]:
        reader = self.scene.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return multiset(reader.load(str(self.scene.path)).toArrow().to_pylist())

    def by_log(self, version: int | None) -> Counter[str]:
        path = self.scene.path
        state = delta_log.replay(path, version)
        return multiset(
            r for add in state.adds.values() for r in delta_log.file_rows(path, add, state.metadata)
        )

    def kept_versions(self) -> set[int]:
        return set(delta_log.versions(self.scene.path))

    def leftovers(self) -> set[str]:
        path = self.scene.path
        named: set[str] = set()
        for version in delta_log.versions(path):
            for action in delta_log.commit(path, version):
                for kind in ("add", "remove", "cdc"):
                    named |= delta_log.files_of(action[kind]) if kind in action else set()
        return {str(Path(p).relative_to(path)) for p in self.files()} - named

    def files(self) -> set[str]:
        found = [p for p in self.scene.path.rglob("*") if p.suffix in (".parquet", ".bin")]
        return {str(p) for p in found if "_delta_log" not in p.parts}


class IcebergSide:
    """An Iceberg table of one format version, in the SQLite catalog."""

    def __init__(self, scene: IcebergScene, version: int) -> None:
        self.scene = scene
        self._format = version

    @property
    def sql(self) -> str:
        return self.scene.sql

    def create(self, columns: str, partitioned: str, properties: dict[str, str]) -> None:
        more = f"PARTITIONED BY ({partitioned})" if partitioned else ""
        self.scene.create(columns, self._format, more=more, properties=properties)

    def version(self) -> int:
        return int(self._metadata().currentSnapshot().snapshotId())

    def by_spark(self, version: int | None) -> Counter[str]:
        reader = self.scene.spark.read
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return multiset(reader.table(self.scene.sql).toArrow().to_pylist())

    def by_log(self, version: int | None) -> Counter[str]:
        metadata = self._metadata()
        at = int(metadata.currentSnapshot().snapshotId()) if version is None else version
        return multiset(iceberg_log.records(str(metadata.metadataFileLocation()), at))

    def kept_versions(self) -> set[int]:
        return {int(s.snapshotId()) for s in list(self._metadata().snapshots())}

    def leftovers(self) -> set[str]:
        metadata = self._metadata()
        lists = Path(_local(metadata.location())) / "metadata"
        found = self.files() | {str(p) for p in lists.glob("*.avro")}
        return found - iceberg_log.named_files(str(metadata.metadataFileLocation()))

    def files(self) -> set[str]:
        data = Path(_local(self._metadata().location())) / "data"
        return {str(p) for p in data.rglob("*") if p.is_file() and not p.name.startswith(".")}

    def _metadata(self) -> Any:
        return self.scene.java().operations().current()


def _local(location: Any) -> str:
    return str(location).removeprefix("file:")


def listed(properties: dict[str, str]) -> str:
    """A TBLPROPERTIES clause."""
    given = ", ".join(f"'{k}'='{v}'" for k, v in properties.items())
    return f"TBLPROPERTIES ({given})" if given else ""
