"""A merge of Parquet files without rows in Spark: what one columnar worker needs, and what it returns, as plain data.

    adapter.columnar.plan(task) ─► FileMerge ─► one worker per range between the cuts ─► WrittenFile × N ─► adopt

A value of this module is self-contained and serializes to JSON: it travels to executors as text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

_ONE_FILE = 1 << 62  # target bytes that no copy reaches
_OVER = 0.1  # share of the target by which a file may exceed it


@dataclass(frozen=True, slots=True)
class S3:
    """The S3 with the files of a merge. Its secrets are in its JSON form, which only workers get, and not in its text.

    region      empty: that of the bucket
    endpoint    name and port of a server; empty: Amazon's
    path_style  whether requests name the bucket in the path, and not in the host's name
    """

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str = field(repr=False, default="")
    region: str = ""
    endpoint: str = ""
    encrypted: bool = True
    path_style: bool = False


@dataclass(frozen=True, slots=True)
class FileInput:
    """One input: its path, its physical rows (None: unknown), and the packed positions of its deleted rows.

    ``first_row_id`` and ``version`` are the id of its first row and the version that wrote its rows, for rows that do
    not store them.
    """

    path: str
    rows: int | None = None
    deleted: str = ""
    first_row_id: int | None = None
    version: int | None = None


ROW_ID, VERSION = "row id", "version"


@dataclass(frozen=True, slots=True)
class FileColumn:
    """One column of the outputs, and how inputs name it; or a part of a nested one.

    kind           ``boolean``, ``int8`` to ``int64``, ``float``, ``double``, ``string``, ``binary``, ``date``,
                   ``timestamp``, ``timestamp_ntz`` or ``decimal(p,s)``; ``struct``, ``list`` or ``map``
    children       fields of a struct, ``element`` of a list, ``key`` and ``value`` of a map
    field_id       written to the outputs; ``by_id``: inputs are searched by it, and not by name
    nullable       optional in the outputs
    may_lack       an input without the column has NULL in each row; else it is declined
    replaces_null  :data:`ROW_ID` or :data:`VERSION`: the value of the input that replaces NULL; empty: NULL stays
    """

    name: str
    kind: str
    field_id: int | None = None
    by_id: bool = False
    nullable: bool = True
    may_lack: bool = True
    replaces_null: str = ""
    children: tuple[FileColumn, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FileColumn:
        """The column of its parsed JSON form."""
        return cls(**{**data, "children": tuple(map(cls.from_dict, data["children"]))})


@dataclass(frozen=True, slots=True)
class FileMerge:
    """One merge of files into files.

    inputs            in the order of the task's inputs
    columns           all columns of the outputs
    key               positions in ``columns`` by which rows are sorted, NULLs first; empty: input order is kept
    cut_column, cuts  position in ``columns``, and its values in JSON form at which the merge is cut into ranges
    folder, name      the folder of the outputs, and their names, with ``{id}`` and ``{codec}`` to be filled in
    codec             of the outputs; None: the codec of the inputs
    target_bytes      size at which an output is cut; ``target_rows``: or rows, None: no bound
    row_group_bytes   size of a row group in the outputs
    footer            key-value metadata of the outputs
    spark_calendar    Spark reads the inputs: a file that may hold dates of the Julian calendar is declined
    store             where the paths are: None for the local disk; on S3 they begin with the bucket
    """

    inputs: tuple[FileInput, ...]
    columns: tuple[FileColumn, ...]
    key: tuple[int, ...]
    folder: str
    name: str
    target_bytes: int
    row_group_bytes: int
    target_rows: int | None = None
    cut_column: int = 0
    cuts: tuple[Any, ...] = ()
    codec: str | None = None
    footer: tuple[tuple[str, str], ...] = ()
    spark_calendar: bool = False
    store: S3 | None = None

    @property
    def parts(self) -> int:
        """Number of ranges."""
        return len(self.cuts) + 1

    def copying(self, file: FileInput, store: S3 | None) -> FileMerge:
        """The merge that copies one file beside it, in the same order of rows, without those that are deleted."""
        return self.collecting((file,), file.path.rpartition("/")[0], store)

    def collecting(self, files: tuple[FileInput, ...], folder: str, store: S3 | None) -> FileMerge:
        """The merge that writes all rows of files to one, in the same order, without those that are deleted."""
        return replace(
            self,
            inputs=files,
            folder=folder,
            key=(),
            cuts=(),
            target_bytes=_ONE_FILE,
            target_rows=None,
            store=store,
        )

    def to_json(self) -> str:
        """One JSON object; :meth:`from_json` restores an equal value."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> FileMerge:
        """Inverse of :meth:`to_json`; raises ValueError, TypeError or KeyError for invalid input."""
        data: dict[str, Any] = json.loads(text)
        data["inputs"] = tuple(FileInput(**each) for each in data["inputs"])
        data["columns"] = tuple(map(FileColumn.from_dict, data["columns"]))
        data["footer"] = tuple((key, value) for key, value in data["footer"])
        data["store"] = S3(**data["store"]) if data["store"] else None
        data["key"], data["cuts"] = tuple(data["key"]), tuple(data["cuts"])
        return cls(**data)


def files_for(targets: float) -> int:
    """The number of files, all of one size, into which as many target sizes are cut.

    A file may exceed its target by a tenth, rather than be followed by a small one.
    """
    files = max(1, round(targets))
    return files + (targets > (1 + _OVER) * files)


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Statistics of a column in one output; ``lo`` and ``hi`` are None if no value is left beside NULL and NaN.

    Bounds are in the form of Parquet: integers (dates in days, timestamps in µs, decimals unscaled), floats as text,
    text and binary as base64. A nested column has none, but ``children`` may have; those of a list or a map have none.
    The NULLs of a field of a struct include the NULLs of the struct.
    """

    lo: Any
    hi: Any
    nulls: int
    nans: int = 0
    children: tuple[ColumnStats, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The form in which it travels, see :meth:`WrittenFile.to_json`."""
        children = [child.to_dict() for child in self.children]
        return {"lo": self.lo, "hi": self.hi, "nulls": self.nulls, "nans": self.nans, "children": children}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ColumnStats:
        """Inverse of :meth:`to_dict`."""
        return cls(**{**data, "children": tuple(map(cls.from_dict, data["children"]))})


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One output: its path, rows, bytes, and statistics by column, in the order of ``FileMerge.columns``."""

    path: str
    rows: int
    bytes: int
    stats: tuple[ColumnStats, ...]

    def to_json(self) -> str:
        """One JSON object; :meth:`from_dict` restores an equal value from it.

        Fields are named one by one: workers receive this class by value, and the cloudpickle of Spark 3.5 loses which
        attributes are fields, so that ``asdict`` returns nothing there.
        """
        stats = [each.to_dict() for each in self.stats]
        return json.dumps({"path": self.path, "rows": self.rows, "bytes": self.bytes, "stats": stats})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WrittenFile:
        """Inverse of :meth:`to_json`, from the parsed object."""
        return cls(**{**data, "stats": tuple(map(ColumnStats.from_dict, data["stats"]))})
