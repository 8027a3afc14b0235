"""A new user of the wheel: an empty folder, an environment with nothing but the wheel and PySpark, and a shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakekeeper.spark.lines import Line
from lakekeeper.spark.session_confs import EXTENSIONS
from tests.docs.blocks import DOCS, blocks, section

PAGE = DOCS / "how-to" / "your-spark.md"
TABLE = "(id BIGINT, name STRING)"
_INSERT = "INSERT INTO {table} SELECT /*+ COALESCE(1) */ id * 7 % 1000, concat('name ', id) FROM range(1000)"
FILES, ROWS = 4, 4_000
"""What a table of `User.fill` has: each file covers all ids."""
_OURS = re.compile(r"(PY)?SPARK_|PYTHON|LAKEKEEPER_|MASTER$|VIRTUAL_ENV$")
_PATIENCE_S = 600
_GREETING = ":: loading settings ::"
"""The line that spark-submit of Spark 3.5 writes to stdout before the program starts."""


@dataclass(frozen=True)
class Done:
    """A command of a shell that has ended."""

    command: str
    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The one JSON object on stdout, which has nothing else."""
        assert self.code == 0, f"{self.command}\n{self.err}{self.out}"
        lines = [line for line in self.out.splitlines() if not self._greets(line)]
        assert len(lines) == 1, self.out
        found: dict[str, Any] = json.loads(lines[0])
        return found

    def _greets(self, line: str) -> bool:
        return line.startswith(_GREETING) and "--packages" in self.command


@dataclass(frozen=True)
class User:
    """A user in a folder. ``place`` is the environment, whose programs come first on PATH."""

    folder: Path
    place: Path
    line: Line

    @property
    def env(self) -> dict[str, str]:
        """The environment of a login shell in which the virtual environment was activated."""
        kept = {name: value for name, value in os.environ.items() if not _OURS.match(name)}
        return kept | {
            "PATH": f"{self.place / 'bin'}{os.pathsep}{kept['PATH']}",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def run(self, command: str) -> Done:
        """Run a command in a shell; its end is not checked."""
        done = subprocess.run(
            ["bash", "-euc", command],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        return Done(command, done.returncode, done.stdout, done.stderr)

    def follow(self, heading: str, here: Mapping[str, str], file: int = 0) -> list[str]:
        """Save one of the files of a section of the page, and return the section's commands, each for `run`.

        Words of the page such as an address are replaced by those of this machine.
        """
        found = blocks(section(PAGE, heading))
        files = [block for block in found if block.file]
        if files:
            path = self.folder / files[file].file
            path.parent.mkdir(exist_ok=True)
            small = (
                "spark.master local[2]\nspark.driver.memory 1g\n"  # for this machine, which runs other tests
            )
            path.write_text(_put(files[file].code, here) + small)
        return [one for block in found if block.kind == "sh" for one in _commands(_put(block.code, here))]

    def fill(self, *tables: str) -> list[str]:
        """Create tables, ``name format`` each, with Spark's own shell; their `rows`."""
        texts = []
        for name, form in (table.split() for table in tables):
            texts += [f"CREATE NAMESPACE IF NOT EXISTS {name.rpartition('.')[0]}"]
            texts += [f"CREATE TABLE {name} {TABLE} USING {form}", *[_INSERT.format(table=name)] * FILES]
        found = self.sql(*texts, *map(_digest, (table.split()[0] for table in tables)))
        assert [line.split("\t")[1] for line in found] == [str(ROWS)] * len(tables), found
        return found

    def sql(self, *texts: str) -> list[str]:
        """What Spark's own shell prints for these statements; it has the formats, which spark-defaults.conf lacks."""
        (self.folder / "tables.sql").write_text(";\n".join(texts) + ";\n")
        confs = {"spark.sql.extensions": ",".join(EXTENSIONS.values())}
        mine = self.folder / "conf" / "spark-defaults.conf"
        if "catalog.spark_catalog " not in mine.read_text():
            confs["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        given = " ".join(f"--conf {key}={value}" for key, value in confs.items())
        packages = ",".join(self.line.jars[name] for name in ("delta", "iceberg"))
        done = self.run(f"SPARK_CONF_DIR=$PWD/conf spark-sql --packages {packages} {given} -f tables.sql")
        assert done.code == 0, done.err
        return [line for line in done.out.splitlines() if not line.startswith(_GREETING)]

    def rows(self, *tables: str) -> list[str]:
        """A digest of the rows of each table: number, sum of the ids, and a sum of hashes."""
        return self.sql(*map(_digest, tables))


def _digest(table: str) -> str:
    return f"SELECT '{table}', count(*), sum(id), sum(hash(id, name)) FROM {table}"


def _put(text: str, here: Mapping[str, str]) -> str:
    for word, value in here.items():
        text = text.replace(word, value)
    return text


def _commands(code: str) -> list[str]:
    """Commands of a block, with what it exported before."""
    exports, found = "", []
    for line in code.replace("\\\n", " ").splitlines():
        if line.startswith("export "):
            exports += f"{line}\n"
        elif line.strip():
            found.append(exports + line)
    return found


def reclustered(done: Done) -> None:
    """Whether the result of a ``recluster --policy full --json`` says what the user wanted, on a table of `fill`."""
    found = done.result
    assert (found["status"], found["failed_data_files_count"]) == ("done", 0)
    assert (found["rewritten_data_files_count"], found["added_data_files_count"]) == (FILES, 1)
    assert [(group["rows_in"], group["rows_out"]) for group in found["groups"]] == [(ROWS, ROWS)]


def fallback(done: Done) -> str:
    """Why the merge was made by rows; empty if it was columnar."""
    (group,) = done.result["groups"]
    return str((group["detail"] or {}).get("text", ""))
