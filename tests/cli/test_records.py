"""``lakekeeper history`` and ``lakekeeper cost``: pages and JSON from the file alone, without Spark."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lakekeeper.cli import main
from lakekeeper.cli.setup import Setup
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.task import Task, failed, skipped
from lakekeeper.engine.auto_settings import settings_from
from lakekeeper.engine.clock import Clock
from lakekeeper.history.store import HistoryStore
from lakekeeper.history.table_id import TableId
from tests.history.operations import DAY_MS, operation, traced

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A history of two tables: one by name, one by path."""
    now = Clock().now_ms()
    store = HistoryStore(tmp_path / "history.db")
    store.add(operation("old", start_ms=now - 9 * DAY_MS, end_ms=now - 9 * DAY_MS), 90 * DAY_MS)
    store.add(operation("new", start_ms=now - DAY_MS, end_ms=now - DAY_MS + 1_000), 90 * DAY_MS)
    by_path = TableId("", "", str(tmp_path / "flights"), "delta")
    store.add(operation("by-path", table=by_path, start_ms=now, end_ms=now), 90 * DAY_MS)
    return store.path


@pytest.fixture
def run(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def called(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.chdir(path.parent)
        code = main([*arguments, "--conf", f"spark.lakekeeper.history.path={path}"])
        out, err = capsys.readouterr()
        return code, out, err

    return called


def ids(out: str) -> list[str]:
    return [each["operation_id"] for each in json.loads(out)["operations"]]


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ((), ["by-path", "new", "old"]),
        (("ice.db.events",), ["new", "old"]),
        (("db.events", "--limit", "1"), ["new"]),
        (("ice.*", "--since", "2d"), ["new"]),
        (("./flights",), ["by-path"]),
        (("db.`events`",), ["new", "old"]),
    ],
)
def test_history_lists_the_operations_of_the_named_tables(
    run: Run, arguments: tuple[str, ...], expected: list[str]
) -> None:
    code, out, err = run("history", *arguments, "--json")
    assert (code, err, ids(out)) == (0, "", expected)
    assert out.count("\n") == 1


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["page", "json"])
@pytest.mark.parametrize("command", ["history", "cost"])
def test_a_name_or_pattern_without_a_table_is_reported_and_fails(
    run: Run, command: str, flags: tuple[str, ...]
) -> None:
    whole = run(command, "db.events", *flags)
    assert whole[0] == 0
    code, out, err = run(command, "delta.`flights`", "db.events", "ice.other.*", *flags)
    assert (code, out) == (1, whole[1])
    assert err.splitlines() == [
        "lakekeeper: no table in the history matches delta.`flights`",
        "lakekeeper: no table in the history matches ice.other.*",
    ]
    assert run(command, "--since", "1ms", "db.events", *flags)[0] == 0, (
        "the table is there, without operations"
    )


def test_a_page_fits_a_terminal_and_shows_the_operations(run: Run) -> None:
    code, out, _ = run("history", "db.events")
    assert code == 0
    assert out.startswith("ice.db.events\n")
    assert "compact: 4 -> 1 file" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_cost_gives_money_where_there_are_prices(run: Run) -> None:
    per_hour = "spark.lakekeeper.cost.per-core-hour=3600"
    code, out, _ = run("cost", "ice.db.events", "--json", "--conf", per_hour)
    costs = json.loads(out)
    assert (code, costs["total"]) == (0, 2.5)
    assert costs["costs"][0]["core_seconds"] == 2.5
    assert "total cost 2.50" in run("cost", "ice.db.events", "--conf", per_hour)[1]
    assert "total" not in run("cost", "ice.db.events")[1]


