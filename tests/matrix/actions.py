"""What concurrent writers do during a lakekeeper run: a statement, and its effect on the rows in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from tests.iceberg.scene import Scene as IcebergScene
from tests.iceberg.scene import delete_equal
from tests.matrix.rows import Row, base
from tests.matrix.sides import KINDS
from tests.matrix.world import FILES, Change, World

DELTA, ICEBERG = KINDS[:2], KINDS[2:]
_COPIES = {f"write.{verb}.mode": "copy-on-write" for verb in ("delete", "update", "merge")}


def unchanged(rows: list[Row]) -> list[Row]:
    return rows


@dataclass(frozen=True)
class Action:
    """``statement`` names the table ``{t}``; if it can be stopped before its commit, its predicate has
    ``{gate}``, on ``id``. ``act`` replaces the statement if the action is not one; it receives the world and the verb.
    ``deleted``: the table has masked rows for every verb.
    ``properties`` are set on Iceberg tables before, ``confs`` while the statement runs.
    """

    statement: str = ""
    change: Change = unchanged
    act: Callable[[World, str], object] | None = None
    kinds: Collection[str] = KINDS
    partitioned: bool = False
    deleted: bool = False
    properties: dict[str, str] = field(default_factory=dict)
    confs: dict[str, str] = field(default_factory=dict)

    @property
    def stoppable(self) -> bool:
        return "{gate}" in self.statement

    def text(self, world: World, gate: str = "") -> str:
        stop = f" AND {gate}(id)" if gate else ""
        return self.statement.replace("{gate}", stop).replace("{t}", world.side.sql)

    def happen(self, world: World, verb: str) -> None:
        """Run the rival's action from start to end."""
        with self.set(world.spark):
            if self.act is not None:
                act = self.act
                world.act(lambda: act(world, verb), self.change)
            else:
                for each in self.text(world).split(";"):
                    world.run(each, self.change)

    @contextmanager
    def set(self, spark: SparkSession) -> Iterator[None]:
        """Confs that make Spark's writers use this mode."""
        for name, value in self.confs.items():
            spark.conf.set(name, value)
        try:
            yield
        finally:
            for name in self.confs:
                spark.conf.unset(name)


def _without(*ids: int) -> Change:
    return lambda rows: [r for r in rows if r["id"] not in ids]


def _updated(rows: list[Row]) -> list[Row]:
    return [{**r, "v": "new", "k": 77} if r["id"] in (3, 14) else r for r in rows]


def _merged(rows: list[Row]) -> list[Row]:
    left = [{**r, "v": "merged"} if r["id"] in (11, 14) else r for r in rows if r["id"] != 2]
    return [*left, {"id": 1000, "p": 0, "k": 1, "v": "i"}]


def _appended(rows: list[Row]) -> list[Row]:
    return [*rows, {"id": 6, "p": 0, "k": 17, "v": "late"}, {"id": 2000, "p": 1, "k": None, "v": None}]


def _without_partition(rows: list[Row]) -> list[Row]:
    return [r for r in rows if r["p"] != 1]


_OVER: Row = {"id": 500, "p": 1, "k": 1, "v": "over"}
_MERGE = (
    "MERGE INTO {t} USING (SELECT * FROM VALUES (2, 'd'), (11, 'u'), (14, 'u'), (1000, 'i') AS x(i, op)) "
    "ON id = i{gate} "
    "WHEN MATCHED AND op = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'merged' "
    "WHEN NOT MATCHED THEN INSERT (id, p, k, v) VALUES (i, 0, 1, op)"
)


def maintain(world: World, verb: str, **given: Any) -> Any:
    """Run a lakekeeper verb with options that make small tables worth a rewrite, and without pauses."""
    options = {"depth-threshold": 1} | given.pop("options", {})
    columns = {"columns": ["k"]} if verb == "recluster" else {}
    if verb == "merge_deletes":
        options.pop("depth-threshold")
    return getattr(given.pop("table", None) or world.table, verb)(options=options, **columns, **given)


def _flink_deletes(world: World, verb: str) -> None:
    assert isinstance(world.side, IcebergScene)
    delete_equal(world.side, "id", [3, 6, 14])


