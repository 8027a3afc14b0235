"""The quickstart and each how-to, block by block, in an empty folder: they work for a new user.

`tests.docs.walk` runs the same blocks as a reader does: from the wheel, with a Spark for each command.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from tests.docs.blocks import (
    DOCS,
    PAGES,
    QUICKSTART,
    RUN,
    Block,
    blocks,
    commands,
    process,
    run,
    statements,
    to_run,
)

DEEP = {"automatic-runs", "sql", "vacuum"}
_NUMBERS = itertools.count()


def _params() -> list[Any]:
    return [
        pytest.param(page, id=page.stem, marks=[pytest.mark.deep] if page.stem in DEEP else [])
        for page in PAGES
    ]


@pytest.fixture
def place(
    spark: SparkSession, confs: RuntimeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """An empty folder. Tables that the page creates in the session's own catalog are dropped."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    spark.sql("DROP DATABASE IF EXISTS spark_catalog.db CASCADE")


def _here(block: Block, catalog: str, place: Path, spark: SparkSession) -> Block:
    """A block for the tests' session: a catalog of its own, and folders of a JVM with another working directory."""
    managed = str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")
    code = re.sub(r"\bice\b", catalog, block.code)
    code = re.sub(r"(?<![\w/-])warehouse/db\.db", f"{managed}/db.db", code)
    code = re.sub(r"(?<![\w/-])warehouse(?=[/\"])", f"{place}/warehouse", code)
    return replace(block, code=code)


@pytest.mark.spark
@pytest.mark.delta
@pytest.mark.iceberg
@pytest.mark.parametrize("page", _params())
def test_each_block_of_a_page_runs(page: Path, place: Path, spark: SparkSession) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    catalog = f"ice{next(_NUMBERS)}"
    try:
        for block in to_run(page):
            run(_here(block, catalog, place, spark), names, page)
    finally:
        for value in names.values():
            if isinstance(value, lk.Listening | lk.Service | lk.Installed):
                value.stop()


def test_pages_mark_few_blocks_as_not_run_and_say_why() -> None:
    programs = [block for page in PAGES for block in blocks(page.read_text()) if block.kind in RUN]
    marked = [block.why.strip() for block in programs if block.why]
    assert len(programs) > 40
    assert len(marked) < len(programs) / 4
    assert all(marked)


def test_other_pages_mark_every_block_as_not_run() -> None:
    others = [page for page in DOCS.rglob("*.md") if page not in PAGES]
    assert len(others) > 20
    for page in others:
        assert [b.line for b in blocks(page.read_text()) if b.kind in RUN and not b.why] == [], page.name


def test_a_page_builds_only_on_the_steps_that_it_names() -> None:
    first = [block.code for block in to_run(QUICKSTART)]
    for page in PAGES:
        own = [block for block in blocks(page.read_text()) if block.runs]
        before = [block.code for block in to_run(page)][: -len(own) or None]
        assert before in ([], first[: len(before)]), page.name
        programs = [block.code for block in own if block.kind in RUN]
        assert before or not any(re.search(r"\bspark\b|ice\.db", c) for c in programs) or page == QUICKSTART


def test_the_parser_of_pages_finds_planted_blocks() -> None:
    page = (
        "# T\n```python\nx = 1\n```\n<!-- not run: a cluster -->\n```sh\nspark-submit\n```\n```text\nout\n```\n"
        "<!-- file: a.conf -->\n```properties\na b\n```\n"
    )
    assert blocks(page) == [
        Block("python", "x = 1\n", 3),
        Block("sh", "spark-submit\n", 7, "a cluster"),
        Block("text", "out\n", 10),
        Block("properties", "a b\n", 14, file="a.conf"),
    ]
    assert [block.runs for block in blocks(page)] == [True, False, False, True]
    assert list(commands("a 'b c' # d\ne \\\n  f\n")) == [["a", "b c"], ["e", "f"]]
    assert list(statements("SELECT 1\nCALL a(1,\n  2);\nSET x = 1")) == [
        "SELECT 1",
        "CALL a(1,\n  2)",
        "SET x = 1",
    ]


def test_a_command_that_fails_fails_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match="exited with 2"):
        run(Block("sh", "lakekeeper plan t --budget ten\n", 1), {}, Path("page.md"))
    with pytest.raises(AssertionError, match=r"python missing\.py exited with 2"):
        run(Block("sh", "python missing.py\n", 1), {}, Path("page.md"))
    with pytest.raises(AssertionError, match=r"page\.md:1: name 'missing' is not defined"):
        run(Block("python", "missing\n", 1), {}, Path("page.md"))


@pytest.mark.spark
@pytest.mark.delta
@pytest.mark.iceberg
@pytest.mark.slow
def test_the_quickstart_begins_in_an_empty_folder_with_its_own_session(tmp_path: Path) -> None:
    """The test above runs in the session of the tests, which is already running."""
    python = [block.code for block in to_run(QUICKSTART) if block.kind == "python"]
    assert process([sys.executable, "-c", "\n".join(python[:3])], tmp_path) == 0
    assert (tmp_path / "warehouse" / "catalog.db").is_file()
