"""TPC-H's lineitem and its refresh functions as a stream of rounds: appends, deletes by order key, and queries.

    round 1             round 2
    A A D q q … q       A A D q q … q        A append   D delete of a thousandth of the orders   q one of eleven queries

Each round queries Q1, Q6, Q12, Q14 and Q15, the parts that read lineitem, and two days, two weeks and two orders. All
choices are drawn from the rows so far, with one seed: every engine runs the same statements.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ARRIVALS = ("generated", "receipt")
APPENDS = 2
_DELETED = 0.001  # share of the orders so far, as in TPC-H's RF2
_EPOCH = date(1970, 1, 1)
_REVENUE = "sum(l_extendedprice * (1 - l_discount))"


def lineitem(folder: Path, scale: float) -> Path:
    """Generate lineitem as one Parquet file; an existing one is kept."""
    made = folder / "lineitem.parquet"
    if not made.exists():
        program = shutil.which("tpchgen-cli") or shutil.which(
            "tpchgen-cli", path=str(Path(sys.executable).parent)
        )
        if program is None:
            raise SystemExit("tpchgen-cli is not installed: python -m pip install tpchgen-cli")
        arguments = ["parquet", "-s", str(scale), "--tables=lineitem", f"--output-dir={folder}"]
        subprocess.run([program, *arguments], check=True, capture_output=True)
    return made


def plain(rows: pa.Table) -> pa.Table:
    """Texts as Spark reads them: the generator writes views."""
    views = {pa.string_view(): pa.string()}
    return rows.cast(pa.schema([pa.field(f.name, views.get(f.type, f.type)) for f in rows.schema]))


@dataclass(frozen=True)
class Stream:
    """The rows in arrival order, in ``rounds * APPENDS`` files of one size.

    days, orders: ship date (days since the epoch) and order key of each row, in that order
    """

    folder: Path
    rounds: int
    days: npt.NDArray[np.int32]
    orders: npt.NDArray[np.int64]

    def files(self, round_: int) -> list[str]:
        """The files that a round appends, from 0."""
        return [
            str(self.folder / f"{n:04d}.parquet") for n in range(APPENDS * round_, APPENDS * (round_ + 1))
        ]

    def delete(self, round_: int) -> str:
        """The predicate of a round's delete."""
        orders = np.unique(self.orders[: self._arrived(round_)])
        count = max(1, int(len(orders) * _DELETED))
        first = int(np.random.default_rng([round_, 1]).integers(len(orders) - count + 1))
        return f"l_orderkey BETWEEN {orders[first]} AND {orders[first + count - 1]}"

    def queries(self, round_: int) -> Iterator[str]:
        """The statements of one set, for a table named ``{t}``."""
        draw, rows = np.random.default_rng([round_, 2]), self._arrived(round_)
        days = [_EPOCH + timedelta(days=int(d)) for d in draw.choice(self.days[:rows], 8)]
        orders = draw.choice(self.orders[:rows], 2)
        yield (
            "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), "
            f"{_REVENUE}, sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), count(*) FROM {{t}} "
            f"WHERE l_shipdate <= DATE '{max(days)}' GROUP BY ALL ORDER BY ALL"
        )
        yield (
            f"SELECT sum(l_extendedprice * l_discount) FROM {{t}} WHERE {_span(days[0], 365)} "
            "AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"
        )
        yield (
            "SELECT l_shipmode, count(*) FROM {t} WHERE l_shipmode IN ('MAIL', 'SHIP') "
            "AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate "
            f"AND {_span(days[1], 365, 'l_receiptdate')} GROUP BY ALL ORDER BY ALL"
        )
        yield f"SELECT {_REVENUE}, count(DISTINCT l_partkey) FROM {{t}} WHERE {_span(days[2], 30)}"
        yield (
            f"SELECT max(revenue) FROM (SELECT l_suppkey, {_REVENUE} AS revenue FROM {{t}} "
            f"WHERE {_span(days[3], 90)} GROUP BY l_suppkey)"
        )
        for day, length in ((days[4], 1), (days[5], 1), (days[6], 7), (days[7], 7)):
            yield f"SELECT count(*), sum(l_extendedprice) FROM {{t}} WHERE {_span(day, length)}"
        for order in orders:
            yield f"SELECT count(*), sum(l_quantity) FROM {{t}} WHERE l_orderkey = {order}"

    def _arrived(self, round_: int) -> int:
        return len(self.orders) * (round_ + 1) // self.rounds


def _span(first: date, days: int, column: str = "l_shipdate") -> str:
    return f"{column} >= DATE '{first}' AND {column} < DATE '{first + timedelta(days=days)}'"


def stream(folder: Path, scale: float, rounds: int, arrival: str) -> Stream:
    """Generate the rows and write them in the order of ``arrival``: as generated, or by receipt date."""
    rows = plain(pq.read_table(lineitem(folder, scale)))
    if arrival == "receipt":
        rows = rows.sort_by([(n, "ascending") for n in ("l_receiptdate", "l_orderkey", "l_linenumber")])
    place = folder / arrival
    place.mkdir()
    edges = np.linspace(0, len(rows), rounds * APPENDS + 1).astype(np.int64)
    for number, (first, end) in enumerate(pairwise(edges.tolist())):
        pq.write_table(rows.slice(first, end - first), place / f"{number:04d}.parquet", compression="snappy")
    days = pc.cast(rows["l_shipdate"], pa.int32()).to_numpy()
    return Stream(place, rounds, days, rows["l_orderkey"].to_numpy())
