"""The maintenance under test: lakekeeper's policies, and what each format provides.

The formats' own commands run with their defaults, and at their best: with scaled cubes, or with everything rewritten.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import lakekeeper as lk

QUERIES = 10.0
"""Point queries between two commits that our policies assume unless their name says otherwise."""
_CUBES = "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize"


@dataclass
class Bench:
    """A table under maintenance: its session and name, the target file size in bytes, and the key's columns.

    ``commits`` were made since it ``began``, in seconds of ``time.monotonic``.
    """

    spark: Any
    name: str
    target: int
    key: tuple[str, ...] = ("k",)
    commits: int = 0
    began: float = field(default_factory=time.monotonic)

    def per_hour(self, queries: float) -> float:
        """That many queries per commit, as queries per hour, at the pace of the commits so far."""
        return queries * self.commits * 3600 / max(time.monotonic() - self.began, 1e-3)


Work = Callable[[Bench], object]


@dataclass(frozen=True)
class Contestant:
    """``clause`` and ``properties`` go into CREATE TABLE, ``confs`` apply during its maintenance."""

    work: Work
    clause: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    confs: Callable[[int], Mapping[str, object]] = lambda _: {}


def contestants(format_: str, key: tuple[str, ...] = ("k",)) -> Mapping[str, Contestant]:
    """All contestants of one format by name; ours come first. Curves are for keys of several columns."""
    ours = dict(_OURS)
    if len(key) > 1:
        ours["adaptive, hilbert"] = _policy("adaptive", layout="hilbert")
    return MappingProxyType(
        {**ours, **(_delta(", ".join(key)) if format_ == "delta" else _iceberg(", ".join(key)))}
    )


def _policy(name: str, queries: float = QUERIES, *, final: bool = False, layout: str = "") -> Contestant:
    def work(bench: Bench) -> object:
        given = {
            "queries-per-hour": bench.per_hour(queries),
            "target-file-size-bytes": bench.target,
            # At most 128 files of the target size in a group, as by default.
            "max-file-group-size-bytes": 128 * bench.target,
            "commit.quiet-window-ms": 0,
        }
        table = lk.table(bench.spark, bench.name)
        if name == "sizes":
            return table.compact(options=given)
        return table.recluster(
            f"{layout}({', '.join(bench.key)})" if layout else bench.key,
            policy=name,
            final=final,
            options=given,
        )

    return Contestant(work)


_OURS = {
    "adaptive": _policy("adaptive"),
    "adaptive and deletes": _policy("adaptive,deletes"),
    "adaptive at 100": _policy("adaptive", 10 * QUERIES),
    "adaptive at 1": _policy("adaptive", QUERIES / 10),
    "compact": _policy("sizes"),
    "universal": _policy("universal", final=True),
    "ranges": _policy("ranges", final=True),
    "peaks": _policy("peaks", final=True),
    "full": _policy("full"),
}


def _delta(key: str) -> dict[str, Contestant]:
    def sizes(target: int) -> Mapping[str, object]:
        prefix = "spark.databricks.delta.optimize"
        return {f"{prefix}.minFileSize": target, f"{prefix}.maxFileSize": target}

    def cubes(target: int) -> Mapping[str, object]:
        # 100 and 150 files of the target size, as the defaults are 100 and 150 of the default size
        return {
            **sizes(target),
            f"{_CUBES}.threshold": 100 * target,
            f"{_CUBES}.targetCubeSize": 150 * target,
        }

    def run(statement: str) -> Work:
        return lambda bench: bench.spark.sql(statement.format(name=bench.name)).collect()

    return {
        "OPTIMIZE": Contestant(run("OPTIMIZE {name}"), confs=sizes),
        "OPTIMIZE ZORDER": Contestant(run(f"OPTIMIZE {{name}} ZORDER BY ({key})"), confs=sizes),
        "liquid": Contestant(run("OPTIMIZE {name}"), clause=f"CLUSTER BY ({key})", confs=sizes),
        "liquid, cubes scaled": Contestant(run("OPTIMIZE {name}"), clause=f"CLUSTER BY ({key})", confs=cubes),
    }


def _iceberg(key: str) -> dict[str, Contestant]:
    def rewrite(strategy: str, order: str = "", **options: str) -> Contestant:
        def work(bench: Bench) -> object:
            catalog, _, name = bench.name.partition(".")
            pairs = {"target-file-size-bytes": str(bench.target), **options}
            listed = ", ".join(f"'{k}', '{v}'" for k, v in pairs.items())
            sort = f", sort_order => '{order}'" if order else ""
            return bench.spark.sql(
                f"CALL {catalog}.system.rewrite_data_files(table => '{name}', strategy => '{strategy}'{sort}, "
                f"options => map({listed}))"
            ).collect()

        return Contestant(work)

    every = {"rewrite-all": "true"}
    return {
        "binpack": rewrite("binpack"),
        "binpack of files with deletes": rewrite("binpack", **{"delete-file-threshold": "1"}),
        "sort, rewrite-all": rewrite("sort", key, **every),
        "sort, defaults": rewrite("sort", key),
        "zorder, rewrite-all": rewrite("sort", f"zorder({key})", **every),
    }


@contextmanager
def confs_of(spark: Any, confs: Mapping[str, object]) -> Iterator[None]:
    """Set these confs on the session, and restore them."""
    for key, value in confs.items():
        spark.conf.set(key, str(value))
    try:
        yield
    finally:
        for key in confs:
            spark.conf.unset(key)