def _foreign_rewrite(world: World, verb: str) -> None:
    if isinstance(world.side, IcebergScene):
        options = ", options => map('rewrite-all', 'true')"
        world.side.call("rewrite_data_files", options)
    else:
        world.spark.sql(f"OPTIMIZE {world.side.sql}").collect()


def _vacuum(world: World, verb: str) -> None:
    if isinstance(world.side, IcebergScene):
        now = ", older_than => TIMESTAMP '9999-12-31 00:00:00', retain_last => 1"
        world.side.call("expire_snapshots", now)
    else:
        world.spark.sql(f"VACUUM {world.side.sql} RETAIN 168 HOURS").collect()


def _delete_and_expire(world: World, verb: str) -> None:
    world.spark.sql(f"DELETE FROM {world.side.sql} WHERE id = 2")
    _vacuum(world, verb)


def _restore(world: World, verb: str) -> None:
    first = next(iter(world.versions))
    if isinstance(world.side, IcebergScene):
        world.side.call("rollback_to_snapshot", f", snapshot_id => {first}")
    else:
        world.spark.sql(f"RESTORE TABLE {world.side.sql} TO VERSION AS OF {first}").collect()


_UPGRADES = {
    "delta-vectors": "'delta.enableRowTracking'='true'",
    "delta-copies": "'delta.enableDeletionVectors'='true'",
    "iceberg-v2": "'format-version'='3'",
}


def _upgrade(world: World, verb: str) -> None:
    world.spark.sql(f"ALTER TABLE {world.side.sql} SET TBLPROPERTIES ({_UPGRADES[world.kind]})")


def _upgrade_and_delete(world: World, verb: str) -> None:
    _upgrade(world, verb)
    world.spark.sql(f"DELETE FROM {world.side.sql} WHERE id = 2")


ACTIONS: dict[str, Action] = {
    "append": Action("INSERT INTO {t} VALUES (6, 0, 17, 'late'), (2000, 1, null, null)", _appended),
    "row delete": Action("DELETE FROM {t} WHERE id IN (2, 6, 11){gate}", _without(2, 6, 11)),
    "row delete in a partition": Action(
        "DELETE FROM {t} WHERE p = 1 AND id IN (11, 14)",
        _without(11, 14),
        partitioned=True,
        properties={"write.delete.granularity": "partition"},
    ),
    "equality delete": Action(change=_without(3, 6, 14), act=_flink_deletes, kinds=ICEBERG),
    "copy-on-write delete": Action(
        "DELETE FROM {t} WHERE id = 18{gate}",
        _without(18),
        properties=_COPIES,
        confs={"spark.databricks.delta.delete.deletionVectors.persistent": "false"},
    ),
    "copy-on-write of most": Action(
        "DELETE FROM {t} WHERE id IN (2, 11, 19)",
        _without(2, 11, 19),
        properties=_COPIES,
        confs={"spark.databricks.delta.delete.deletionVectors.persistent": "false"},
    ),
    "update": Action("UPDATE {t} SET v = 'new', k = 77 WHERE id IN (3, 14){gate}", _updated),
    "merge": Action(_MERGE, _merged),
    "overwrite": Action("INSERT OVERWRITE {t} VALUES (500, 1, 1, 'over')", lambda _: [_OVER]),
    "overwrite of a partition": Action(
        "INSERT INTO {t} REPLACE WHERE p = 1 VALUES (500, 1, 1, 'over')",
        lambda rows: [*_without_partition(rows), _OVER],
        partitioned=True,
    ),
    "drop of a partition": Action("DELETE FROM {t} WHERE p = 1", _without_partition, partitioned=True),
    "restore": Action(change=lambda _: base(FILES[False]), act=_restore, deleted=True),
    "added column": Action("ALTER TABLE {t} ADD COLUMN (extra int)"),
    "upgrade": Action(act=_upgrade, kinds=tuple(_UPGRADES)),
    "upgrade and delete": Action(change=_without(2), act=_upgrade_and_delete, kinds=tuple(_UPGRADES)),
    "another run of ours": Action(act=maintain),
    "foreign rewrite": Action(act=_foreign_rewrite),
    "vacuum": Action(act=_vacuum),
    "vacuum of what was read": Action(change=_without(2), act=_delete_and_expire, kinds=ICEBERG),
}