def test_only_json_of_the_history_reads_groups(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = traced(monkeypatch)
    assert (run("history")[0], run("cost")[0], run("cost", "--json")[0]) == (0, 0, 0)
    assert statements
    assert not any("merge_groups" in each for each in statements)
    assert json.loads(run("history", "--json")[1])["operations"][0]["groups"]
    assert any("merge_groups" in each for each in statements)


def test_no_spark_is_started(path: Path) -> None:
    program = (
        "import sys; from lakekeeper.cli import main; "
        "conf = ['--conf', 'spark.lakekeeper.history.path=' + sys.argv[1]]; "
        "codes = main(['history', *conf]), main(['cost', *conf]); "
        "sys.exit('pyspark' in sys.modules or max(codes))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, check=False)
    assert done.returncode == 0
    assert b"ice.db.events" in done.stdout


def test_without_a_history_the_message_says_what_to_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--conf", "spark.lakekeeper.history.path=none"]) == 2
    assert "set the Spark conf spark.lakekeeper.history.path" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["history", "cost", "status"])
def test_a_path_of_another_file_or_of_a_folder_is_an_error_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    garbage, folder, catalog = (tmp_path / name for name in ("garbage.db", "folder.db", "catalog.db"))
    garbage.write_bytes(b"garbage " * 500)
    folder.mkdir()
    with closing(sqlite3.connect(catalog)) as db:
        db.execute("CREATE TABLE iceberg_tables (table_name)")
    for path, said in (
        (garbage, "file is not a database; if it is damaged, move it away: a new one is then created"),
        (folder, "is a folder; set spark.lakekeeper.history.path to a file"),
        (catalog, "not a history; set spark.lakekeeper.history.path to another file"),
    ):
        assert main([command, "--conf", f"spark.lakekeeper.history.path={path}"]) == 1
        err = capsys.readouterr().err
        assert err.startswith(f"lakekeeper: {path}: ")
        assert err.endswith(f"{said}\n")


@pytest.mark.parametrize(
    "damage", ["operation_metrics = '{'", "operation_metrics = '[1]'", "end_time = 'x'", "reason = '[]'"]
)
def test_an_operation_that_cannot_be_read_is_an_error_that_names_the_file(
    run: Run, path: Path, damage: str
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"UPDATE operations SET {damage}")
    for command in ("history", "cost"):
        code, _, err = run(command)
        assert (code, f"{path}: the history cannot be read: " in err) == (1, True), err


def test_a_limit_beyond_any_history_is_a_usage_error(run: Run) -> None:
    assert run("history", "--limit", "9" * 20)[0] == 2
    assert run("history", "--limit", "1000000")[0] == 0


def test_an_invalid_time_is_a_usage_error(run: Run) -> None:
    code, _, err = run("history", "--since", "yesterday")
    assert (code, "--since: got 'yesterday', expected a time (90s" in err) == (2, True)


@pytest.fixture
def parked(path: Path) -> Task:
    """A table whose recluster failed, and one with nothing due."""
    now = Clock().now_ms()
    due = Task("merge", "ice.db.events", "recluster", bytes=3 << 30, query_seconds_per_day=1234.0)
    task = failed(due, "SparkException: lost executor", now, DAY_MS)
    idle = skipped(Task("merge", "ice.db.users", "compact"), Reason.of(Code.NOTHING_TO_DO))
    HistoryStore(path).keep_tasks([task, idle], now)
    return task


def test_status_shows_the_debt_and_what_is_parked_and_its_exit_code(run: Run, parked: Task) -> None:
    code, out, _ = run("status")
    assert code == 1
    assert "parked        1,234     3.0 GiB  ice.db.events" in out
    assert "SparkException: lost executor" in out
    assert "maintenance debt: 1,234 query-seconds a day, 3.0 GiB to rewrite" in out
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = run("status", "ice.db.users", "--json")
    assert (code, [each["status"] for each in json.loads(out)["tables"]]) == (0, ["idle"])


PARKED = {
    "ice.db.t": ("ice.db.t", "db.t", "ice.*.t"),
    "db.short": ("db.short", "ice.db.short"),
    "ice.db.`my-table`": ("ice.db.`my-table`", "ice.db.my-table", "db.`my-table`", "ice.db.`my-*`"),
    "{}/wh/t": ("{}/wh/t", "wh/t", "file:{}/wh/t", "./wh/../wh/t/", "delta.`{}/wh/t`"),
    "file:{}/wh/u": ("{}/wh/u", "file://{}/wh/u"),
    "delta.`{}/wh/v`": ("delta.`{}/wh/v`", "wh/v"),
    "abfss://sales@acct.dfs.core.windows.net/db/t": (
        "abfss://sales@acct.dfs.core.windows.net/db/t",
        "abfss://sales@acct*/db/*",
    ),
    "s3a://***@bucket/t": ("s3a://key:se/cret@bucket/t", "s3a://***@bucket/t", "delta.`s3a://key@bucket/t`"),
    "{}/wh/t[1]": ("{}/wh/t[1]", "wh/t[1]", "file:{}/wh/t[1]"),
}
"""Name in automatic runs → names and patterns of the same table; ``{}`` is the working directory."""


@pytest.mark.parametrize("table, name", [(table, name) for table, names in PARKED.items() for name in names])
def test_status_and_release_find_a_table_by_each_of_its_names(
    run: Run, path: Path, table: str, name: str
) -> None:
    now, folder = Clock().now_ms(), str(path.parent)
    parked = [failed(Task("merge", each.format(folder), "recluster"), "boom", now, DAY_MS) for each in PARKED]
    HistoryStore(path).keep_tasks(parked, now)
    code, out, _ = run("status", name.format(folder), "--json")
    assert (code, [each["table"] for each in json.loads(out)["tables"]]) == (1, [table.format(folder)])
    assert run("release", name.format(folder))[0] == 0
    assert [each.table for each in HistoryStore(path).tasks() if not each.failures] == [table.format(folder)]


def test_status_of_a_table_that_no_automatic_run_knows_fails(run: Run, parked: Task) -> None:
    """A check of one table must not succeed because of a misspelled name."""
    code, out, _ = run("status", "ice.db.userss")
    assert (code, out) == (1, "no table matches ice.db.userss\n")
    code, out, _ = run("status", "ice.db.users", "gone.*")
    assert code == 1
    assert "idle" in out
    assert out.endswith("no table matches gone.*\n")
    code, out, _ = run("status", "ice.db.users", "gone.*", "--json")
    assert (code, json.loads(out)["unmatched"]) == (1, ["gone.*"])
    assert run("status", "ice.db.users")[0] == 0


def test_release_lets_a_parked_table_run_in_the_next_pass(run: Run, parked: Task, path: Path) -> None:
    assert run("release", "ice.db.users")[:2] == (0, "no parked table matches ice.db.users\n")
    assert HistoryStore(path).tasks()[0] == parked
    assert run("release", "ice.db.e*", "ice.db.users", "--json")[:2] == (
        0,
        '{"released": ["ice.db.events"], "unmatched": ["ice.db.users"], "unknown": []}\n',
    )
    released = HistoryStore(path).tasks()[0]
    assert (released.failures, released.is_parked(0), released.table) == (0, False, "ice.db.events")
    assert run("status")[0] == 0
    HistoryStore(path).keep_tasks([parked], Clock().now_ms())
    assert run("release", "db.events")[:2] == (0, "released: ice.db.events\n")


def test_release_of_a_table_that_no_automatic_run_knows_fails(run: Run, parked: Task, path: Path) -> None:
    """A misspelled name must not look like a success; the tables of the other names are released."""
    code, out, _ = run("release", "db.gone", "ice.db.users", "ice.db.events")
    assert (code, out.splitlines()) == (
        1,
        ["released: ice.db.events", "no parked table matches ice.db.users", "no table matches db.gone"],
    )
    code, out, _ = run("release", "db.gone", "ice.db.users", "--json")
    assert (code, json.loads(out)) == (
        1,
        {"released": [], "unmatched": ["db.gone", "ice.db.users"], "unknown": ["db.gone"]},
    )


@pytest.mark.parametrize("character", ["\n", "\x0b", "\r", "\x1c", "\x85", "\u2028"])
def test_a_line_break_in_a_name_stays_in_its_line(run: Run, path: Path, character: str) -> None:
    now = Clock().now_ms()
    name = f"/data/a{character}b"
    HistoryStore(path).keep_tasks([failed(Task("merge", name, "recluster"), "boom", now, DAY_MS)], now)
    HistoryStore(path).add(operation("x", table=TableId("", "", name, "delta"), end_ms=now), DAY_MS)
    shown = re.compile(r"/data/a\\(x0a|x0b|x0d|x1c|x85|u2028)b")
    for command in ("status", "history", "cost"):
        code, out, _ = run(command)
        assert (code, bool(shown.search(out))) == (command == "status", True), out
    assert shown.search(run("release", name)[1])


def test_no_text_of_a_name_or_an_error_reaches_the_terminal_as_a_control(run: Run, path: Path) -> None:
    now, evil = Clock().now_ms(), "x\x1b]0;owned\x07\x1b[2J\x9b\u202e"
    task = failed(Task("merge", f"ice.db.`{evil}`", "recluster"), f"boom {evil}", now, DAY_MS)
    HistoryStore(path).keep_tasks([task], now)
    why = Reason.of(Code.FAILED, error=evil)
    HistoryStore(path).add(operation("x", table=TableId("ice", "db", evil), reason=why, end_ms=now), DAY_MS)
    for arguments in (("status",), ("history",), ("cost",), ("status", evil), ("release", evil), (evil,)):
        for text in run(*arguments)[1:]:
            assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text), arguments
    assert r"x\x1b]0;owned\x07\x1b[2J\x9b\u202e" in run("history")[1]
    assert evil in json.loads(run("status", "--json")[1])["tables"][-1]["table"]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_a_text_that_the_terminal_cannot_show_is_escaped(path: Path, encoding: str) -> None:
    """The work is done when its result is printed: an error then would report a success as a failure."""
    HistoryStore(path).add(operation("x", table=TableId("ice", "db", "表"), end_ms=Clock().now_ms()), DAY_MS)
    done = subprocess.run(
        [sys.executable, "-m", "lakekeeper", "history", "--conf", f"spark.lakekeeper.history.path={path}"],
        env=os.environ | {"PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"ice.db.\u8868" in done.stdout


def test_a_store_without_automatic_runs_has_no_status(run: Run) -> None:
    assert run("status")[:2] == (0, "no automatic run is recorded\n")


@pytest.mark.parametrize("place", ["defaults", "submitted", "command"])
def test_confs_count_wherever_spark_submit_takes_them(
    path: Path,
    tmp_path: Path,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Sessions took them from everywhere, so that the history was written, and `history` found no file."""
    conf = f"spark.lakekeeper.history.path={path}"
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    if place == "defaults":
        (tmp_path / "spark-defaults.conf").write_text(
            f"{conf}\nspark.lakekeeper.auto.quiet-hours 08:00-18:00\n"
        )
    if place == "submitted":
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", shlex.join(["--conf", conf, "pyspark-shell"]))
    given = ["--conf", conf] if place == "command" else []
    assert main(["history", "--json", *given]) == 0
    assert ids(capsys.readouterr().out) == ["by-path", "new", "old"]
    hours = settings_from(Setup().check({"auto.tables": "t"})).quiet_hours
    assert bool(hours) is (place == "defaults")
